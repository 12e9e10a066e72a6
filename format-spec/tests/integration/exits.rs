//! Early exits in a file: they come back, count in its size, and are not believed when they are damaged.

use std::path::Path;
use std::sync::Arc;

use crate::small_file::*;
use qsf_format::*;

/// The file of these tests has two layers, so there is one place to leave it.
fn exits() -> EarlyExits {
    let weights = (0..HIDDEN).map(|i| i as f32 * 0.5 - 3.0).collect();
    EarlyExits {
        cols: HIDDEN,
        positions: 50,
        exits: vec![LayerExit { layer: 0, agreeing: 20, bias: 0.25, weights }],
    }
}

fn complete(path: &Path) -> CompleteFile {
    let mut writer = without_positions(path, options(Compression::None)).unwrap();
    writer.begin_positions().unwrap();
    let t = tensor(TensorKind::Positions, 32, HIDDEN, QuantType::N3, 13);
    writer.begin_tensor(t.kind, t.rows, t.cols, t.quant, t.layout).unwrap();
    writer.tensor_rows(&t.data).unwrap();
    writer.end_positions();
    writer.complete(&meta(), MIXED, None, None).unwrap()
}

fn with_exits() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut file = complete(&path);
    file.append_early_exits(&exits()).unwrap();
    file.append_evaluation(b"{\"ppl\": 12.5}").unwrap();
    file.publish().unwrap();
    std::fs::read(path).unwrap()
}

fn open(bytes: Vec<u8>) -> Result<QsfFile, FormatError> {
    QsfFile::from_memory(Path::new("memory"), Arc::new(bytes))
}

#[test]
fn exits_come_back_beside_an_evaluation_and_count_in_the_size() {
    let file = open(with_exits()).unwrap();
    assert_eq!(file.early_exits().unwrap(), Some(exits()));
    assert!(file.section_bytes(SectionTag::EVALUATION).unwrap().is_some());
    verify_file(&file).unwrap();
    let stored = file.section(SectionTag::EXITS).unwrap().stored_bytes;
    assert_eq!(stored, EarlyExits::section_bytes(1, HIDDEN));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    complete(&path).publish().unwrap();
    assert_eq!(QsfFile::open(&path).unwrap().early_exits().unwrap(), None);
}

#[test]
fn every_flipped_bit_of_the_section_is_found() {
    let bytes = with_exits();
    let section = *open(bytes.clone()).unwrap().section(SectionTag::EXITS).unwrap();
    for at in section.offset..section.offset + section.stored_bytes {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1 << (at % 8);
        let error = open(damaged).unwrap().early_exits().unwrap_err();
        assert!(error.to_string().contains("EXIT"), "{error}");
    }
}

#[test]
fn fields_that_contradict_each_other_or_the_model_are_found_under_a_right_checksum() {
    let bytes = with_exits();
    let section = *open(bytes.clone()).unwrap().section(SectionTag::EXITS).unwrap();
    for (at, byte) in [(0, 2), (4, 65), (8, 19), (12, 0), (12, 2), (16, 1), (20, 51), (27, 0x7F), (31, 0xFF)]
    {
        let mut damaged = bytes.clone();
        damaged[section.offset as usize + at] = byte;
        if at > 20 {
            // The exponent reaches into the byte before.
            damaged[section.offset as usize + at - 1] = 0x80;
        }
        seal_section(&mut damaged, b"EXIT");
        let file = open(damaged).unwrap();
        let error = file.early_exits().unwrap_err().to_string();
        assert!(error.contains("section EXIT") && error.contains("expected"), "byte {at}: {error}");
        verify_file(&file).unwrap_err();
    }
    let mut compressed = bytes;
    let entry = section_entry(&compressed, b"EXIT");
    compressed[entry + 28] = 3;
    seal_section(&mut compressed, b"EXIT");
    assert!(open(compressed).unwrap_err().to_string().contains("compression 0"));
}

#[test]
fn exits_that_no_reader_accepts_are_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let behind_the_last = LayerExit { layer: 1, ..exits().exits[0].clone() };
    for wrong in [
        EarlyExits { exits: Vec::new(), ..exits() },
        EarlyExits { exits: vec![behind_the_last], ..exits() },
        EarlyExits { positions: 10, ..exits() },
    ] {
        let path = dir.path().join("model.qsf");
        let mut file = complete(&path);
        let error = file.append_early_exits(&wrong).unwrap_err();
        assert!(matches!(error, FormatError::Unwritable { .. }), "{error}");
        drop(file);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something is left behind");
    }
}
