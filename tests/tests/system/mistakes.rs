//! Mistakes that people make: each is answered in one or two lines that name what was given and the mend, with the exit code as
//! documented, and nothing is lost.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::Value;

/// Lines of an answer.
const MOST_LINES: usize = 2;
/// Characters of an answer: two lines of a wide terminal.
const MOST_CHARACTERS: usize = 420;

/// A folder with what people have at hand.
struct Desk {
    dir: tempfile::TempDir,
}

impl Desk {
    fn new() -> Desk {
        let dir = tempfile::tempdir().unwrap();
        let model = demo_model(dir.path());
        let path = |name: &str| dir.path().join(name);
        program("qsf-convert").arg(&model).arg(path("a.qsf")).args("--quant 8bit").run().ok();
        let qsf = fs::read(path("a.qsf")).unwrap();
        fs::write(path("cut.qsf"), &qsf[..qsf.len() / 2]).unwrap();
        write_sparse_gguf(&path("a.gguf"), Size::TINY);
        let gguf = fs::read(path("a.gguf")).unwrap();
        fs::write(path("cut.gguf"), &gguf[..gguf.len() / 2]).unwrap();
        let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4400000000\n";
        fs::write(path("pointer.gguf"), pointer).unwrap();
        fs::write(path("page.gguf"), "<!doctype html><html>Not found</html>").unwrap();
        fs::write(path("empty.qsf"), "").unwrap();
        fs::write(path("model.gguf.part"), &gguf[..100]).unwrap();
        fs::write(path("text.txt"), fs::read_to_string(TEXT).unwrap().split_at(3000).0).unwrap();
        fs::write(path("short.txt"), "A few words.").unwrap();
        for (name, file) in [("lfs", "model.safetensors"), ("lfs-config", "config.json")] {
            copy(&model, &path(name));
            fs::write(path(name).join(file), pointer).unwrap();
        }
        copy(&model, &path("cut"));
        let weights = fs::read(model.join("model.safetensors")).unwrap();
        fs::write(path("cut/model.safetensors"), &weights[..weights.len() / 2]).unwrap();
        fs::create_dir_all(path("hub/models--org--name/snapshots")).unwrap();
        fs::create_dir(path("folder")).unwrap();
        fs::copy(path("a.gguf"), path("folder/a.gguf")).unwrap();
        Desk { dir }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// What stderr says, line by line.
    #[track_caller]
    fn answer(&self, line: &str, code: i32) -> String {
        let mut words = line.split_whitespace();
        let call = program(words.next().unwrap()).dir(self.path());
        let call = words.fold(call, |call, word| call.arg(word.replace('_', " ").replace("%20", "_")));
        let before = Snapshot::of(self.path());
        let output = call.run();
        let said = format!("{}{}", output.stdout, output.stderr);
        assert_eq!(output.code, code, "{line}: {said}");
        assert_eq!(before.changes(&Snapshot::of(self.path())), Vec::<String>::new(), "{line}");
        assert!(output.stdout.is_empty(), "{line}: {said}");
        let lines = output.stderr.lines().count();
        let longest = output.stderr.chars().count();
        assert!(lines <= MOST_LINES, "{line}: {lines} lines: {said}");
        assert!(longest <= MOST_CHARACTERS, "{line}: {longest} characters: {said}");
        assert!(!said.contains("panicked"), "{line}: {said}");
        output.stderr
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path: PathBuf = entry.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

/// A call, its exit code, and what the answer has: what was given, and the mend. In words `_` is a space, `%20` a `_`.
const MISTAKES: &[(&str, i32, &[&str])] = &[
    // Files that are something else.
    ("qsf-run a.qsf.old -p hi", 3, &["a.qsf.old", "No such file"]),
    ("qsf-run pointer.gguf -p hi", 3, &["pointer.gguf", "4.40 GB", "git lfs pull"]),
    ("qsf-inspect pointer.gguf", 3, &["pointer.gguf", "git lfs pull"]),
    ("qsf-convert pointer.gguf", 3, &["pointer.gguf", "git lfs pull"]),
    ("qsf-convert lfs out.qsf", 3, &["lfs/model.safetensors", "git lfs pull"]),
    ("qsf-inspect lfs-config", 3, &["lfs-config/config.json", "git lfs pull"]),
    ("qsf-inspect page.gguf", 3, &["page.gguf", "a web page", "/resolve/"]),
    ("qsf-run empty.qsf -p hi", 3, &["empty.qsf", "an empty file", "download it again"]),
    ("qsf-inspect model.gguf.part", 3, &["model.gguf.part", "not ended"]),
    ("qsf-inspect demo-1m/config.json", 3, &["config.json", "JSON", "pass the directory"]),
    ("qsf-run demo-1m/model.safetensors -p hi", 3, &["model.safetensors", "pass the directory"]),
    ("qsf-inspect demo-1m/model.safetensors", 3, &["model.safetensors", "pass the directory"]),
    ("qsf-run text.txt -p hi", 3, &["text.txt", "text", "pass the model"]),
    ("qsf-inspect cut.qsf", 3, &["cut.qsf", "bytes", "cut short", "again"]),
    ("qsf-run cut.gguf -p hi", 3, &["cut.gguf", "at least", "cut short", "again"]),
    ("qsf-convert cut out.qsf", 3, &["cut/model.safetensors", "2103480 bytes", "cut short"]),
    ("qsf-convert folder out.qsf", 3, &["folder", "pass the GGUF file itself", "a.gguf"]),
    ("qsf-convert hub out.qsf", 3, &["hub", "models--org--name"]),
    ("qsf-convert hub/models--org--name out.qsf", 3, &["models--org--name", "has not ended"]),
    ("qsf-run - -p hi", 3, &["-: ", "a pipe", "write it to a file"]),
    ("qsf-run /dev/stdin -p hi", 3, &["/dev/stdin", "a pipe", "write it to a file"]),
    ("qsf-eval a.qsf -f demo-1m", 3, &["demo-1m", "a directory"]),
    ("qsf-eval a.qsf -f short.txt", 2, &["512", "--ctx"]),
    // Types.
    ("qsf-convert demo-1m out.qsf --quant q4", 2, &["'q4'", "the nearest is n4"]),
    ("qsf-convert demo-1m out.qsf --quant int4", 2, &["'int4'", "the nearest is n4"]),
    ("qsf-convert demo-1m out.qsf --quant 4-bit", 2, &["'4-bit'", "the nearest is n4"]),
    ("qsf-convert demo-1m out.qsf --quant fp16", 2, &["'fp16'", "the nearest is f16"]),
    ("qsf-convert demo-1m out.qsf -q Q4%20K%20M", 2, &["'Q4_K_M'", "the nearest is n4"]),
    ("qsf-convert demo-1m out.qsf Q8%200", 2, &["'Q8_0'", "--quant 8bit"]),
    ("qsf-convert demo-1m out.qsf --tensor-type attn%20v=q8", 2, &["'q8'", "the nearest is 8bit"]),
    ("qsf-convert demo-1m out.qsf --tensor-type 8bit", 2, &["8bit", "PATTERN=TYPE"]),
    ("qsf-run a.qsf -p hi --kv-type q8%200", 2, &["q8_0", "8bit"]),
    ("qsf-run a.qsf -p hi -ctk q8%200", 2, &["-ctk", "--kv-type"]),
    // Numbers.
    ("qsf-run a.qsf -p hi --temp -1", 2, &["-1", "0 always takes the likeliest"]),
    ("qsf-run a.qsf -p hi --top-p 90", 2, &["90", "at most 1"]),
    ("qsf-run a.qsf -p hi --top-k -1", 2, &["-1", "--top-k", "0 keeps all"]),
    ("qsf-run a.qsf -p hi -n 0", 2, &["--max-tokens", "-1"]),
    ("qsf-run a.qsf -p hi -n ten", 2, &["ten", "a number of tokens"]),
    ("qsf-run a.qsf -p hi -s 18446744073709551615", 2, &["18446744073709551615", "2^53"]),
    ("qsf-run a.qsf -p hi --repeat-penalty 0", 2, &["--repeat-penalty is 0", "above 0"]),
    ("qsf-run a.qsf -p hi -c 0", 2, &["--ctx-size", "above 0", "without -c"]),
    ("qsf-run a.qsf -p hi -c 100000 -n 4", 2, &["100000", "512"]),
    ("qsf-run a.qsf -p hi -t 0", 2, &["--threads 0", "1 to"]),
    ("qsf-run a.qsf -p hi -t -1", 2, &["-1", "--threads"]),
    ("qsf-run a.qsf -p hi --ram-budget 1", 5, &["a.qsf", "1.0 MB", "is enough"]),
    ("qsf-run a.qsf -p hi --ram-budget 200000000", 2, &["200000000", "megabytes", "200000000B"]),
    ("qsf-run a.qsf -p hi --ram-budget lots", 2, &["lots", "24MB"]),
    ("qsf-convert demo-1m out.qsf --target-size 500000", 2, &["500000", "megabytes", "500000B"]),
    ("qsf-convert demo-1m out.qsf --ram 8", 5, &["--ram 8.00 MB", "bytes"]),
    ("qsf-convert demo-1m out.qsf --target-size 24XB", 2, &["24XB", "24MB"]),
    ("qsf-convert demo-1m out.qsf --block-size 48", 2, &["48", "64"]),
    ("qsf-convert demo-1m out.qsf --min-cosine 2", 2, &["'2'", "0.99"]),
    // Options.
    ("qsf-run a.qsf", 2, &["-p TEXT", "-i"]),
    ("qsf-run", 2, &["MODEL", "--help"]),
    ("qsf-eval a.qsf", 2, &["--file", "--help"]),
    ("qsf-inspect", 2, &["FILE", "--help"]),
    ("qsf-run a.qsf --promt hi", 2, &["--promt", "--prompt"]),
    ("qsf-run a.qsf hello", 2, &["hello", "-p TEXT"]),
    ("qsf-eval a.qsf text.txt", 2, &["text.txt", "-f FILE"]),
    ("qsf-run a.qsf -p hi -hf org/name", 2, &["-hf", "qsf-convert org/name"]),
    ("qsf-run a.qsf -p hi -f text.txt", 2, &["--prompt", "--file"]),
    ("qsf-run a.qsf -p hi --chat", 3, &["chat template"]),
    ("qsf-run a.qsf -p hi --device gpu --no-mmap", 2, &["--no-mmap", "--ram-budget"]),
    ("qsf-run a.qsf -p", 2, &["--prompt", "value"]),
    ("qsf-convert demo-1m a.qsf", 2, &["a.qsf", "exists", "--force"]),
    ("qsf-convert demo-1m nowhere/out.qsf", 3, &["nowhere"]),
    ("qsf-convert demo-1m folder", 2, &["folder", "a directory", "name a file"]),
    ("qsf-convert a.qsf out.qsf", 2, &["a.qsf", "8bit", "--allow-requantize"]),
    ("qsf-convert demo-1m out.qsf --calibration none.txt", 3, &["none.txt", "No such file"]),
    ("qsf-convert --batch none.jsonl --out-dir out", 3, &["none.jsonl", "No such file"]),
    ("qsf-inspect diff a.qsf", 2, &["B", "--help"]),
    ("qsf-inspect report a.qsf", 2, &["--output"]),
];

#[test]
fn every_mistake_is_answered_in_two_lines_with_the_mend() {
    assert!(MISTAKES.len() >= 60);
    let desk = Desk::new();
    let mut bad = Vec::new();
    for (line, code, says) in MISTAKES {
        let answer = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| desk.answer(line, *code)));
        match answer {
            Ok(answer) => {
                let missing: Vec<&&str> = says.iter().filter(|part| !answer.contains(**part)).collect();
                if !missing.is_empty() || !answer.starts_with("error: ") {
                    bad.push(format!("{line}: {missing:?} is not in: {answer}"));
                }
            }
            Err(_) => bad.push(format!("{line}: see above")),
        }
    }
    assert!(bad.is_empty(), "{} of {}:\n{}", bad.len(), MISTAKES.len(), bad.join("\n"));
}

#[test]
fn errors_are_json_where_results_are_and_stdout_stays_empty() {
    let desk = Desk::new();
    for (line, code, class, says) in [
        ("qsf-run pointer.gguf -p hi --json", 3, "bad_input", "git lfs pull"),
        ("qsf-convert demo-1m out.qsf --quant q4 --json", 2, "usage", "4bit"),
        ("qsf-eval a.qsf --json", 2, "usage", "--file"),
        ("qsf-run a.qsf -p hi --ram-budget 1 --json", 5, "out_of_space", "is enough"),
        ("qsf-inspect --json --verify a.gguf", 3, "bad_input", "no checksums"),
    ] {
        let call = line.split_whitespace();
        let (name, words): (Vec<&str>, Vec<&str>) = call.partition(|word| word.starts_with("qsf-"));
        let output = program(name[0]).dir(desk.path()).args(&words.join(" ")).run();
        assert_eq!(output.code, code, "{line}: {}", output.stderr);
        let document: Value = serde_json::from_str(output.stderr.lines().last().unwrap()).unwrap();
        assert_eq!(document["document"], "error", "{line}");
        assert_eq!((&document["class"], &document["exit_code"]), (&class.into(), &code.into()), "{line}");
        assert!(document["message"].as_str().unwrap().contains(says), "{line}: {document}");
        // A plain file's description is shown although it is not under checksums.
        assert!(output.stdout.is_empty() || line.contains("--verify"), "{line}: {}", output.stdout);
    }
}

#[test]
fn what_others_call_differently_is_understood() {
    let desk = Desk::new();
    let run = |args: &str| program("qsf-run").dir(desk.path()).args(args).run();
    let plain = run("a.qsf -p hi -n 4 --temp 0").ok().stdout;
    for args in [
        "-m a.qsf -p hi -n 4 --temp 0",
        "--model=a.qsf -prompt hi --n_predict 4 -temp 0",
        "a.qsf -p hi --predict 4 --temp 0",
    ] {
        assert_eq!(run(args).ok().stdout, plain, "{args}");
    }
    let layers = run("a.qsf -p hi -n 4 --temp 0 -ngl 99");
    assert_eq!((layers.code, &layers.stdout), (0, &plain), "{}", layers.stderr);
    assert!(layers.stderr.starts_with("note: -ngl 99: "), "{}", layers.stderr);
    // To the end of the context.
    let long = run("a.qsf --prompt-ids 1,2 -n -1 -c 16 --temp 0 --ignore-eos --json").json();
    assert_eq!(long["tokens"], 14);
    let any = run("a.qsf -p hi -n 1 -s -1 --json").json();
    assert!(any["seed"].as_u64().unwrap() < 1 << 53);
    let convert = |args: &str| program("qsf-convert").dir(desk.path()).args(args).run().ok();
    convert("-m demo-1m -o by-flag.qsf --outtype 8bit");
    convert("demo-1m by-old-flags.qsf -q 8bit -f");
    let [a, b, c] =
        ["a.qsf", "by-flag.qsf", "by-old-flags.qsf"].map(|name| fs::read(desk.path().join(name)).unwrap());
    assert!(a == b && a == c, "the same file by other names of the options");
    let eval = |args: &str| program("qsf-eval").dir(desk.path()).args(args).run().json()["ppl"].clone();
    let ctx = eval("a.qsf -f text.txt --ctx 64 --json");
    assert!(ctx.is_f64());
    assert_eq!(eval("a.qsf -f text.txt --ctx-size 64 --json"), ctx);
    assert_eq!(eval("-m a.qsf -f text.txt -c 64 --json"), ctx);
}

#[test]
fn a_text_may_come_from_a_pipe() {
    let desk = Desk::new();
    let text = fs::read_to_string(desk.path().join("text.txt")).unwrap();
    let eval = |args: &str| {
        program("qsf-eval").dir(desk.path()).args("a.qsf --ctx 64 --json --base demo-1m -f").args(args)
    };
    let of_file = eval("text.txt").run().json();
    for place in ["-", "/dev/stdin"].into_iter().filter(|place| *place == "-" || cfg!(unix)) {
        let of_pipe = eval(place).piped(&text).json();
        assert_eq!((&of_pipe["ppl"], &of_pipe["kld"]), (&of_file["ppl"], &of_file["kld"]), "{place}");
    }
    let run = |args: &str| program("qsf-run").dir(desk.path()).args("a.qsf -n 4 --temp 0 -f").args(args);
    fs::write(desk.path().join("once.txt"), "Once").unwrap();
    assert_eq!(run("-").piped("Once").ok().stdout, run("once.txt").run().ok().stdout);
}

#[test]
fn inspect_takes_sources_and_several_files() {
    let desk = Desk::new();
    let inspect = |args: &str| program("qsf-inspect").dir(desk.path()).args(args).run();
    let gguf = inspect("a.gguf --json --tensors").json();
    assert_eq!((&gguf["document"], &gguf["format"]), (&"source".into(), &"gguf".into()));
    let sum: u64 = gguf["types"].as_array().unwrap().iter().map(|one| one["tensors"].as_u64().unwrap()).sum();
    assert_eq!(sum as usize, gguf["tensors"].as_array().unwrap().len());
    let directory = inspect("demo-1m").ok().stdout;
    assert!(directory.contains("HuggingFace directory of 2.") && directory.contains("f16"), "{directory}");
    let all = inspect("--verify a.qsf cut.qsf a.gguf");
    assert_eq!(all.code, 3, "{}", all.stderr);
    let lines: Vec<&str> = all.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "a line for each: {}", all.stdout);
    assert!(lines[0].starts_with("a.qsf: verified, ") && lines[1].starts_with("cut.qsf: "), "{}", all.stdout);
    assert_eq!(all.stderr, "error: 2 of 3 files failed: the lines above say why\n");
    assert_eq!(inspect("--verify --allow-plain a.qsf a.gguf demo-1m").ok().stdout.lines().count(), 3);
}

#[test]
fn a_directory_of_the_hubs_cache_is_the_snapshot_that_main_names() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let cached = dir.path().join("models--org--tiny");
    fs::create_dir_all(cached.join("refs")).unwrap();
    fs::create_dir_all(cached.join("snapshots")).unwrap();
    copy(&model, &cached.join("snapshots/abc"));
    fs::write(cached.join("refs/main"), "abc").unwrap();
    program("qsf-convert").dir(dir.path()).args("models--org--tiny").run().ok();
    assert!(dir.path().join("tiny-n4.qsf").is_file(), "named by the model, not by the commit");
    let run = |model: &str| {
        program("qsf-run").dir(dir.path()).arg(model).args("-p hi -n 4 --temp 0").run().ok().stdout
    };
    assert_eq!(run("models--org--tiny"), run("demo-1m"));
}

#[test]
fn short_help_fits_a_screen_and_long_help_has_examples() {
    for name in ["qsf-convert", "qsf-eval", "qsf-inspect", "qsf-run"] {
        let short = program(name).arg("-h").run().ok().stdout;
        let lines = short.lines().count();
        assert!((10..=30).contains(&lines), "{name}: {lines} lines:\n{short}");
        assert!(short.lines().all(|line| line.chars().count() <= 80), "{name}:\n{short}");
        assert!(short.contains("--help") && short.contains("Examples:"), "{short}");
        let long = program(name).arg("--help").run().ok().stdout;
        assert!(long.contains("Examples:") && long.contains("Exit codes:"), "{long}");
        // An option that is in no group stands under the heading of the parser, where its own two are.
        let section = long.split("\nOptions:\n").nth(1).unwrap();
        let section = &section[..section.find(":\n").unwrap()];
        assert_eq!(section.matches("--").count(), 2, "{name}: {section}");
    }
}

#[test]
fn an_output_ends_before_a_stop_text_and_penalties_change_it() {
    let desk = Desk::new();
    let run = |args: &str| {
        program("qsf-run")
            .dir(desk.path())
            .args("a.qsf -p Once -n 24 --temp 0 --json")
            .args(args)
            .run()
            .json()
    };
    let whole = run("");
    let text = whole["text"].as_str().unwrap();
    let word = text.split_whitespace().nth(3).unwrap();
    let stopped = run(&format!("--stop {word}"));
    assert_eq!(stopped["stop_reason"], "stop_text");
    assert_eq!(stopped["text"].as_str().unwrap(), &text[..text.find(word).unwrap()]);
    assert_eq!(run("--repeat-penalty 1")["text"], text);
    for penalty in ["--repeat-penalty 1.5", "--presence-penalty 2", "--frequency-penalty 2"] {
        let ids = run(penalty)["token_ids"].clone();
        assert_ne!(ids, whole["token_ids"], "{penalty}");
        let distinct = |ids: &Value| {
            let mut ids: Vec<u64> = ids.as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
            ids.sort_unstable();
            ids.dedup();
            ids.len()
        };
        assert!(distinct(&ids) > distinct(&whole["token_ids"]), "{penalty} repeats less");
    }
}
