//! What a page and a card make of files that mean harm: every text of a sound file is markup.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use qsf_format::*;
use serde_json::json;

use crate::small_file::*;

/// Markup that does harm wherever it is not escaped: in an element, an attribute, a cell of Markdown, a scalar of YAML.
const PAYLOAD: &str = "x</td></title></style><script>alert(1)</script><img src=x onerror=alert(1)>\"' onmouseover='alert(1)\n---\nlicense: stolen\n| [a](javascript:alert(1)) ` <b>";

fn hostile_meta() -> Meta {
    let mut meta = meta();
    meta.model.architecture = PAYLOAD.into();
    meta.provenance.tool = PAYLOAD.into();
    meta.provenance.requantized_from = vec![PAYLOAD.into()];
    meta.provenance.options.insert(PAYLOAD.into(), json!({ PAYLOAD: [PAYLOAD] }));
    meta.provenance.options.insert("calibration".into(), json!(PAYLOAD));
    meta.provenance.sources =
        vec![SourceFile { name: PAYLOAD.into(), bytes: u64::MAX, sha256: PAYLOAD.into() }];
    meta.tensors = vec![TensorRecord {
        layer: Some(0),
        kind: TensorKind::AttnQ.name().into(),
        rows: 1,
        cols: 1,
        quant: QuantType::Q4,
        promoted_from: None,
        outliers: 0,
        cosine: Some(-1e300),
        relative_error: Some(1e300),
        max_abs_error: Some(0.0),
    }];
    meta
}

/// A sound file with this META and evaluation.
fn write_evaluated(path: &Path, meta: &Meta, evaluation: &serde_json::Value) {
    let mut writer = without_positions(path, options(Compression::None)).unwrap();
    writer.begin_positions().unwrap();
    let t = tensor(TensorKind::Positions, 32, HIDDEN, QuantType::Q4, 13);
    writer.begin_tensor(t.kind, t.rows, t.cols, t.quant, t.layout).unwrap();
    writer.tensor_rows(&t.data).unwrap();
    writer.end_positions();
    let mut file = writer.complete(meta, MIXED, None, None).unwrap();
    file.append_evaluation(evaluation.to_string().as_bytes()).unwrap();
    file.publish().unwrap();
}

/// The page and the card about `files`.
fn report(dir: &Path, files: &[PathBuf]) -> (String, String) {
    let (page, card) = (dir.join("report.html"), dir.join("README.md"));
    let mut call = Command::new(env!("CARGO_BIN_EXE_qsf-inspect"));
    call.arg("report").args(files).arg("--force").arg("-o").arg(&page).arg("--card").arg(&card);
    let output = call.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    (fs::read_to_string(page).unwrap(), fs::read_to_string(card).unwrap())
}

/// The names of all elements on a page, as a browser would find them.
fn elements(page: &str) -> Vec<&str> {
    let names = page.split('<').skip(1).map(|rest| rest.trim_start_matches(['/', '!']));
    let mut names: Vec<&str> = names.map(|rest| rest.split([' ', '>', '\n', '/']).next().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn no_text_of_a_file_becomes_markup() {
    let dir = tempfile::tempdir().unwrap();
    let files = ["a.qsf", "b.qsf"].map(|name| dir.path().join(name));
    let harmless = |kld: f64| json!({"ppl": 30.5, "kld": {"mean": kld, "stderr": 0.01}, "top1": 80.0, "text_sha256": "abc"});
    let mut meta = meta();
    meta.provenance.sources = vec![SourceFile { name: "a".into(), bytes: 1, sha256: "abc".into() }];
    meta.provenance.options.insert("quant".into(), json!("4bit"));
    meta.tensors = hostile_meta().tensors;
    for (file, kld) in files.iter().zip([0.1, 0.2]) {
        write_evaluated(file, &meta, &harmless(kld));
    }
    let known = report(dir.path(), &files).0;
    for (file, kld) in files.iter().zip([-1e300, 1e300]) {
        fs::remove_file(file).unwrap();
        let evaluation = json!({
            "text_sha256": PAYLOAD, "ctx": PAYLOAD, "tokens": -1, "ppl": 1e300, "base_ppl": PAYLOAD,
            "kld": {"mean": kld, "stderr": PAYLOAD}, "top1": PAYLOAD,
        });
        write_evaluated(file, &hostile_meta(), &evaluation);
    }
    let (page, card) = report(dir.path(), &files);
    assert!(page.contains("&lt;script&gt;alert(1)"), "the text is not shown at all");
    let known = elements(&known);
    let added: Vec<_> = elements(&page).into_iter().filter(|name| !known.contains(name)).collect();
    assert_eq!(added, [""; 0]);
    for tag in page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap()) {
        assert!(!tag.contains("onerror") && !tag.contains("onmouseover"), "{tag}");
    }

    assert_eq!(card.lines().filter(|line| *line == "---").count(), 2, "{card}");
    assert!(!card.lines().any(|line| line.starts_with("license")), "{card}");
    let touched: Vec<&str> = card.lines().filter(|line| line.contains("alert(1)")).collect();
    // The name of the data set of each file in YAML; writer and source, of both files alike, in Markdown.
    assert_eq!(touched.len(), 2 + 2, "{card}");
    for line in touched {
        let in_quotes = line.starts_with("      name: \"") && line.ends_with('"');
        let in_code = line.starts_with("| ") && line.contains("`` x</td>") && line.matches('|').count() == 4;
        assert!(in_quotes || in_code, "{line}");
    }
}
