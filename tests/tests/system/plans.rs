//! Plans: what a dry run has planned makes the file that the conversion itself makes, to the byte, or says what is missing.

use std::fs;
use std::path::Path;

use qsf_tests::*;
use serde_json::Value;

fn convert(model: &Path, out: &Path, args: &str) -> Program {
    program("qsf-convert").arg(model).arg(out).args(args)
}

/// Plans a conversion by a dry run, does it, does it by the plan, and compares.
fn planned_is_direct(dir: &Path, model: &Path, args: &str) {
    let file = |name: &str| dir.join(name);
    let (direct, replayed, plan) = (file("direct.qsf"), file("replayed.qsf"), file("plan.json"));
    let save = format!("{args} --dry-run --force --save-plan {}", plan.display());
    convert(model, &replayed, &save).run().ok();
    convert(model, &direct, &format!("{args} --force")).run().ok();
    convert(model, &replayed, &format!("--force --plan {}", plan.display())).run().ok();
    let same = fs::read(&direct).unwrap() == fs::read(&replayed).unwrap();
    assert!(same, "{}: {args}: other bytes by the plan", model.display());
}

#[test]
fn a_plan_makes_the_bytes_of_the_conversion_itself() {
    let dir = tempfile::tempdir().unwrap();
    let (demo, small) = (demo_model(dir.path()), small_model(dir.path()));
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 1500");
    planned_is_direct(dir.path(), &demo, &format!("--target-size 500kB {text}"));
    let more = format!("--calibration {CALIBRATION} --calibration-tokens 9000");
    planned_is_direct(dir.path(), &demo, &format!("--target-size 500kB {more} --effort low"));
    planned_is_direct(dir.path(), &small, &format!("--target-bpw 5 {text} --effort max --clusters 8"));
    planned_is_direct(
        dir.path(),
        &small,
        "--quant 3bit --tensor-type ffn_down=8bit --outliers 0.5% --compress zstd",
    );
    let fitted = format!("--quant n3 {text} --min-cosine 0.98 --eval {TEXT} --eval-chunks 1");
    planned_is_direct(dir.path(), &small, &fitted);
    let gpt2 = dir.path().join("gpt2");
    write_gpt2(&gpt2, Size::TINY, 1);
    planned_is_direct(dir.path(), &gpt2, "--quant n4 --layout rows");
}

#[test]
fn a_plan_whose_parts_are_missing_or_changed_says_which_and_makes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let (plan, text, out) =
        (dir.path().join("plan.json"), dir.path().join("text.txt"), dir.path().join("out.qsf"));
    fs::copy(CALIBRATION, &text).unwrap();
    let save = format!("--quant n3 --calibration {} --calibration-tokens 700 --dry-run", text.display());
    convert(&model, &out, &format!("{save} --save-plan {}", plan.display())).run().ok();
    let written = fs::read_to_string(&plan).unwrap();
    let replay = |args: &str| convert(&model, &out, &format!("--plan {} {args}", plan.display()));
    // A name that is wrong is no new file.
    let none = convert(&model, &out, "--plan no_such.json");
    refused("no plan", dir.path(), none, 3, &["no_such.json"]);
    refused("a type", dir.path(), replay("--quant 4bit"), 2, &["--plan", "--quant"]);
    refused("a target", dir.path(), replay("--target-size 1MB"), 2, &["--plan", "--target-size"]);
    // A text that has moved is found where the user says it is; another text is refused.
    let moved = dir.path().join("moved.txt");
    fs::rename(&text, &moved).unwrap();
    refused("text gone", dir.path(), replay(""), 2, &["text.txt is not there", "--calibration"]);
    let other = replay("--calibration").arg(TEXT);
    refused("another text", dir.path(), other, 2, &["is another text", "SHA-256"]);
    replay("--calibration").arg(&moved).run().ok();
    fs::remove_file(&out).unwrap();
    fs::rename(&moved, &text).unwrap();
    for (from, to, code, says) in [
        ("qsf-convert 0", "qsf-convert 9", 2, "made by qsf-convert 9"),
        ("\"tables_sha256\": \"", "\"tables_sha256\": \"0", 2, "other tables"),
        ("\"bytes\": ", "\"bytes\": 1", 2, "has other contents here"),
        ("\"version\": 2", "\"version\": 1", 3, "version 1"),
        ("\"layer 1 attn_q\"", "\"layer 7 attn_q\"", 3, "layer 7 attn_q"),
        ("\"effort\": \"normal\"", "\"effort\": \"huge\"", 3, "effort 'huge'"),
        // It stands in the name of a file that nobody has named.
        ("\"named\": \"n3\"", "\"named\": \"/../../../tmp/x\"", 3, "\"named\": expected a name"),
        ("\"named\": \"n3\"", "\"named\": \".bashrc\"", 3, "\"named\": expected a name"),
    ] {
        assert!(written.contains(from), "{from}");
        fs::write(&plan, written.replacen(from, to, 1)).unwrap();
        refused(says, dir.path(), replay(""), code, &["plan.json", says]);
    }
    // Types that somebody has edited make another file, and that is said.
    fs::write(&plan, written.replace("\"layer 0 attn_v\": \"n3\"", "\"layer 0 attn_v\": \"8bit\"")).unwrap();
    let edited = replay("--json").run();
    assert!(edited.stderr.contains("were edited"), "{}", edited.stderr);
    let report: Value = serde_json::from_str(&edited.stdout).unwrap();
    let tensors = report["tensors"].as_array().unwrap();
    let changed = tensors.iter().find(|t| t["tensor"] == "layer 0 attn_v").unwrap();
    assert_eq!(changed["type"], "8bit");
}

#[test]
fn a_text_that_a_plan_has_no_place_for_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let (plan, out) = (dir.path().join("plan.json"), dir.path().join("out.qsf"));
    let built_in = "--target-bpw 6 --calibration-tokens 600";
    for (args, made_by) in [("--quant n3", "no text"), (built_in, "the built-in text")] {
        let save = format!("{args} --dry-run --force --save-plan {}", plan.display());
        convert(&model, &out, &save).run().ok();
        let replay = format!("--plan {} --calibration {CALIBRATION}", plan.display());
        refused(
            made_by,
            dir.path(),
            convert(&model, &out, &replay),
            2,
            &[made_by, "leave out --calibration"],
        );
    }
}

#[test]
fn the_plan_of_another_conversion_is_not_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let model = small_model(dir.path());
    let (plan, out) = (dir.path().join("plan.json"), dir.path().join("out.qsf"));
    let save = |quant: &str| {
        convert(&model, &out, &format!("--quant {quant} --dry-run --save-plan {}", plan.display()))
    };
    save("4bit").run().ok();
    save("4bit").run().ok();
    refused("another plan", dir.path(), save("3bit"), 2, &["plan.json", "--force"]);
    fs::write(&plan, "my notes").unwrap();
    refused("no plan", dir.path(), save("4bit"), 2, &["plan.json", "--force"]);
}

#[test]
fn plans_of_gguf_files_make_gguf_files_and_a_name_that_says_otherwise_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = |name: &str| dir.path().join(name);
    let (direct, replayed, plan) = (file("direct.gguf"), file("replayed.gguf"), file("plan.json"));
    let text = format!("--calibration {CALIBRATION} --calibration-tokens 1500");
    for args in ["--quant Q4_K_M --tensor-type attn_v=Q8_0", &format!("--target-size 900kB {text}")] {
        let save = format!("{args} --to gguf --dry-run --force --save-plan {}", plan.display());
        convert(&model, &replayed, &save).run().ok();
        convert(&model, &direct, &format!("{args} --force")).run().ok();
        convert(&model, &replayed, &format!("--force --plan {}", plan.display())).run().ok();
        assert!(
            fs::read(&direct).unwrap() == fs::read(&replayed).unwrap(),
            "{args}: other bytes by the plan"
        );
    }
    let replay =
        |out: &str, args: &str| convert(&model, &file(out), &format!("--plan {} {args}", plan.display()));
    refused(
        "another format",
        dir.path(),
        replay("out.qsf", ""),
        2,
        &["out.qsf", "is of a GGUF file", "OUT.gguf"],
    );
    refused("a format", dir.path(), replay("out.gguf", "--to gguf"), 2, &["--plan", "--to"]);
    // Types that the format has not, in a plan that somebody has edited.
    let written = fs::read_to_string(&plan).unwrap();
    let mut edited: Value = serde_json::from_str(&written).unwrap();
    edited["types"]["layer 0 attn_q"] = "n4".into();
    fs::write(&plan, edited.to_string()).unwrap();
    refused("a type of QSF", dir.path(), replay("out.gguf", ""), 2, &["layer 0 attn_q", "n4"]);
    convert(&model, &file("q.qsf"), &format!("--dry-run --force --save-plan {}", plan.display())).run().ok();
    let mut edited: Value = serde_json::from_str(&fs::read_to_string(&plan).unwrap()).unwrap();
    edited["types"]["layer 0 attn_q"] = "Q4_K".into();
    fs::write(&plan, edited.to_string()).unwrap();
    refused(
        "a type of GGUF",
        dir.path(),
        replay("out.qsf", ""),
        2,
        &["layer 0 attn_q", "Q4_K", "nearest is n4"],
    );
}
