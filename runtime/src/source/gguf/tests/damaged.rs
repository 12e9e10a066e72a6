//! Files that are wrong, by accident or by intent. The letters and numbers name reports of the same hole in other
//! readers.

use super::container::small;
use super::writer::TensorToWrite;
use super::*;

#[test]
fn a_file_cut_short_anywhere_is_refused() {
    let bytes = small().bytes();
    for len in 0..bytes.len() {
        assert!(open(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
    }
    refused(&bytes[..bytes.len() - 1], "cut short");
    refused(b"", "where the file ends");
    refused(b"GGUF", "the version");
    refused(b"GGML\x03\0\0\0", "GGUF");
}

#[test]
fn no_flipped_bit_of_the_start_makes_it_panic() {
    let writer = small();
    let (head, bytes) = (writer.head().len(), writer.bytes());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flipped.gguf");
    for bit in 0..head * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &flipped).unwrap();
        let Ok(file) = GgufFile::open(&path) else { continue };
        for key in file.metadata.keys() {
            let _ = (file.metadata.str(key), file.metadata.u32(key), file.metadata.f32(key));
            let _ = (file.metadata.strings(key), file.metadata.f32s(key), file.metadata.bools(key));
        }
        assert!(file.tensors.iter().all(|tensor| file.bytes(tensor).len() <= bytes.len()));
    }
}

#[test]
fn other_versions_and_byte_orders_are_named() {
    refused(
        &Writer { version: 1, ..Writer::new() }.bytes(),
        "GGUF version 1 is not supported; write the file anew",
    );
    refused(&Writer { version: 4, ..Writer::new() }.bytes(), "GGUF version 4");
    refused(&Writer { version: 3u32.swap_bytes(), ..Writer::new() }.bytes(), "big-endian");
    refused(&Writer { version: 0, ..Writer::new() }.bytes(), "not supported");
}

/// CVE-2024-21802 and its family, CVE-2025-66960: counts of which the file cannot hold a fraction.
#[test]
fn counts_beyond_the_file_are_refused_before_anything_is_allocated() {
    for huge in [1 << 62, 1 << 63, u64::MAX, 1000] {
        refused(&Writer { counts: (Some(huge), None), ..small() }.bytes(), "the number of tensors");
        refused(&Writer { counts: (None, Some(huge)), ..small() }.bytes(), "the number of keys");
        let mut bytes = Writer { counts: (None, Some(huge)), ..Writer::new() }.bytes();
        bytes.resize(64, 0);
        refused(&bytes, "the number of keys");
    }
}

#[test]
fn lengths_beyond_the_file_are_refused_before_anything_is_allocated() {
    for huge in [1 << 62, 1 << 63, u64::MAX, u64::MAX - 7, 1000] {
        let length = u64::to_le_bytes(huge).to_vec();
        refused(&Writer::new().set("k", Value::Raw(8, length.clone())).bytes(), r#"the value of "k""#);
        for element in 0..13u32 {
            let array = [element.to_le_bytes().to_vec(), length.clone()].concat();
            refused(&Writer::new().set("k", Value::Raw(9, array.clone())).bytes(), r#"the value of "k""#);
            let nested = [9u32.to_le_bytes().to_vec(), 1u64.to_le_bytes().to_vec(), array].concat();
            refused(&Writer::new().set("k", Value::Raw(9, nested)).bytes(), r#"the value of "k""#);
        }
        let mut bytes = Writer::new().set("k", Value::U8(0)).bytes();
        bytes[24..32].copy_from_slice(&length);
        refused(&bytes, "a key");
        let mut bytes = Writer::new().f32s("x", &[1], &[1.0]).bytes();
        bytes[24..32].copy_from_slice(&length);
        refused(&bytes, "the name of a tensor");
    }
}

#[test]
fn arrays_in_arrays_end_somewhere() {
    let mut deep = Vec::new();
    for _ in 0..100_000 {
        deep.extend([9u32.to_le_bytes().as_slice(), &1u64.to_le_bytes()].concat());
    }
    refused(&Writer::new().set("k", Value::Raw(9, deep)).bytes(), "arrays at most");
}

#[test]
fn a_long_list_of_nothing_costs_no_more_than_its_file() {
    let count = 3_000_000u64;
    let mut empty = [8u32.to_le_bytes().as_slice(), &count.to_le_bytes()].concat();
    empty.resize(12 + 8 * count as usize, 0);
    let start = std::time::Instant::now();
    let file = open(&Writer::new().set("k", Value::Raw(9, empty)).bytes()).unwrap();
    assert_eq!(file.metadata.strings("k").unwrap().unwrap().len(), count as usize);
    // Generous, for other work on the machine.
    assert!(start.elapsed().as_secs_f32() < 5.0);
    let count = 5_000_000u64;
    let mut bytes = [0u32.to_le_bytes().as_slice(), &count.to_le_bytes()].concat();
    bytes.resize(12 + count as usize, 0);
    refused(&Writer::new().set("k", Value::Raw(9, bytes)).bytes(), "at most 4194304");
}

#[test]
fn metadata_without_end_is_refused() {
    let mut long = (70u64 << 20).to_le_bytes().to_vec();
    long.resize(8 + (70 << 20), b' ');
    refused(&Writer::new().set("k", Value::Raw(8, long)).bytes(), "at most 67108864 bytes of metadata");
}

#[test]
fn keys_are_names_and_each_is_there_once() {
    let mut writer = small();
    writer.pairs.push((b"tokens".to_vec(), Value::U8(1)));
    refused(&writer.bytes(), r#"the value of "tokens" at byte"#);
    let mut writer = small();
    writer.pairs.push((Vec::new(), Value::U8(1)));
    refused(&writer.bytes(), "a length of 1 to 1024, found 0");
    let mut writer = small();
    writer.pairs.push((b"\xff\xfe".to_vec(), Value::U8(1)));
    refused(&writer.bytes(), "UTF-8");
    refused(
        &Writer::new().set("\u{1b}[2J", Value::Raw(13, vec![])).bytes(),
        "a type from 0 to 12, found type 13",
    );
    refused(&Writer::new().set("k", Value::Raw(9, vec![0xff; 12])).bytes(), "a type from 0 to 12");
}

/// CVE-2025-0317 and LC#24759: an alignment that divides by zero or makes the padding wrap.
#[test]
fn an_alignment_must_be_a_power_of_two() {
    for bad in [0, 3, 13, 1 << 21, 1 << 30, 1 << 31, u32::MAX] {
        let writer = Writer::new().set("general.alignment", Value::U32(bad));
        refused(&writer.bytes(), r#"key "general.alignment": expected a power of two"#);
    }
    for bad in
        [Value::I32(-32), Value::F32(32.0), Value::Str("32"), Value::strs(&["32"]), Value::U64(1 << 40)]
    {
        refused(&Writer::new().set("general.alignment", bad).bytes(), r#"key "general.alignment""#);
    }
}

fn with_tensor(tensor: TensorToWrite) -> Vec<u8> {
    let mut writer = Writer::new().tensor("first", &[8], 0, &[1; 32]);
    writer.tensors.push(tensor);
    writer.bytes()
}

fn tensor(shape: &[u64], type_id: u32, offset: u64) -> TensorToWrite {
    TensorToWrite { name: b"x".to_vec(), shape: shape.to_vec(), type_id, offset }
}

/// CVE-2025-53630, CVE-2026-27940, CVE-2026-33298: sizes that wrap.
#[test]
fn shapes_whose_bytes_cannot_be_counted_are_refused() {
    let shapes: [&[u64]; 7] = [
        &[(1 << 42) + 1, 1 << 22],
        &[1 << 62, 4],
        &[u64::MAX],
        &[u64::MAX, u64::MAX, u64::MAX, u64::MAX],
        &[1 << 32, 1 << 32],
        &[1 << 31, 2],
        &[8, 2],
    ];
    for shape in shapes {
        for type_id in [0, 1, 28, 30] {
            refused(&with_tensor(tensor(shape, type_id, 0)), r#"tensor "x""#);
        }
    }
    for type_id in [31, 99, u32::MAX] {
        refused(&with_tensor(tensor(&[1 << 62, 1 << 62], type_id, 0)), r#"tensor "x""#);
    }
}

/// CVE-2026-7482: data beyond the file, which a conversion would publish.
#[test]
fn data_outside_of_the_file_is_refused() {
    for offset in [32, 64, 1 << 40, u64::MAX - 31, i64::MAX as u64 - 31] {
        refused(&with_tensor(tensor(&[8], 0, offset)), "cut short");
    }
    refused(&with_tensor(tensor(&[8], 77, 1 << 40)), "cut short");
    for offset in [1, 31, 33, u64::MAX] {
        refused(&with_tensor(tensor(&[8], 0, offset)), "multiple of 32");
    }
}

#[test]
fn two_tensors_never_share_bytes_or_a_name() {
    refused(&with_tensor(tensor(&[8], 0, 0)), r#"bytes behind those of "first""#);
    let mut twice = tensor(&[8], 0, 0);
    twice.name = b"first".to_vec();
    refused(&with_tensor(twice), "a second one");
}

#[test]
fn dimensions_are_1_to_4_and_none_is_zero() {
    refused(&with_tensor(tensor(&[], 0, 0)), "1 to 4 dimensions");
    refused(&with_tensor(tensor(&[1; 5], 0, 0)), "1 to 4 dimensions");
    refused(&with_tensor(tensor(&[0], 0, 0)), "dimensions of at least 1");
    refused(&with_tensor(tensor(&[4, 0, 2], 31, 0)), "dimensions of at least 1");
    let mut bytes = Writer::new().f32s("x", &[1], &[1.0]).bytes();
    bytes[33..37].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(&bytes, "1 to 4 dimensions, found 4294967295");
}

#[test]
fn a_row_is_whole_blocks_of_its_type() {
    for (type_id, cols) in [(2, 33), (8, 16), (12, 128), (12, 257), (40, 32), (41, 64)] {
        refused(&with_tensor(tensor(&[cols, 2], type_id, 32)), "a shape that its type can have");
    }
}

#[test]
fn names_of_tensors_are_short_text_and_cannot_steer_a_terminal() {
    for (name, message) in [
        (&b""[..], "a length of 1 to 64, found 0"),
        (&[b'x'; 65], "a length of 1 to 64, found 65"),
        (b"\xff", "UTF-8"),
        (b"\x1b]0;title\x07", r#"tensor "\u{1b}]0;title\u{7}""#),
    ] {
        refused(&with_tensor(TensorToWrite { name: name.to_vec(), ..tensor(&[0], 0, 0) }), message);
    }
}

#[test]
#[cfg(unix)]
fn only_regular_files_are_opened() {
    let message = GgufFile::open(std::path::Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(message.contains("a special file"), "{message}");
    let dir = tempfile::tempdir().unwrap();
    assert!(GgufFile::open(dir.path()).unwrap_err().to_string().contains("a directory"));
}
