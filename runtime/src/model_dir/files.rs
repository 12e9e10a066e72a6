//! Reads the small files of a model directory, within limits: a file name on a hub says nothing about its size or kind.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use super::flat_json::FlatJson;
use super::links;
use crate::content::lfs_pointer;
use crate::error::{Result, RuntimeError};
use qsf_format::printable::message;
use qsf_format::{JsonLimits, from_json};

/// Largest `config.json` and the like: real ones take a few KB, those with per-layer tables a few MB.
pub const MAX_CONFIG_BYTES: u64 = 64 << 20;
/// Largest `tokenizer.json`: what a QSF file can hold; the largest in use takes about 35 MB.
pub const MAX_TOKENIZER_BYTES: u64 = qsf_format::MAX_SECTION_BYTES as u64;

/// The path of `name` in `dir` when it exists as a regular file, after following links: the cache of the hub's own
/// client keeps snapshots as links into a folder of blobs.
///
/// # Errors
/// When something else has that name: a pipe or a device would block, or never end, when read. When it is a link that leads out of
/// the directory; weights and configurations may lie elsewhere, unless files are those of strangers.
pub fn find(dir: &Path, name: &str) -> Result<Option<PathBuf>> {
    let path = dir.join(name);
    match fs::metadata(&path) {
        Ok(found) if found.is_file() => links::check(dir, name, &path).map(|()| Some(path)),
        Ok(found) => {
            let kind = if found.is_dir() { "a directory" } else { "a special file" };
            Err(RuntimeError::bad_input(&path, "the path", "a regular file", kind))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(RuntimeError::io(&path, "open", e)),
    }
}

/// The bytes of a regular file of at most `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    let mut bytes = Vec::new();
    // One byte beyond the limit tells a file that is too large from one that just fits, also when it grows meanwhile.
    file.take(limit + 1).read_to_end(&mut bytes).map_err(|e| RuntimeError::io(path, "read", e))?;
    if bytes.len() as u64 > limit {
        return Err(RuntimeError::bad_input(path, "size", format!("at most {limit} bytes"), "more"));
    }
    if let Some(found) = lfs_pointer(&bytes) {
        return Err(RuntimeError::bad_input(path, "the file", "the file itself", found));
    }
    Ok(bytes)
}

/// The JSON object in a file that describes something.
pub fn read_object(path: &Path) -> Result<Map<String, Value>> {
    parse_object(path, &read(path, JsonLimits::DESCRIPTION.bytes as u64)?)
}

/// The JSON object in a file that lists tensors or tokens, of which there may be very many, but with little in each.
pub fn read_flat(path: &Path, limits: FlatJson) -> Result<Map<String, Value>> {
    let bytes = read(path, JsonLimits::LIST.bytes as u64)?;
    limits.check(&bytes).map_err(|e| {
        RuntimeError::bad_input(path, "the file", "a JSON object of ordinary size", message(e))
    })?;
    parse_within(path, &bytes, JsonLimits::LIST)
}

/// The JSON object that the bytes of a file are.
pub fn parse_object(path: &Path, bytes: &[u8]) -> Result<Map<String, Value>> {
    parse_within(path, bytes, JsonLimits::DESCRIPTION)
}

fn parse_within(path: &Path, bytes: &[u8], limits: JsonLimits) -> Result<Map<String, Value>> {
    from_json(bytes, limits)
        .map_err(|e| RuntimeError::bad_input(path, "the file", "a JSON object of ordinary size", message(e)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beyond_the_limit_is_refused_instead_of_filling_memory() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(read(&path, 4).unwrap_err().to_string().contains("at most 4 bytes"));
    }

    #[test]
    fn a_directory_in_place_of_a_file_is_named_as_such() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("config.json")).unwrap();
        let message = find(dir.path(), "config.json").unwrap_err().to_string();
        assert!(message.contains("expected a regular file, found a directory"), "{message}");
        assert_eq!(find(dir.path(), "tokenizer.json").unwrap(), None);
    }

    #[test]
    fn deeply_nested_json_is_an_error_and_not_a_stack_overflow() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.json");
        fs::write(&path, format!("{{\"a\":{}", "[".repeat(1_000_000))).unwrap();
        assert!(read_object(&path).unwrap_err().to_string().contains("recursion limit"));
    }
}
