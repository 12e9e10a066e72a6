//! Room on the stack: every program does its work, and refuses what is nested deep, with 64 KiB less than threads have by default.
//! So a change that takes a little more does not end in a crash, and nor does a system with a little less.

use std::fs;
use std::path::Path;

use qsf_tests::*;

/// In KiB what Linux gives a main thread, less 64.
const MAIN: usize = 8192 - 64;
/// In bytes what Rust gives any other thread that asks for no size, less 64 KiB.
const OTHERS: usize = (2 << 20) - (64 << 10);

/// The call, with less room.
fn cramped(call: Program) -> Output {
    let call = call.through_shell(&format!("ulimit -s {MAIN} && exec \"$@\""));
    call.env("RUST_MIN_STACK", &OTHERS.to_string()).run()
}

/// Expects an error of the input, not a crash.
fn refused(what: &str, call: Program) {
    let output = cramped(call);
    assert!([3, 4].contains(&output.code), "{what}: {} {}", output.code, output.stderr);
    assert!(output.stderr.contains("error: "), "{what}: {}", output.stderr);
}

#[test]
fn programs_do_their_work_with_a_little_less_stack() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("model.qsf");
    for name in ["llama", "qwen3_moe", "gemma3"] {
        let model = golden(name);
        let convert = |args: &str| program("qsf-convert").arg(&model).arg(&file).args(args);
        cramped(convert("-q f32 --force -t 2")).ok();
        let expected = model.join("expected.safetensors");
        cramped(program("qsf-eval").arg(&file).arg("--golden").arg(expected)).ok();
    }
    let model = small_model(dir.path());
    let convert = |args: &str| program("qsf-convert").arg(&model).args(args);
    cramped(convert("--dry-run")).ok();
    let calibration = dir.path().join("calibration.txt");
    fs::write(&calibration, &fs::read_to_string(CALIBRATION).unwrap()[..12_000]).unwrap();
    for args in ["--compress zstd", "-q n2", "--target-bpw 6"] {
        let call = convert(args).arg(&file).args("--force -t 2").arg("--calibration").arg(&calibration);
        cramped(call).ok();
    }
    for args in ["", "--ram-budget 64MB", "--kv-type 8bit"] {
        cramped(program("qsf-run").arg(&file).args("-p Once -n 8 --temp 0 -t 2").args(args)).ok();
    }
    let text = dir.path().join("text.txt");
    fs::write(&text, "Once upon a time there was a little girl. ".repeat(60)).unwrap();
    cramped(program("qsf-eval").arg(&file).arg("--file").arg(&text).args("-c 32 --chunks 2 -t 2")).ok();
    for args in ["--verify", "--tensors", "--json"] {
        cramped(program("qsf-inspect").arg(&file).args(args)).ok();
    }
    cramped(program("qsf-inspect").args("diff").arg(&file).arg(&file)).ok();
}

/// The member `"deep"` with lists in lists.
fn nested(depth: usize) -> String {
    format!("\"deep\": {}{}", "[".repeat(depth), "]".repeat(depth))
}

fn with_member(path: &Path, original: &str, member: &str) {
    let members = original.trim().strip_suffix('}').unwrap();
    fs::write(path, format!("{members}, {member}}}")).unwrap();
}

#[test]
fn what_is_nested_deep_is_read_or_refused_with_a_little_less_stack() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let path = model.join("config.json");
    let config = fs::read_to_string(&path).unwrap();
    let plan = || program("qsf-convert").arg(&model).args("--dry-run");
    // serde_json follows 127, and QSF no more.
    with_member(&path, &config, &nested(120));
    cramped(plan()).ok();
    with_member(&path, &config, &nested(1_000_000));
    refused("config.json", plan());
    fs::write(&path, &config).unwrap();

    let path = model.join("tokenizer.json");
    let tokenizer = fs::read_to_string(&path).unwrap();
    let run = || program("qsf-run").arg(&model).args("-p hi -n 1 -t 2");
    for depth in [30, 55, 100_000] {
        let normalizer = r#"{"type":"Sequence","normalizers":["#.repeat(depth) + &"]}".repeat(depth);
        let mut json: serde_json::Value = serde_json::from_str(&tokenizer).unwrap();
        json.as_object_mut().unwrap().remove("normalizer");
        with_member(&path, &json.to_string(), &format!("\"normalizer\": {normalizer}"));
        let output = cramped(run());
        assert!([0, 3, 4].contains(&output.code), "{depth}: {} {}", output.code, output.stderr);
    }
    fs::write(&path, &tokenizer).unwrap();

    let answer = || program("qsf-run").arg(&model).args("--chat -p hi -n 1 --temp 0 -t 1");
    let template = model.join("chat_template.jinja");
    let blocks = |count: usize| {
        format!("{}{{{{ messages[0].content }}}}{}", "{% if 1 %}".repeat(count), "{% endif %}".repeat(count))
    };
    fs::write(&template, blocks(100)).unwrap();
    cramped(answer()).ok();
    for hostile in [blocks(100_000), format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000))] {
        fs::write(&template, hostile).unwrap();
        refused("a template", answer());
    }
}
