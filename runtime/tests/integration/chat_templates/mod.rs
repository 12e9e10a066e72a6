//! Templates in the style of those of real models, against what jinja2 makes of them (scripts/make_chat_fixtures.py).

use std::path::Path;

use qsf_runtime::{ChatTemplate, Message, RawMessages, Result};
use serde::Deserialize;
use serde_json::value::RawValue;

const TEMPLATES: [(&str, &str); 11] = [
    ("chatml.jinja", include_str!("fixtures/chatml.jinja")),
    ("gemma.jinja", include_str!("fixtures/gemma.jinja")),
    ("gemma3.jinja", include_str!("fixtures/gemma3.jinja")),
    ("llama3.jinja", include_str!("fixtures/llama3.jinja")),
    ("mistral.jinja", include_str!("fixtures/mistral.jinja")),
    ("phi3.jinja", include_str!("fixtures/phi3.jinja")),
    ("python.jinja", include_str!("fixtures/python.jinja")),
    ("qwen3.jinja", include_str!("fixtures/qwen3.jinja")),
    ("smollm3.jinja", include_str!("fixtures/smollm3.jinja")),
    ("tools.jinja", include_str!("fixtures/tools.jinja")),
    ("zephyr.jinja", include_str!("fixtures/zephyr.jinja")),
];

#[derive(Deserialize)]
struct Case {
    template: String,
    conversation: String,
    messages: Box<RawValue>,
    tools: Option<Box<RawValue>>,
    add_generation_prompt: bool,
    text: Option<String>,
    error: Option<String>,
}

fn template(text: &str) -> Result<ChatTemplate> {
    ChatTemplate::new(text.as_bytes(), Path::new("model"), Some("<s>".into()), Some("</s>".into()))
}

/// What `text` makes of one message.
fn rendered(text: &str) -> Result<String> {
    template(text)?.render(&[Message::new("user", "hi")], true)
}

fn error_of(text: &str) -> String {
    rendered(text).unwrap_err().to_string()
}

#[test]
fn conversations_become_the_text_that_transformers_makes_of_them() {
    let cases: Vec<Case> = serde_json::from_str(include_str!("fixtures/expected.json")).unwrap();
    assert_eq!(cases.len(), TEMPLATES.len() * 12 + 4);
    for case in cases {
        let (name, text) = TEMPLATES.iter().find(|(name, _)| *name == case.template).unwrap();
        let (template, raw) = (
            template(text).unwrap(),
            RawMessages { messages: case.messages.get(), tools: case.tools.as_deref().map(RawValue::get) },
        );
        let found = template.render_raw(raw, case.add_generation_prompt);
        // Plain messages are the same either way.
        if let (None, Ok(messages)) = (&case.tools, serde_json::from_str::<Vec<Message>>(raw.messages)) {
            let plain = template.render(&messages, case.add_generation_prompt);
            assert_eq!(format!("{plain:?}"), format!("{found:?}"));
        }
        let what = format!("{name}: {}", case.conversation);
        match (found, case.text, case.error) {
            (Ok(found), Some(expected), None) => assert_eq!(found, expected, "{what}"),
            (Err(found), None, Some(expected)) => {
                let found = found.to_string();
                assert!(
                    found.contains(&expected) && found.contains("model: the chat template, line"),
                    "{what}: {found}"
                );
            }
            (found, expected, error) => panic!("{what}: {found:?} instead of {expected:?} {error:?}"),
        }
    }
}

#[test]
fn what_is_no_conversation_is_refused_by_its_number() {
    let template = template("{{ messages[0].content }}").unwrap();
    let refused =
        |messages, tools| template.render_raw(RawMessages { messages, tools }, true).unwrap_err().to_string();
    for (messages, expected) in [
        (r#"[{"role": "user", "content": "a"}, {"content": "b"}]"#, "message 1 has no \"role\""),
        (r#"[{"role": 3, "content": "a"}]"#, "message 0 has no \"role\" that is a text"),
        (r#"[{"role": "user"}]"#, "message 0 has neither"),
        (r#"{"role": "user", "content": "a"}"#, "messages: "),
        (r#"["a"]"#, "expected a list of objects"),
        ("[", "messages: "),
    ] {
        let found = refused(messages, None);
        assert!(found.contains(expected), "{messages}: {found}");
    }
    let nested = format!("[{{\"role\": \"user\", \"content\": {}{}}}]", "[".repeat(500), "]".repeat(500));
    assert!(refused(&nested, None).contains("recursion"), "{nested}");
    let found = refused(r#"[{"role": "user", "content": "a"}]"#, Some("[1]"));
    assert!(found.contains("tools: "), "{found}");
}

#[test]
fn what_is_wrong_with_a_template_is_told_with_its_line() {
    for (text, parts) in [
        ("a\n{% if %}", ["line 2", "expected Jinja"]),
        ("{{ messages", ["line 1", "Jinja"]),
        ("\n\n{{ nothing.at.all }}", ["line 3", "undefined"]),
        ("{{ today() }}", ["line 1", "today is unknown"]),
        ("\n{{ messages[0].shout() }}", ["line 2", "shout"]),
        ("{{ 1 | no_filter }}", ["line 1", "no_filter is unknown"]),
        ("{{ strftime_now('%c') }}", ["line 1", "%c is not supported"]),
        ("{{ 1 | tojson(indent=99999999999) }}", ["line 1", "an indent of 99999999999"]),
        ("{% include 'etc/passwd' %}", ["line 1", "include"]),
    ] {
        let error = error_of(text);
        assert!(parts.iter().all(|part| error.contains(part)), "{text}: {error}");
    }
    let error = ChatTemplate::new(b"a\xff", Path::new("model"), None, None).unwrap_err().to_string();
    assert!(error.contains("UTF-8"), "{error}");
}

#[test]
fn a_template_that_never_ends_or_never_stops_talking_is_stopped() {
    let endless = "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}";
    assert!(error_of(endless).contains("more than 20000000 steps"));
    let loud = format!("{{% for a in range(90000) %}}{}{{% endfor %}}", "x".repeat(2000));
    assert!(error_of(&loud).contains("bytes of text"));
    let recursive = "{% macro f(x) %}{{ f(x) }}{% endmacro %}{{ f(1) }}";
    assert!(error_of(recursive).contains("recursion limit"));
    assert!(error_of(&"{% if true %}".repeat(2000)).contains("Jinja"));
    assert!(error_of(&format!("{{{{ {}1{} }}}}", "(".repeat(9000), ")".repeat(9000))).contains("Jinja"));
    for operator in ["-", "not ", "[", ".a", "|upper", "~'a'", "+1", " if a else "] {
        let error = error_of(&format!("\n{{{{ 1{} }}}}", operator.repeat(50_000)));
        assert!(error.contains("line 2") && error.contains("too deeply"), "{operator}: {error}");
    }
    // As deep as is allowed, in a thread of its own: neither the parser nor what drops its trees takes all of the stack.
    for operator in ["-", "not ", "-", ".a", "|upper", "~'a'", "+1", "[0]"] {
        let (before, after) = if matches!(operator, "-" | "not ") { (operator, "") } else { ("", operator) };
        let times = 1900 / operator.trim().len().clamp(1, 3);
        let _ = rendered(&format!("{{{{ {}1{} }}}}", before.repeat(times), after.repeat(times)));
    }
    assert!(error_of(&format!("{{% if 0 %}}{}", "{% elif 0 %}".repeat(50_000))).contains("too deeply"));
    assert!(error_of(&" ".repeat((1 << 20) + 1)).contains("at most 1048576 bytes"));
    assert!(error_of("{{ 'a' | indent(9999999999999999999) }}").contains("template"));
}

#[test]
fn tokens_that_a_model_lacks_print_as_nothing() {
    let template = ChatTemplate::new(b"[{{ bos_token }}{{ eos_token }}]", Path::new("model"), None, None);
    assert_eq!(template.unwrap().render(&[], false).unwrap(), "[]");
    assert_eq!(rendered("{{ bos_token }}{{ eos_token }}").unwrap(), "<s></s>");
}

#[test]
fn marks_of_training_are_only_left_out_where_they_are_tags() {
    assert_eq!(rendered("a {%- generation -%} b {%+ endgeneration %} c").unwrap(), "ab  c");
    assert_eq!(rendered("generation {{ 'endgeneration' }}").unwrap(), "generation endgeneration");
}

/// The expected texts are what jinja2 3.1.6 makes of them, set up as scripts/make_chat_fixtures.py does.
#[test]
fn tests_filters_and_methods_are_those_of_jinja2_and_python() {
    for (text, expected) in [
        (r#"{% if tools is iterable and tools | length > 0 %}tools{% else %}none{% endif %}"#, "none"),
        (
            r#"{{ none is iterable }} {{ 3 is iterable }} {{ true is iterable }} {{ 1.5 is iterable }} {{ missing is iterable }} {{ 'a' is iterable }} {{ [] is iterable }} {{ {} is iterable }}"#,
            "False False False False True True True True",
        ),
        (
            r#"{{ 'a' is sequence }} {{ {} is sequence }} {{ [1] is sequence }} {{ (1, 2) is sequence }} {{ none is sequence }} {{ 3 is sequence }} {{ missing is sequence }}"#,
            "True True True True False False True",
        ),
        (
            r#"{{ missing | length }} {{ missing | count }} {{ 'äb' | length }} {{ {'a': 1} | count }}"#,
            "0 0 2 1",
        ),
        (
            r#"{% if messages is iterable and messages is not string and messages is not mapping %}list{% endif %}"#,
            "list",
        ),
        (
            r#"{{ 'a.b.c'.rsplit('.', 1) | join('|') }} {{ ' a  b c '.rsplit() | join('|') }} {{ ' a b c '.rsplit(none, 1) | join('|') }} {{ 'a,b,c'.rsplit(',', maxsplit=1) | join('|') }}"#,
            "a.b|c a|b|c  a b|c a,b|c",
        ),
        (
            r#"{{ 'a,b,c'.split(',', maxsplit=1) | join('|') }} {{ ' a b c'.split(maxsplit=1) | join('|') }} {{ 'abc'.split('x') | join('|') }}"#,
            "a|b,c a|b c abc",
        ),
        (
            r#"{{ 'a-b-c'.partition('-') | join('|') }} {{ 'a-b-c'.rpartition('-') | join('|') }} {{ 'abc'.partition('-') | join('|') }} {{ 'abc'.rpartition('-') | join('|') }}"#,
            "a|-|b-c a-b|-|c abc|| ||abc",
        ),
        (
            r#"{{ '7'.zfill(3) }} {{ '-7'.zfill(4) }} {{ '1234'.zfill(2) }} {{ 'aBß1'.swapcase() }} {{ 'prefix-a'.removeprefix('prefix-') }} {{ 'a.txt'.removesuffix('.txt') }}"#,
            "007 -007 1234 AbSS1 a a",
        ),
        (r#"{{ ['a', 'b'].index('b') }} {{ 'abc'.index('c') }} {{ [1, 2, 1].count(1) }}"#, "1 2 2"),
        (
            r#"{{ 'one two three'|truncate(9, leeway=0) }} {{ 'one two three'|truncate(9, true, '~', 0) }} {{ 'one two'|truncate(3) }} {{ 'one two three'|truncate(length=5, end='', leeway=0) }}"#,
            "one... one two ~ one two one",
        ),
        (
            r#"{{ {'b': [1, 'é'], 'a': {}} | tojson(separators=(',', ':')) }} {{ [] | tojson(indent=2) }}"#,
            "{\"b\":[1,\"é\"],\"a\":{}} []",
        ),
        (
            r#"{{ {'b': [1, 'é😀'], 'a': {}, 'c': []} | tojson(sort_keys=true, ensure_ascii=true) }}"#,
            "{\"a\": {}, \"b\": [1, \"\\u00e9\\ud83d\\ude00\"], \"c\": []}",
        ),
        (
            r#"{{ {'b': [1, {'c': none}], 'a': {}} | tojson(indent=2) }}"#,
            "{\n  \"b\": [\n    1,\n    {\n      \"c\": null\n    }\n  ],\n  \"a\": {}\n}",
        ),
        (
            r#"{{ {'b': [1], 'a': 2} | tojson(indent=1, separators=('; ', '=')) }}"#,
            "{\n \"b\"=[\n  1\n ]; \n \"a\"=2\n}",
        ),
        (r#"[{{ unk_token }}{{ pad_token }}]"#, "[]"),
    ] {
        assert_eq!(rendered(text).unwrap(), expected, "{text}");
    }
    for (text, part) in [
        ("{{ 3 | length }}", "length"),
        ("{{ none | length }}", "length"),
        ("{{ ['a'].index('b') }}", "not in the list"),
        ("{{ 'abc' | truncate(2) }}", "length >="),
        ("{{ 'abc'.rsplit('') }}", "empty separator"),
        ("{{ '1'.zfill(99999999999) }}", "a width of"),
        ("{{ [1] | tojson(separators=[',']) }}", "two separators"),
    ] {
        let error = error_of(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn the_date_is_fixed_unless_another_is_given() {
    let text =
        "{{ strftime_now('%d %b %Y') }}{% macro day() %}{{ strftime_now('%A') }}{% endmacro %}, {{ day() }}";
    assert_eq!(rendered(text).unwrap(), "26 Jul 2024, Friday");
    let on_another_day = template(text).unwrap().on("2025-03-09".parse().unwrap());
    assert_eq!(on_another_day.render(&[], true).unwrap(), "09 Mar 2025, Sunday");
}
