//! The files of tests/conformance, which a second writer made from SPEC.md alone: what that text says, this project's readers do.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{
    BlockSize, CodeTables, Failure, FormatError, Layout, Meta, OutlierTable, Outliers, QsfFile, QuantType,
    TensorEntry, TensorId, TensorKind, UnknownKind, decode_panel_row, decode_row, verify_file,
};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::{QsfSource, WeightSource};
use qsf_runtime::stream::{Io, StreamSource};
use qsf_tests::*;
use serde_json::Value;

/// Rows of a panel.
const PANEL: usize = 16;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
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
    kind: u32,
    rows: u32,
    cols: u32,
    quant: QuantType,
    layout: Layout,
    optional: bool,
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
        Found {
            layer,
            kind: entry.kind_id,
            rows: entry.rows,
            cols: entry.cols,
            quant: entry.quant,
            layout: entry.layout,
            optional: entry.optional,
            values,
        }
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

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

fn crc(values: &[f32]) -> String {
    format!("{:08x}", crc32fast::hash(&bytes_of(values)))
}

/// Each decodes to the values that its writer had in mind, bit for bit; so does the runtime's fast decode, where the file can be
/// run.
#[test]
fn a_file_that_another_writer_made_has_the_values_that_the_writer_gave_it() {
    for (name, path, case) in accepted() {
        let file = QsfFile::open(&path).unwrap();
        verify_file(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        let floats = std::fs::read(folder().join(format!("{name}.f32"))).unwrap_or_default();
        let (found, wanted) = (tensors(&file), case["tensors"].as_array().unwrap());
        assert_eq!(found.len(), wanted.len(), "{name}");
        for (found, wanted) in found.iter().zip(wanted) {
            let place = format!("{name}, {wanted}");
            assert_eq!(found.layer.map(u64::from), wanted["layer"].as_u64(), "{place}");
            assert_eq!(u64::from(found.kind), wanted["kind"].as_u64().unwrap(), "{place}");
            assert_eq!(u64::from(found.rows), wanted["rows"].as_u64().unwrap(), "{place}");
            assert_eq!(u64::from(found.cols), wanted["cols"].as_u64().unwrap(), "{place}");
            assert_eq!(found.quant.name(), wanted["type"], "{place}");
            assert_eq!(u64::from(found.layout.id()), wanted["layout"].as_u64().unwrap(), "{place}");
            assert_eq!(found.optional, wanted["optional"].as_bool().unwrap_or(false), "{place}");
            assert_eq!(crc(&found.values), wanted["values_crc32"], "{place}");
            if let Some(at) = wanted["values_at"].as_u64() {
                let bytes = bytes_of(&found.values);
                assert_eq!(bytes, floats[at as usize..][..bytes.len()], "{place}");
            }
        }
        if case["runs"] == true {
            compare_source(&name, &QsfSource::open(&path).unwrap(), &found);
            compare_source(&name, &StreamSource::open(&path, Io::Pread).unwrap(), &found);
        }
    }
}

/// The runtime's tensors against those of the scalar decode; kind 13 is two of its tensors, optional kinds are none.
fn compare_source(name: &str, source: &dyn WeightSource, found: &[Found]) {
    for tensor in found {
        let Some(kind) = TensorKind::from_id(tensor.kind).filter(|kind| *kind != TensorKind::FfnBiases)
        else {
            continue;
        };
        let id = TensorId { layer: tensor.layer, kind };
        let loaded = source.load(id).unwrap_or_else(|e| panic!("{name}, {id}: {e}"));
        let mut row_values = vec![0.0; tensor.cols as usize];
        for (row, expected) in tensor.values.chunks_exact(tensor.cols as usize).enumerate() {
            loaded.decode_row(Isa::best(), row, &mut row_values);
            assert_eq!(bytes_of(&row_values), bytes_of(expected), "{name}, {id}, row {row}");
        }
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

/// What fails first: opening, verifying or loading the model.
fn refusal(bytes: Vec<u8>) -> Option<(&'static str, Failure, String)> {
    let told = |when, error: &FormatError| Some((when, error.failure(), error.to_string()));
    let file = match QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)) {
        Ok(file) => file,
        Err(e) => return told("open", &e),
    };
    if let Err(e) = verify_file(&file) {
        return told("verify", &e);
    }
    let error: RuntimeError = QsfSource::from_file(file).err()?;
    Some(("run", error.failure(), error.to_string()))
}

#[test]
fn a_file_with_one_thing_wrong_is_refused_when_it_must_be_and_not_before() {
    for case in cases("refused.json") {
        let (name, when) = (case["name"].as_str().unwrap(), case["when"].as_str().unwrap());
        let (found, failure, text) = refusal(falsified(&case)).unwrap_or_else(|| panic!("{name}: {case}"));
        let expected = if when == "read" { "verify" } else { when };
        assert_eq!(found, expected, "{name}: {text}");
        // What only a later version knows is no damage.
        let newer = name.ends_with("-unknown") || name == "kind-unused";
        assert_eq!(failure, if newer { Failure::Unsupported } else { Failure::BadInput }, "{name}: {text}");
    }
}

#[test]
fn kinds_that_are_not_known_are_listed_and_verified_and_only_computing_refuses_them() {
    let path = folder().join("unknown-kinds.qsf");
    let shown = program("qsf-inspect").arg(&path).args("--verify --tensors --json").run().json();
    let listed = shown["tensors"].as_array().unwrap();
    let conv = listed.iter().find(|tensor| tensor["kind"] == "ssm_conv").unwrap();
    assert_eq!(
        (&conv["kind_id"], &conv["rows"], &conv["cols"]),
        (&40.into(), &3.into(), &5.into()),
        "{conv}"
    );
    assert_eq!(listed.iter().filter(|tensor| tensor["known"] == false).count(), 4, "{shown}");
    for more in ["", " --ram-budget 100"] {
        let run = program("qsf-run").arg(&path).args(&format!("--prompt-ids 1 -n 1{more}")).run();
        assert_eq!(run.code, 4, "{}", run.stderr);
        let told = run.stderr.contains("layer 0 ssm_conv (kind 40)") && run.stderr.contains("newer qsf");
        assert!(told, "{}", run.stderr);
    }
    let optional = folder().join("optional-kinds.qsf");
    program("qsf-run").arg(&optional).args("--prompt-ids 1 -n 1").run().ok();
}

#[test]
fn a_kind_that_meta_does_not_name_is_told_by_its_number() {
    let file = QsfFile::open(&folder().join("unknown-kinds.qsf")).unwrap();
    let group = file.layer(0).unwrap();
    let words = |meta: Option<&Meta>| {
        let unknown = UnknownKind::among(Some(0), &group.tensors, meta);
        unknown.iter().map(UnknownKind::to_string).collect::<Vec<_>>()
    };
    assert_eq!(words(None), ["layer 0 kind 40", "layer 0 kind 41", "layer 0 kind 1000"]);
    let meta = file.meta().unwrap().unwrap();
    let named = ["layer 0 ssm_conv (kind 40)", "layer 0 latent_up (kind 41)", "layer 0 new_1000 (kind 1000)"];
    assert_eq!(words(Some(&meta)), named);
}
