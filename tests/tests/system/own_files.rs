//! No output takes the place of what the same call reads, `--force` or not: a word in the wrong place costs nobody a model or a text.

use std::fs;
use std::path::PathBuf;

use qsf_tests::*;

/// A folder with a model, files of it, a text and a task.
struct Desk(tempfile::TempDir);

impl Desk {
    fn new() -> Desk {
        let desk = Desk(tempfile::tempdir().unwrap());
        let model = demo_model(desk.0.path());
        fs::write(model.join("special_tokens_map.json"), "{}").unwrap();
        let text = fs::read_to_string(CALIBRATION).unwrap();
        fs::write(desk.path("text.txt"), &text[..8000]).unwrap();
        fs::write(desk.path("lambada.jsonl"), "{\"text\": \"It was a dark and stormy night\"}\n").unwrap();
        desk.call("qsf-convert demo-1m a.qsf -q 8bit").run().ok();
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn call(&self, line: &str) -> Program {
        let (name, args) = line.split_once(' ').unwrap();
        program(name).dir(self.0.path()).args(args)
    }

    /// That the call ends with exit code 2, names all of `says`, and changes nothing.
    #[track_caller]
    fn refuses(&self, line: &str, says: &[&str]) {
        refused(line, self.0.path(), self.call(line), 2, says);
    }
}

#[test]
fn a_conversion_keeps_model_texts_and_statistics() {
    let desk = Desk::new();
    let fitted = "--calibration text.txt --calibration-tokens 256 --force";
    for (args, says) in [
        ("demo-1m o.qsf --save-plan demo-1m/config.json", &["--save-plan", "config.json", "MODEL"][..]),
        ("demo-1m o.qsf --save-plan demo-1m/special_tokens_map.json", &["--save-plan", "tokens_map.json"]),
        ("demo-1m o.qsf --save-plan ./text.txt", &["--save-plan", "text.txt", "--calibration"]),
        ("demo-1m o.qsf --save-plan text.txt --dry-run", &["--save-plan", "text.txt", "--calibration"]),
        ("demo-1m text.txt --to qsf", &["OUT", "text.txt", "--calibration"]),
        ("demo-1m o.qsf --save-plan o.qsf", &["--save-plan", "o.qsf", "OUT"]),
        ("demo-1m o.qsf --stats-out text.txt", &["--stats-out", "text.txt", "--calibration"]),
        ("demo-1m --stats-only --stats-out text.txt", &["--stats-out", "text.txt", "--calibration"]),
        ("demo-1m --stats-only --stats-out a.qsf --eval a.qsf", &["--eval"]),
        ("a.qsf --stats-only --stats-out a.qsf", &["--stats-out", "a.qsf", "MODEL"]),
    ] {
        desk.refuses(&format!("qsf-convert {args} {fitted}"), says);
    }
    desk.refuses("qsf-convert demo-1m text.txt --to qsf --eval text.txt --force", &["OUT", "--eval"]);
    desk.call("qsf-convert demo-1m o.qsf --save-plan plan.json").run().ok();
    desk.refuses("qsf-convert demo-1m plan.json --plan plan.json --force", &["plan.json"]);
    desk.call(
        "qsf-convert demo-1m --calibration text.txt --calibration-tokens 256 --stats-only --stats-out s1",
    )
    .run()
    .ok();
    fs::copy(desk.path("s1"), desk.path("s2")).unwrap();
    let merge = "qsf-convert --merge-stats s1 s2 --stats-out s1 --force";
    desk.refuses(merge, &["--stats-out", "s1", "--merge-stats"]);
    // What lies beside the files of a model is no file of it.
    for _ in 0..2 {
        desk.call("qsf-convert demo-1m demo-1m/n4.qsf --save-plan demo-1m/plan.json --force").run().ok();
    }
}

#[test]
fn a_run_and_an_evaluation_keep_models_tasks_and_prompts() {
    let desk = Desk::new();
    let task = "--task lambada --task-file lambada.jsonl --force --task-out";
    let text = "--file text.txt -c 64 --chunks 1 --force";
    for (line, says) in [
        (
            "qsf-run demo-1m -p Once --force --attention demo-1m/model.safetensors",
            &["--attention", "MODEL"][..],
        ),
        ("qsf-run a.qsf -p Once --force --attention a.qsf", &["--attention", "a.qsf", "MODEL"]),
        ("qsf-run a.qsf --prompts lambada.jsonl --results ./lambada.jsonl", &["--results", "--prompts"]),
        (
            &format!("qsf-eval demo-1m {text} --save-base demo-1m/model.safetensors"),
            &["--save-base", "MODEL"],
        ),
        (&format!("qsf-eval a.qsf {text} --save-base text.txt"), &["--save-base", "text.txt", "--file"]),
        (&format!("qsf-eval a.qsf {text} --part 1/2 --part-out a.qsf"), &["--part-out", "a.qsf", "MODEL"]),
        (
            &format!("qsf-eval a.qsf {text} --base demo-1m --part 1/2 --part-out demo-1m/tokenizer.json"),
            &["--part-out", "tokenizer.json", "--base"],
        ),
        (&format!("qsf-eval a.qsf {task} lambada.jsonl"), &["--task-out", "lambada.jsonl", "--task-file"]),
        (&format!("qsf-eval a.qsf {task} a.qsf"), &["--task-out", "a.qsf", "MODEL"]),
    ] {
        desk.refuses(line, says);
    }
}

/// A download that has not got its name yet, say.
#[test]
fn an_input_may_be_called_as_an_output_is_before_it_is_whole() {
    let desk = Desk::new();
    desk.call("qsf-convert demo-1m m.gguf --quant F16").run().ok();
    for (from, to) in [("a.qsf", "b.qsf.partial"), ("m.gguf", "b.gguf.partial"), ("m.gguf", "c.qsf.partial")]
    {
        fs::copy(desk.path(from), desk.path(to)).unwrap();
    }
    let text = "--file text.txt -c 64 --chunks 1 --force";
    for (line, says) in [
        ("qsf-convert b.qsf.partial b.qsf -q 4bit --allow-requantize", &["b.qsf", "own files"][..]),
        ("qsf-convert b.gguf.partial b.gguf --quant F16", &["b.gguf", "own files"]),
        ("qsf-convert c.qsf.partial c.qsf", &["c.qsf", "own files"]),
        (&format!("qsf-eval b.qsf.partial {text} --part 1/1 --part-out b.qsf"), &["b.qsf.partial", "MODEL"]),
        (&format!("qsf-eval b.qsf.partial {text} --save-base b.qsf"), &["b.qsf.partial", "MODEL"]),
        ("qsf-run b.qsf.partial -p Once --attention b.qsf", &["b.qsf.partial", "MODEL"]),
    ] {
        desk.refuses(line, says);
    }
    desk.call("qsf-convert c.qsf.partial d.qsf").run().ok();
}

#[cfg(unix)]
#[test]
fn a_file_is_known_by_all_of_its_names() {
    let desk = Desk::new();
    fs::hard_link(desk.path("text.txt"), desk.path("hard.txt")).unwrap();
    fs::hard_link(desk.path("demo-1m/model.safetensors"), desk.path("hard.qsf")).unwrap();
    std::os::unix::fs::symlink("demo-1m", desk.path("linked")).unwrap();
    let fitted = "--calibration text.txt --calibration-tokens 256 --force";
    desk.refuses(&format!("qsf-convert demo-1m o.qsf {fitted} --save-plan hard.txt"), &["hard.txt"]);
    desk.refuses("qsf-convert demo-1m hard.qsf --force", &["hard.qsf", "own files"]);
    desk.refuses("qsf-run linked -p Once --force --attention demo-1m/tokenizer.json", &["--attention"]);
    // Weights that are links to another disk are what they lead to.
    fs::rename(desk.path("demo-1m/model.safetensors"), desk.path("disk")).unwrap();
    std::os::unix::fs::symlink("../disk", desk.path("demo-1m/model.safetensors")).unwrap();
    desk.refuses("qsf-run demo-1m -p Once --force --attention disk", &["--attention", "disk"]);
    desk.call("qsf-run demo-1m -p Once -n 1 --temp 0").run().ok();
}
