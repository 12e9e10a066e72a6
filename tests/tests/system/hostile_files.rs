//! QSF files of strangers that ask for much: finished files, changed and resealed as an attacker would, through all programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use qsf_format::{Layout, QsfFile, QuantType, SectionTag, TensorKind};
use qsf_tests::forged::*;
use qsf_tests::reseal::reseal_stored;
use qsf_tests::*;
use serde_json::{Value, json};

/// Bytes that a hostile file may take above what a good small one takes.
const MORE_MEMORY: u64 = 64 << 20;
/// Time in which a program is through with it, on a machine with much other load. Alone it is below two seconds.
const SOON: Duration = Duration::from_secs(10);

/// A program that reads a QSF file.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Reader {
    Inspect,
    Verify,
    Run,
    Stream,
    Eval,
    Convert,
}

use Reader::*;

const ALL: [Reader; 6] = [Inspect, Verify, Run, Stream, Eval, Convert];
/// Those that compute.
const MODELS: [Reader; 4] = [Run, Stream, Eval, Convert];

impl Reader {
    fn call(self, file: &Path) -> Program {
        let out = file.with_extension("out.qsf");
        let text = file.with_extension("txt");
        fs::write(&text, "Once upon a time there was a little girl. ".repeat(20)).unwrap();
        match self {
            Inspect => program("qsf-inspect").arg(file),
            Verify => program("qsf-inspect").arg(file).args("--verify"),
            Run => program("qsf-run").arg(file).args("-p Once -n 1 -t 2"),
            Stream => program("qsf-run").arg(file).args("-p Once -n 1 -t 2 --ram-budget 64MB"),
            Eval => program("qsf-eval").arg(file).arg("--file").arg(text).args("-c 16 --chunks 1 -t 2"),
            Convert => program("qsf-convert").arg(file).arg(out).args("--force -q 8bit -t 2"),
        }
    }
}

/// A small model in a file, and what each program takes for it.
struct Sound {
    dir: tempfile::TempDir,
    bytes: Vec<u8>,
    memory: Vec<u64>,
}

impl Sound {
    fn new() -> Sound {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("sound.qsf");
        let model = small_model(dir.path());
        program("qsf-convert").arg(model).arg(&file).args("-q f32 -t 2").run().ok();
        let bytes = fs::read(&file).unwrap();
        let memory = ALL.map(|reader| {
            let (output, peak) = reader.call(&file).run_measured();
            assert_eq!(output.code, 0, "{reader:?}: {}", output.stderr);
            peak
        });
        Sound { dir, bytes, memory: memory.to_vec() }
    }

    /// The file, changed.
    fn changed(&self, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
        let path = self.dir.path().join("hostile.qsf");
        let mut bytes = self.bytes.clone();
        change(&mut bytes);
        fs::write(&path, bytes).unwrap();
        path
    }

    /// Expects that `refuse` end soon, in little memory, with exit code 3 or 4 and a message that says `says`; and that all
    /// others end soon, in little memory and not by a signal or a panic.
    fn refused(&self, what: &str, file: &Path, refuse: &[Reader], says: &str) {
        let size = fs::metadata(file).unwrap().len();
        for (reader, sound) in ALL.into_iter().zip(&self.memory) {
            let started = Instant::now();
            let (output, peak) = reader.call(file).run_measured();
            let (took, more) = (started.elapsed(), peak.saturating_sub(*sound));
            println!("{what}, {size} bytes, {reader:?}: exit {}, {more} bytes more, {took:?}", output.code);
            let refused = refuse.contains(&reader);
            let expected: &[i32] = if refused { &[3, 4] } else { &[0, 3, 4] };
            assert!(expected.contains(&output.code), "{what}, {reader:?}: {} {}", output.code, output.stderr);
            if refused {
                assert!(output.stderr.contains("hostile.qsf"), "{what}, {reader:?}: {}", output.stderr);
                assert!(output.stderr.contains(says), "{what}, {reader:?}: {}", output.stderr);
            }
            assert!(!output.stderr.contains("panicked"), "{what}, {reader:?}: {}", output.stderr);
            assert!(more < MORE_MEMORY, "{what}, {reader:?}: {more} bytes more for a file of {size}");
            assert!(took < SOON, "{what}, {reader:?}: {took:?}");
        }
    }

    fn section(&self, tag: SectionTag) -> Vec<u8> {
        let file = QsfFile::from_memory(Path::new("sound"), self.bytes.clone().into()).unwrap();
        file.section_bytes(tag).unwrap().unwrap()
    }

    /// META after a change.
    fn meta(&self, change: impl FnOnce(&mut Value)) -> Vec<u8> {
        let mut meta: Value = serde_json::from_slice(&self.section(SectionTag::META)).unwrap();
        change(&mut meta);
        meta.to_string().into_bytes()
    }
}

#[test]
fn metadata_of_a_finished_file_that_asks_for_much_is_refused() {
    let sound = Sound::new();
    let member = |bomb: &str| {
        let meta = String::from_utf8(sound.meta(|_| ())).unwrap();
        format!("{},\"bomb\":{bomb}}}", meta.strip_suffix('}').unwrap()).into_bytes()
    };
    let list = |part: &str, count: usize| member(&format!("[{}]", vec![part; count].join(",")));
    let plain = [
        ("maps", list("{\"a\":1}", 300_000), "MiB of memory"),
        ("lists", list("[]", 1_000_000), "MiB of memory"),
        ("numbers", list("1", 3_000_000), "MiB of memory"),
        ("nested", member(&"[".repeat(1_000_000)), "nested"),
        ("long", member(&format!("\"{}\"", "x".repeat(17 << 20))), "bytes of JSON"),
    ];
    for (what, meta, says) in plain {
        let file = sound.changed(|bytes| replace_section(bytes, b"META", &meta, 0));
        sound.refused(what, &file, &ALL, says);
    }
    let meta = sound.meta(|_| ());
    for len in [2 << 20, 1 << 30] {
        let file =
            sound.changed(|bytes| replace_section(bytes, b"META", &zstd_frame(&meta, b' ', len), ZSTD));
        sound.refused("META of spaces", &file, &ALL, "section META: expected a zstd frame");
    }
}

#[test]
fn texts_that_expand_to_much_are_refused() {
    let sound = Sound::new();
    for tag in [b"TOKN", b"CTPL"] {
        for len in [2 << 20, 256 << 20, 1 << 30] {
            let file = sound.changed(|bytes| replace_section(bytes, tag, &zstd_run(b' ', len), ZSTD));
            let place = format!("section {}: expected a zstd frame", str::from_utf8(tag).unwrap());
            sound.refused(&format!("{place} of {len}"), &file, &[Verify, Run, Stream, Eval, Convert], &place);
        }
    }
    // It informs only, and expands to too much all the same.
    let file = sound.changed(|bytes| replace_section(bytes, b"EVAL", &zstd_run(b' ', 256 << 20), ZSTD));
    sound.refused("EVAL", &file, &[Inspect, Verify], "section EVAL: expected a zstd frame");
}

#[test]
fn a_compressed_layer_of_zeros_is_refused_without_being_held() {
    let sound = Sound::new();
    let file = sound.changed(|bytes| replace_layer(bytes, 0, &[], 1 << 30, 9));
    sound.refused("zeros", &file, &[Verify, Run, Stream, Eval, Convert], "layer 0");
    // A tensor that fills it: sound as far as checksums go, and not of this model.
    let raw = 512 << 20;
    let mut head = vec![0; 48];
    head.extend(TensorKind::AttnQ.id().to_le_bytes());
    head.extend(((raw - 64) / 4096_u32).to_le_bytes());
    head.extend(1024_u32.to_le_bytes());
    head.extend([QuantType::F32.id(), Layout::Rows.id(), 0, 0]);
    let raw = 64 + (raw as usize - 64) / 4096 * 4096;
    let file = sound.changed(|bytes| replace_layer(bytes, 1, &head, raw, 1));
    sound.refused("a large tensor", &file, &MODELS, "layer 1");
    assert_eq!(Verify.call(&file).run().code, 0, "it is as it was written");
}

#[test]
fn a_header_with_absurd_dimensions_is_refused() {
    let sound = Sound::new();
    for (field, at, value) in [("heads", 24, 1_u32 << 24), ("heads", 24, 1 << 16), ("ffn", 40, 1 << 24)] {
        let header = |bytes: &mut Vec<u8>| bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let what = format!("{field} {value}");
        let file = sound.changed(|bytes| {
            header(bytes);
            reseal_stored(bytes);
        });
        sound.refused(&format!("{what} in the header alone"), &file, &ALL, "META");
        let meta = sound.meta(|meta| {
            meta["model"][field] = json!(value);
        });
        let file = sound.changed(|bytes| {
            header(bytes);
            replace_section(bytes, b"META", &meta, 0);
        });
        sound.refused(&what, &file, &MODELS, "expected");
    }
}
