//! The files of tests/conformance, which a second writer made from SPEC.md alone: what that text says, the reader does.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::*;
use serde_json::{Value, json};

/// Rows of a panel.
const PANEL: usize = 16;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/conformance")
}

fn cases(name: &str) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(folder().join(name)).unwrap()).unwrap()
}

fn accepted() -> Vec<(String, PathBuf, Value)> {
    let with_path = |case: Value| {
        let name = case["name"].as_str().unwrap().to_owned();
        let path = folder().join(format!("{name}.qsf"));
        (name, path, case)
    };
    cases("accepted.json").into_iter().map(with_path).collect()
}

/// A tensor of a file and its values, by the scalar decode.
#[derive(Debug, PartialEq)]
struct Found {
    layer: Option<u32>,
    entry: TensorEntry,
    values: Vec<f32>,
}

/// What decodes the tensors of a file.
struct Decoder<'a> {
    block: BlockSize,
    tables: &'a CodeTables,
    outliers: OutlierTable,
}

impl Decoder<'_> {
    fn tensor(&mut self, layer: Option<u32>, entry: &TensorEntry, bytes: &[u8]) -> Found {
        let (rows, cols) = (entry.rows as usize, entry.cols as usize);
        let mut values = vec![0.0; rows * cols];
        let row_bytes = bytes.len() / rows;
        let in_panels = if entry.layout == Layout::Panels16 { rows - rows % PANEL } else { 0 };
        for (row, out) in values.chunks_exact_mut(cols).enumerate() {
            if row < in_panels {
                let panel = &bytes[row / PANEL * PANEL * row_bytes..][..PANEL * row_bytes];
                decode_panel_row(entry.quant, self.block, self.tables, panel, row % PANEL, out);
            } else {
                decode_row(entry.quant, self.block, self.tables, &bytes[row * row_bytes..][..row_bytes], out);
            }
        }
        if let Some(outliers) = self.outliers.take_of_entry(layer, entry).unwrap() {
            add(&outliers, cols, &mut values);
        }
        Found { layer, entry: entry.clone(), values }
    }
}

/// SPEC.md section 7.8: added, rounded once.
fn add(outliers: &Outliers, cols: usize, values: &mut [f32]) {
    for (row, values) in values.chunks_exact_mut(cols).enumerate() {
        let (at, more) = outliers.row(row);
        at.iter().zip(more).for_each(|(col, more)| values[usize::from(*col)] += more);
    }
}

/// Every tensor in the order of META.
fn tensors(file: &QsfFile) -> Vec<Found> {
    let mut decoder =
        Decoder { block: file.header().block, tables: file.tables(), outliers: file.outliers().unwrap() };
    let outline = file.embedding_outline().unwrap();
    let info = file.embedding_info().unwrap();
    let embedding = file.embedding(&info).unwrap();
    let mut found = vec![decoder.tensor(None, &outline.tensors[0], embedding.as_slice())];
    let layers = (0..file.layers().len()).map(|layer| (Some(layer as u32), file.layer(layer).unwrap()));
    let last = [(None, file.final_section().unwrap().1)];
    let positions = file.positions().unwrap().map(|group| (None, group));
    for (layer, group) in layers.chain(last).chain(positions) {
        for entry in &group.tensors {
            found.push(decoder.tensor(layer, entry, &group.bytes.as_slice()[entry.data.clone()]));
        }
    }
    found
}

/// The matrices in parts: layer, kind, rows, columns, and the CRC of their values once each row stands where it belongs.
fn matrices(file: &QsfFile, found: &[Found]) -> Vec<Value> {
    let mut by_layer: BTreeMap<Option<u32>, Vec<&Found>> = BTreeMap::new();
    found.iter().for_each(|tensor| by_layer.entry(tensor.layer).or_default().push(tensor));
    let (mut table, mut all) = (file.row_parts().unwrap(), Vec::new());
    for (layer, tensors) in by_layer {
        let entries: Vec<_> = tensors.iter().map(|tensor| &tensor.entry).collect();
        for split in table.take(layer, &entries).unwrap() {
            let cols = entries[split.tensors[0]].cols as usize;
            let mut values = Vec::new();
            for row in 0..split.rows.rows() {
                let (part, at) = split.rows.place(row);
                values.extend_from_slice(&tensors[split.tensors[part]].values[at * cols..][..cols]);
            }
            all.push(json!({
                "layer": layer, "kind": split.kind.id(), "name": split.kind.name(), "rows": split.rows.rows(), "cols": cols,
                "parts": split.rows.parts(), "values_crc32": crc(&values),
            }));
        }
    }
    table.check_all_taken().unwrap();
    all
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn crc(values: &[f32]) -> String {
    format!("{:08x}", crc32fast::hash(&bytes_of(values)))
}

/// Each decodes to the values that its writer had in mind, bit for bit.
#[test]
fn a_file_that_another_writer_made_has_the_values_that_the_writer_gave_it() {
    for (name, path, case) in accepted() {
        let file = QsfFile::open(&path).unwrap();
        verify_file(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let floats = std::fs::read(folder().join(format!("{name}.f32"))).unwrap_or_default();
        let (found, wanted) = (tensors(&file), case["tensors"].as_array().unwrap());
        assert_eq!(found.len(), wanted.len(), "{name}");
        for (found, wanted) in found.iter().zip(wanted) {
            let (place, entry) = (format!("{name}, {wanted}"), &found.entry);
            assert_eq!(found.layer.map(u64::from), wanted["layer"].as_u64(), "{place}");
            assert_eq!(u64::from(entry.kind_id), wanted["kind"].as_u64().unwrap(), "{place}");
            assert_eq!(u64::from(entry.rows), wanted["rows"].as_u64().unwrap(), "{place}");
            assert_eq!(u64::from(entry.cols), wanted["cols"].as_u64().unwrap(), "{place}");
            assert_eq!(entry.quant.name(), wanted["type"], "{place}");
            assert_eq!(u64::from(entry.layout.id()), wanted["layout"].as_u64().unwrap(), "{place}");
            assert_eq!(entry.optional, wanted["optional"].as_bool().unwrap_or(false), "{place}");
            assert_eq!(crc(&found.values), wanted["values_crc32"], "{place}");
            if let Some(at) = wanted["values_at"].as_u64() {
                let bytes = bytes_of(&found.values);
                assert_eq!(bytes, floats[at as usize..][..bytes.len()], "{place}");
            }
        }
        let mut wanted = case["matrices"].as_array().cloned().unwrap_or_default();
        let mut joined = matrices(&file, &found);
        for list in [&mut joined, &mut wanted] {
            list.sort_by_key(|matrix| (matrix["layer"].as_u64(), matrix["kind"].as_u64()));
        }
        assert_eq!(joined, wanted, "{name}");
    }
}

/// The bytes of a case of refused.json.
fn falsified(case: &Value) -> Vec<u8> {
    let mut bytes = std::fs::read(folder().join(format!("{}.qsf", case["base"].as_str().unwrap()))).unwrap();
    bytes.resize(case["size"].as_u64().unwrap() as usize, 0);
    for edit in case["edits"].as_array().unwrap() {
        let (at, text) = (edit[0].as_u64().unwrap() as usize, edit[1].as_str().unwrap());
        for i in 0..text.len() / 2 {
            bytes[at + i] = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
        }
    }
    bytes
}

/// What fails first: opening or verifying.
fn refusal(bytes: Vec<u8>) -> Option<(&'static str, FormatError)> {
    match QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)) {
        Ok(file) => verify_file(&file).err().map(|e| ("verify", e)),
        Err(e) => Some(("open", e)),
    }
}

#[test]
fn a_file_with_one_thing_wrong_is_refused_when_it_must_be_and_not_before() {
    for case in cases("refused.json") {
        let (name, when) = (case["name"].as_str().unwrap(), case["when"].as_str().unwrap());
        let Some((found, error)) = refusal(falsified(&case)) else {
            assert_eq!(when, "run", "{name}: {case}");
            continue;
        };
        assert_eq!(found, if when == "read" { "verify" } else { when }, "{name}: {error}");
        // What only a later version knows is no damage.
        let expected = if name.ends_with("-unknown") { Failure::Unsupported } else { Failure::BadInput };
        assert_eq!(error.failure(), expected, "{name}: {error}");
    }
}

#[test]
fn a_kind_that_meta_does_not_name_is_told_by_its_number() {
    let file = QsfFile::open(&folder().join("unknown-kinds.qsf")).unwrap();
    let group = file.layer(0).unwrap();
    let words = |meta: Option<&Meta>| {
        let unknown = UnknownKind::among(Some(0), &group.tensors, meta);
        unknown.iter().map(UnknownKind::to_string).collect::<Vec<_>>()
    };
    assert_eq!(words(None), ["layer 0 kind 200", "layer 0 kind 201", "layer 0 kind 1000"]);
    let meta = file.meta().unwrap().unwrap();
    let named =
        ["layer 0 new_vector (kind 200)", "layer 0 new_matrix (kind 201)", "layer 0 new_1000 (kind 1000)"];
    assert_eq!(words(Some(&meta)), named);
    let refused = file.check_kinds_known(Some(0), &group.tensors).unwrap_err();
    assert_eq!(refused.failure(), Failure::Unsupported);
    assert!(refused.to_string().contains("layer 0 new_vector (kind 200)"), "{refused}");
    let optional = QsfFile::open(&folder().join("optional-kinds.qsf")).unwrap();
    optional.check_kinds_known(Some(0), &optional.layer(0).unwrap().tensors).unwrap();
}
