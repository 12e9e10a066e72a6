//! A file that is there, written once more with other sections at its end: the old one stays whole until the new one has its name.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::complete::CompleteFile;
use super::file::{QsfWriter, WriterOptions};
use crate::adapters::StoredAdapter;
use crate::chunk::Compression;
use crate::directory::SectionTag;
use crate::error::FormatError;
use crate::header::HEADER_BYTES;
use crate::partial_file::PartialFile;
use crate::reader::QsfFile;

/// Puts an evaluation, as JSON, into the file at `path`, in the place of one that it has. Returns the size of the file.
///
/// # Errors
/// When the file is damaged or a plain one, which has no room for it, or the new one cannot be written.
pub fn store_evaluation(path: &Path, json: &[u8]) -> Result<u64, FormatError> {
    // Through links: what they lead to is replaced, and not they.
    let path = &path.canonicalize().map_err(|e| FormatError::io(path, "open", e))?;
    let file = QsfFile::open(path)?;
    let mut file = copy_without(&file, &[SectionTag::EVALUATION], path, true)?;
    file.append_evaluation(json)?;
    file.publish()
}

/// Writes what is in `file` to `out`, with `adapters` in the place of those that it has, and without an evaluation, which was not of
/// a model with these. Returns the size of the new file.
///
/// # Errors
/// When the file is damaged or a plain one, which has no room for it, the adapters cannot be stored, or the new file cannot be
/// written; without `force` also where there is one.
pub fn store_adapters(
    file: &QsfFile,
    adapters: &[StoredAdapter],
    out: &Path,
    force: bool,
) -> Result<u64, FormatError> {
    let mut file = copy_without(file, &[SectionTag::ADAPTERS, SectionTag::EVALUATION], out, force)?;
    file.append_adapters(adapters)?;
    file.publish()
}

/// `file` up to its directory, but for some sections at its end, under the name `out` with `.partial`.
fn copy_without(
    file: &QsfFile,
    left_out: &[SectionTag],
    out: &Path,
    force: bool,
) -> Result<CompleteFile, FormatError> {
    let path = file.path();
    let unsupported = |what: String| {
        let hint = "convert the model once more with qsf-convert".to_owned();
        FormatError::Unsupported { path: path.to_owned(), what, hint }
    };
    if file.is_plain() {
        return Err(unsupported(format!("section {} in a plain file", left_out[0])));
    }
    let (old, sections): (Vec<_>, Vec<_>) =
        file.sections().iter().copied().partition(|section| left_out.contains(&section.tag));
    let ends = sections.iter().map(|section| section.offset + section.stored_bytes);
    let layers = file.layers().iter().map(|layer| layer.offset + layer.stored_bytes);
    let end = ends.chain(layers).max().unwrap_or(HEADER_BYTES as u64);
    // Whoever writes these puts them last.
    if let Some(section) = old.iter().find(|section| section.offset < end) {
        return Err(unsupported(format!("a section {} before others", section.tag)));
    }
    if PartialFile::is_partial_of(path, out) {
        return Err(FormatError::ForeignFile { path: path.to_owned() });
    }
    let (header, permissions) = (file.header().clone(), fs::metadata(path).map(|found| found.permissions()));
    let (block, tables) = (header.block, **file.tables());
    let options = WriterOptions { force, block, compression: Compression::None, tables };
    let mut writer = QsfWriter::create(out, header.layers, options)?;
    let bytes = file.bytes().get(..end as usize).unwrap_or_default();
    let copied = writer.out.seek(SeekFrom::Start(0)).and_then(|_| writer.out.write_all(bytes));
    let copied = copied.and(permissions).and_then(|found| writer.out.get_ref().set_permissions(found));
    copied.map_err(|e| writer.io("write", e))?;
    (writer.at, writer.sections) = (end, sections);
    Ok(CompleteFile::of(writer, header))
}
