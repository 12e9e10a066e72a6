//! A checkpoint as a whole: a zip archive with a pickle in it.

use std::path::Path;

use qsf_format::printable::message;

use super::advice::RESAVE;
use super::state_dict::{PickledTensor, tensors};
use super::unpickle::unpickle;
use super::zip::{Archive, Entry};
use crate::error::{Result, RuntimeError};

/// Largest `data.pkl`: a tensor takes about 250 bytes.
const MAX_PICKLE_BYTES: usize = 64 << 20;

/// How files of torch before 1.6 begin: the pickle of a number (`torch.serialization.MAGIC_NUMBER`).
const LEGACY: &[u8] = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e";
/// How a tar archive says what it is, and where; the first releases of torch wrote those.
const TAR: (usize, &[u8]) = (257, b"ustar");
/// How a zip file begins.
const ZIP: &[u8] = b"PK\x03\x04";

/// The tensors of the checkpoint at `path`, whose bytes are `file`, by name.
///
/// # Errors
/// The file is damaged, contradicts itself, is in a form of torch before 1.6, has something in it that is no tensor, or
/// a tensor that is not laid out row by row.
pub(in crate::source::huggingface) fn read(path: &Path, file: &[u8]) -> Result<Vec<PickledTensor>> {
    check_form(path, file)?;
    let archive = Archive::read(path, file)?;
    let (folder, pickle) = find_pickle(path, &archive)?;
    check_byte_order(path, folder, &archive)?;
    if pickle.range.len() > MAX_PICKLE_BYTES {
        let expected = format!("at most {MAX_PICKLE_BYTES} bytes");
        return Err(RuntimeError::bad_input(path, "data.pkl", expected, pickle.range.len()));
    }
    let object = unpickle(path, archive.checked(pickle)?, file.len())?;
    tensors(path, &archive, folder, &object)
}

fn check_form(path: &Path, file: &[u8]) -> Result<()> {
    if file.starts_with(ZIP) {
        return Ok(());
    }
    let tar = file.get(TAR.0..).is_some_and(|rest| rest.starts_with(TAR.1));
    if file.starts_with(LEGACY) || tar {
        let advice = format!("it can run programs when Python loads it. If you trust its author, {RESAVE}");
        return Err(RuntimeError::unsupported(
            path,
            "a checkpoint in the form of torch before 1.6".to_owned(),
            advice,
        ));
    }
    let found = if file.is_empty() { "an empty file" } else { "something else" };
    Err(RuntimeError::bad_input(path, "the file", "a zip file as torch.save writes it", found))
}

/// The folder that everything is in, and the pickle.
fn find_pickle<'e, 'a>(path: &Path, archive: &'e Archive<'a>) -> Result<(&'a str, &'e Entry<'a>)> {
    let mut pickles = archive.entries().iter().filter_map(|entry| {
        let folder = entry.name.strip_suffix("/data.pkl")?;
        (!folder.contains('/')).then_some((folder, entry))
    });
    match (pickles.next(), pickles.next()) {
        (Some(pickle), None) => Ok(pickle),
        (first, _) => {
            let found = if first.is_some() { "several" } else { "none" };
            Err(RuntimeError::bad_input(path, "zip directory", "one entry NAME/data.pkl", found))
        }
    }
}

/// Files of torch before 2.1 do not say which it is; they come from the same kinds of processors.
fn check_byte_order(path: &Path, folder: &str, archive: &Archive) -> Result<()> {
    let Some(entry) = archive.find(&format!("{folder}/byteorder")) else { return Ok(()) };
    match archive.checked(entry)? {
        b"little" => Ok(()),
        other => {
            let what =
                format!("byte order {:?}", message(String::from_utf8_lossy(&other[..other.len().min(16)])));
            Err(RuntimeError::unsupported(path, what, format!("supported: little; {RESAVE}")))
        }
    }
}
