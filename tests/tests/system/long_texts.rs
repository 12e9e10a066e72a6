//! Texts of any length: they are read and tokenized piece by piece, which gives the tokens of the whole, and no more of them is
//! read than is needed.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use qsf_runtime::source::gguf::GgufFile;
use qsf_runtime::text_file::TextFile;
use qsf_runtime::tokenizer::{Tokenizer, find_tokenizer, read_gguf_tokenizer};
use qsf_tests::*;
use tokenizers::Tokenizer as Library;

/// The tokenizer at a path, and the library's own, which encodes a text as a whole.
fn both(path: &Path) -> (Tokenizer, Library) {
    let json = if path.extension().is_some_and(|end| end == "gguf") {
        let metadata = GgufFile::open(path).unwrap().metadata;
        read_gguf_tokenizer(&metadata).unwrap().unwrap().definition.to_json().unwrap()
    } else {
        match find_tokenizer(path).unwrap().unwrap().definition {
            Some(definition) => definition.to_json().unwrap(),
            None => fs::read(path.join("tokenizer.json")).unwrap(),
        }
    };
    let mut library = Library::from_bytes(&json).unwrap();
    library.with_truncation(None).unwrap();
    library.with_padding(None);
    (Tokenizer::from_json(&json, path).unwrap(), library)
}

/// Pseudorandom numbers below `n`, always the same (Numerical Recipes' generator of 64 bits).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// A text of what makes tokenizers join: long words, runs of spaces, digits, line ends, marks that combine, special tokens.
fn fuzzed(seed: u64, bytes: usize) -> String {
    const PARTS: [&str; 32] = [
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "a",
        "the",
        " and",
        "ing",
        "'s",
        "'ll",
        "1",
        "23",
        "456",
        ".",
        "...",
        "!?",
        "é",
        "e\u{301}",
        "ﬁ",
        "漢",
        "字",
        "한글",
        "🦀",
        "👩\u{200d}👧",
        "नमस्ते",
        "\u{a0}",
        "<s>",
        "</s>",
        "<|endoftext|>",
        "▁",
        "Ġ",
    ];
    let mut numbers = Numbers(seed);
    let mut text = String::new();
    while text.len() < bytes {
        // Now and then one part many times over.
        let part = PARTS[numbers.below(PARTS.len())];
        let times = if numbers.below(400) == 0 { 1 + numbers.below(5000) } else { 1 };
        text.push_str(&part.repeat(times));
    }
    text
}

#[test]
#[cfg_attr(not(qsf_data), ignore = "needs the folder that QSF_SHARED names")]
fn tokens_of_pieces_are_those_of_the_whole_for_every_vocabulary() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("text");
    let names = ["vocab", "tokenizers", "models"].map(shared);
    let found =
        names.iter().flat_map(|folder| fs::read_dir(folder).unwrap()).map(|entry| entry.unwrap().path());
    let found: Vec<_> =
        found.filter(|path| path.is_dir() || path.extension().is_some_and(|end| end == "gguf")).collect();
    assert!(found.len() >= 11, "{found:?}");
    let real = [
        "text/calibration.txt",
        "text/wiki.test.raw",
        "text/domains/code.utf8",
        "text/domains/multilingual.utf8",
    ];
    let real = real.map(|name| {
        let text = fs::read_to_string(shared(name)).unwrap();
        text[..text.floor_char_boundary(80_000)].to_owned()
    });
    let texts: Vec<String> = real.into_iter().chain((1..4).map(|seed| fuzzed(seed, 80_000))).collect();
    for origin in found {
        let (tokenizer, library) = both(&origin);
        for (number, text) in texts.iter().enumerate() {
            fs::write(&path, text).unwrap();
            let first = |most, special| {
                tokenizer.encode_first(&mut TextFile::open(&path).unwrap(), most, special).unwrap()
            };
            let expected = library.encode_fast(text.as_str(), true).unwrap();
            let ids = first(usize::MAX, true);
            let differs = ids.iter().zip(expected.get_ids()).position(|(a, b)| a != b);
            let place = format!("{}: text {number}: token {differs:?}", origin.display());
            assert!(ids == expected.get_ids(), "{place}: {} and {}", ids.len(), expected.len());
            for most in [0, 1, 1000, 30_000] {
                assert!(first(most, true)[..] == ids[..most.min(ids.len())], "{place}: {most}");
            }
            // None of them puts anything behind a text.
            let (plain, all) = (first(1000, false), first(1002, true));
            assert!(
                all.windows(plain.len()).take(3).any(|ids| ids == plain),
                "{place}: without special tokens"
            );
        }
    }
}

#[test]
fn a_thousand_times_the_text_takes_no_more_memory_and_little_more_time() {
    const LONG: usize = 110_000_000;
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let text = fs::read_to_string(CALIBRATION).unwrap();
    let line = serde_json::json!({ "text": text[..text.floor_char_boundary(20_000)] }).to_string();
    for (name, piece) in [("txt", text), ("jsonl", line)] {
        let write = |name: &str, bytes: usize| {
            let path = dir.path().join(name);
            let mut file = std::io::BufWriter::new(fs::File::create(&path).unwrap());
            let mut written = 0;
            while written < bytes {
                writeln!(file, "{piece}").unwrap();
                written += piece.len() + 1;
            }
            file.flush().unwrap();
            path
        };
        let (short, long) = (write(&format!("short.{name}"), 100_000), write(&format!("long.{name}"), LONG));
        let evaluate =
            |text: &Path| program("qsf-eval").arg(&model).arg("--file").arg(text).args("--chunks 2 --json");
        let out = dir.path().join("out.qsf");
        let convert = |text: &Path| {
            let call = program("qsf-convert").arg(&model).arg(&out).args("--force --calibration").arg(text);
            call.args("--calibration-tokens 1024")
        };
        let calls: [&dyn Fn(&Path) -> Program; 2] = [&evaluate, &convert];
        for (call, what) in calls.into_iter().zip(["evaluation", "calibration"]) {
            let measure = |text: &Path| {
                let started = Instant::now();
                let (output, peak) = call(text).run_measured();
                output.ok();
                (peak, started.elapsed())
            };
            let ((less, quick), (more, slow)) = (measure(&short), measure(&long));
            println!("{what} {name}: {less} and {more} bytes, {quick:?} and {slow:?}");
            assert!(more < less + 20_000_000, "{what} {name}: {less} and {more} bytes");
            // Alone it is less than 3 s.
            assert!(slow < quick + Duration::from_secs(15), "{what} {name}: {quick:?} and {slow:?}");
        }
        fs::remove_file(long).unwrap();
    }
}

#[test]
fn a_text_that_cannot_be_cut_is_refused_and_not_held() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let line = dir.path().join("line.jsonl");
    fs::write(&line, "x".repeat(70_000_000)).unwrap();
    let call =
        program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf")).args("--calibration").arg(&line);
    refused("a line of 70 MB", dir.path(), call, 3, &["line.jsonl", "line 1", "67108864"]);
}
