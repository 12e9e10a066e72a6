//! QSF files that no writer makes: a sound file with other content in a section or a layer, its checksums made right again.

use crate::reseal::reseal_stored;

/// Bytes of a directory entry.
const ENTRY: usize = 32;
/// The most that a block of a zstd frame holds (RFC 8878, section 3.1.1.2).
const BLOCK: usize = 128 << 10;

/// Sections that may be compressed.
pub const ZSTD: u32 = 3;

/// A zstd frame of `len` times `byte`: at its smallest it has 4 bytes for each 128 KiB.
pub fn zstd_run(byte: u8, len: usize) -> Vec<u8> {
    zstd_frame(&[], byte, len)
}

/// A zstd frame of `head` as it is and then `len` times `byte`.
pub fn zstd_frame(head: &[u8], byte: u8, len: usize) -> Vec<u8> {
    let mut frame = vec![0x28, 0xB5, 0x2F, 0xFD];
    // One segment; the size of the content in eight bytes.
    frame.push(0b1110_0000);
    frame.extend(((head.len() + len) as u64).to_le_bytes());
    let mut block = |kind: u32, size: usize, last: bool, content: &[u8]| {
        frame.extend(&(u32::from(last) | kind << 1 | (size as u32) << 3).to_le_bytes()[..3]);
        frame.extend(content);
    };
    for raw in head.chunks(BLOCK) {
        block(0, raw.len(), false, raw);
    }
    let mut left = len;
    while left > BLOCK {
        block(1, BLOCK, false, &[byte]);
        left -= BLOCK;
    }
    block(1, left, true, &[byte]);
    frame
}

/// Gives the section `tag` other stored bytes, at the end of the file; without such a section it gets one.
pub fn replace_section(file: &mut Vec<u8>, tag: &[u8; 4], stored: &[u8], compression: u32) {
    let mut directory = cut_directory(file);
    let place = directory.chunks_exact(ENTRY).position(|entry| &entry[..4] == tag);
    let place = place.unwrap_or_else(|| {
        directory.extend([0; ENTRY]);
        directory.len() / ENTRY - 1
    });
    let entry = &mut directory[place * ENTRY..][..ENTRY];
    let (old, bytes) = (u64_at(entry, 8), u64_at(entry, 16));
    file[old..old + bytes].fill(0);
    let at = append(file, stored, 64) as u64;
    entry[..4].copy_from_slice(tag);
    entry[8..16].copy_from_slice(&at.to_le_bytes());
    entry[16..24].copy_from_slice(&(stored.len() as u64).to_le_bytes());
    entry[28..32].copy_from_slice(&compression.to_le_bytes());
    finish(file, &directory);
}

/// Takes the section `tag` out.
pub fn remove_section(file: &mut Vec<u8>, tag: &[u8; 4]) {
    let mut directory = cut_directory(file);
    let place = directory.chunks_exact(ENTRY).position(|entry| &entry[..4] == tag).unwrap() * ENTRY;
    let entry: Vec<u8> = directory.drain(place..place + ENTRY).collect();
    let (old, bytes) = (u64_at(&entry, 8), u64_at(&entry, 16));
    file[old..old + bytes].fill(0);
    finish(file, &directory);
}

/// Gives a layer `raw_bytes` bytes, `head` and then zeros, compressed as far as the format allows; it is said to have so many
/// tensors. Without checksums of tensors, which would have to be taken of all of it.
pub fn replace_layer(file: &mut Vec<u8>, layer: usize, head: &[u8], raw_bytes: usize, tensors: u16) {
    const CHUNK: usize = 1 << 20;
    // What a chunk has at least to be stored in, as it may expand 255 times.
    const FILLER: usize = 4200;
    remove_section(file, b"TCRC");
    let directory = cut_directory(file);
    let index = u64_at(file, 56) + 32 * layer;
    let (old, bytes) = (u64_at(file, index), u32_at(file, index + 8));
    file[old..old + bytes].fill(0);
    let (mut table, mut chunks) = (vec![0; 16], Vec::new());
    for start in (0..raw_bytes).step_by(CHUNK) {
        let len = CHUNK.min(raw_bytes - start);
        let mut first = vec![0; FILLER.min(len / 2)];
        if start == 0 {
            first[..head.len()].copy_from_slice(head);
        }
        let stored = zstd_frame(&first, 0, len - first.len());
        for field in [stored.len() as u32, len as u32, 0, ZSTD] {
            table.extend(field.to_le_bytes());
        }
        chunks.extend(stored);
    }
    let count = (table.len() / 16 - 1) as u32;
    table[..4].copy_from_slice(&count.to_le_bytes());
    table.resize(table.len().next_multiple_of(64), 0);
    table.extend(chunks);
    let at = append(file, &table, 4096) as u64;
    file[index..index + 8].copy_from_slice(&at.to_le_bytes());
    file[index + 8..index + 12].copy_from_slice(&(table.len() as u32).to_le_bytes());
    file[index + 12..index + 16].copy_from_slice(&(raw_bytes as u32).to_le_bytes());
    file[index + 18..index + 20].copy_from_slice(&tensors.to_le_bytes());
    finish(file, &directory);
}

/// Cuts the directory off and gives its entries.
fn cut_directory(file: &mut Vec<u8>) -> Vec<u8> {
    let entries = file.split_off(u64_at(file, 100) + 16);
    file.truncate(file.len() - 16);
    entries
}

/// Appends bytes at a multiple of `align`, and says where.
fn append(file: &mut Vec<u8>, bytes: &[u8], align: usize) -> usize {
    file.resize(file.len().next_multiple_of(align), 0);
    let at = file.len();
    file.extend_from_slice(bytes);
    at
}

/// Writes the directory, and all checksums.
fn finish(file: &mut Vec<u8>, entries: &[u8]) {
    let mut directory = b"QSFD".to_vec();
    directory.extend(1_u32.to_le_bytes());
    directory.extend(((entries.len() / ENTRY) as u32).to_le_bytes());
    directory.extend([0; 4]);
    directory.extend(entries);
    let at = append(file, &directory, 64) as u64;
    file[100..108].copy_from_slice(&at.to_le_bytes());
    reseal_stored(file);
}

fn u32_at(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

fn u64_at(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}
