//! `qsf-inspect report`: a page whose figures are those of the files, that no file can inject anything into, and that needs
//! neither network nor script.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_runtime::file_hash::hash_file;
use qsf_tests::*;

/// Options of a file whose weights were fitted to a text.
const CALIBRATED: &str =
    concat!("--calibration ", env!("CARGO_MANIFEST_DIR"), "/../cli/data/demo.txt --calibration-tokens 2000");

/// `good.qsf` and `small.qsf` of the demo model in `dir`, converted with these options.
fn two_files(dir: &Path, first: &str, second: &str) -> [PathBuf; 2] {
    let demo = demo_model(dir);
    let files = ["good.qsf", "small.qsf"].map(|name| dir.join(name));
    for (file, options) in files.iter().zip([first, second]) {
        let output = program("qsf-convert").arg(&demo).arg(file).args(options).run();
        assert_eq!(output.code, 0, "{}", output.stderr);
    }
    files
}

/// Options of a file that knows how good it is.
fn evaluated(quant: &str) -> String {
    format!("--quant {quant} --eval {TEXT} --eval-chunks 2")
}

fn report(files: &[PathBuf], out: &Path) -> Program {
    let call = program("qsf-inspect").arg("report").arg("-o").arg(out);
    files.iter().fold(call, |call, file| call.arg(file))
}

/// The part of the page between the first `from` and the next `to`.
fn between<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    let start = page.find(from).unwrap_or_else(|| panic!("{from:?} is not on the page")) + from.len();
    let end = page[start..].find(to).unwrap_or_else(|| panic!("{to:?} does not follow {from:?}"));
    &page[start..start + end]
}

/// The full values of the figures in a piece of the page.
fn figures(piece: &str) -> Vec<f64> {
    piece
        .split("<data value=\"")
        .skip(1)
        .map(|rest| rest.split('"').next().unwrap().parse().unwrap())
        .collect()
}

#[test]
fn the_figures_on_the_page_are_those_of_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let files = two_files(dir.path(), &format!("{} {}", evaluated("4bit"), CALIBRATED), &evaluated("2bit"));
    let out = dir.path().join("report.html");
    let said = report(&files, &out).args("--json").run().json();
    let page = fs::read_to_string(&out).unwrap();
    for (i, file) in files.iter().enumerate() {
        let facts = program("qsf-inspect").arg(file).args("--json --tensors --verify").run().json();
        for (name, value) in facts.as_object().unwrap() {
            assert_eq!(said["files"][i][name], *value, "{name} of --json");
        }
        let hash = hash_file(file, &[]).unwrap();
        assert_eq!(said["files"][i]["sha256"], hash.sha256);

        let number = |pointer: &str| facts.pointer(pointer).unwrap().as_f64().unwrap();
        let row = between(
            &page,
            &format!("<th scope=\"row\"><a href=\"#file-{}\">{}</a>", i + 1, hash.name),
            "</tr>",
        );
        let expected = [
            "/file_bytes",
            "/bits_per_weight",
            "/evaluation/kld/mean",
            "/evaluation/kld/stderr",
            "/evaluation/ppl",
            "/evaluation/base_ppl",
            "/evaluation/top1",
        ];
        assert_eq!(figures(row), expected.map(number), "{row}");
        assert!(row.contains(if i == 0 { "2000 tokens" } else { "<td>no</td>" }), "{row}");

        let section = between(&page, &format!("<section id=\"file-{}\">", i + 1), "</section>");
        assert!(section.contains(&hash.sha256));
        for tensor in facts["tensors"].as_array().unwrap() {
            let (layer, kind) = (tensor["layer"].as_u64(), tensor["kind"].as_str().unwrap());
            let name = layer.map_or(kind.to_owned(), |layer| format!("layer {layer} {kind}"));
            let row = between(section, &format!("<th scope=\"row\">{name}</th>"), "</tr>");
            let error =
                |field: &str| format!("<td class=\"number\">{:.6}</td>", tensor[field].as_f64().unwrap());
            for cell in [
                error("cosine"),
                error("relative_error"),
                format!("<td>{}</td>", tensor["type"].as_str().unwrap()),
            ] {
                assert!(row.contains(&cell), "{name}: {cell} is not in {row}");
            }
        }
        for source in facts["provenance"]["sources"].as_array().unwrap() {
            assert!(section.contains(source["sha256"].as_str().unwrap()));
        }
        let map = between(section, "Bits per weight of each matrix</caption>", "</table>");
        // 4.5 and 2.5 bits are what these types have in blocks of 64.
        let bits = if i == 0 { ">4.50</td>" } else { ">2.50</td>" };
        assert_eq!(map.matches(bits).count(), 4 * 7, "{map}");

        let point =
            format!("{}: {} bytes, KL divergence {}<", hash.name, hash.bytes, number("/evaluation/kld/mean"));
        assert_eq!(page.matches(&point).count(), 2, "the file is no point of both drawings: {point}");
    }
}

#[test]
fn the_page_needs_neither_network_nor_script_and_is_the_same_from_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let files = two_files(dir.path(), &evaluated("4bit"), &evaluated("2bit"));
    let (first, second) = (dir.path().join("first.html"), dir.path().join("second.html"));
    let cards = [dir.path().join("first.md"), dir.path().join("second.md")];
    let said = report(&files, &first).arg("--card").arg(&cards[0]).run().ok().stdout;
    assert!(said.contains("first.html: written") && said.contains("first.md: written"), "{said}");
    let names = ["good.qsf", "small.qsf"].map(PathBuf::from);
    report(&names, &second).arg("--card").arg(&cards[1]).dir(dir.path()).env("QSF_CPU", "scalar").run().ok();
    assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    assert_eq!(fs::read(&cards[0]).unwrap(), fs::read(&cards[1]).unwrap());
    let page = fs::read_to_string(&first).unwrap();
    for outside in ["http://", "https://", "<script", "<link", "<img", "src=", "url(", "@import", "onclick"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for needed in ["prefers-color-scheme: dark", "name=\"viewport\"", "default-src 'none'", "lang=\"en\""] {
        assert!(page.contains(needed), "{needed}");
    }
    assert!(!page.contains(dir.path().to_str().unwrap()), "the page has the folder of its maker on it");
}

#[test]
fn a_file_that_was_not_evaluated_is_reported_without_figures_and_the_page_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let files = two_files(dir.path(), &evaluated("4bit"), "--quant 2bit");
    let out = dir.path().join("report.html");
    report(&files, &out).run().ok();
    let page = fs::read_to_string(&out).unwrap();
    let row = between(&page, "<th scope=\"row\"><a href=\"#file-2\">small.qsf</a>", "</tr>");
    assert_eq!(figures(row).len(), 2, "{row}");
    assert!(row.ends_with("<td>-</td><td>-</td><td>-</td><td>no</td>"), "{row}");
    assert!(page.contains("qsf-convert --eval TEXT"), "what to do is not on the page");
    assert!(!page.contains("<svg"), "a chart of one point");
    let section = between(&page, "<section id=\"file-2\">", "</section>");
    assert!(section.contains("no section EVAL"));
}

#[test]
fn the_importance_of_layers_is_on_the_page() {
    let dir = tempfile::tempdir().unwrap();
    let files = two_files(dir.path(), "--quant 4bit", &format!("--target-size 500kB {CALIBRATED}"));
    let out = dir.path().join("report.html");
    let said = report(&files, &out).args("--json").run().json();
    let page = fs::read_to_string(&out).unwrap();
    let section = between(&page, "<section id=\"file-2\">", "</section>");
    let map = between(section, "Bits per weight of each matrix</caption>", "</table>");
    for (i, layer) in said["files"][1]["layers"].as_array().unwrap().iter().enumerate() {
        let row = between(map, &format!("<th scope=\"row\">{i}</th>"), "</tr>");
        let cell = format!("<td class=\"number plain\">{:.4}</td>", layer["importance"].as_f64().unwrap());
        assert!(row.contains(&cell), "{cell} is not in {row}");
    }
    let first = between(&page, "<section id=\"file-1\">", "</section>");
    assert!(!first.contains("mportance of layers"), "nobody has measured it");
}

#[test]
fn a_file_that_another_beats_is_marked_and_files_can_be_sorted() {
    let dir = tempfile::tempdir().unwrap();
    // The same types, and clusters beside them in one: it is larger and no nearer.
    let files = two_files(dir.path(), &format!("{} --clusters 8", evaluated("4bit")), &evaluated("4bit"));
    let out = dir.path().join("report.html");
    report(&files, &out).run().ok();
    let page = fs::read_to_string(&out).unwrap();
    let row = between(&page, "<th scope=\"row\"><a href=\"#file-1\">good.qsf</a>", "</tr>");
    assert!(row.contains("file 2 is no larger and nearer"), "{row}");
    assert_eq!(page.matches("is no larger and nearer<").count(), 3, "once in each order");
    for (order, first) in [("given", "good.qsf"), ("size", "small.qsf"), ("kld", "good.qsf")] {
        assert!(page.contains(&format!("id=\"by-{order}\"")), "{order}");
        let table = between(&page, &format!("class=\"scroll by-{order}\""), "</table>");
        assert!(between(table, "<tbody>", "</a>").ends_with(first), "{order}: {table}");
    }
    assert_eq!(page.matches("beaten\" cx").count(), 2, "a hollow point in both drawings");
}

#[test]
#[cfg(target_os = "linux")]
fn no_name_of_a_file_becomes_markup() {
    let dir = tempfile::tempdir().unwrap();
    let files = two_files(dir.path(), &evaluated("4bit"), &evaluated("2bit"));
    let odd = ["<img src=x onerror=alert(1)>.qsf", "\"'|`\n---\n.qsf"].map(|name| dir.path().join(name));
    for (file, odd) in files.iter().zip(&odd) {
        fs::rename(file, odd).unwrap();
    }
    let (out, card) = (dir.path().join("report.html"), dir.path().join("README.md"));
    report(&odd, &out).arg("--card").arg(&card).run().ok();
    let page = fs::read_to_string(&out).unwrap();
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;.qsf") && !page.contains("<img"));
    assert!(page.contains("&quot;&#39;|`\\u{a}---\\u{a}.qsf"), "{page}");
    let card = fs::read_to_string(&card).unwrap();
    assert_eq!(card.lines().filter(|line| *line == "---").count(), 2, "{card}");
}

#[test]
fn the_card_has_what_the_hub_reads_and_the_figures_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let files = two_files(dir.path(), &evaluated("4bit"), "--quant 2bit");
    let (out, card) = (dir.path().join("report.html"), dir.path().join("README.md"));
    let said = report(&files, &out).arg("--card").arg(&card);
    let said = said.args("--base-model org/demo --license apache-2.0 --json").run().json();
    let card = fs::read_to_string(&card).unwrap();
    let front = card.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap().0;
    for line in [
        "library_name: qsf",
        "pipeline_tag: text-generation",
        "license: \"apache-2.0\"",
        "base_model: \"org/demo\"",
        "base_model_relation: quantized",
        "- name: \"good.qsf\"",
    ] {
        assert!(front.lines().any(|found| found == line), "{line:?} is not in {front}");
    }
    let evaluation = &said["files"][0]["evaluation"];
    for value in [&evaluation["ppl"], &evaluation["kld"]["mean"], &evaluation["top1"]] {
        let line = format!("      value: {}", value.as_f64().unwrap());
        assert!(front.contains(&line), "{line:?} is not in {front}");
    }
    assert!(!front.contains("small.qsf"), "results of a file that was not evaluated");
    for file in said["files"].as_array().unwrap() {
        assert!(card.contains(file["sha256"].as_str().unwrap()));
    }
    let sources = said["files"][0]["provenance"]["sources"].as_array().unwrap();
    for source in sources {
        // Both files come from the same sources, which are listed once.
        assert_eq!(card.matches(source["sha256"].as_str().unwrap()).count(), 1);
    }
}

#[test]
fn files_of_different_texts_are_not_compared_in_silence() {
    let dir = tempfile::tempdir().unwrap();
    let files =
        two_files(dir.path(), &evaluated("4bit"), &format!("--quant 2bit --eval {TEXT} --eval-chunks 1"));
    let out = dir.path().join("report.html");
    report(&files, &out).run().ok();
    assert!(fs::read_to_string(&out).unwrap().contains("evaluated on different texts"));
}

#[test]
fn what_cannot_be_reported_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let [file, other] = two_files(dir, "--quant 4bit", "--quant 2bit");
    let one = || [file.clone()];
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    let damaged = dir.join("damaged.qsf");
    fs::write(&damaged, bytes).unwrap();
    let out = dir.join("report.html");
    fs::write(dir.join("there.html"), "mine").unwrap();
    refused("damage", dir, report(&[file.clone(), damaged], &out), 3, &["damaged.qsf", "expected CRC32"]);
    refused("no file", dir, report(&[dir.join("none.qsf")], &out), 3, &["none.qsf"]);
    refused("no QSF file", dir, report(&[dir.join("there.html")], &out), 3, &["there.html"]);
    refused("it exists", dir, report(&one(), &dir.join("there.html")), 2, &["there.html", "--force"]);
    let card = report(&one(), &out).arg("--card").arg(dir.join("there.html"));
    refused("the card exists", dir, card, 2, &["there.html", "--force"]);
    let over_model = report(&[file.clone(), other.clone()], &other).args("--force");
    refused("the page is a model", dir, over_model, 2, &["small.qsf", "another name"]);
    let both = report(&one(), &out).arg("--card").arg(&out);
    refused("page and card are one", dir, both, 2, &["report.html", "another name"]);
    refused("twice", dir, report(&[file.clone(), file.clone()], &out), 2, &["good.qsf", "twice"]);
    let no_card = report(&one(), &out).args("--license mit");
    refused("a license without a card", dir, no_card, 2, &["--card"]);
    refused("no folder", dir, report(&one(), &dir.join("none/report.html")), 3, &["none"]);
    report(&one(), &dir.join("there.html")).args("--force").run().ok();
    assert!(fs::read_to_string(dir.join("there.html")).unwrap().starts_with("<!DOCTYPE html>"));
    assert_eq!(leftovers(dir).len(), 3);
}

#[test]
fn files_of_the_same_name_are_told_apart() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b] = two_files(dir.path(), &evaluated("4bit"), &evaluated("2bit"));
    fs::create_dir(dir.path().join("old")).unwrap();
    let moved = dir.path().join("old").join(a.file_name().unwrap());
    fs::rename(&b, &moved).unwrap();
    let names = [PathBuf::from("good.qsf"), PathBuf::from("old/good.qsf")];
    let out = dir.path().join("report.html");
    report(&names, &out).dir(dir.path()).run().ok();
    let page = fs::read_to_string(&out).unwrap();
    assert!(
        page.contains("<a href=\"#file-1\">good.qsf</a>")
            && page.contains("<a href=\"#file-2\">old/good.qsf</a>")
    );
}

#[test]
fn the_card_of_a_gguf_file_names_what_was_measured_and_commands_of_other_programs() {
    let dir = tempfile::tempdir().unwrap();
    let demo = demo_model(dir.path());
    let (file, odd) = (dir.path().join("demo.Q8_0.gguf"), dir.path().join("$(date).gguf"));
    let args = format!("--quant Q8_0 --eval {TEXT} --eval-chunks 2 --json");
    let made = program("qsf-convert").arg(&demo).arg(&file).args(&args).run().json();
    fs::copy(&file, &odd).unwrap();
    let card = dir.path().join("card.md");
    let of = |file: &Path| {
        let out = dir.path().join("page.html");
        report(&[file.to_owned()], &out).args("--force --card").arg(&card).run().ok();
        fs::read_to_string(&card).unwrap()
    };
    let found = of(&file);
    let perplexity = made["evaluation"]["ppl"].as_f64().unwrap();
    for expected in [
        "- gguf\n",
        "llama-cli -m demo.Q8_0.gguf\n",
        "ollama create",
        "lms import demo.Q8_0.gguf\n",
        &format!("value: {perplexity}\n"),
        &hash_file(&file, &[]).unwrap().sha256,
    ] {
        assert!(found.contains(expected), "{expected} in {found}");
    }
    assert!(!found.contains("qsf-run"), "{found}");
    // Nobody runs what a stranger has named.
    let found = of(&odd);
    assert!(found.contains("llama-cli -m FILE.gguf\n") && !found.contains("-m $(date)"), "{found}");
}
