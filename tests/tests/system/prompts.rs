//! Many prompts at once: the texts are those that each prompt gets alone, in their order, and a run that was stopped goes on.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_tests::*;
use serde_json::{Value, json};

const PROMPTS: [&str; 7] = [
    "Once upon a time",
    "The king",
    "It was a dark",
    "She said:",
    "In the house there",
    "a",
    "Who \"knows\" é?",
];

struct Place {
    dir: tempfile::TempDir,
    model: PathBuf,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let (source, model) = (demo_model(dir.path()), dir.path().join("model.qsf"));
        program("qsf-convert").arg(&source).arg(&model).run().ok();
        let place = Place { dir, model };
        let lines: Vec<String> =
            PROMPTS.iter().map(|prompt| json!({ "prompt": prompt }).to_string()).collect();
        place.write("prompts.jsonl", &lines.join("\n"));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn call(&self, model: &Path, args: &str) -> Program {
        program("qsf-run").dir(self.dir.path()).arg(model).args(args)
    }

    fn run(&self, args: &str) -> Output {
        self.call(&self.model, &format!("--prompts prompts.jsonl -t 2 {args}")).run()
    }

    /// What a call of its own makes of each prompt, with the seed that its line draws with.
    fn alone(&self, model: &Path, args: &str, seed: usize) -> Vec<Value> {
        let call = |(line, prompt): (usize, &&str)| {
            self.call(model, &format!("-t 2 -q --json {args} --seed {} -p", seed + line)).arg(prompt)
        };
        PROMPTS.iter().enumerate().map(|prompt| call(prompt).run().json()).collect()
    }
}

fn results(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn assert_the_same(together: &[Value], alone: &[Value]) {
    assert_eq!((together.len(), alone.len()), (PROMPTS.len(), PROMPTS.len()));
    for (place, (one, other)) in together.iter().zip(alone).enumerate() {
        assert_eq!(one["prompt"], PROMPTS[place]);
        assert_eq!(one["line"], place + 1);
        for member in ["text", "tokens", "prompt_tokens", "stop_reason", "seed"] {
            assert_eq!(one[member], other[member], "{member} of {}", PROMPTS[place]);
        }
    }
}

#[test]
fn each_prompt_gets_the_text_that_it_gets_alone() {
    let place = Place::new();
    let source = place.path("demo-1m");
    for (model, args) in [
        (&place.model, "-n 20 --temp 0 --activations f32"),
        (&source, "-n 20 --temp 0"),
        (&place.model, "-n 20 --temp 0.9 --repeat-penalty 1.2"),
        (&place.model, "-n 40 --temp 0 --stop . --kv-type 8bit"),
        (&place.model, "-n 60 --temp 0 --ignore-eos --kv-window 24"),
        (&place.model, "-n 9 --temp 0 --ram-budget 60"),
    ] {
        let alone = place.alone(model, args, 4);
        for sequences in [1, 3, 64] {
            let args = format!("--prompts prompts.jsonl -t 2 --seed 4 --sequences {sequences} {args}");
            let output = place.call(model, &args).run();
            assert_eq!(output.code, 0, "{args}: {}", output.stderr);
            assert_the_same(&results(&output.stdout), &alone);
        }
    }
}

#[test]
fn prompts_go_through_the_chat_template() {
    let place = Place::new();
    place.write(
        "demo-1m/chat_template.jinja",
        "{%- for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{%- endfor %}",
    );
    let source = place.path("demo-1m");
    let args = "-n 9 --temp 0 --chat --system-prompt short";
    let together =
        place.call(&source, &format!("--prompts prompts.jsonl -t 2 -q --seed 0 {args}")).run().ok();
    assert_the_same(&results(&together.stdout), &place.alone(&source, args, 0));
}

#[test]
fn equal_prompts_draw_with_seeds_of_their_own() {
    let place = Place::new();
    let line = "{\"prompt\": \"Once upon a time\"}\n";
    let lines = [&line.repeat(4), "\n", "{\"prompt\": \"Once upon a time\", \"seed\": 5}"].concat();
    place.write("prompts.jsonl", &lines);
    let found = results(&place.run("-n 12 --temp 1.5 --seed 9007199254740990").ok().stdout);
    let seeds: Vec<u64> = found.iter().map(|line| line["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [(1 << 53) - 2, (1 << 53) - 1, 0, 1, 5]);
    let texts: std::collections::BTreeSet<&str> =
        found.iter().map(|line| line["text"].as_str().unwrap()).collect();
    assert_eq!(texts.len(), 5, "{texts:?}");
    let alone = place.call(&place.model, "-t 2 --json -n 12 --temp 1.5 --seed 5").arg("-p");
    assert_eq!(alone.arg("Once upon a time").run().json()["text"], found[4]["text"]);
    place.write("prompts.jsonl", "{\"prompt\": \"a\", \"seed\": 9007199254740992}");
    assert_eq!(place.run("-n 1").code, 3);
}

#[test]
fn results_of_another_seed_are_not_mixed_with_those_of_a_run() {
    let place = Place::new();
    let out = place.path("out.jsonl");
    let args = |seed: &str| format!("-n 6 --temp 1.2 {seed} --results out.jsonl");
    place.run(&args("")).ok();
    let whole = fs::read_to_string(&out).unwrap();
    let seed = results(&whole)[0]["seed"].as_u64().unwrap();
    // Without a seed the rest is drawn as the beginning was.
    let second = whole.match_indices('\n').nth(1).unwrap().0 + 1;
    for given in [String::new(), "--seed -1".into(), format!("--seed {seed}")] {
        fs::write(&out, &whole.as_bytes()[..second + 70]).unwrap();
        place.run(&args(&given)).ok();
        assert_eq!(fs::read_to_string(&out).unwrap(), whole, "{given}");
    }
    let begun = &whole[..second + 70];
    fs::write(&out, begun).unwrap();
    let output = place.run(&args("--seed 3"));
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("line 1 has the seed"), "{}", output.stderr);
    assert_eq!(fs::read_to_string(&out).unwrap(), begun);
}

#[test]
fn a_run_that_was_stopped_goes_on_with_the_same_lines() {
    let place = Place::new();
    let ids = [json!("a"), json!(2), json!([3])];
    let lines =
        PROMPTS.iter().zip(ids.iter().cycle()).map(|(prompt, id)| json!({"id": id, "prompt": prompt}));
    place.write("prompts.jsonl", &lines.map(|line| format!("{line}\n\n")).collect::<String>());
    let whole = place.run("-n 9 --temp 0.5 --seed 1").ok().stdout;
    let found = results(&whole);
    assert_eq!((&found[1]["id"], &found[1]["line"], &found[1]["seed"]), (&json!(2), &json!(3), &json!(3)));
    let run = || place.run("-n 9 --temp 0.5 --seed 1 --results out.jsonl");
    let out = place.path("out.jsonl");
    let third = whole.match_indices('\n').nth(2).unwrap().0 + 1;
    let in_a_character = whole.find('é').unwrap() + 1;
    for left in [0, third, third + 60, third + 140, in_a_character, whole.len() - 1, whole.len()] {
        fs::write(&out, &whole.as_bytes()[..left]).unwrap();
        assert_eq!(run().ok().stdout, "");
        assert_eq!(fs::read_to_string(&out).unwrap(), whole, "{left}");
    }
    // A line that is there is not made again.
    let other = whole.replacen("\"text\":\"", "\"text\":\"other ", 1);
    fs::write(&out, &other[..third + 6]).unwrap();
    run().ok();
    assert_eq!(fs::read_to_string(&out).unwrap(), other);
}

#[test]
fn files_of_something_else_stay_as_they_are() {
    let place = Place::new();
    let prompts = fs::read_to_string(place.path("prompts.jsonl")).unwrap();
    let whole = place.run("-n 3 --temp 0").ok().stdout;
    let swapped = whole.replace("\"line\":1,", "\"line\":2,");
    let more = format!("{whole}{}\n", whole.lines().last().unwrap());
    let begins_alike = "{\"document\":\"prompt_result\",\"schema\":1,\"line\":1,\"prompt\":\"On\"";
    for foreign in ["{\"a\": 1", "{\"", "text", "text\n", "\n", &prompts, &swapped, &more, begins_alike] {
        place.write("out.jsonl", foreign);
        let output = place.run("-n 3 --temp 0 --results out.jsonl");
        assert_eq!(output.code, 3, "{foreign}: {}", output.stderr);
        assert!(output.stderr.contains("out.jsonl: line "), "{}", output.stderr);
        assert_eq!(fs::read_to_string(place.path("out.jsonl")).unwrap(), foreign);
    }
    fs::write(place.path("out.jsonl"), b"\xff\xfe\x00").unwrap();
    assert_eq!(place.run("--results out.jsonl").code, 3);
    let itself = place.run("-n 3 --results prompts.jsonl");
    assert_eq!(itself.code, 2, "{}", itself.stderr);
    assert_eq!(fs::read_to_string(place.path("prompts.jsonl")).unwrap(), prompts);
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_written() {
    let place = Place::new();
    let too_long = json!({ "prompt": "word ".repeat(2000) }).to_string();
    for (lines, place_of_it) in [
        ("", "a prompt in each line"),
        ("\n\n", "a prompt in each line"),
        ("{\"prompt\": \"a\"}\n{\"prompt\": \"\"}", "line 2"),
        ("{\"prompt\": \"a\"}\n\n{\"text\": \"a\"}", "line 3"),
        ("{\"prompt\": \"a\", \"max_tokens\": 3}", "line 1"),
        ("{\"prompt\": 5}", "line 1"),
        ("Once upon a time", "line 1"),
    ] {
        place.write("prompts.jsonl", lines);
        let output = place.run("--results out.jsonl");
        assert_eq!(output.code, 3, "{lines}: {}", output.stderr);
        assert!(output.stderr.contains(place_of_it), "{lines}: {}", output.stderr);
    }
    place.write("prompts.jsonl", &format!("{{\"prompt\": \"a\"}}\n{too_long}"));
    let output = place.run("--results out.jsonl");
    assert_eq!(output.code, 2, "{}", output.stderr);
    place.write("prompts.jsonl", "{\"prompt\": \"a\"}");
    for args in [
        "--sequences 0",
        "--sequences 2,3",
        "-p a",
        "--json",
        "-i",
        "--tokenize",
        "--bench",
        "-n 5000",
        "--prompt-ids 1",
    ] {
        let output = place.run(&format!("{args} --results out.jsonl"));
        assert_eq!(output.code, 2, "{args}: {}", output.stderr);
    }
    for args in ["--results out.jsonl -p a", "--sequences 3 -p a"] {
        assert_eq!(place.call(&place.model, args).run().code, 2, "{args}");
    }
    assert_eq!(place.run("--results none/out.jsonl").code, 3);
    assert!(!place.path("out.jsonl").exists());
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_keeps_its_lines() {
    let place = Place::new();
    let prompts: Vec<String> = (0..40).map(|n| json!({"prompt": format!("Day {n}")}).to_string()).collect();
    place.write("prompts.jsonl", &prompts.join("\n"));
    let args = "--prompts prompts.jsonl -n 200 --temp 0 --ignore-eos -t 1 --sequences 1 --results out.jsonl";
    let call = || place.call(&place.model, args);
    let mut child = call().env("QSF_CPU", "scalar").start();
    let started = std::time::Instant::now();
    let out = place.path("out.jsonl");
    while fs::read_to_string(&out).unwrap_or_default().lines().count() < 2 {
        assert!(started.elapsed().as_secs() < 120 && child.try_wait().unwrap().is_none());
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", "INT", &pid]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let left = fs::read_to_string(&out).unwrap();
    assert!(left.lines().count() < 40 && left.ends_with('\n'), "{left}");
    call().run().ok();
    let whole = fs::read_to_string(&out).unwrap();
    assert!(whole.starts_with(&left) && whole.lines().count() == 40);
}
