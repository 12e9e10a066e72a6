//! Turns from stdin: each is answered as a call of its own would answer the whole conversation, and nothing is run twice.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_runtime::Tokenizer;
use qsf_tests::*;
use serde_json::Value;

const TEMPLATE: &str =
    "{%- for m in messages %}{{ '<|endoftext|>' + m.role + ': ' + m.content + '\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant:' }}{% endif %}";

/// The embedded model, with a chat template or without, as a file.
fn model(dir: &Path, template: bool) -> PathBuf {
    let (model, out) = (demo_model(dir), dir.join("model.qsf"));
    if template {
        fs::write(model.join("chat_template.jinja"), TEMPLATE).unwrap();
    }
    program("qsf-convert").arg(&model).arg(&out).run().ok();
    out
}

/// By activations that give the same in steps of any number of tokens.
fn interactive(model: &Path, args: &str, input: &str) -> Output {
    program("qsf-run").arg(model).args("-i --temp 0 -n 9 --activations int8").args(args).input(input).run()
}

fn tokens(dir: &Path, text: &str) -> Vec<u32> {
    let json = fs::read(dir.join("demo-1m/tokenizer.json")).unwrap();
    Tokenizer::from_json(&json, dir).unwrap().encode_plain(text).unwrap()
}

/// What a call of its own generates behind these tokens.
fn answer(model: &Path, prompt: &[u32]) -> Value {
    let ids: Vec<String> = prompt.iter().map(u32::to_string).collect();
    let call = program("qsf-run")
        .arg(model)
        .args("--temp 0 -n 9 --json --activations int8 --prompt-ids")
        .arg(ids.join(","));
    call.run().json()["token_ids"].clone()
}

#[test]
fn every_answer_is_that_of_the_whole_conversation_and_only_its_new_tokens_are_run() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path(), true);
    let said = ["What grows here?", "And under them?", "Who lives there?"];
    let input = said.join("\n") + "\n";
    let json = interactive(&model, "--json --system-prompt short", &input).json();
    let turns = json["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 3);
    let mut text = "<|endoftext|>system: short\n".to_owned();
    for (turn, said) in turns.iter().zip(said) {
        assert_eq!(turn["user"], said);
        text += &format!("<|endoftext|>user: {said}\nassistant:");
        let prompt = tokens(dir.path(), &text);
        assert_eq!(turn["prompt_tokens"], prompt.len());
        assert_eq!(turn["token_ids"], answer(&model, &prompt), "{said}");
        text.truncate(text.len() - "assistant:".len());
        text += &format!("<|endoftext|>assistant: {}\n", turn["text"].as_str().unwrap());
    }
    assert_eq!(turns[0]["prompt_tokens_run"], turns[0]["prompt_tokens"]);
    for turn in &turns[1..] {
        let (run, all) =
            (turn["prompt_tokens_run"].as_u64().unwrap(), turn["prompt_tokens"].as_u64().unwrap());
        assert!(run + 10 < all, "{run} of {all} tokens are run, and the system prompt was known");
    }
    let plain = interactive(&model, "--system-prompt short", &input).ok().stdout;
    let answers: String = turns.iter().map(|turn| format!("{}\n", turn["text"].as_str().unwrap())).collect();
    assert_eq!(plain, answers, "nothing but the answers goes to a pipe");
}

#[test]
fn without_a_template_the_text_goes_on_and_the_cache_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path(), false);
    let json = interactive(&model, "--json -p Once", "and then\n\n").json();
    let turns = json["turns"].as_array().unwrap();
    let said: Vec<&str> = turns.iter().map(|turn| turn["user"].as_str().unwrap()).collect();
    assert_eq!(said, ["Once", "and then", ""]);
    let mut all = tokens(dir.path(), "Once");
    for (turn, said) in turns.iter().zip(["", "\nand then", ""]) {
        let new = if said.is_empty() { Vec::new() } else { tokens(dir.path(), said) };
        all.extend(&new);
        assert_eq!(turn["token_ids"], answer(&model, &all), "{said}");
        let generated = turn["token_ids"].as_array().unwrap();
        all.extend(generated.iter().map(|id| id.as_u64().unwrap() as u32));
    }
    // The last token of an answer was not run yet.
    assert_eq!(turns[1]["prompt_tokens_run"], 1 + tokens(dir.path(), "\nand then").len());
    assert_eq!(turns[2]["prompt_tokens_run"], 1);
}

#[test]
fn a_full_context_forgets_the_oldest_turns_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    for template in [true, false] {
        let model = model(dir.path(), template);
        let input = "What grows here in the woods?\n".repeat(8);
        let output = interactive(&model, "-c 64", &input);
        assert_eq!(output.code, 0, "{}", output.stderr);
        // Said once, although it happens at several turns.
        assert_eq!(output.stderr.matches("forgotten").count(), 1, "{}", output.stderr);
        let long = "word ".repeat(100) + "\n";
        let output = interactive(&model, "-c 64", &long);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains("context of 64 tokens"), "{}", output.stderr);
        fs::remove_file(&model).unwrap();
    }
}

#[test]
fn what_cannot_be_a_conversation_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path(), false);
    assert_eq!(interactive(&model, "", "").ok().stdout, "", "an empty input is no turn");
    let call = |args: &str| program("qsf-run").arg(&model).args(args);
    refused("system", dir.path(), call("-i --system-prompt short"), 2, &["chat template"]);
    for args in ["-i --chat -p Hello", "-i --prompt-ids 1", "-i --bench", "-i --tokenize -p a", "-i -n 0"] {
        refused(args, dir.path(), call(args), 2, &[]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn at_a_terminal_lines_are_edited_and_commands_are_obeyed() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path(), false);
    let call = program("qsf-run").arg(&model).args("-i --temp 0 -n 4").dir(dir.path());
    let mut chat = call.at_a_terminal();
    chat.sees("is a base model, which continues the text");
    chat.sees("> ");
    chat.enter("/sing");
    chat.sees("there is no command /sing: /help shows all");
    chat.enter("/help");
    chat.sees("/regen");
    chat.enter("/regen");
    chat.sees("there is no answer to give again");
    // The x is taken back before the line is entered.
    chat.enter("Oncex\u{7f}");
    chat.sees("Oncex");
    chat.sees("> ");
    chat.enter("/save chat.txt");
    chat.sees("chat.txt: written");
    chat.enter("/save chat.txt");
    chat.sees("the file exists; choose another name");
    chat.enter("/regen");
    // What it echoes, and then the prompt behind the answer: before that nothing is read.
    chat.sees("/regen");
    chat.sees("> ");
    chat.enter("/save again.jsonl");
    chat.sees("again.jsonl: written");
    chat.enter("/clear");
    chat.sees("the conversation is forgotten");
    chat.enter("/save empty.jsonl");
    chat.sees("empty.jsonl: written");
    chat.enter("/exit");
    assert_eq!(chat.ends(), 0);
    let saved = fs::read_to_string(dir.path().join("chat.txt")).unwrap();
    let answer = program("qsf-run").arg(&model).args("-i --temp 0 -n 4").input("Once\n").run().ok().stdout;
    assert_eq!(saved, format!("user: Once\n\nassistant: {}\n\n", answer.trim()));
    let read = |name: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(dir.path().join(name)).unwrap()).unwrap()
    };
    let again = read("again.jsonl");
    assert_eq!(again["messages"].as_array().unwrap().len(), 2, "an answer that was given again counts once");
    // At temperature 0 it is the same.
    assert_eq!(again["messages"][1]["content"].as_str().unwrap().trim(), answer.trim());
    assert_eq!(read("empty.jsonl")["messages"].as_array().unwrap().len(), 0);
}

#[cfg(unix)]
#[test]
fn an_interrupt_stops_the_answer_and_at_the_prompt_the_program() {
    use std::io::{Read as _, Write as _};
    use std::process::Command;

    let dir = tempfile::tempdir().unwrap();
    // An answer takes seconds, if nothing stops it.
    let source = dir.path().join("slow");
    write_llama(&source, Size { layers: 4, hidden: 512, ffn: 2048, vocab: 2048 }, 1);
    fs::copy(demo_model(dir.path()).join("tokenizer.json"), source.join("tokenizer.json")).unwrap();
    let call = || {
        let call = program("qsf-run").arg(&source).args("-i -t 1 -n 48 -c 64 --temp 0");
        call.env("QSF_CPU", "scalar")
    };
    let whole = call().input("Once\n").run().ok().stdout;
    let mut child = call().start_talking();
    let (mut input, mut output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let pid = child.id().to_string();
    let interrupt = || {
        let sent = Command::new("kill").args(["-s", "INT", &pid]).status().unwrap();
        assert!(sent.success());
    };
    input.write_all(b"Once\n").unwrap();
    let mut answer = vec![0];
    output.read_exact(&mut answer).unwrap();
    interrupt();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(child.try_wait().unwrap(), None, "the program ended with the answer");
    interrupt();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    output.read_to_end(&mut answer).unwrap();
    assert!(
        answer.len() < whole.len() && answer.ends_with(b"\n"),
        "{} of {} bytes",
        answer.len(),
        whole.len()
    );
}
