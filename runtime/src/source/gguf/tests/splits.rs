//! Models in several files.

use std::fs;

use super::*;

/// File `number` of `count`, with one tensor.
fn part(number: u16, count: u16, tensors: i32) -> Writer {
    Writer::new()
        .set("split.no", Value::U16(number))
        .set("split.count", Value::U16(count))
        .set("split.tensors.count", Value::I32(tensors))
        .f32s(&format!("x{number}"), &[1], &[f32::from(number)])
}

fn folder(parts: &[(&str, Writer)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, writer) in parts {
        fs::write(dir.path().join(name), writer.bytes()).unwrap();
    }
    dir
}

const FIRST: &str = "m-00001-of-00003.gguf";
const SECOND: &str = "m-00002-of-00003.gguf";
const THIRD: &str = "m-00003-of-00003.gguf";

fn message(parts: &[(&str, Writer)], name: &str) -> String {
    let dir = folder(parts);
    GgufFile::open(&dir.path().join(name)).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn the_first_file_opens_all_of_them() {
    let first = part(0, 3, 3).set("general.architecture", Value::Str("llama"));
    let dir = folder(&[(FIRST, first), (SECOND, part(1, 3, 3)), (THIRD, part(2, 3, 3))]);
    let file = GgufFile::open(&dir.path().join(FIRST)).unwrap();
    assert_eq!(file.metadata.need_str("general.architecture").unwrap(), "llama");
    assert_eq!(file.shards.len(), 3);
    for (i, tensor) in file.tensors.iter().enumerate() {
        assert_eq!((tensor.shard, tensor.name.as_str()), (i, format!("x{i}").as_str()));
        assert_eq!(file.bytes(tensor), (i as f32).to_le_bytes());
    }
}

#[test]
fn another_file_than_the_first_points_to_the_first() {
    let text = message(&[(SECOND, part(1, 3, 3))], SECOND);
    assert!(
        text.contains("part 2 of 3 on its own is not supported; open ") && text.contains(FIRST),
        "{text}"
    );
    let text = message(&[("renamed.gguf", part(1, 3, 3))], "renamed.gguf");
    assert!(text.contains("open the first file of the model"), "{text}");
}

#[test]
fn a_missing_file_is_named() {
    let text = message(&[(FIRST, part(0, 3, 3)), (THIRD, part(2, 3, 3))], FIRST);
    assert!(text.contains(SECOND) && text.contains("cannot open"), "{text}");
    let text = message(&[("renamed.gguf", part(0, 3, 3))], "renamed.gguf");
    assert!(text.contains("a name that ends in -00001-of-00003.gguf"), "{text}");
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let third = (THIRD, part(2, 3, 3));
    let swapped = message(&[(FIRST, part(0, 3, 3)), (SECOND, part(2, 3, 3)), third.clone()], FIRST);
    assert!(swapped.contains(r#"key "split.no": expected 1"#), "{swapped}");
    let other = message(&[(FIRST, part(0, 3, 3)), (SECOND, part(1, 4, 3)), third.clone()], FIRST);
    assert!(other.contains(r#"key "split.count": expected 3"#), "{other}");
    let plain = message(&[(FIRST, part(0, 3, 3)), (SECOND, Writer::new()), third.clone()], FIRST);
    assert!(plain.contains("no such key"), "{plain}");
    let fewer = message(&[(FIRST, part(0, 3, 4)), (SECOND, part(1, 3, 4)), third.clone()], FIRST);
    assert!(fewer.contains(r#"key "split.tensors.count": expected 4 tensors"#), "{fewer}");
    let doubled = part(1, 3, 4).f32s("x0", &[1], &[0.0]);
    let doubled = message(&[(FIRST, part(0, 3, 4)), (SECOND, doubled), third], FIRST);
    assert!(
        doubled.contains(r#"tensor "x0": expected one tensor of this name, found one here and one in"#),
        "{doubled}"
    );
}

#[test]
#[cfg(unix)]
fn a_link_to_a_device_in_place_of_a_file_is_not_read() {
    let dir = folder(&[(FIRST, part(0, 3, 3))]);
    std::os::unix::fs::symlink("/dev/zero", dir.path().join(SECOND)).unwrap();
    let text = GgufFile::open(&dir.path().join(FIRST)).unwrap_err().to_string();
    assert!(text.contains("a special file"), "{text}");
}
