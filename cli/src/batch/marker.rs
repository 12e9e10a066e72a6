//! `OUT.qsf.job`, empty: says that a job has begun, and that the file of its output is this batch's.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_format::{FormatError, Links, open_side_file};

/// The marker of an output.
pub(super) struct Marker {
    path: PathBuf,
}

impl Marker {
    /// That of the output at this path.
    pub fn of(output: &Path) -> Marker {
        let mut name = output.as_os_str().to_owned();
        name.push(".job");
        Marker { path: name.into() }
    }

    /// Whether the job has begun.
    ///
    /// # Errors
    /// When something of somebody else has the name: then the output may be theirs, too.
    pub fn is_set(&self) -> Result<bool, FormatError> {
        let Ok(found) = self.path.symlink_metadata() else { return Ok(false) };
        let found = match (found.is_file(), found.len()) {
            (true, 0) => return Ok(true),
            (true, _) => "a file with something in it",
            (false, _) => "no regular file",
        };
        Err(FormatError::InTheWay { path: self.path.clone(), found })
    }

    /// Says that the job has begun.
    ///
    /// # Errors
    /// When something of somebody else has the name, or the system refuses.
    pub fn set(&self) -> Result<(), FormatError> {
        open_side_file(&self.path, Links::Refused).and_then(|_| self.is_set()).map(drop)
    }

    /// Says so no longer. If it stays, the next batch does not mind.
    pub fn remove(&self) {
        if self.is_set().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_somebody_else_is_no_marker_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let marker = Marker::of(&dir.path().join("a.qsf"));
        assert!(!marker.is_set().unwrap());
        marker.set().unwrap();
        assert!(marker.is_set().unwrap());
        marker.remove();
        assert!(!marker.path.exists());
        fs::write(&marker.path, "my job").unwrap();
        for error in [marker.is_set().map(drop).unwrap_err(), marker.set().unwrap_err()] {
            assert_eq!(error.failure().exit_code(), 2);
            assert!(error.to_string().contains("a.qsf.job: this is a file with something in it"), "{error}");
        }
        marker.remove();
        assert_eq!(fs::read_to_string(&marker.path).unwrap(), "my job");
    }
}
