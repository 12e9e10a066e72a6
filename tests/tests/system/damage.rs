//! A file that changed after it was written is never taken for whole: every byte of a real one is hit.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use qsf_format::{Failure, FormatError, HEADER_BYTES, QsfFile, SectionTag, verify_file};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::source::{QsfSource, check_beside, open_for_answer};
use qsf_runtime::{Decoder, Model, RuntimeError};
use qsf_tests::*;

/// The embedded model as a file of the smallest type.
fn demo_file(args: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("demo.qsf");
    program("qsf-convert").arg(demo_model(dir.path())).arg(&out).args(args).run().ok();
    std::fs::read(out).unwrap()
}

fn open(bytes: Arc<Vec<u8>>) -> Result<QsfFile, FormatError> {
    QsfFile::from_memory(Path::new("memory"), bytes)
}

fn verified(bytes: Arc<Vec<u8>>) -> Result<(), FormatError> {
    verify_file(&open(bytes)?).map(|_| ())
}

/// Runs `survives` with each of `flips` (byte and mask) applied to the file, on two threads, and gives those flips that it
/// let pass.
fn unnoticed(
    bytes: &[u8],
    flips: &[(usize, u8)],
    survives: impl Fn(Arc<Vec<u8>>) -> bool + Sync,
) -> Vec<(usize, u8)> {
    let work = |half: usize| {
        let mut bytes = Arc::new(bytes.to_vec());
        let mut passed = Vec::new();
        for &(at, mask) in flips.iter().skip(half).step_by(2) {
            // Flipped in place and back: copying the file each time would take longer than checking it.
            Arc::get_mut(&mut bytes).expect("the reader is gone")[at] ^= mask;
            if survives(bytes.clone()) {
                passed.push((at, mask));
            }
            Arc::get_mut(&mut bytes).expect("the reader is gone")[at] ^= mask;
        }
        passed
    };
    std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| scope.spawn(move || work(half)));
        halves.into_iter().flat_map(|half| half.join().unwrap()).collect()
    })
}

/// Header, index, directory, chunk tables, headers of tensors: what decides how the rest is read.
fn structure(bytes: &Arc<Vec<u8>>) -> Vec<Range<usize>> {
    let file = open(bytes.clone()).unwrap();
    let header = file.header();
    let index = header.index_offset as usize;
    let mut ranges = vec![
        0..HEADER_BYTES,
        index..index + 32 * file.layers().len(),
        header.directory_offset.unwrap() as usize..bytes.len(),
        header.embedding_offset as usize..header.embedding_offset as usize + 16,
    ];
    for (i, layer) in file.layers().iter().enumerate() {
        let start = layer.offset as usize;
        // Uncompressed, the raw layer stands at the end of the stored one.
        let raw = start + (layer.stored_bytes - layer.raw_bytes) as usize;
        ranges.push(start..raw);
        ranges.extend(file.layer(i).unwrap().tensors.iter().map(|t| {
            let data = raw + t.data.start;
            data - 16..data
        }));
    }
    ranges
}

#[test]
fn a_flipped_bit_in_any_byte_fails_verification() {
    let bytes = demo_file("--quant ternary");
    let whole = Arc::new(bytes.clone());
    verified(whole.clone()).unwrap();
    // A bit of every byte, not always the same, and every bit of what decides how the rest is read.
    let mut flips: Vec<(usize, u8)> =
        (0..bytes.len()).map(|at| (at, 1 << ((at * 5 + at / 64) % 8))).collect();
    for range in structure(&whole) {
        flips.extend(range.flat_map(|at| (0..8).map(move |bit| (at, 1 << bit))));
    }
    assert_eq!(unnoticed(&bytes, &flips, |bytes| verified(bytes).is_ok()), []);
}

#[test]
fn a_flipped_bit_in_a_compressed_file_fails_verification() {
    let bytes = demo_file("--quant 8bit --compress zstd");
    verified(Arc::new(bytes.clone())).unwrap();
    let flips: Vec<(usize, u8)> = (0..bytes.len()).step_by(61).map(|at| (at, 1 << (at % 8))).collect();
    assert_eq!(unnoticed(&bytes, &flips, |bytes| verified(bytes).is_ok()), []);
}

#[test]
fn a_file_cut_short_anywhere_fails_to_open_as_damaged() {
    let mut bytes = demo_file("--quant ternary");
    for end in (0..bytes.len()).rev().filter(|end| end % 64 == 0) {
        bytes.truncate(end);
        let error = verified(Arc::new(bytes.clone())).expect_err("a truncated file");
        assert_eq!(error.failure(), Failure::BadInput, "{end} bytes: {error}");
    }
}

#[test]
fn bytes_behind_the_end_fail_verification() {
    let mut bytes = demo_file("--quant ternary");
    for more in [1, 15, 64, 4096] {
        bytes.resize(bytes.len() + more, 0);
        verified(Arc::new(bytes.clone())).expect_err("a longer file");
    }
}

#[test]
fn a_model_is_not_loaded_when_a_bit_of_what_it_reads_is_flipped() {
    let bytes = demo_file("--quant ternary");
    let file = open(Arc::new(bytes.clone())).unwrap();
    let mut read = structure(&Arc::new(bytes.clone()));
    read.extend(file.layers().iter().map(|l| l.offset as usize..(l.offset + l.stored_bytes) as usize));
    // The checksums of single tensors are for verification; loading checks whole layers.
    let sections = file.sections().iter().filter(|s| s.tag != SectionTag::TENSOR_CRCS);
    read.extend(sections.map(|s| s.offset as usize..(s.offset + s.stored_bytes) as usize));
    drop(file);
    let load = |bytes: Arc<Vec<u8>>| open(bytes).is_ok_and(|file| QsfSource::from_file(file).is_ok());
    assert!(load(Arc::new(bytes.clone())));
    let flips: Vec<(usize, u8)> = read
        .into_iter()
        .flat_map(|range| range.clone().step_by(if range.len() < 1000 { 5 } else { 211 }))
        .map(|at| (at, 1 << (at % 8)))
        .collect();
    assert!(flips.len() > 1000, "{}", flips.len());
    assert_eq!(unnoticed(&bytes, &flips, load), []);
}

#[test]
fn programs_refuse_a_damaged_file_by_name_and_place() {
    let dir = tempfile::tempdir().unwrap();
    let good = demo_file("--quant 2bit");
    let file = open(Arc::new(good.clone())).unwrap();
    let section = |tag: SectionTag| file.sections().iter().find(|s| s.tag == tag).unwrap().offset as usize;
    let damages = [
        (20, "header"),
        (file.header().index_offset as usize + 5, "LIDX"),
        (file.layers()[2].offset as usize + 900, "layer 2"),
        (section(SectionTag::EMBEDDING) + 700, "EMBD"),
        (section(SectionTag::FINAL) + 70, "FINL"),
        (section(SectionTag::META) + 9, "META"),
        (section(SectionTag::TOKENIZER) + 99, "TOKN"),
        (good.len() - 3, "directory"),
    ];
    for (at, place) in damages {
        let path = dir.path().join("broken.qsf");
        let mut bytes = good.clone();
        bytes[at] ^= 0x10;
        std::fs::write(&path, &bytes).unwrap();
        for call in [
            program("qsf-inspect").arg(&path).args("--verify"),
            program("qsf-run").arg(&path).args("-p Hello -n 1"),
            program("qsf-eval").arg(&path).arg("--file").arg(file!()),
        ] {
            let output = call.run();
            assert_eq!(output.code, 3, "{place}: {}", output.stderr);
            assert_eq!(output.stdout, "", "{place}: nothing of a damaged file is shown");
            assert!(output.stderr.contains("broken.qsf"), "{place}: {}", output.stderr);
            assert!(output.stderr.contains(place), "{place} is not named: {}", output.stderr);
            assert!(!output.stderr.contains("panicked"), "{place}: {}", output.stderr);
        }
    }
}

#[test]
fn a_file_that_is_checked_while_it_is_used_answers_nothing_where_any_of_it_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let (source, path) = (dir.path().join("source"), dir.path().join("large.qsf"));
    write_llama(&source, Size { layers: 4, hidden: 512, ffn: 2048, vocab: 8192 }, 1);
    program("qsf-convert").arg(&source).arg(&path).args("--quant f32").run().ok();
    let bytes = std::fs::read(&path).unwrap();
    let cpu = Cpu::with_threads(Isa::best(), 2).unwrap();
    // Logits, where any are given out.
    let logits = |wait: u64| -> Result<Vec<f32>, RuntimeError> {
        let source = open_for_answer(&path)?;
        // Also where all is checked before anything is used.
        check_beside(source.as_ref(), 2, || std::thread::sleep(Duration::from_millis(wait)));
        let model = Model::load(source.as_ref())?;
        let decoder = Decoder::new(Arc::new(model), cpu.clone(), None);
        let mut state = decoder.state(4, 4)?;
        decoder.forward(&mut state, &[5, 6, 7])?;
        let mut logits = vec![0.0; 3 * 8192];
        decoder.logits(&mut state, 0..3, &mut logits)?;
        Ok(logits)
    };
    let sound = logits(0).unwrap();
    assert!(open_for_answer(&path).unwrap().unchecked().is_some(), "the file was checked before it was used");

    let file = open(Arc::new(bytes.clone())).unwrap();
    let layer = |i: usize| file.layers()[i].offset as usize;
    let sections = file.sections().iter().filter(|section| section.tag == SectionTag::EMBEDDING);
    let embedding = sections.map(|section| section.offset as usize).next().unwrap();
    let row = |token: usize| embedding + 16 + token * 512 * 4;
    let last_of_layer = |i: usize| layer(i) + file.layers()[i].stored_bytes as usize - 1;
    let damaged = [
        // A token of the text, and one that is multiplied with in the head only.
        (row(6) + 1, "EMBD"),
        (row(8191) + 2047, "EMBD"),
        (embedding + 9, "embedding section"),
        // The table of chunks, the header of a tensor, weights, the last byte.
        (layer(0) + 7, "layer 0"),
        (layer(2) + 21, "layer 2"),
        (
            file.layers()[1].offset as usize
                + (file.layers()[1].stored_bytes - file.layers()[1].raw_bytes) as usize
                + 2,
            "layer 1",
        ),
        (layer(3) + 1_500_000, "layer 3"),
        (last_of_layer(1), "layer 1"),
        (file.header().final_offset as usize + 40, "FINL"),
    ];
    for (at, place) in damaged {
        let mut broken = bytes.clone();
        broken[at] ^= 0x20;
        std::fs::write(&path, broken).unwrap();
        for wait in [0, 1000] {
            let error = logits(wait).unwrap_err().to_string();
            assert!(error.contains(place) && error.contains("large.qsf"), "{place}: {error}");
        }
        for threads in ["1", "2"] {
            let output = program("qsf-run").arg(&path).args("--prompt-ids 5,6,7 -n 2 -t").arg(threads).run();
            assert_eq!(output.code, 3, "{place}: {}", output.stderr);
            assert_eq!(output.stdout, "", "{place}: an answer of a damaged file");
            assert!(output.stderr.contains(place), "{place} is not named: {}", output.stderr);
        }
    }
    // With files of its own, it is checked first.
    let (prompts, results) = (dir.path().join("prompts.jsonl"), dir.path().join("results.jsonl"));
    std::fs::write(&prompts, "{\"prompt\": \"the\"}\n").unwrap();
    let call = program("qsf-run").arg(&path).arg("--prompts").arg(&prompts).arg("--results").arg(&results);
    assert_eq!(call.args("-n 1").run().code, 3);
    assert!(!results.exists(), "results of a damaged file");
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(logits(1000).unwrap(), sound);
}
