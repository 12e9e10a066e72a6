//! Makes the sizes and checksums of a QSF file right again after something else in it was changed, as an attacker would: so
//! that a fuzzer, or a test, gets past them. Places that are no longer where a file has them are left alone.
//!
//! The fuzz targets, a workspace of their own, have this file as a module, too.

use std::path::Path;
use std::sync::Arc;

use qsf_format::{QsfFile, SectionTag};

/// Repairs everything from the inside out.
pub fn reseal(bytes: &mut Vec<u8>) {
    reseal_stored(bytes);
    if reseal_tensor_crcs(bytes).is_some() {
        reseal_outside(bytes);
    }
}

/// Repairs all but the checksums of tensors, for which layers would have to be decompressed.
pub fn reseal_stored(bytes: &mut [u8]) {
    let _ = reseal_layers(bytes);
    let _ = reseal_embedding_chunks(bytes);
    reseal_outside(bytes);
}

/// Sections, directory, header.
fn reseal_outside(bytes: &mut [u8]) {
    let _ = reseal_directory(bytes);
    let _ = reseal_header(bytes);
}

fn reseal_header(bytes: &mut [u8]) -> Option<()> {
    let file_bytes = bytes.len() as u64;
    put32(bytes, 92, file_bytes as u32)?;
    let crc = crc32fast::hash(bytes.get(..96)?);
    put32(bytes, 96, crc)?;
    // All zeros there makes a plain file.
    if bytes.get(100..128)?.iter().any(|&b| b != 0) {
        bytes.get_mut(112..120)?.copy_from_slice(&file_bytes.to_le_bytes());
        let crc = crc32fast::hash(bytes.get(100..124)?);
        put32(bytes, 124, crc)?;
    }
    Some(())
}

/// CRCs of chunks, of chunk tables, of layers.
fn reseal_layers(bytes: &mut [u8]) -> Option<()> {
    let layers = get32(bytes, 16)?.min(64) as usize;
    let index = get64(bytes, 56)?;
    for layer in 0..layers {
        let entry = index.checked_add(layer * 32)?;
        let _ = reseal_layer(bytes, entry);
    }
    Some(())
}

fn reseal_layer(bytes: &mut [u8], entry: usize) -> Option<()> {
    let offset = get64(bytes, entry)?;
    let stored = get32(bytes, entry + 8)? as usize;
    let end = offset.checked_add(stored)?;
    bytes.get(offset..end)?;
    let chunks = get32(bytes, offset)?.min(1 << 16) as usize;
    let table = offset + 16..offset + 16 + 16 * chunks;
    let mut at = offset + (table.end - offset).next_multiple_of(64);
    for chunk in table.clone().step_by(16) {
        let Some(size) = get32(bytes, chunk) else { break };
        let Some(data) = at.checked_add(size as usize).and_then(|end| bytes.get(at..end)) else { break };
        let crc = crc32fast::hash(data);
        at += size as usize;
        put32(bytes, chunk + 8, crc)?;
    }
    if let Some(entries) = bytes.get(table) {
        let crc = crc32fast::hash(entries);
        put32(bytes, offset + 4, crc)?;
    }
    let crc = crc32fast::hash(&bytes[offset..end]);
    put32(bytes, entry + 20, crc)
}

fn reseal_directory(bytes: &mut [u8]) -> Option<()> {
    let directory = directory(bytes)?;
    let entries = bytes.get(directory.checked_add(16)?..)?.len() / 32;
    for i in 0..entries.min(64) {
        let entry = directory + 16 + 32 * i;
        if let Some(crc) = section(bytes, entry).map(crc32fast::hash) {
            put32(bytes, entry + 24, crc)?;
        }
    }
    let mut sealed = bytes[directory..directory + 12].to_vec();
    sealed.extend_from_slice(&bytes[directory + 16..]);
    put32(bytes, directory + 12, crc32fast::hash(&sealed))
}

fn reseal_embedding_chunks(bytes: &mut [u8]) -> Option<()> {
    let list = find_section(bytes, SectionTag::EMBEDDING_CHUNKS)?;
    for chunk in list.step_by(24) {
        let offset = get64(bytes, chunk)?;
        let end = offset.checked_add(get32(bytes, chunk + 8)? as usize)?;
        let crc = crc32fast::hash(bytes.get(offset..end)?);
        put32(bytes, chunk + 16, crc)?;
    }
    Some(())
}

/// Section TCRC. Only a reader knows where tensors are; where it does not find them all, the rest stays.
fn reseal_tensor_crcs(bytes: &mut Vec<u8>) -> Option<()> {
    let list = find_section(bytes, SectionTag::TENSOR_CRCS)?;
    let shared = Arc::new(std::mem::take(bytes));
    let crcs = QsfFile::from_memory(Path::new("reseal"), shared.clone()).ok().map(|file| tensor_crcs(&file));
    *bytes = Arc::into_inner(shared)?;
    for (at, crc) in list.step_by(4).zip(crcs?) {
        put32(bytes, at, crc)?;
    }
    Some(())
}

fn tensor_crcs(file: &QsfFile) -> Vec<u32> {
    let layers = (0..file.layers().len()).map_while(|i| file.layer(i).ok());
    let last = file.final_section().ok().map(|(_, group)| group);
    let positions = file.positions().ok().flatten();
    let mut crcs = Vec::new();
    for group in layers.chain(last).chain(positions) {
        let raw = group.bytes.as_slice();
        crcs.extend(group.tensors.iter().map(|tensor| crc32fast::hash(&raw[tensor.with_header()])));
    }
    crcs
}

/// Where the directory is; a plain file has none.
fn directory(bytes: &[u8]) -> Option<usize> {
    get64(bytes, 100).filter(|&at| at >= 128)
}

/// Where the directory says that a section is.
fn find_section(bytes: &[u8], tag: SectionTag) -> Option<std::ops::Range<usize>> {
    let directory = directory(bytes)?;
    let mut entries = (directory.checked_add(16)?..bytes.len()).step_by(32).take(64);
    let entry = entries.find(|&entry| bytes.get(entry..entry + 4) == Some(&tag.0))?;
    let offset = get64(bytes, entry + 8)?;
    section(bytes, entry).map(|section| offset..offset + section.len())
}

fn section(bytes: &[u8], entry: usize) -> Option<&[u8]> {
    let offset = get64(bytes, entry + 8)?;
    bytes.get(offset..offset.checked_add(get64(bytes, entry + 16)?)?)
}

fn get32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn get64(bytes: &[u8], at: usize) -> Option<usize> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize)
}

fn put32(bytes: &mut [u8], at: usize, value: u32) -> Option<()> {
    bytes.get_mut(at..)?.first_chunk_mut::<4>().map(|place| *place = value.to_le_bytes())
}
