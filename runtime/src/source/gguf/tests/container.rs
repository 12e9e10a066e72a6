//! Files that are right: everything in them is found where it is.

use std::fs;

use super::*;
use crate::source::gguf::is_gguf;

/// A file with a bit of everything.
pub(super) fn small() -> Writer {
    Writer::new()
        .set("general.architecture", Value::Str("llama"))
        .set("gpt-oss.block_count", Value::U16(2))
        .set("general.Name", Value::Str("Grün"))
        .set("tokens", Value::strs(&["a", "", "ü"]))
        .set("nested", Value::List(vec![Value::strs(&["x"]), Value::f32s(&[1.0, 2.0])]))
        .f32s("b.weight", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .tensor("a.weight", &[32], 8, &[7; 34])
}

#[test]
fn versions_2_and_3_keys_of_any_spelling_and_tensors_are_read_in_file_order() {
    for version in [2, 3] {
        let file = open(&Writer { version, ..small() }.bytes()).unwrap();
        let keys: Vec<&str> = file.metadata.keys().collect();
        assert_eq!(keys, ["general.architecture", "gpt-oss.block_count", "general.Name", "tokens", "nested"]);
        assert_eq!(file.metadata.str("general.Name").unwrap(), Some("Grün"));
        assert_eq!(file.metadata.u32("gpt-oss.block_count").unwrap(), Some(2));
        let names: Vec<&str> = file.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, ["b.weight", "a.weight"]);
        let [b, a] = &file.tensors[..] else { panic!() };
        assert_eq!((&b.shape[..], b.type_id, a.type_id), (&[2, 3][..], 0, 8));
        assert_eq!(file.bytes(b)[4..8], 2f32.to_le_bytes());
        assert_eq!((file.bytes(a), b.range.start % 32, a.range.start % 32), (&[7; 34][..], 0, 0));
    }
}

#[test]
fn a_file_of_a_vocabulary_alone_opens() {
    let file = open(&Writer::new().set("tokens", Value::strs(&["a"])).bytes()).unwrap();
    assert!(file.tensors.is_empty());
    assert_eq!(file.metadata.strings("tokens").unwrap().unwrap(), ["a"]);
    assert!(open(&Writer::new().bytes()).is_ok());
}

#[test]
fn an_unknown_tensor_type_is_kept_by_its_number() {
    let file =
        open(&Writer::new().tensor("x", &[5], 31, &[0; 4]).tensor("y", &[1], 0, &[0; 4]).bytes()).unwrap();
    assert_eq!(
        (file.tensors[0].type_id, file.tensors[0].known_type(), file.tensors[0].range.len()),
        (31, None, 0)
    );
    assert_eq!(file.bytes(&file.tensors[1]).len(), 4);
}

#[test]
fn alignments_other_than_the_usual_one_move_the_data() {
    for alignment in [1, 8, 64, 4096, 1 << 20] {
        let mut writer = Writer { alignment, ..Writer::new() };
        writer = writer.set("general.alignment", Value::U32(alignment as u32));
        let bytes = writer.f32s("a", &[1], &[1.0]).f32s("b", &[1], &[2.0]).bytes();
        let file = open(&bytes).unwrap();
        assert_eq!(file.bytes(&file.tensors[1]), 2f32.to_le_bytes());
        assert!(file.tensors.iter().all(|tensor| tensor.range.start % alignment == 0));
    }
}

#[test]
fn tensors_may_lie_in_any_order_and_with_gaps() {
    let mut writer = small();
    let (first, second) = (writer.tensors[0].offset, writer.tensors[1].offset);
    writer.tensors[0].offset = second + 64;
    let mut bytes = writer.bytes();
    bytes.extend([9; 128]);
    let file = open(&bytes).unwrap();
    assert!(file.tensors[0].range.start > file.tensors[1].range.start && first == 0);
}

#[test]
fn a_file_is_known_by_its_first_bytes() {
    let (dir, path) = save(&small().bytes());
    assert!(is_gguf(&path));
    let other = dir.path().join("x.gguf");
    fs::write(&other, b"GGU").unwrap();
    assert!(!is_gguf(&other));
    fs::write(&other, b"QSF1....").unwrap();
    assert!(!is_gguf(&other) && !is_gguf(dir.path()) && !is_gguf(&dir.path().join("none")));
    #[cfg(unix)]
    assert!(!is_gguf(std::path::Path::new("/dev/zero")));
}

#[test]
fn opening_a_file_of_10_gigabytes_reads_its_start_only() {
    let mut writer = Writer::new();
    writer.counts.0 = Some(1);
    let mut bytes = writer.tensor("x", &[1 << 20, 2560], 0, &[]).head();
    bytes.extend([0; 32]);
    let (_dir, path) = save(&bytes);
    fs::File::options().write(true).open(&path).unwrap().set_len(10 * (1 << 30) + 4096).unwrap();
    let start = std::time::Instant::now();
    let file = GgufFile::open(&path).unwrap();
    assert_eq!(file.tensors[0].range.len(), 10 << 30);
    assert!(start.elapsed().as_secs_f32() < 0.5, "{:?}", start.elapsed());
}
