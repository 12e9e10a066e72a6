//! Conversations: a calibration text of them, and an answer to one, in the form that the model's own template gives them.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_runtime::Tokenizer;
use qsf_runtime::file_hash::sha256;
use qsf_tests::*;
use serde_json::{Value, json};

const TEMPLATE: &str = "{%- for m in messages %}
    {%- if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('who is ' + m.role + '?') }}{% endif %}
    {{- '<|endoftext|>' + m.role.upper() + ': ' + m.content.strip() + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}";
const RENDERED: &str =
    "<|endoftext|>USER: What grows here?\n<|endoftext|>ASSISTANT: Trees, and under them more trees.\n";

/// The embedded model with a chat template.
fn chat_model(dir: &Path) -> PathBuf {
    let model = demo_model(dir);
    fs::write(model.join("chat_template.jinja"), TEMPLATE).unwrap();
    model
}

fn conversation(roles: [&str; 2]) -> String {
    let messages = json!([
        {"role": roles[0], "content": " What grows here? "},
        {"role": roles[1], "content": [{"type": "text", "text": "Trees, and under them more trees."}]},
    ]);
    format!("{}\n", json!({ "messages": messages }))
}

fn tokens(model: &Path, text: &str) -> Vec<u32> {
    let json = fs::read(model.join("tokenizer.json")).unwrap();
    Tokenizer::from_json(&json, model).unwrap().encode_plain(text).unwrap()
}

fn calibrated(model: &Path, out: &Path, text: &Path, args: &str) -> Program {
    program("qsf-convert")
        .arg(model)
        .arg(out)
        .arg("--calibration")
        .arg(text)
        .args("-q 8bit --json")
        .args(args)
}

#[test]
fn a_calibration_text_of_conversations_goes_through_the_models_template_on_request() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let text = dir.path().join("chat.jsonl");
    fs::write(&text, conversation(["user", "assistant"])).unwrap();
    let recorded = |out: &Path| {
        let json = program("qsf-inspect").arg(out).arg("--json").run().json();
        json.pointer("/provenance/options/calibration").unwrap().clone()
    };
    let (plain, chat) = (dir.path().join("plain.qsf"), dir.path().join("chat.qsf"));
    calibrated(&model, &plain, &text, "").run().json();
    calibrated(&model, &chat, &text, "--chat-template").run().json();
    let (plain, chat) = (recorded(&plain), recorded(&chat));
    assert_eq!(chat["tokens"], tokens(&model, RENDERED).len());
    assert_eq!((&plain["chat_template"], &chat["chat_template"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_ne!(plain["tokens"], chat["tokens"], "the template changed nothing");
    let of_file = sha256(&fs::read(&text).unwrap());
    assert_eq!((&plain["text_sha256"], &chat["text_sha256"]), (&json!(of_file), &json!(of_file)));
}

#[test]
fn a_template_gets_the_tools_and_calls_of_a_calibration_text() {
    const WITH_TOOLS: &str = "{%- if tools %}{{ 'TOOLS: ' + (tools | tojson) + '\\n' }}{% endif %}
        {%- for m in messages %}
            {{- m.role.upper() + ': ' }}
            {%- if m.content is not none %}{{ m.content }}{% endif %}
            {%- for call in m.tool_calls or [] %}{{ call.name + ' ' + (call.arguments | tojson) }}{% endfor %}
            {{- '\\n' }}
        {%- endfor %}";
    const RENDERED: &str = "TOOLS: [{\"name\": \"weather\", \"about\": \"Tells the weather\"}]\nUSER: Does it rain?\n\
                            ASSISTANT: weather {\"place\": \"Oslo\", \"day\": 2}\nTOOL: yes\n";
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    fs::write(model.join("chat_template.jinja"), WITH_TOOLS).unwrap();
    let messages = r#"[{"role": "user", "content": "Does it rain?"}, {"role": "assistant", "content": null, "tool_calls":
        [{"name": "weather", "arguments": {"place": "Oslo", "day": 2}}]}, {"role": "tool", "content": "yes"}]"#
        .replace('\n', " ");
    let tools = r#"[{"name": "weather", "about": "Tells the weather"}]"#;
    let (with, without) = (dir.path().join("with.jsonl"), dir.path().join("without.jsonl"));
    fs::write(&with, format!("{{\"messages\": {messages}, \"tools\": {tools}}}\n")).unwrap();
    fs::write(&without, format!("{{\"messages\": {messages}}}\n")).unwrap();
    let call = |text: &Path, args: &str| {
        let output = calibrated(&model, &dir.path().join("out.qsf"), text, args).arg("--force").run();
        assert_eq!(output.code, 0, "{}", output.stderr);
        let json: Value = serde_json::from_str(&output.stdout).unwrap();
        (json["calibration"]["parts"][0]["tokens"].as_u64().unwrap() as usize, output.stderr)
    };
    let count = |text: &str| tokens(&model, text).len();
    let (tokens, notes) = call(&with, "--chat-template");
    assert_eq!(tokens, count(RENDERED));
    assert!(!notes.contains("left out"), "{notes}");
    assert_eq!(call(&without, "--chat-template").0, count(RENDERED.split_once('\n').unwrap().1));
    let (plain, notes) = call(&with, "");
    assert!(plain < count(RENDERED), "{plain}");
    assert!(notes.contains("left out of conversations: tool_calls, tools"), "{notes}");
}

#[test]
fn a_template_is_told_the_date_of_today_or_the_one_that_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    fs::write(model.join("chat_template.jinja"), "{{ strftime_now('%d %B %Y') }}").unwrap();
    let call = |args: &str| program("qsf-run").arg(&model).args("-n 1 --temp 0 -p a").args(args);
    let ids = |args: &str| call(args).args("--json").run().json()["prompt_token_ids"].clone();
    assert_eq!(ids("--chat --date 2031-02-03"), json!(tokens(&model, "03 February 2031")));
    assert_ne!(ids("--chat"), json!(tokens(&model, "26 July 2024")));
    for (args, part) in [
        ("--chat --date 2031-02-30", "no day 2031-02-30"),
        ("--chat --date today", "YYYY-MM-DD"),
        ("--date 2031-02-03", "--chat"),
    ] {
        refused(args, dir.path(), call(args), 2, &[part]);
    }
}

#[test]
fn the_token_that_ends_a_text_by_the_tokenizers_files_ends_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = dir.path().join("model.qsf");
    let answer = |model: &Path| {
        program("qsf-run").arg(model).args("-p Once --temp 0 -n 12 --activations f32 --json").run().json()
    };
    let found = answer(&model);
    assert_eq!(found["stop_reason"], "max_tokens", "{found}");
    let ids: Vec<u32> = serde_json::from_value(found["token_ids"].clone()).unwrap();
    let end = (2..ids.len()).find(|&at| !ids[..at].contains(&ids[at])).unwrap();
    let json = fs::read(model.join("tokenizer.json")).unwrap();
    let text = Tokenizer::from_json(&json, &model).unwrap().token_text(ids[end]).unwrap();
    fs::write(model.join("tokenizer_config.json"), json!({ "eos_token": text }).to_string()).unwrap();
    program("qsf-convert").arg(&model).arg(&file).args("-q f32").run().ok();
    for path in [&model, &file] {
        let ended = answer(path);
        assert_eq!(
            (&ended["stop_reason"], &ended["tokens"]),
            (&json!("stop_token"), &json!(end)),
            "{path:?}"
        );
    }
}

#[test]
fn what_a_template_cannot_take_is_refused_with_file_and_document() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let text = dir.path().join("chat.jsonl");
    let call =
        |model: &Path, text: &Path| calibrated(model, &dir.path().join("no.qsf"), text, "--chat-template");
    fs::write(&text, conversation(["user", "assistant"]) + &conversation(["user", "parrot"])).unwrap();
    let parts = ["chat.jsonl", "line 2", "who is parrot?"];
    refused("role", dir.path(), call(&model, &text), 3, &parts);
    fs::write(&text, "{\"text\": \"abc\"}\n").unwrap();
    refused("no conversation", dir.path(), call(&model, &text), 2, &["--chat-template", "messages"]);
    let bare = program("qsf-convert").arg(&model).arg(dir.path().join("no.qsf")).arg("--chat-template");
    refused("no text", dir.path(), bare, 2, &["--calibration"]);
    fs::write(model.join("chat_template.jinja"), "a\n{% for %}").unwrap();
    refused("no Jinja", dir.path(), call(&model, &text), 3, &["chat template, line 2"]);
    fs::remove_file(model.join("chat_template.jinja")).unwrap();
    refused("no template", dir.path(), call(&model, &text), 3, &["chat template", "none"]);
    let run = program("qsf-run").arg(&model).args("--chat -p Hello -n 1");
    refused("no template to answer with", dir.path(), run, 3, &["chat template", "none"]);
}

#[test]
fn an_answer_continues_the_rendered_conversation_and_only_it_is_printed() {
    let dir = tempfile::tempdir().unwrap();
    let model = chat_model(dir.path());
    let file = dir.path().join("model.qsf");
    program("qsf-convert").arg(&model).arg(&file).run().ok();
    let prompt = "<|endoftext|>SYSTEM: Be short.\n<|endoftext|>USER: Hello there\nASSISTANT:";
    for model_path in [&model, &file] {
        let call = || {
            program("qsf-run").arg(model_path).args("--chat --temp 0 -n 12 --system-prompt").arg("Be short.")
        };
        let json = call().arg("-p").arg("Hello there").arg("--json").run().json();
        assert_eq!(json["prompt_token_ids"], json!(tokens(&model, prompt)));
        let ids: Vec<String> = tokens(&model, prompt).iter().map(u32::to_string).collect();
        let same = program("qsf-run").arg(model_path).args("--temp 0 -n 12 --json --prompt-ids");
        assert_eq!(json["token_ids"], same.arg(ids.join(",")).run().json()["token_ids"]);
        let said = call().arg("-p").arg("Hello there").run().ok().stdout;
        assert_eq!(said, format!("{}\n", json["text"].as_str().unwrap()));
    }
    let call = program("qsf-run").arg(&file).args("--prompt-ids 1,2 --chat");
    refused("ids", dir.path(), call, 2, &["--chat"]);
    let call = program("qsf-run").arg(&file).args("-p Hello --system-prompt Short");
    refused("no --chat", dir.path(), call, 2, &["--chat"]);
}
