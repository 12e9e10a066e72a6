//! Whatever happens to a file after it was written, a reader notices: no flipped bit passes, no truncation panics.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::path::Path;
use std::sync::Arc;

use common::*;
use proptest::prelude::*;
use qsf_format::*;

fn file_bytes(compression: Compression) -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    write(&path, compression).unwrap();
    std::fs::read(path).unwrap()
}

fn check(bytes: Arc<Vec<u8>>) -> Result<Verification, FormatError> {
    verify_file(&QsfFile::from_memory(Path::new("memory"), bytes)?)
}

/// Flips one bit, checks, flips it back; without copying the file.
fn flip_is_found(bytes: &mut Arc<Vec<u8>>, at: usize, mask: u8) -> bool {
    Arc::get_mut(bytes).expect("the reader is gone")[at] ^= mask;
    let found = check(bytes.clone()).is_err();
    Arc::get_mut(bytes).expect("the reader is gone")[at] ^= mask;
    found
}

#[test]
fn every_flipped_bit_is_found() {
    for compression in [Compression::None, Compression::Zstd] {
        let mut bytes = Arc::new(file_bytes(compression));
        check(bytes.clone()).unwrap();
        for at in 0..bytes.len() {
            for bit in 0..8 {
                assert!(flip_is_found(&mut bytes, at, 1 << bit), "{compression:?}: bit {bit} of byte {at}");
            }
        }
    }
}

#[test]
fn every_truncation_and_every_appended_byte_is_found() {
    let mut bytes = file_bytes(Compression::Lz4);
    let whole = bytes.clone();
    bytes.push(0);
    check(Arc::new(bytes.clone())).expect_err("an appended byte");
    for end in (0..whole.len()).rev() {
        bytes.truncate(end);
        check(Arc::new(bytes.clone())).expect_err("a truncated file");
    }
}

#[test]
fn a_damaged_layer_is_not_loaded_but_its_neighbour_is() {
    let mut bytes = file_bytes(Compression::None);
    let file = QsfFile::from_memory(Path::new("memory"), Arc::new(bytes.clone())).unwrap();
    let at = file.layers()[1].offset as usize + 1000;
    bytes[at] ^= 4;
    let file = QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)).unwrap();
    file.layer(0).unwrap();
    let error = file.layer(1).unwrap_err();
    assert_eq!(error.failure(), Failure::BadInput);
    assert!(error.to_string().contains("layer 1"), "{error}");
}

/// Repairs the checksums that guard the header and the layer index, as an attacker would.
fn reseal(bytes: &mut [u8]) {
    let crc = crc32fast::hash(&bytes[..96]);
    bytes[96..100].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32fast::hash(&bytes[100..124]);
    bytes[124..128].copy_from_slice(&crc.to_le_bytes());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Hostile headers with sound checksums: an error or a sound file, never a panic or a huge allocation.
    #[test]
    fn a_forged_header_never_panics(at in 4usize..124, value in prop_oneof![Just(0u32), Just(u32::MAX), any::<u32>()]) {
        let mut bytes = file_bytes_cached();
        let at = at.min(120);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        reseal(&mut bytes);
        let _ = check(Arc::new(bytes));
    }

    /// The same for everything behind the header: forged bytes anywhere, all directory checksums repaired.
    #[test]
    fn forged_sections_with_sound_checksums_never_panic(
        part in 0usize..10,
        at in 0usize..4096,
        value in prop_oneof![Just(0u32), Just(u32::MAX), Just(0x7fff_ffff), any::<u32>()],
    ) {
        let mut bytes = file_bytes_cached();
        let directory = u64::from_le_bytes(bytes[100..108].try_into().unwrap()) as usize;
        let count = (bytes.len() - directory - 16) / 32;
        let entry = directory + 16 + 32 * (part % count);
        let offset = u64::from_le_bytes(bytes[entry + 8..entry + 16].try_into().unwrap()) as usize;
        let length = u64::from_le_bytes(bytes[entry + 16..entry + 24].try_into().unwrap()) as usize;
        let at = offset + at % (length - 3);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let crc = crc32fast::hash(&bytes[offset..offset + length]);
        bytes[entry + 24..entry + 28].copy_from_slice(&crc.to_le_bytes());
        let mut sealed = bytes[directory..directory + 12].to_vec();
        sealed.extend_from_slice(&bytes[directory + 16..]);
        let crc = crc32fast::hash(&sealed);
        bytes[directory + 12..directory + 16].copy_from_slice(&crc.to_le_bytes());
        let _ = check(Arc::new(bytes));
    }

    /// The same inside a layer: chunk table and tensor headers forged, the index and the directory repaired.
    #[test]
    fn forged_layers_with_sound_checksums_never_panic(
        at in 0usize..8000,
        value in prop_oneof![Just(0u32), Just(u32::MAX), Just(1 << 31), any::<u32>()],
        compressed in any::<bool>(),
    ) {
        let mut bytes = if compressed { file_bytes(Compression::Zstd) } else { file_bytes_cached() };
        let index = 128 + 32;
        let offset = u64::from_le_bytes(bytes[index..index + 8].try_into().unwrap()) as usize;
        let stored = u32::from_le_bytes(bytes[index + 8..index + 12].try_into().unwrap()) as usize;
        let at = at % (stored - 3);
        bytes[offset + at..offset + at + 4].copy_from_slice(&value.to_le_bytes());
        let entries = u32::from_le_bytes(bytes[offset..offset + 4].try_into().unwrap()) as usize;
        if let Some(table) = bytes.get(offset + 16..offset + 16 + entries.min(1000) * 16) {
            let crc = crc32fast::hash(table);
            bytes[offset + 4..offset + 8].copy_from_slice(&crc.to_le_bytes());
        }
        let crc = crc32fast::hash(&bytes[offset..offset + stored]);
        bytes[index + 20..index + 24].copy_from_slice(&crc.to_le_bytes());
        let file = reseal_index(bytes);
        if let Ok(file) = QsfFile::from_memory(Path::new("memory"), Arc::new(file)) {
            let _ = file.layer(1);
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let mut file = b"QSF1".to_vec();
        file.extend(bytes);
        let _ = check(Arc::new(file));
    }
}

fn file_bytes_cached() -> Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| file_bytes(Compression::None)).clone()
}

/// Repairs the LIDX entry and the directory's own checksum.
fn reseal_index(mut bytes: Vec<u8>) -> Vec<u8> {
    let directory = u64::from_le_bytes(bytes[100..108].try_into().unwrap()) as usize;
    let index_crc = crc32fast::hash(&bytes[128..128 + 64]);
    let entry = (directory + 16..bytes.len()).step_by(32).find(|&e| &bytes[e..e + 4] == b"LIDX").unwrap();
    bytes[entry + 24..entry + 28].copy_from_slice(&index_crc.to_le_bytes());
    let mut sealed = bytes[directory..directory + 12].to_vec();
    sealed.extend_from_slice(&bytes[directory + 16..]);
    let crc = crc32fast::hash(&sealed);
    bytes[directory + 12..directory + 16].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn a_forged_chunk_cannot_ask_for_more_memory_than_255_times_its_size() {
    let mut bytes = file_bytes(Compression::Zstd);
    let file = QsfFile::from_memory(Path::new("memory"), Arc::new(bytes.clone())).unwrap();
    let layer = file.layers().iter().position(|l| l.compression == Compression::Zstd).unwrap();
    let table = file.layers()[layer].offset as usize;
    drop(file);
    // stored size 16 of a chunk that claims its true raw size
    bytes[table + 16..table + 20].copy_from_slice(&16u32.to_le_bytes());
    let file = QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)).unwrap();
    file.layer(layer).unwrap_err();
}
