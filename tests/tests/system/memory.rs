//! Conversion streams: a model much larger than the machine's memory converts, because only a few layers are held at once.

use std::fs;
use std::path::Path;

use qsf_tests::*;

/// Peak resident memory of a conversion in bytes, and the size of its output.
#[track_caller]
fn peak_of_conversion(model: &Path, args: &str) -> (u64, u64) {
    let out = model.join("out.qsf");
    let call = program("qsf-convert").arg(model).arg(&out).args(args).args("--force -t 2");
    let (output, peak) = call.run_measured();
    output.ok();
    (peak, fs::metadata(out).unwrap().len())
}

/// 12.6 MB per layer as f32.
const LAYER: Size = Size { layers: 1, hidden: 512, ffn: 1536, vocab: 2048 };
const LAYER_BYTES: u64 = 4 * (3 * 512 * 512 + 3 * 512 * 1536);

#[test]
fn memory_of_a_conversion_is_bounded_by_a_few_layers() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path(), Size { layers: 16, ..LAYER }, 1);
    assert!(fs::metadata(dir.path().join("model.safetensors")).unwrap().len() > 200_000_000);
    for args in ["-q 4bit", "-q ternary --compress zstd"] {
        let (peak, written) = peak_of_conversion(dir.path(), args);
        assert!(peak > 1_000_000, "{args}: {peak} bytes cannot be");
        assert!(peak < 8 * LAYER_BYTES, "{args}: {peak} bytes of memory for a file of {written}");
    }
}

#[test]
fn reading_back_a_large_output_takes_no_more_memory_than_writing_it() {
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path(), Size { layers: 16, ..LAYER }, 1);
    let (peak, written) = peak_of_conversion(dir.path(), "-q f32");
    assert!(written > 200_000_000, "{written} bytes");
    assert!(peak < 12 * LAYER_BYTES, "{peak} bytes of memory for a file of {written}");
}

#[test]
fn more_layers_take_no_more_memory() {
    let dir = tempfile::tempdir().unwrap();
    let peak = |layers| {
        let model = dir.path().join(format!("{layers}"));
        write_llama(&model, Size { layers, ..LAYER }, 1);
        peak_of_conversion(&model, "-q ternary").0
    };
    let (few, many) = (peak(4), peak(12));
    // Two layers of slack for the timing of threads; the eight more layers are four times that.
    assert!(many < few + 2 * LAYER_BYTES, "{few} bytes for 4 layers, {many} for 12");
}

/// Shaped like a model of 7 B weights.
const LARGE: Size = Size { layers: 32, hidden: 4096, ffn: 11008, vocab: 32000 };

/// Peak resident memory of planning a conversion, which opens the source and maps every tensor of it.
#[track_caller]
fn peak_of_planning(model: &Path) -> u64 {
    let (output, peak) = program("qsf-convert").arg(model).args("--dry-run").run_measured();
    output.ok();
    peak
}

#[test]
fn opening_a_source_reads_none_of_its_weights() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("large");
    write_sparse_llama(&model, LARGE);
    assert!(fs::metadata(model.join("model.safetensors")).unwrap().len() > 20_000_000_000);
    let peak = peak_of_planning(&model);
    assert!((1_000_000..64_000_000).contains(&peak), "{peak} bytes of memory for a directory");
    let file = dir.path().join("large.gguf");
    write_sparse_gguf(&file, Size { layers: 96, ..LARGE });
    assert!(fs::metadata(&file).unwrap().len() > 10_000_000_000);
    let peak = peak_of_planning(&file);
    assert!((1_000_000..64_000_000).contains(&peak), "{peak} bytes of memory for a GGUF file");
}
