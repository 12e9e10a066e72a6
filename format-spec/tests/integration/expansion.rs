//! Small files that decompress to large ones: bounded where the content is text, checked piece by piece where it is weights.

use std::path::Path;
use std::sync::Arc;

use crate::small_file::*;
use qsf_format::*;

fn open(bytes: Vec<u8>) -> QsfFile {
    QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)).unwrap()
}

fn damage(error: FormatError) -> Damage {
    match error {
        FormatError::Damaged { damage, .. } => *damage,
        other => panic!("{other}"),
    }
}

/// A file whose tokenizer is `raw`, stored as the writer likes.
fn with_tokenizer(raw: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut writer = without_positions(&path, options(Compression::None)).unwrap();
    writer.begin_positions().unwrap();
    let t = tensor(TensorKind::Positions, 32, HIDDEN, QuantType::N3, 13);
    writer.begin_tensor(t.kind, t.rows, t.cols, t.quant, t.layout).unwrap();
    writer.tensor_rows(&t.data).unwrap();
    writer.end_positions();
    writer.finish(&meta(), MIXED, Some(raw), None).unwrap();
    std::fs::read(path).unwrap()
}

/// A file whose tokenizer decompresses to `len` zeros, under right checksums: what no writer of this project makes.
fn with_bomb(len: usize) -> Vec<u8> {
    let frame = zstd::bulk::compress(&vec![0; len], 3).unwrap();
    let mut bytes = with_tokenizer(&vec![0; 4 << 20]);
    let entry = section_entry(&bytes, b"TOKN");
    let at = u64_at(&bytes, entry + 8) as usize;
    bytes[at..at + frame.len()].copy_from_slice(&frame);
    bytes[entry + 16..entry + 24].copy_from_slice(&(frame.len() as u64).to_le_bytes());
    bytes[entry + 28] = 3;
    seal_section(&mut bytes, b"TOKN");
    bytes
}

#[test]
fn a_section_expands_to_a_mebibyte_or_64_times_and_no_further() {
    let small = open(with_bomb(1 << 20));
    assert_eq!(small.section_bytes(SectionTag::TOKENIZER).unwrap().unwrap(), vec![0; 1 << 20]);
    verify_file(&small).unwrap();
    let large = open(with_bomb((1 << 20) + 1));
    for error in [
        large.section_bytes(SectionTag::TOKENIZER).unwrap_err(),
        verify_file(&large).unwrap_err(),
        // Its compressed size is known before any of it is decompressed.
        open(with_bomb(1 << 30)).section_bytes(SectionTag::TOKENIZER).unwrap_err(),
    ] {
        assert_eq!(error.failure(), Failure::BadInput);
        let damage = damage(error);
        assert_eq!((damage.place.as_str(), damage.offset % 64), ("section TOKN", 0));
        assert!(damage.expected.starts_with("a zstd frame of at most "), "{damage}");
    }
}

#[test]
fn a_tokenizer_that_would_expand_further_than_readers_believe_is_stored_raw() {
    for len in [1 << 20, 2 << 20] {
        let raw = vec![b' '; len];
        let file = open(with_tokenizer(&raw));
        let stored = file.section(SectionTag::TOKENIZER).unwrap();
        assert_eq!(stored.compression == Compression::Zstd, len == 1 << 20, "{len}");
        assert_eq!(stored.stored_bytes, stored_section_bytes(&raw).unwrap());
        assert_eq!(file.section_bytes(SectionTag::TOKENIZER).unwrap().unwrap(), raw);
    }
}

#[test]
fn an_outline_names_the_place_that_reading_the_layer_names() {
    for compression in [Compression::None, Compression::Zstd] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.qsf");
        write(&path, compression).unwrap();
        let mut bytes = std::fs::read(path).unwrap();
        // One tensor less than there are: the last is more than the end.
        bytes[128 + 32 + 18] -= 1;
        seal_layer(&mut bytes, 1);
        let file = open(bytes);
        let outlined = damage(file.layer_outline(1).unwrap_err());
        assert_eq!(outlined, damage(file.layer(1).unwrap_err()));
        assert_eq!(outlined, damage(verify_file(&file).unwrap_err()));
        let (start, end) = (file.layers()[1].offset, file.layers()[1].offset + file.layers()[1].stored_bytes);
        assert!((start..end).contains(&outlined.offset), "{outlined}");
        let decompressed = outlined.place.contains("of the decompressed layer");
        assert_eq!(
            (decompressed, outlined.offset == start),
            match compression {
                Compression::None => (false, false),
                _ => (true, true),
            }
        );
    }
}

#[test]
fn metadata_is_looked_at_before_weights_are_decompressed() {
    let mut bytes = with_tokenizer(b"{}");
    let layer = u64_at(&bytes, 128) as usize;
    bytes[layer + 100] ^= 1;
    let entry = section_entry(&bytes, b"META");
    let at = u64_at(&bytes, entry + 8) as usize;
    bytes[at + 9] ^= 1;
    let found = damage(verify_file(&open(bytes)).unwrap_err());
    assert_eq!(found.place, "section META");
}
