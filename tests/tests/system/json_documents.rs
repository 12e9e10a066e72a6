//! What the programs print with `--json` is what `docs/schema/` says, member by member.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use qsf_tests::*;
use serde_json::Value;

/// Checks documents, and keeps the names of those that it has seen.
struct Checker {
    schemas: JsonSchemas,
    seen: BTreeSet<String>,
}

impl Checker {
    fn new() -> Checker {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schema");
        Checker { schemas: JsonSchemas::read(&folder), seen: BTreeSet::new() }
    }

    /// That `text` is the document `name`, as described.
    #[track_caller]
    fn check(&mut self, name: &str, text: &str) -> Value {
        let document: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{name}: {e}: {text}"));
        assert_eq!((&document["document"], &document["schema"]), (&name.into(), &1.into()), "{text}");
        assert_eq!(self.schemas.problems(&document), [""; 0], "{text}");
        self.seen.insert(name.to_owned());
        document
    }

    /// That a program prints it and succeeds.
    #[track_caller]
    fn printed(&mut self, name: &str, call: Program) -> Value {
        let output = call.run();
        assert_eq!(output.code, 0, "{name}: {}", output.stderr);
        self.check(name, &output.stdout)
    }

    /// That these documents, and no others of the file, have been seen.
    #[track_caller]
    fn has_seen_all_of(&self, file: &str) {
        let all = self.schemas.documents();
        let of_file = all.iter().filter(|(_, of)| *of == file).map(|(name, _)| name.clone());
        assert_eq!(self.seen, of_file.collect(), "documents of {file}");
    }
}

/// A file that has all that a file can have, and what its conversion printed. It takes a minute, so all tests share it.
struct Full {
    printed: String,
    file: Vec<u8>,
    stats: Vec<u8>,
}

static FULL: LazyLock<Full> = LazyLock::new(|| {
    let place = Place::without_file();
    let args = "demo-1m full.qsf --target-bpw 5 --calibration text.txt --calibration-tokens 512 --clusters 8 --early-exit \
                --eval text.txt --eval-chunks 1 --stats-out full.stats -t 1 --json";
    let printed = place.call("qsf-convert", args).run().ok().stdout;
    let [file, stats] = ["full.qsf", "full.stats"].map(|name| fs::read(place.path(name)).unwrap());
    Full { printed, file, stats }
});

/// A folder with a model, texts, and a file that has all that a file can have, `full.qsf`.
struct Place {
    dir: tempfile::TempDir,
    model: PathBuf,
}

impl Place {
    fn new() -> Place {
        let place = Place::without_file();
        fs::write(place.path("full.qsf"), &FULL.file).unwrap();
        fs::write(place.path("full.stats"), &FULL.stats).unwrap();
        place
    }

    fn without_file() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let model = demo_model(dir.path());
        let text = fs::read_to_string(TEXT).unwrap();
        let end = (0..6000).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        fs::write(dir.path().join("text.txt"), &text[..end]).unwrap();
        Place { dir, model }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn call(&self, name: &str, args: &str) -> Program {
        program(name).dir(self.dir.path()).args(args)
    }
}

#[test]
fn documents_of_conversions_are_as_described() {
    let (place, mut checker) = (Place::new(), Checker::new());
    assert!(place.model.is_dir());
    let full = checker.check("conversion", &FULL.printed);
    assert!(full["clusters"].is_object() && full["evaluation"].is_object(), "{full}");
    let convert = |args: &str| place.call("qsf-convert", args);
    checker.printed("conversion", convert("demo-1m plain.qsf -q 2bit --json"));
    let bad = "demo-1m bad.qsf -q 2bit --eval text.txt --eval-chunks 1 --max-kld 0.001 --json";
    let rejected = convert(bad).run();
    assert_eq!(rejected.code, 6);
    let missed = checker.check("conversion", &rejected.stdout)["missed_limits"].clone();
    assert_eq!(missed.as_array().unwrap().len(), 1);
    demo_adapter(&place.path("lora"));
    checker.printed("embedded", convert("plain.qsf with-lora.qsf --embed-lora lora --json"));
    checker.printed("prediction", convert("demo-1m --dry-run --json"));
    let target = "demo-1m --dry-run --target-bpw 4 --calibration text.txt --calibration-tokens 512 --json";
    assert!(checker.printed("prediction", convert(target))["predicted_kld_mean"].is_f64());
    let stats = "demo-1m --calibration text.txt --stats-only --stats-out part.stats --stats-part 1/2 --json";
    checker.printed("statistics_file", convert(stats));
    checker.printed("statistics_file", convert("--merge-stats part.stats --stats-out all.stats --json"));
    checker.printed("statistics", convert("--show-stats full.stats --json"));
    checker.printed("statistics", convert("demo-1m --show-stats full.stats --json"));
    batches_are_as_described(&place, &mut checker);
    checker.printed("demo", convert("--demo --json"));
    checker.has_seen_all_of("convert.schema.json");
}

fn batches_are_as_described(place: &Place, checker: &mut Checker) {
    let job = r#""eval_text": "text.txt", "eval_chunks": 1"#;
    let jobs = [
        r#"{"model": "none", "output": "a.qsf"}"#.to_owned(),
        format!(r#"{{"model": "demo-1m", "output": "b.qsf", {job}, "max_kld": 0}}"#),
        format!(r#"{{"model": "demo-1m", "output": "c.qsf", {job}}}"#),
    ];
    fs::write(place.path("jobs.jsonl"), jobs.join("\n")).unwrap();
    let batch =
        |args: &str| place.call("qsf-convert", &format!("--batch jobs.jsonl --out-dir out --json {args}"));
    checker.check("batch_forecast", &batch("--dry-run").run().stdout);
    checker.check("batch", &batch("--fail-fast --jobs 1").run().stdout);
    let all = checker.check("batch", &batch("").run().stdout);
    assert_eq!((&all["done"], &all["rejected"], &all["failed"]), (&1.into(), &1.into(), &1.into()));
    checker.check("batch", &batch("").run().stdout);
    for line in fs::read_to_string(place.path("out/results.jsonl")).unwrap().lines() {
        checker.check("batch_record", line);
    }
}

#[test]
fn documents_of_files_are_as_described() {
    let (place, mut checker) = (Place::new(), Checker::new());
    let inspect = |args: &str| place.call("qsf-inspect", args);
    checker.printed("file", inspect("full.qsf --json"));
    let full = checker.printed("file", inspect("full.qsf --tensors --verify --json"));
    assert!(full["tensors"].is_array() && full["verified"].is_object() && full["clusters"].is_object());
    let plain = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/plain.qsf");
    checker.printed("file", inspect("--verify --allow-plain --tensors --json").arg(plain));
    checker.printed("source", inspect("demo-1m --tensors --json"));
    checker.printed("files", inspect("full.qsf demo-1m --json"));
    let some = inspect("full.qsf text.txt --verify --json").run();
    assert_eq!(some.code, 3, "{}", some.stderr);
    checker.check("files", &some.stdout);
    let mut errors = Checker::new();
    errors.check("error", &some.stderr);
    errors.has_seen_all_of("parts.schema.json");
    let different = inspect("diff demo-1m full.qsf --json").run();
    assert_eq!(different.code, 1, "{}", different.stderr);
    checker.check("difference", &different.stdout);
    checker.printed("difference", inspect("diff demo-1m demo-1m --json"));
    checker.printed("report", inspect("report full.qsf -o page.html --json"));
    checker.printed("report", inspect("report full.qsf -o page.html --card card.md --force --json"));
    place.call("qsf-convert", "demo-1m small.gguf --quant Q8_0 -q").run().ok();
    let of_both =
        checker.printed("report", inspect("report full.qsf small.gguf -o page.html --force --json"));
    assert!(of_both["files"][1]["sha256"].is_string() && of_both["files"][1]["tensors"].is_array());
    checker.has_seen_all_of("inspect.schema.json");
}

#[test]
fn documents_of_evaluations_are_as_described() {
    let (place, mut checker) = (Place::new(), Checker::new());
    let eval = |args: &str| {
        place.call("qsf-eval", &format!("full.qsf --file text.txt --ctx 64 --chunks 2 {args} --json"))
    };
    checker.printed("evaluation", eval(""));
    checker.printed("evaluation", eval("--base demo-1m --kv-type 8bit,4bit --kv-window 40 --kv-policy h2o"));
    checker.printed("evaluation", eval("--quality 0.5 --head clusters:2 --ram-budget 60"));
    checker.printed("evaluation_part", eval("--part 1/2 --part-out 1.part"));
    checker.printed("evaluation_part", eval("--part 2/2 --part-out 2.part"));
    checker.printed("evaluation", place.call("qsf-eval", "--join 1.part 2.part --json"));
    let llama = golden("llama");
    let call = program("qsf-eval").arg(&llama).arg("--golden").arg(llama.join("expected.safetensors"));
    checker.printed("agreement", call.arg("--json"));
    let items: String = ["a", "b"]
        .map(|subject| {
            let record = serde_json::json!({"question": "Which", "choices": ["a", "b"], "answer": 1, "subject": subject});
            record.to_string() + "\n"
        })
        .concat();
    fs::write(place.path("items.jsonl"), items).unwrap();
    let task = |args: &str| {
        place.call("qsf-eval", &format!("full.qsf --task mmlu --task-file items.jsonl {args} --json"))
    };
    checker.printed("task_evaluation", task(""));
    checker.printed("task_evaluation", task("--base demo-1m --limit 1 --task-out items.out --ram-budget 60"));
    checker.has_seen_all_of("eval.schema.json");
    checker.printed("memory_plan", eval("--ram-budget 60 --memory-plan"));
}

#[test]
fn documents_of_runs_are_as_described() {
    let (place, mut checker) = (Place::new(), Checker::new());
    let run = |args: &str| place.call("qsf-run", &format!("{args} --json"));
    checker.printed("generation", run("full.qsf -p Hello -n 3"));
    checker.printed("generation", run("full.qsf --prompt-ids 1,2 -n 1 --ram-budget 60 --kv-window 40"));
    checker.printed("generation", run("full.qsf -p Hello -n 3 --head clusters:2 --quality 0.5"));
    checker.printed("generation", run("full.qsf -p Hello -n 3 --early-exit 0.5"));
    checker.printed("bench", run("full.qsf --bench --pp 0 --tg 2 -r 1 --early-exit 0.5"));
    checker.printed("conversation", run("full.qsf -i -n 3").input("Hello\nWorld\n"));
    checker.printed("tokens", run("full.qsf --tokenize -p Hello"));
    checker.printed("bench", run("full.qsf --bench --pp 8 --tg 2 -r 1 --head clusters:2"));
    checker.printed("bench", run("full.qsf --bench --pp 0 --tg 2 -r 1 --ram-budget 60"));
    if cfg!(target_os = "linux") {
        checker.printed("bench", run("full.qsf --bench --pp 8 --tg 0 -r 1 --cold"));
    }
    checker.printed("kernels", run("--kernel 4bit/1/cache -t 1"));
    checker.printed("memory_plan", run("full.qsf -p Hello -n 3 --ram-budget 60 --memory-plan"));
    checker.printed("system", run("--system"));
    let prompts = "{\"prompt\": \"Hello\"}\n{\"prompt\": \"a\", \"id\": [1]}";
    fs::write(place.path("prompts.jsonl"), prompts).unwrap();
    for line in place.call("qsf-run", "full.qsf --prompts prompts.jsonl -n 3").run().ok().stdout.lines() {
        checker.check("prompt_result", line);
    }
    for args in ["", "--label a --label b"] {
        let call = place.call("qsf-run", &format!("full.qsf --classify prompts.jsonl {args}"));
        for line in call.run().ok().stdout.lines() {
            checker.check("classification", line);
        }
    }
    checker.printed("attention", run("full.qsf -p Hello --attention look"));
    // There is no graphics processor here.
    checker.seen.insert("gpu_kernels".into());
    checker.has_seen_all_of("run.schema.json");
}
