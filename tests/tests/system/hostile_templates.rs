//! Chat templates of strangers that want all stack, memory or time: an error soon, whatever they do to the process that
//! renders them.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use qsf_tests::*;

/// Bytes that a hostile template may take above what a sane one does.
const MORE_MEMORY: u64 = 64 << 20;
/// Time in which a template is refused, on a machine with much other load. Alone it is below two seconds.
const SOON: Duration = Duration::from_secs(12);

/// What wants the stack: of the parser, the compiler, whoever drops what they made, and whatever walks values.
fn deep() -> Vec<(&'static str, String)> {
    let many = |part: &str| part.repeat(100_000);
    vec![
        ("negation", format!("{{{{ {}1 }}}}", many("-"))),
        ("not", format!("{{{{ {}true }}}}", many("not "))),
        ("attributes", format!("{{{{ messages{} }}}}", many(".a"))),
        ("items", format!("{{{{ messages{} }}}}", many("[0]"))),
        ("calls", format!("{{{{ messages{} }}}}", many("()"))),
        ("filters", format!("{{{{ 'a'{} }}}}", many("|upper"))),
        ("tests", format!("{{{{ 1{} }}}}", many(" is odd"))),
        ("concatenation", format!("{{{{ 'a'{} }}}}", many("~'a'"))),
        ("sums", format!("{{{{ 1{} }}}}", many("+1"))),
        ("powers", format!("{{{{ 1{} }}}}", many("**1"))),
        ("brackets", format!("{{{{ {}1{} }}}}", many("("), many(")"))),
        ("lists", format!("{{{{ {}1{} }}}}", many("["), many("]"))),
        ("maps", format!("{{{{ {}1{} }}}}", many("{1:"), many("}"))),
        ("choices", format!("{{{{ {}1 }}}}", "1 if 0 else ".repeat(80_000))),
        ("blocks", many("{% if 1 %}")),
        ("elif", format!("{{% if 0 %}}{}{{% endif %}}", "{% elif 0 %}".repeat(80_000))),
        ("recursive macro", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".into()),
        (
            "two macros",
            "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}".into(),
        ),
        ("recursive loop", "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}".into()),
        ("a value in itself", format!("{} {{{{ n.a }}}}", NESTED)),
        ("a value in itself as JSON", format!("{} {{{{ n.a|tojson }}}}", NESTED)),
        ("a namespace in itself", "{% set n = namespace() %}{% set n.a = n %}{{ n }}".into()),
        ("inclusion", "{% include 'chat template' %}".into()),
        ("extension", "{% extends 'chat template' %}".into()),
    ]
}

/// A list that holds a list, a hundred thousand deep.
const NESTED: &str =
    "{% set n = namespace(a=[]) %}{% for i in range(90000) %}{% set n.a = [n.a] %}{% endfor %}";
/// A list each of whose items is the list before it, twice: a walk takes 2^60 steps.
const TWICE: &str = "{% set n = namespace(a=[1], b=[1]) %}{% for i in range(60) %}{% set n.a = [n.a, n.a] %}\
                     {% set n.b = [n.b, n.b] %}{% endfor %}";

/// What wants memory.
fn large() -> Vec<(&'static str, String)> {
    let doubled =
        "{% set n = namespace(a='aaaaaaaa') %}{% for i in range(26) %}{% set n.a = n.a ~ n.a %}{% endfor %}";
    let text = |what: &str| format!("{{% set a = 'x' * 4000000 %}}{{{{ {what}|length }}}}");
    vec![
        ("doubling", format!("{doubled}{{{{ n.a|length }}}}")),
        ("doubling by a sum", doubled.replace('~', "+") + "{{ n.a|upper|length }}"),
        ("doubling a list", doubled.replace("'aaaaaaaa'", "[1]").replace('~', "+") + "{{ n.a|list|length }}"),
        ("repetition", "{{ ('x' * 2000000000)|length }}".into()),
        ("a list repeated", "{{ ([1] * 1000000000)|list|length }}".into()),
        ("batch", "{{ [1]|batch(1000000000, 1)|list|length }}".into()),
        ("slice", "{{ [1]|slice(1000000000)|list|length }}".into()),
        ("join", text("range(90000)|join(a)")),
        ("replace", text("a|replace('', a)")),
        ("Python's replace", text("a.replace('x', a)")),
        ("split", text("a.split('')|list")),
        ("split at every character", text("('x ' * 4000000).split()|list")),
        ("format", "{{ '%1000000000d'|format(1)|length }}".into()),
        ("indent", "{{ ('\n' * 1000)|indent(100000000, true, true)|length }}".into()),
        ("center", "{{ 'a'|center(2000000000)|length }}".into()),
        ("JSON", format!("{doubled}{{{{ n.a|tojson|length }}}}")),
        ("text", "{% for a in range(90000) %}{{ 'x' * 100000 }}{% endfor %}".into()),
        ("ranges", "{% for a in range(90000) %}{% for b in range(90000) %}{{ [range(90000)|list] }}{% endfor %}{% endfor %}".into()),
    ]
}

/// What wants time.
fn long() -> Vec<(&'static str, String)> {
    vec![
        ("equality", format!("{TWICE}{{{{ n.a == n.b }}}}")),
        ("order", format!("{TWICE}{{{{ n.a < n.b }}}}")),
        ("sorting", format!("{TWICE}{{{{ [n.a, n.b, n.a, n.b]|sort|length }}}}")),
        ("unique", format!("{TWICE}{{{{ [n.a, n.b]|unique|list|length }}}}")),
        ("a key", format!("{TWICE}{{{{ {{n.a: 1}}[n.b] }}}}")),
        ("membership", format!("{TWICE}{{{{ n.a in [n.b] }}}}")),
        ("JSON of much", format!("{TWICE}{{{{ n.a|tojson|length }}}}")),
        ("loops", "{% for a in range(90000) %}{% for b in range(90000) %}{% endfor %}{% endfor %}".into()),
        ("sums of ranges", "{% for a in range(90000) %}{% set b = range(90000)|sum %}{% endfor %}".into()),
        (
            "search",
            "{% set a = 'x' * 1000000 %}{% for b in range(90000) %}{% set c = (a ~ 'y') in a %}{% endfor %}"
                .into(),
        ),
    ]
}

fn model_with(dir: &Path, template: &str) -> PathBuf {
    let model = dir.join("small");
    fs::write(model.join("chat_template.jinja"), template).unwrap();
    model
}

fn answer(model: &Path) -> Program {
    program("qsf-run").arg(model).args("--chat -p hi -n 1 --temp 0 -t 1")
}

#[track_caller]
fn all_are_refused(templates: Vec<(&str, String)>) {
    let dir = tempfile::tempdir().unwrap();
    small_model(dir.path());
    let (sane, own) = answer(&model_with(dir.path(), "{{ messages[0].content }}")).run_measured();
    sane.ok();
    for (what, template) in templates {
        let model = model_with(dir.path(), &template);
        let started = Instant::now();
        let (output, peak) = answer(&model).run_measured();
        let took = started.elapsed();
        println!(
            "{what}: {took:?}, {} MiB above {} MiB: {}",
            peak.saturating_sub(own) >> 20,
            own >> 20,
            output.stderr.trim()
        );
        assert!(matches!(output.code, 3 | 4), "{what}: {} {}", output.code, output.stderr);
        assert!(output.stderr.contains("small: the chat template"), "{what}: {}", output.stderr);
        assert!(!output.stderr.contains("panicked"), "{what}: {}", output.stderr);
        assert!(output.stderr.len() < 4000, "{what}: {} bytes", output.stderr.len());
        assert!(peak < own + MORE_MEMORY, "{what}: {peak} bytes, and a sane one takes {own}");
        assert!(took < SOON, "{what}: {took:?}");
    }
}

#[test]
fn templates_that_are_nested_without_end_are_refused() {
    all_are_refused(deep());
}

#[test]
fn templates_that_want_all_memory_are_refused() {
    all_are_refused(large());
}

#[test]
fn templates_that_never_end_are_refused() {
    all_are_refused(long());
}

#[test]
fn a_conversion_refuses_a_hostile_template_as_well() {
    let dir = tempfile::tempdir().unwrap();
    small_model(dir.path());
    let text = dir.path().join("chat.jsonl");
    fs::write(&text, "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}]}\n").unwrap();
    for template in [format!("{NESTED}{{{{ n.a }}}}"), format!("{TWICE}{{{{ n.a == n.b }}}}")] {
        let model = model_with(dir.path(), &template);
        let call = program("qsf-convert").arg(&model).arg(dir.path().join("out.qsf"));
        let call = call.args("-q 8bit --chat-template --calibration").arg(&text);
        refused("hostile", dir.path(), call, 3, &["chat.jsonl", "line 1", "the chat template"]);
    }
}
