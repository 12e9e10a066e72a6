//! The same model and options give the same bytes and the same figures, whatever machine and however many threads: what a
//! pipeline caches by hash, and what makes a report worth comparing.

use std::fs;
use std::path::Path;

use qsf_format::{QsfFile, SectionTag};
use qsf_tests::*;
use serde_json::Value;

/// Instruction sets that this machine can run.
fn instruction_sets() -> Vec<&'static str> {
    if has_avx2() {
        vec!["scalar", "avx2"]
    } else {
        println!("skipped: QSF_CPU=avx2, which this processor lacks");
        vec!["scalar"]
    }
}

/// The bytes of a conversion with `args`, under an instruction set.
#[track_caller]
fn converted(model: &Path, args: &str, isa: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.qsf");
    program("qsf-convert").arg(model).arg(&out).args(args).env("QSF_CPU", isa).run().ok();
    fs::read(out).unwrap()
}

#[test]
fn threads_and_instruction_sets_leave_no_trace_in_the_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let sets = instruction_sets();
    for quant in ["4bit", "2bit", "2bit-sym", "ternary", "8bit", "3bit", "mixed", "bf16"] {
        let expected = converted(&model, &format!("-q {quant} -t 1"), sets[0]);
        for isa in &sets {
            for threads in [1, 2, 5] {
                let bytes = converted(&model, &format!("-q {quant} -t {threads}"), isa);
                assert!(bytes == expected, "{quant}: other bytes with {threads} threads and {isa}");
            }
        }
    }
}

#[test]
fn options_and_learned_positions_leave_no_trace_of_threads_either() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo_model(dir.path());
    let gpt2 = dir.path().join("gpt2");
    write_gpt2(&gpt2, Size { layers: 3, ..Size::TINY }, 9);
    for (model, args) in [
        (&demo, "-q 4bit --block-size 32 --compress zstd"),
        (&demo, "-q f32 --compress lz4"),
        (&gpt2, "-q mixed --compress zstd"),
    ] {
        let expected = converted(model, &format!("{args} -t 1"), "scalar");
        for isa in instruction_sets() {
            assert!(converted(model, &format!("{args} -t 2"), isa) == expected, "{args}, {isa}");
        }
    }
}

#[test]
fn a_model_gives_the_same_bytes_from_any_folder_under_any_output_name() {
    let convert = |dir: &Path, out: &str| {
        let model = demo_model(dir);
        program("qsf-convert").arg(&model).arg(dir.join(out)).run().ok();
        fs::read(dir.join(out)).unwrap()
    };
    let (first, second) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    assert!(convert(first.path(), "a.qsf") == convert(second.path(), "b.qsf"));
}

#[test]
fn another_seed_or_option_gives_other_bytes() {
    // Else the comparisons above would prove nothing.
    let dir = tempfile::tempdir().unwrap();
    write_llama(dir.path(), Size::TINY, 1);
    let one = converted(dir.path(), "-q 4bit", "scalar");
    assert!(converted(dir.path(), "-q 4bit --block-size 32", "scalar") != one);
    write_llama(dir.path(), Size::TINY, 3);
    assert!(converted(dir.path(), "-q 4bit", "scalar") != one);
}

#[test]
fn meta_tells_nobody_where_the_model_was_converted() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("out.qsf");
    program("qsf-convert").arg(&model).arg(&out).dir(dir.path()).run().ok();
    let file = QsfFile::open(&out).unwrap();
    let meta = String::from_utf8(file.section_bytes(SectionTag::META).unwrap().unwrap()).unwrap();
    assert!(meta.contains("\"sha256\""), "{meta}");
    let folder = dir.path().file_name().unwrap().to_str().unwrap();
    let folders = [folder, "demo-1m", "/tmp", env!("CARGO_MANIFEST_DIR")];
    assert_eq!(folders.into_iter().find(|name| meta.contains(name)), None, "{meta}");
    if let Ok(host) = fs::read_to_string("/proc/sys/kernel/hostname") {
        // A short name could be part of any word.
        assert!(host.trim().len() < 8 || !meta.contains(host.trim()), "host name in {meta}");
    }
}

#[test]
fn figures_of_an_evaluation_do_not_depend_on_threads_or_instruction_set() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for quant in ["4bit", "2bit", "8bit"] {
        let out = dir.path().join(format!("{quant}.qsf"));
        program("qsf-convert").arg(&model).arg(&out).arg("-q").arg(quant).run().ok();
        let evaluate = |isa: &str, threads: &str| {
            let call = program("qsf-eval").arg(&out).arg("--base").arg(&model).arg("--file").arg(TEXT);
            let call = call.args("--ctx 128 --chunks 3 --json -t").arg(threads).env("QSF_CPU", isa);
            let mut value = call.run().json();
            value["seconds"] = Value::Null;
            value
        };
        let expected = evaluate("scalar", "1");
        assert!(expected["kld"]["mean"].as_f64().unwrap() > 0.0);
        for isa in instruction_sets() {
            for threads in ["1", "2"] {
                assert_eq!(evaluate(isa, threads), expected, "{quant}, {isa}, {threads} threads");
            }
        }
    }
}

#[test]
fn a_greedy_text_does_not_depend_on_threads_or_instruction_set() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let out = dir.path().join("4bit.qsf");
    program("qsf-convert").arg(&model).arg(&out).run().ok();
    let generate = |isa: &str, threads: &str| {
        let call = program("qsf-run").arg(&out).arg("-p").arg("In the year 1805, the fleet");
        call.args("-n 64 --temp 0 -t").arg(threads).env("QSF_CPU", isa).run().ok().stdout
    };
    let expected = generate("scalar", "1");
    for isa in instruction_sets() {
        for threads in ["1", "2", "3"] {
            assert_eq!(generate(isa, threads), expected, "{isa}, {threads} threads");
        }
    }
}
