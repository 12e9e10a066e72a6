//! A file that is there, written once more with another section EVAL: the old one stays whole until the new one has its name.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use super::complete::CompleteFile;
use super::file::{QsfWriter, WriterOptions};
use crate::chunk::Compression;
use crate::directory::SectionTag;
use crate::error::FormatError;
use crate::header::HEADER_BYTES;
use crate::reader::QsfFile;

/// Puts an evaluation, as JSON, into the file at `path`, in the place of one that it has. Returns the size of the file.
///
/// # Errors
/// When the file is damaged or a plain one, which has no room for it, or the new one cannot be written.
pub fn store_evaluation(path: &Path, json: &[u8]) -> Result<u64, FormatError> {
    let mut file = copy_without_evaluation(path)?;
    file.append_evaluation(json)?;
    file.publish()
}

/// The file at `path` up to its directory, without section EVAL, under its name with `.partial`.
fn copy_without_evaluation(path: &Path) -> Result<CompleteFile, FormatError> {
    // Through links: what they lead to is replaced, and not they.
    let path = &path.canonicalize().map_err(|e| FormatError::io(path, "open", e))?;
    let file = QsfFile::open(path)?;
    let unsupported = |what: &str, hint: &str| {
        let (what, hint) = (what.to_owned(), hint.to_owned());
        FormatError::Unsupported { path: path.clone(), what, hint }
    };
    if file.is_plain() {
        return Err(unsupported(
            "an evaluation in a plain file",
            "convert the model with qsf-convert --eval",
        ));
    }
    let (old, sections): (Vec<_>, Vec<_>) =
        file.sections().iter().copied().partition(|section| section.tag == SectionTag::EVALUATION);
    let ends = sections.iter().map(|section| section.offset + section.stored_bytes);
    let layers = file.layers().iter().map(|layer| layer.offset + layer.stored_bytes);
    let end = ends.chain(layers).max().unwrap_or(HEADER_BYTES as u64);
    // Whoever writes evaluations puts them last.
    if old.iter().any(|section| section.offset < end) {
        return Err(unsupported("a section EVAL before others", "convert the model with qsf-convert --eval"));
    }
    let (header, permissions) = (file.header().clone(), fs::metadata(path).map(|found| found.permissions()));
    let (force, block, tables) = (true, header.block, **file.tables());
    let options = WriterOptions { force, block, compression: Compression::None, tables };
    let mut writer = QsfWriter::create(path, header.layers, options)?;
    let bytes = file.bytes().get(..end as usize).unwrap_or_default();
    let copied = writer.out.seek(SeekFrom::Start(0)).and_then(|_| writer.out.write_all(bytes));
    let copied = copied.and(permissions).and_then(|found| writer.out.get_ref().set_permissions(found));
    copied.map_err(|e| writer.io("write", e))?;
    (writer.at, writer.sections) = (end, sections);
    Ok(CompleteFile::of(writer, header))
}
