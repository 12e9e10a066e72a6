//! Which file a path is of, whatever it is called: what is written must never be what is read.

use std::path::{Path, PathBuf};

/// A file, or the place of one that is not there yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileIdentity {
    place: Option<PathBuf>,
    /// The folder by whose name the file is known here. Behind a link it is another than that of the place.
    folder: Option<PathBuf>,
    /// Device and number, which names have in common that are hard links.
    node: Option<(u64, u64)>,
}

impl FileIdentity {
    /// Of what `path` leads to.
    pub fn of(path: &Path) -> FileIdentity {
        let parent = path.parent().map(|parent| match parent.as_os_str().is_empty() {
            true => Path::new("."),
            false => parent,
        });
        let folder = parent.and_then(|parent| parent.canonicalize().ok());
        let to_be = || Some(folder.as_ref()?.join(path.file_name()?));
        FileIdentity { place: path.canonicalize().ok().or_else(to_be), node: node(path), folder }
    }

    /// Whether both are of one file.
    pub fn is(&self, other: &FileIdentity) -> bool {
        let same_place = self.place.is_some() && self.place == other.place;
        same_place || (self.node.is_some() && self.node == other.node)
    }

    /// Whether this file is gone when `out` is written: it is the same, or in the directory whose place `out` takes.
    pub fn is_lost_by(&self, out: &FileIdentity) -> bool {
        let Some(place) = &out.place else { return self.is(out) };
        let real_folder = self.place.as_deref().and_then(Path::parent);
        self.is(out) || real_folder == Some(place) || self.folder.as_ref() == Some(place)
    }
}

#[cfg(unix)]
fn node(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(not(unix))]
fn node(_path: &Path) -> Option<(u64, u64)> {
    None
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_known_by_all_of_its_names() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("m")).unwrap();
        fs::write(path("m/a"), "").unwrap();
        fs::write(path("b"), "").unwrap();
        let of = |name: &str| FileIdentity::of(&path(name));
        assert!(of("m/a").is(&of("m/../m/./a")) && !of("m/a").is(&of("b")));
        // Of those that are to be, the same is asked.
        assert!(of("m/new").is(&of("m/../m/new")) && !of("m/new").is(&of("new")));
        assert!(!of("none/a").is(&of("none/a")), "nothing is there, and nothing can be");
        assert!(of("m/a").is_lost_by(&of("m")) && !of("b").is_lost_by(&of("m")));
        assert!(!of("m/a").is_lost_by(&FileIdentity::of(dir.path())));
        #[cfg(unix)]
        {
            fs::hard_link(path("m/a"), path("hard")).unwrap();
            std::os::unix::fs::symlink("m/a", path("soft")).unwrap();
            std::os::unix::fs::symlink("../b", path("m/linked")).unwrap();
            assert!(of("hard").is(&of("m/a")) && of("soft").is(&of("m/a")) && of("soft").is(&of("hard")));
            assert!(of("m/linked").is_lost_by(&of("b")) && of("m/linked").is_lost_by(&of("m")));
        }
    }
}
