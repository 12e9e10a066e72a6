//! The files of tests/conformance, which a second writer made from SPEC.md alone, as the runtime and the programs see them.
//! The reader itself is tried on them by the tests of qsf-format.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{Failure, QsfFile, TensorId, TensorKind};
use qsf_runtime::cpu::Isa;
use qsf_runtime::source::{QsfSource, WeightSource};
use qsf_runtime::stream::{Io, StreamSource};
use qsf_tests::*;
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance")
}

fn cases(name: &str) -> Vec<Value> {
    serde_json::from_slice(&std::fs::read(folder().join(name)).unwrap()).unwrap()
}

/// The CRC of the values of a tensor, by the runtime's fast decode.
fn crc(source: &dyn WeightSource, id: TensorId) -> String {
    let tensor = source.load(id).unwrap();
    let (mut hasher, mut values) = (crc32fast::Hasher::new(), vec![0.0; tensor.cols()]);
    for row in 0..tensor.rows() {
        tensor.decode_row(Isa::best(), row, &mut values);
        values.iter().for_each(|value: &f32| hasher.update(&value.to_le_bytes()));
    }
    format!("{:08x}", hasher.finalize())
}

/// Loaded and read from the disk piece by piece. Kind 13 is two tensors here, optional kinds are none, and parts are one matrix.
#[test]
fn a_model_that_another_writer_made_is_run_with_the_values_that_the_writer_gave_it() {
    for case in cases("accepted.json") {
        let path = folder().join(format!("{}.qsf", case["name"].as_str().unwrap()));
        if case["runs"] != true {
            assert!(QsfSource::open(&path).is_err(), "{case}");
            continue;
        }
        let sources: [&dyn WeightSource; 2] =
            [&QsfSource::open(&path).unwrap(), &StreamSource::open(&path, Io::Pread).unwrap()];
        let in_parts = case["matrices"].as_array().cloned().unwrap_or_default();
        let is_part_0 = |tensor: &&Value| {
            in_parts.iter().any(|matrix| ["layer", "kind"].iter().all(|key| matrix[key] == tensor[key]))
        };
        let whole = case["tensors"].as_array().unwrap().iter().filter(|tensor| !is_part_0(tensor));
        for tensor in whole.chain(&in_parts) {
            let kind = TensorKind::from_id(tensor["kind"].as_u64().unwrap() as u32);
            let Some(kind) = kind.filter(|kind| *kind != TensorKind::FfnBiases) else { continue };
            let id = TensorId { layer: tensor["layer"].as_u64().map(|layer| layer as u32), kind };
            for source in sources {
                assert_eq!(crc(source, id), tensor["values_crc32"], "{}, {id}", path.display());
            }
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

#[test]
fn a_sound_file_that_is_no_model_is_refused_by_who_runs_it() {
    for case in cases("refused.json").into_iter().filter(|case| case["when"] == "run") {
        let file = QsfFile::from_memory(Path::new("memory"), Arc::new(falsified(&case))).unwrap();
        let error = QsfSource::from_file(file).err().unwrap_or_else(|| panic!("{case}"));
        // A kind that this configuration does not use may be one that a later version does.
        let unused = case["name"] == "kind-unused";
        let told = matches!(error.failure(), Failure::BadInput | Failure::Unsupported);
        assert!(told && (!unused || error.to_string().contains("attn_q")), "{case}: {error}");
    }
}

#[test]
fn parts_of_matrices_are_listed_by_their_names() {
    let path = folder().join("parts-head.qsf");
    let shown = program("qsf-inspect").arg(&path).args("--verify --tensors --json").run().json();
    let listed = shown["tensors"].as_array().unwrap();
    for (name, kind_id, rows) in [
        ("token_embedding", 69_u32, 16_u32),
        ("token_embedding.1", 325, 34),
        ("head.1", 322, 18),
        ("head.2", 578, 1),
    ] {
        let part = listed.iter().find(|tensor| tensor["kind"] == name).unwrap();
        assert_eq!((&part["kind_id"], &part["rows"]), (&kind_id.into(), &rows.into()), "{part}");
        assert_eq!(part["known"], true, "{part}");
    }
}

#[test]
fn kinds_that_are_not_known_are_listed_and_verified_and_only_computing_refuses_them() {
    let path = folder().join("unknown-kinds.qsf");
    let shown = program("qsf-inspect").arg(&path).args("--verify --tensors --json").run().json();
    let listed = shown["tensors"].as_array().unwrap();
    let conv = listed.iter().find(|tensor| tensor["kind"] == "new_vector").unwrap();
    assert_eq!(
        (&conv["kind_id"], &conv["rows"], &conv["cols"]),
        (&200.into(), &3.into(), &5.into()),
        "{conv}"
    );
    assert_eq!(listed.iter().filter(|tensor| tensor["known"] == false).count(), 4, "{shown}");
    for more in ["", " --ram-budget 100"] {
        let run = program("qsf-run").arg(&path).args(&format!("--prompt-ids 1 -n 1{more}")).run();
        assert_eq!(run.code, 4, "{}", run.stderr);
        let told = run.stderr.contains("layer 0 new_vector (kind 200)") && run.stderr.contains("newer qsf");
        assert!(told, "{}", run.stderr);
    }
    let optional = folder().join("optional-kinds.qsf");
    program("qsf-run").arg(&optional).args("--prompt-ids 1 -n 1").run().ok();
}
