//! What a result was made of, and whether that is still what it was.
//!
//! Size and time of the last change are trusted where they are as they were: a model is hashed again only when one of them is
//! not.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use qsf_converter::{ConvertError, Result, hash_files};
use qsf_runtime::file_hash::sha256;
use qsf_runtime::progress::Cancel;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// What a file of a model is called among the inputs.
const MODEL_FILE: &str = "model";
/// What a model's folder is called among the inputs: its names are what counts.
const MODEL_FOLDER: &str = "folder";

/// A file as it was when it was read or written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    /// What it was for: `model`, or the option that named it.
    pub role: String,
    /// Where it is.
    #[serde(with = "super::any_path")]
    pub path: PathBuf,
    /// Its size.
    #[serde(alias = "bytes")]
    pub file_bytes: u64,
    /// When it was changed last, in nanoseconds since 1970.
    pub modified_ns: u64,
    /// Of its contents; of a folder, of the names in it.
    pub sha256: String,
}

impl SeenFile {
    /// A file as it is now, with its hash.
    ///
    /// # Errors
    /// When it cannot be read, or `cancel` is requested.
    pub fn look(role: &str, path: &Path, cancel: &Cancel) -> Result<SeenFile> {
        let before = metadata(path)?;
        let sha256 = contents(path, &before, cancel)?;
        Ok(SeenFile::of(role, path, &before, sha256))
    }

    /// A file of a model, of which something else has made the hash.
    ///
    /// # Errors
    /// When the system does not tell its size.
    pub fn of_model(path: &Path, sha256: String) -> Result<SeenFile> {
        let path = fs::canonicalize(path).map_err(|e| ConvertError::io(path, "read", e))?;
        let found = metadata(&path)?;
        Ok(SeenFile::of(MODEL_FILE, &path, &found, sha256))
    }

    /// The folder of a model: a file that is put into it may change the model.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn folder_of_model(path: &Path, cancel: &Cancel) -> Result<SeenFile> {
        SeenFile::look(MODEL_FOLDER, path, cancel)
    }

    fn of(role: &str, path: &Path, found: &Metadata, sha256: String) -> SeenFile {
        SeenFile {
            role: role.to_owned(),
            path: path.to_owned(),
            file_bytes: if found.is_dir() { 0 } else { found.len() },
            modified_ns: modified(found),
            sha256,
        }
    }

    /// Whether it belongs to the model, not to an option.
    pub fn is_of_model(&self) -> bool {
        [MODEL_FILE, MODEL_FOLDER].contains(&self.role.as_str())
    }

    /// Whether its contents are what they were; it is brought up to date where only its time has changed.
    ///
    /// # Errors
    /// When `cancel` is requested. A file that cannot be read has changed.
    pub fn is_unchanged(&mut self, cancel: &Cancel) -> Result<bool> {
        let Ok(found) = fs::metadata(&self.path) else { return Ok(false) };
        let bytes = if found.is_dir() { 0 } else { found.len() };
        if bytes != self.file_bytes {
            return Ok(false);
        }
        if modified(&found) == self.modified_ns {
            return Ok(true);
        }
        let same = contents(&self.path, &found, cancel).map(|sha256| sha256 == self.sha256);
        cancel.check()?;
        if same.unwrap_or(false) {
            self.modified_ns = modified(&found);
            return Ok(true);
        }
        Ok(false)
    }
}

/// SHA-256 of everything that a result depends on: the tool, the options and the contents of all inputs.
pub fn fingerprint(settings: &BTreeMap<String, Vec<String>>, inputs: &[SeenFile]) -> String {
    let contents =
        |file: &SeenFile| json!([file.role, file.path.file_name().map(|n| n.to_string_lossy()), file.sha256]);
    let inputs: Vec<_> = inputs.iter().map(contents).collect();
    sha256(json!([qsf_converter::TOOL, settings, inputs]).to_string().as_bytes())
}

fn metadata(path: &Path) -> Result<Metadata> {
    fs::metadata(path).map_err(|e| ConvertError::io(path, "read", e))
}

fn contents(path: &Path, found: &Metadata, cancel: &Cancel) -> Result<String> {
    if !found.is_dir() {
        let files = hash_files(&[path.to_owned()], &[cancel])?;
        return Ok(files.into_iter().map(|file| file.sha256).collect());
    }
    let failed = |e| ConvertError::io(path, "read", e);
    let mut names = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(sha256(json!(names).to_string().as_bytes()))
}

/// Times before 1970, or that the system does not keep, are all the same: sizes are still compared.
fn modified(found: &Metadata) -> u64 {
    let since = found.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_nanos() as u64)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_file_is_hashed_again_only_when_its_time_or_size_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("text");
        fs::write(&path, "abc").unwrap();
        let cancel = Cancel::default();
        let seen = SeenFile::look("eval", &path, &cancel).unwrap();
        let set_time = |time| File::options().append(true).open(&path).unwrap().set_modified(time).unwrap();
        let old = fs::metadata(&path).unwrap().modified().unwrap();
        // Size and time are as they were: trusted, whatever is in it.
        fs::write(&path, "abd").unwrap();
        set_time(old);
        assert!(seen.clone().is_unchanged(&cancel).unwrap());
        set_time(old + Duration::from_secs(1));
        assert!(!seen.clone().is_unchanged(&cancel).unwrap());
        fs::write(&path, "abc").unwrap();
        set_time(old + Duration::from_secs(2));
        let mut again = seen.clone();
        assert!(again.is_unchanged(&cancel).unwrap(), "touched, not changed");
        assert_ne!(again.modified_ns, seen.modified_ns);
        fs::remove_file(&path).unwrap();
        assert!(!seen.clone().is_unchanged(&cancel).unwrap());
    }

    #[test]
    fn a_file_that_is_put_into_a_model_s_folder_changes_the_model() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "").unwrap();
        let cancel = Cancel::default();
        let mut seen = SeenFile::folder_of_model(dir.path(), &cancel).unwrap();
        seen.modified_ns = 1;
        assert!(seen.is_unchanged(&cancel).unwrap(), "another time alone says nothing");
        seen.modified_ns = 1;
        fs::write(dir.path().join("b"), "").unwrap();
        assert!(!seen.is_unchanged(&cancel).unwrap());
    }

    #[test]
    fn options_and_contents_decide_the_fingerprint_and_times_do_not() {
        let settings = |quant: &str| BTreeMap::from([("quant".to_owned(), vec![quant.to_owned()])]);
        let file = SeenFile {
            role: "model".into(),
            path: "/m/a".into(),
            file_bytes: 1,
            modified_ns: 2,
            sha256: "3".into(),
        };
        let first = fingerprint(&settings("4bit"), std::slice::from_ref(&file));
        assert_eq!(first, fingerprint(&settings("4bit"), &[SeenFile { modified_ns: 9, ..file.clone() }]));
        assert_ne!(first, fingerprint(&settings("3bit"), std::slice::from_ref(&file)));
        assert_ne!(first, fingerprint(&settings("4bit"), &[SeenFile { sha256: "4".into(), ..file }]));
    }
}
