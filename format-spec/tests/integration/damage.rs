//! Whatever happens to a file after it was written, a reader notices: no flipped bit passes, no truncation panics.

use std::path::Path;
use std::sync::Arc;

use crate::small_file::*;
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    /// Hostile headers with sound checksums: an error or a sound file, never a panic or a huge allocation.
    #[test]
    fn a_forged_header_never_panics(at in 4usize..124, value in prop_oneof![Just(0u32), Just(u32::MAX), any::<u32>()]) {
        let mut bytes = file_bytes_cached();
        let at = at.min(120);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        seal_header(&mut bytes);
        let _ = check(Arc::new(bytes));
    }

    /// Forged bytes anywhere behind the header, all directory checksums repaired.
    #[test]
    fn forged_sections_with_sound_checksums_never_panic(
        part in 0usize..10,
        at in 0usize..4096,
        value in prop_oneof![Just(0u32), Just(u32::MAX), Just(0x7fff_ffff), any::<u32>()],
    ) {
        let mut bytes = file_bytes_cached();
        let directory = u64_at(&bytes, 100) as usize;
        let count = (bytes.len() - directory - 16) / 32;
        let entry = directory + 16 + 32 * (part % count);
        let tag = bytes[entry..entry + 4].try_into().unwrap();
        let (offset, length) = (u64_at(&bytes, entry + 8) as usize, u64_at(&bytes, entry + 16) as usize);
        let at = offset + at % (length - 3);
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        seal_section(&mut bytes, &tag);
        let _ = check(Arc::new(bytes));
    }

    /// Forged bytes inside a layer, of chunk table and tensor headers, with the index and the directory repaired.
    #[test]
    fn forged_layers_with_sound_checksums_never_panic(
        at in 0usize..8000,
        value in prop_oneof![Just(0u32), Just(u32::MAX), Just(1 << 31), any::<u32>()],
        compressed in any::<bool>(),
    ) {
        let mut bytes = if compressed { file_bytes(Compression::Zstd) } else { file_bytes_cached() };
        let offset = u64_at(&bytes, 128 + 32) as usize;
        let stored = u32_at(&bytes, 128 + 32 + 8) as usize;
        let at = at % (stored - 3);
        bytes[offset + at..offset + at + 4].copy_from_slice(&value.to_le_bytes());
        seal_layer(&mut bytes, 1);
        if let Ok(file) = QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)) {
            let _ = file.layer(1);
        }
    }

    /// In a plain file no checksum stands before the layer index, the embedding and the final section.
    #[test]
    fn random_bytes_in_a_plain_file_never_panic(
        at in prop_oneof![0usize..3, 128usize..200, 128usize..40_000],
        random in prop::collection::vec(prop_oneof![Just(0u8), Just(0xFF), any::<u8>()], 1..80),
    ) {
        let mut bytes = plain_file_bytes();
        // 0 to 2: the parts that are parsed, which uniformly drawn offsets would rarely hit.
        let at = match at {
            0 | 1 => u64_at(&bytes, 64 + 8 * at) as usize,
            2 => u64_at(&bytes, 72) as usize + 48,
            at => at.min(bytes.len() - random.len()),
        };
        bytes[at..at + random.len()].copy_from_slice(&random);
        let _ = check(Arc::new(bytes));
    }
}

/// A model in a file without directory: its header says nothing of the sections, and its chunks are uncompressed.
fn plain_file_bytes() -> Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    let make = || {
        let mut bytes = file_bytes_cached();
        bytes[100..128].fill(0);
        let plain = check(Arc::new(bytes.clone())).unwrap();
        assert!(!plain.unprotected.is_empty(), "the random bytes would only meet checksums");
        bytes
    };
    BYTES.get_or_init(make).clone()
}

fn file_bytes_cached() -> Vec<u8> {
    static BYTES: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    BYTES.get_or_init(|| file_bytes(Compression::None)).clone()
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
    seal_layer(&mut bytes, layer);
    let file = QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)).unwrap();
    let error = file.layer(layer).unwrap_err();
    assert!(error.to_string().contains("stored and raw sizes that fit"), "{error}");
}

fn damage(error: FormatError) -> Damage {
    match error {
        FormatError::Damaged { damage, .. } => *damage,
        other => panic!("{other}"),
    }
}

/// A file whose TCRC has a wrong CRC for this tensor of the whole file.
fn with_wrong_tensor_crc(compression: Compression, tensor: usize) -> Vec<u8> {
    let mut bytes = file_bytes(compression);
    let tcrc = u64_at(&bytes, section_entry(&bytes, b"TCRC") + 8) as usize;
    bytes[tcrc + 4 * tensor] ^= 1;
    seal_section(&mut bytes, b"TCRC");
    bytes
}

#[test]
fn a_tensor_that_fails_its_checksum_is_reported_where_it_stands_in_the_file() {
    // Tensor 5 is the second of layer 1, tensor 8 the first of the final section, tensor 11 the positions.
    for tensor in [5, 8, 11] {
        let bytes = with_wrong_tensor_crc(Compression::None, tensor);
        let file = QsfFile::from_memory(Path::new("memory"), Arc::new(bytes.clone())).unwrap();
        let (group, i) = match tensor {
            5 => (file.layer(1).unwrap(), 1),
            8 => (file.final_section().unwrap().1, 0),
            _ => (file.positions().unwrap().unwrap(), 0),
        };
        let expected = &group.tensors[i];
        let damage = damage(check(Arc::new(bytes.clone())).unwrap_err());
        let at = damage.offset as usize;
        assert_eq!(u32_at(&bytes, at), expected.kind_id, "no header of that tensor there: {damage}");
        assert_eq!(&bytes[at + 16..][..expected.data.len()], &group.bytes.as_slice()[expected.data.clone()]);
        assert!(!damage.place.contains("decompressed"), "{damage}");
    }
}

#[test]
fn a_tensor_of_a_compressed_layer_is_reported_by_its_place_in_the_decompressed_layer() {
    let bytes = with_wrong_tensor_crc(Compression::Zstd, 5);
    let file = QsfFile::from_memory(Path::new("memory"), Arc::new(bytes.clone())).unwrap();
    let layer = &file.layers()[1];
    assert_eq!(layer.compression, Compression::Zstd, "the layer must be compressed for this test");
    let start = file.layer(1).unwrap().tensors[1].with_header().start;
    let damage = damage(check(Arc::new(bytes)).unwrap_err());
    assert_eq!(damage.offset, layer.offset);
    assert_eq!(damage.place, format!("layer 1, tensor 1, byte {start} of the decompressed layer"));
}

#[test]
fn a_section_tcrc_of_the_wrong_length_is_reported_at_its_own_offset() {
    for (change, expected) in [(-4i64, "a CRC per tensor"), (4, "12 CRCs")] {
        let mut bytes = file_bytes(Compression::None);
        let entry = section_entry(&bytes, b"TCRC");
        let offset = u64_at(&bytes, entry + 8);
        let stored = u64_at(&bytes, entry + 16).checked_add_signed(change).unwrap();
        bytes[entry + 16..entry + 24].copy_from_slice(&stored.to_le_bytes());
        if change < 0 {
            // The cut bytes are padding now.
            bytes[(offset + stored) as usize..][..4].fill(0);
        }
        seal_section(&mut bytes, b"TCRC");
        let damage = damage(check(Arc::new(bytes)).unwrap_err());
        assert_eq!((damage.offset, damage.place.as_str()), (offset, "section TCRC"));
        assert!(damage.expected.contains(expected), "{damage}");
    }
}

#[test]
fn outliers_without_their_tensor_and_a_section_that_readers_could_pass_over_are_refused() {
    let whole = file_bytes(Compression::None);
    let entry = section_entry(&whole, b"OUTL");
    let offset = u64_at(&whole, entry + 8) as usize;
    assert_eq!(u32_at(&whole, entry + 4), 1, "a reader that does not know the section must refuse");
    let forged = |at: usize, value: &[u8]| {
        let mut bytes = whole.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        seal_section(&mut bytes, b"OUTL");
        damage(check(Arc::new(bytes)).unwrap_err())
    };
    // The first record is that of layer 1 ffn_up: kind 5.
    let other_layer = forged(offset + 1, &[9]);
    assert!(other_layer.expected.contains("a tensor of the file"), "{other_layer}");
    let other_rows = forged(offset, &TensorKind::AttnQ.id().to_le_bytes()[..1]);
    assert!(other_rows.expected.contains("64 rows"), "{other_rows}");
    let wide = forged(offset + 8 + 2 * 256, &[64, 0]);
    assert!(wide.expected.contains("columns below 64"), "{wide}");
    assert!(forged(entry + 4, &[0]).place.contains("OUTL"));
    assert!(forged(section_entry(&whole, b"GRID") + 4, &[1]).place.contains("GRID"));
}

#[test]
fn a_tensor_in_the_wrong_part_is_reported_at_its_header() {
    let mut bytes = file_bytes(Compression::None);
    // Behind the chunk table of 64 bytes, the first header stands at byte 48.
    let header = u64_at(&bytes, 128 + 32) as usize + 64 + 48;
    assert_eq!(u32_at(&bytes, header), TensorKind::AttnQ.id());
    bytes[header..header + 4].copy_from_slice(&TensorKind::Head.id().to_le_bytes());
    seal_layer_and_chunk(&mut bytes, 1);
    let damage = damage(check(Arc::new(bytes)).unwrap_err());
    assert_eq!((damage.offset, damage.found.as_str()), (header as u64, "head"), "{damage}");
}

#[test]
fn an_embedding_of_an_unknown_layout_or_with_more_in_its_type_field_is_refused() {
    let whole = file_bytes(Compression::None);
    let at = u64_at(&whole, 64) as usize;
    assert_eq!(u32_at(&whole, at), 3 | 3 << 8, "4bit in panels");
    let forged = |value: u32| {
        let mut bytes = whole.clone();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        seal_section(&mut bytes, b"EMBD");
        QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)).unwrap().embedding_info()
    };
    assert_eq!(forged(3).unwrap().layout, Layout::Rows);
    // Layouts 1, 2 and 4; panels of a float type (6: f16); anything above the layout.
    for value in [3 | 1 << 8, 3 | 2 << 8, 3 | 4 << 8, 6 | 3 << 8, 3 | 3 << 8 | 1 << 16, 3 | 1 << 31] {
        let damage = damage(forged(value).unwrap_err());
        assert!(damage.offset as usize - at <= 1 && damage.place == "embedding section", "{damage}");
    }
}

#[cfg(unix)]
#[test]
fn a_named_pipe_is_refused_instead_of_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("model.qsf");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (answer, answered) = std::sync::mpsc::channel();
    // In a thread that may hang: the test must end all the same.
    std::thread::spawn(move || answer.send(QsfFile::open(&pipe).map(drop)));
    let error = answered.recv_timeout(std::time::Duration::from_secs(10)).expect("open hangs").unwrap_err();
    assert!(format!("{error:?}").contains("not a regular file"), "{error:?}");
}
