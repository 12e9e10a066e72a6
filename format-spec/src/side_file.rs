//! Files that programs keep beside an output, such as locks, journals and lists of results. Their names are known beforehand, so
//! anybody may have put something else there: a link leads to a file of somebody, and a pipe lets whoever opens it wait for ever.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::Path;

use crate::error::FormatError;

/// What becomes of a link in the place of a side file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Links {
    /// It is in the way: nobody has named it.
    Refused,
    /// It is followed to a regular file: the user has named it, or nothing is written.
    Followed,
}

/// Opens the side file `path` for reading and writing. One that is not there is made, and one that is keeps its contents.
///
/// # Errors
/// When something else is in its place, or the system refuses.
pub fn open_side_file(path: &Path, links: Links) -> Result<File, FormatError> {
    open(path, links, "create", OpenOptions::new().read(true).write(true).create(true).truncate(false))
}

/// Opens the side file `path`, which must be there, for reading.
///
/// # Errors
/// When it is not there, something else is in its place, or the system refuses.
pub fn read_side_file(path: &Path, links: Links) -> Result<File, FormatError> {
    open(path, links, "open", OpenOptions::new().read(true))
}

fn open(
    path: &Path,
    links: Links,
    action: &'static str,
    options: &mut OpenOptions,
) -> Result<File, FormatError> {
    let look = |found: io::Result<Metadata>| match found {
        Ok(found) if !found.is_file() => {
            Err(FormatError::InTheWay { path: path.to_owned(), found: kind_of(&found) })
        }
        _ => Ok(()),
    };
    // Before opening, which is not without effect on a device; and again behind it, since names may change in between.
    look(if links == Links::Followed { fs::metadata(path) } else { path.symlink_metadata() })?;
    let file = guarded(options, links).open(path).map_err(|e| FormatError::io(path, action, e))?;
    look(file.metadata())?;
    Ok(file)
}

/// Has the system itself neither follow a link nor wait for the other end of a pipe.
#[cfg(unix)]
fn guarded(options: &mut OpenOptions, links: Links) -> &mut OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;

    use rustix::fs::OFlags;
    let follow = if links == Links::Followed { OFlags::empty() } else { OFlags::NOFOLLOW };
    options.custom_flags((follow | OFlags::NONBLOCK).bits() as i32)
}

#[cfg(not(unix))]
fn guarded(options: &mut OpenOptions, _links: Links) -> &mut OpenOptions {
    options
}

/// What is there, in words.
fn kind_of(found: &Metadata) -> &'static str {
    if found.is_symlink() {
        "a link"
    } else if found.is_dir() {
        "a folder"
    } else {
        "a pipe, a socket or a device"
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::failure::Failure;

    #[test]
    fn what_is_no_regular_file_is_refused_and_left_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("own"), "years of work").unwrap();
        fs::create_dir(at("folder")).unwrap();
        let _listener = UnixListener::bind(at("socket")).unwrap();
        symlink("own", at("link")).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        for (name, says) in
            [("folder", "a folder"), ("socket", "a socket"), ("link", "a link"), ("dangling", "a link")]
        {
            for error in [
                open_side_file(&at(name), Links::Refused).unwrap_err(),
                read_side_file(&at(name), Links::Refused).unwrap_err(),
            ] {
                assert_eq!(error.failure(), Failure::Usage, "{error}");
                assert!(error.to_string().contains(says) && error.to_string().contains(name), "{error}");
            }
        }
        assert!(!at("nowhere").exists(), "nothing is made where a link leads to");
        assert_eq!(fs::read_to_string(at("own")).unwrap(), "years of work");
        // Whoever has named a link means what it leads to.
        open_side_file(&at("link"), Links::Followed).unwrap();
        let zero = read_side_file(Path::new("/dev/zero"), Links::Followed).unwrap_err();
        assert!(zero.to_string().contains("a device"), "{zero}");
        assert_eq!(fs::read_to_string(at("own")).unwrap(), "years of work");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_that_nobody_writes_to_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert!(open_side_file(&pipe, Links::Refused).is_err());
        assert!(read_side_file(&pipe, Links::Followed).is_err());
        // One that comes into being behind the look at the name.
        let opened = guarded(OpenOptions::new().read(true), Links::Refused).open(&pipe).unwrap();
        assert!(!opened.metadata().unwrap().is_file());
    }
}
