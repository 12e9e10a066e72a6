//! Requests that cannot be met are refused with the reason: prompts, texts, machines, flags without effect.

use std::fs;

use qsf_tests::*;

#[test]
fn prompts_that_cannot_be_continued_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let empty = dir.path().join("empty.txt");
    fs::write(&empty, "").unwrap();
    let run = || program("qsf-run").arg(&model);
    for (what, call, says) in [
        ("nothing", run(), "-p"),
        ("empty prompt", run().arg("-p").arg(""), "empty"),
        ("empty file", run().arg("-f").arg(&empty), "empty"),
        ("no such token", run().args("--prompt-ids 1,2048 -n 1"), "2048"),
        ("no such token", run().args("--prompt-ids 4294967295 -n 1"), "4294967295"),
        ("not a token", run().args("--prompt-ids 1,x"), "x"),
        ("beyond the context", run().args("-p Hello -n 512"), "512"),
        ("beyond the context", run().args("-p Hello -n 18446744073709551615"), "context"),
        ("beyond the own context", run().args("--prompt-ids 1,2,3 -n 6 -c 8"), "context of 8"),
        ("context beyond the model's", run().args("-p Hello -n 4 -c 100000"), "512"),
        ("temperature", run().args("-p Hello --temp=-1"), "temp"),
        ("top-p", run().args("-p Hello --top-p 1.5"), "top"),
        ("bench beyond the context", run().args("--bench --pp 4096"), "512"),
        ("bench beyond 2^32", run().args("--bench --pp 4294967301"), "512"),
        ("bench beyond 2^32", run().args("--bench --tg 4294967301"), "512"),
        ("bench beyond all", run().args("--bench --pp 18446744073709551615"), "512"),
        ("bench of nothing", run().args("--bench --pp 0 --tg 0"), "at least one"),
        ("bench of no repetition", run().args("--bench -r 0"), "at least one"),
        ("bench beyond the context", run().args("--bench --tg 8 -d 512"), "512"),
        ("bench beyond all", run().args("--bench --tg 8 -d 18446744073709551615"), "512"),
        ("threads of a text", run().args("-p Hello -n 1 -t 1,2"), "list"),
        ("no such kernel", program("qsf-run").args("--kernel 5bit"), "5bit"),
        ("kernel on no threads", program("qsf-run").args("--kernel 4bit/1 -t 1,0"), "threads 0"),
    ] {
        refused(what, dir.path(), call, 2, &[says]);
    }
    let binary = dir.path().join("binary.txt");
    fs::write(&binary, b"abc\xff\xfe").unwrap();
    refused("not UTF-8", dir.path(), run().arg("-f").arg(&binary), 3, &["binary.txt", "offset 3", "0xff"]);
}

#[test]
fn texts_and_bases_that_cannot_be_evaluated_are_refused_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let short = dir.path().join("short.txt");
    fs::write(&short, "Only a few words.").unwrap();
    let eval = || program("qsf-eval").arg(&model).arg("--file").arg(&short);
    refused("short", dir.path(), eval(), 2, &["512", "--ctx"]);
    refused("ctx", dir.path(), eval().args("--ctx 3"), 2, &["ctx"]);
    refused("no text", dir.path(), program("qsf-eval").arg(&model), 2, &["--file"]);
    let other = dir.path().join("other");
    write_llama(&other, Size::TINY, 1);
    refused("base without tokenizer", dir.path(), eval().args("--ctx 4 --base other"), 3, &["tokenizer"]);
    fs::copy(model.join("tokenizer.json"), other.join("tokenizer.json")).unwrap();
    refused("another vocabulary", dir.path(), eval().args("--ctx 4 --base other"), 2, &["2048", "96"]);
    // The tokenizer knows tokens that this model has no embedding for.
    let call = program("qsf-eval").arg(&other).arg("--file").arg(&short).args("--ctx 4");
    refused("tokens without embedding", dir.path(), call, 2, &["beyond the model's vocabulary of 96"]);
    let golden = eval().arg("--golden").arg(&short);
    refused("two inputs", dir.path(), golden, 2, &["--golden"]);
    let golden = program("qsf-eval").arg(&model).arg("--golden").arg(&short);
    refused("golden is text", dir.path(), golden, 3, &["short.txt"]);
}

#[test]
fn machine_settings_that_cannot_be_are_refused_by_every_program_that_computes() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let text = model.join("config.json");
    let calls = || {
        [
            program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf")),
            program("qsf-eval").arg(&model).arg("--file").arg(&text).args("--ctx 8"),
            program("qsf-run").arg(&model).args("-p Hello -n 1"),
        ]
    };
    for (set, says) in [("mmx", "mmx"), ("", "QSF_CPU"), ("AVX2", "AVX2"), ("neon", "neon")] {
        for call in calls() {
            refused(&format!("QSF_CPU={set}"), dir.path(), call.env("QSF_CPU", set), 2, &[says, "scalar"]);
        }
    }
    for threads in ["0", "-1", "1000000", "x"] {
        for call in calls() {
            let call = call.arg(format!("--threads={threads}"));
            refused(&format!("-t {threads}"), dir.path(), call, 2, &["threads", threads]);
        }
    }
    let [_, pinned @ ..] = calls();
    for call in pinned {
        refused("more threads than cores", dir.path(), call.args("--pin -t 1024"), 2, &["core"]);
    }
    let [call, ..] = calls();
    refused("block size", dir.path(), call.args("--quant 4bit --block-size 48"), 2, &["48", "64"]);
    let [call, ..] = calls();
    refused("type", dir.path(), call.args("--quant q4_k_m"), 2, &["Q4_K_M", "n4"]);
}

#[test]
fn a_flag_that_would_have_no_effect_is_refused_instead_of_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let text = dir.path().join("text.txt");
    fs::write(&text, "Some text to evaluate on.\n".repeat(100)).unwrap();
    let run = || program("qsf-run").arg(&model);
    let convert = || program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf"));
    let golden = || program("qsf-eval").arg(&model).arg("--golden").arg(&text);
    for (call, says) in [
        (run().args("-p hi --pp 3"), "--pp"),
        (run().args("-p hi --tg 3"), "--tg"),
        (run().args("-p hi -r 3"), "--repetitions"),
        (run().args("-p hi -d 3"), "--depth"),
        (run().args("-p hi --cold"), "--cold"),
        (run().args("-p hi --format csv"), "--format"),
        (run().args("--bench --json -o csv"), "--json"),
        (run().args("--bench -o xml"), "xml"),
        (run().args("--bench --kernel"), "--kernel"),
        (run().arg("--kernel"), "MODEL"),
        (program("qsf-run").args("--kernel 4bit --pp 3"), "--pp"),
        (program("qsf-run").args("--kernel 4bit --seed 3"), "--seed"),
        (program("qsf-run").args("--system --kernel 4bit"), "--kernel"),
        (run().args("--bench --temp 0.5"), "--temp"),
        (run().args("--bench --top-k 5"), "--top-k"),
        (run().args("--bench --top-p 0.5"), "--top-p"),
        (run().args("--bench --min-p 0.5"), "--min-p"),
        (run().args("--bench --seed 5"), "--seed"),
        (run().args("--bench -n 5"), "--max-tokens"),
        (run().args("--bench -c 64"), "--ctx-size"),
        (run().args("--bench -p hi"), "--prompt"),
        (run().args("-p hi --prompt-ids 1,2"), "--prompt-ids"),
        (run().args("--tokenize -p hi --temp 0.5"), "--temp"),
        (run().args("-i --kv-window 64"), "--kv-window"),
        (run().arg("--system"), "MODEL"),
        (program("qsf-run").args("--system --bench"), "--bench"),
        (program("qsf-run").args("--system -p hi"), "--prompt"),
        (program("qsf-run").args("--system -n 5"), "--max-tokens"),
        (program("qsf-run").args("--system -c 5"), "--ctx-size"),
        (program("qsf-run").args("--system --temp 0"), "--temp"),
        (program("qsf-run").args("--system --seed 5"), "--seed"),
        (program("qsf-run").args("--system -v"), "--verbose"),
        (program("qsf-run").args("--kernel 4bit -v"), "--verbose"),
        (run().args("--tokenize -p hi --temp 0"), "--temp"),
        (run().args("--tokenize -p hi --top-k 5"), "--top-k"),
        (run().args("--tokenize -p hi --seed 5"), "--seed"),
        (run().args("--tokenize -p hi -t 1"), "--threads"),
        (run().args("--tokenize -p hi --pin"), "--pin"),
        (run().args("--tokenize -p hi --device cpu"), "--device"),
        (run().args("--tokenize -p hi -v"), "--verbose"),
        (run().args("-i --kv-window 80"), "forgets its oldest turns"),
        (run().args("-i --kv-window 80 --kv-policy h2o"), "forgets its oldest turns"),
        (run().args("-p hi --kv-policy h2o"), "--kv-window"),
        (run().args("-p hi --memory-plan"), "--ram-budget"),
        (run().args("-p hi --io pread"), "--io"),
        (run().args("-p hi --early-exit 0.5"), "has no classifiers"),
        (run().args("-p hi --quality 0.5"), "does not say how important"),
        (run().args("-p hi --head clusters"), "has no vocabulary clusters"),
        (run().args("-p hi --system-prompt Hello"), "--chat"),
        (convert().args("--demo-dir x"), "--demo-dir"),
        (convert().arg("--demo"), "--demo"),
        (convert().args("--calibration-tokens 5"), "--calibration"),
        (convert().args("--quiet -v"), "--verbose"),
        (convert().args("--plan a.json --save-plan b.json"), "--save-plan"),
        (program("qsf-convert").arg(&model).args("--dry-run --stats-out a.stats"), "--stats-out"),
        (program("qsf-convert").args("--demo --quant 2bit"), "--quant"),
        (convert().arg("--pin"), "--calibration"),
        (program("qsf-convert").args("--demo --skip-tokenizer-check"), "--skip-tokenizer-check"),
        (program("qsf-convert").args("--quant 2bit --show-stats a.stats"), "--quant"),
        (program("qsf-convert").args("--force --show-stats a.stats"), "--force"),
        (program("qsf-convert").args("--allow-requantize --show-stats a.stats"), "--allow-requantize"),
        (program("qsf-convert").args("--batch a.jsonl --out-dir b --dry-run --fail-fast"), "--fail-fast"),
        (program("qsf-convert").args("--batch a.jsonl --out-dir b --dry-run --retry 1"), "--retry"),
        (convert().args("--chat-template"), "--calibration"),
        (convert().args("-q 3bit --effort max"), "--calibration"),
        (convert().args("--eval-chunks 3"), "--eval"),
        (convert().args("--max-kld 3"), "--eval"),
        (golden().args("--ctx 64"), "--ctx"),
        (golden().args("--chunks 2"), "--chunks"),
        (golden().arg("--base").arg(&model), "--base"),
    ] {
        refused(&format!("{call:?}"), dir.path(), call, 2, &[says]);
    }
}

/// Types decide what some flags do: a script that tries them all need not fail, and nobody believes that they did something.
#[test]
fn a_flag_without_an_effect_on_the_types_of_a_file_is_named_in_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let text = dir.path().join("text.txt");
    fs::write(&text, "Some text to fit weights to.\n".repeat(100)).unwrap();
    let convert = || program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf")).args("--force");
    let fitted = |call: Program| call.args("--calibration-tokens 64 --calibration").arg(&text);
    for (call, says) in [
        (convert().args("--quant f16 --outliers 1%"), Some("--outliers has no effect")),
        (convert().args("--quant bf16 --block-size 32"), Some("--block-size 32 has no effect")),
        (convert().args("--quant n3 --block-size 256"), Some("--block-size 256 has no effect")),
        (
            convert().args("--quant n3 --block-size 256 --tensor-type attn_v=8bit"),
            Some("quantized tensors: the types of the others"),
        ),
        (fitted(convert().args("--quant f16")), Some("--calibration has no effect")),
        (convert().args("--quant 4bit --outliers 1% --block-size 32"), None),
        (fitted(convert().args("--quant 4bit")), None),
    ] {
        let output = call.run();
        let stderr = output.stderr;
        assert_eq!(output.code, 0, "{stderr}");
        match says {
            Some(says) => assert!(stderr.contains(says), "{says}: {stderr}"),
            None => assert!(!stderr.contains("note:"), "{stderr}"),
        }
    }
}

#[test]
fn a_flag_of_random_choices_at_temperature_0_is_said_to_have_no_effect() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let run = |args: &str| program("qsf-run").arg(&model).args("--prompt-ids 1,2 -n 2").args(args).run();
    for (args, says) in [
        ("--temp 0", ""),
        ("--temp 0.5 --seed 3 --top-k 5", ""),
        ("--temp 0 --seed 3", "note: --seed: without effect at --temp 0"),
        ("--temp 0 --min-p 0.1 --top-k 5 --top-p 0.5", "note: --top-k, --top-p, --min-p: without effect"),
    ] {
        let output = run(args);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(
            output.stderr.starts_with(says) && output.stderr.is_empty() == says.is_empty(),
            "{args}: {}",
            output.stderr
        );
    }
}
