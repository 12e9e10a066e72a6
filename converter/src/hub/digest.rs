//! The hashes by which the hub names files: SHA-256 for large ones (git-lfs), git's own object id for small ones.

use sha1::{Digest, Sha1};
use sha2::Sha256;

/// The hash of a file, taken while it comes.
pub(super) enum FileDigest {
    /// Of the content.
    Sha256(Sha256),
    /// SHA-1 of `blob LENGTH`, a zero byte, and the content (git, `gitformat-loose`): what git calls the file.
    GitBlob(Sha1),
    /// The server names the file by something else, and only its size can be checked.
    Unknown,
}

impl FileDigest {
    /// The hash that an entity tag is, by its length.
    pub fn for_etag(etag: &str, size: u64) -> FileDigest {
        let hex = etag.bytes().all(|b| b.is_ascii_hexdigit());
        match etag.len() {
            64 if hex => FileDigest::Sha256(Sha256::new()),
            40 if hex => FileDigest::GitBlob(Sha1::new_with_prefix(format!("blob {size}\0"))),
            _ => FileDigest::Unknown,
        }
    }

    /// Adds content.
    pub fn update(&mut self, bytes: &[u8]) {
        match self {
            FileDigest::Sha256(hash) => hash.update(bytes),
            FileDigest::GitBlob(hash) => hash.update(bytes),
            FileDigest::Unknown => {}
        }
    }

    /// Name and value of the hash where it is not the one that `etag` is.
    pub fn contradicts(self, etag: &str) -> Option<(&'static str, String)> {
        let (kind, found) = match self {
            FileDigest::Sha256(hash) => ("SHA-256", hex(&hash.finalize())),
            FileDigest::GitBlob(hash) => ("git blob SHA-1", hex(&hash.finalize())),
            FileDigest::Unknown => return None,
        };
        (!found.eq_ignore_ascii_case(etag)).then_some((kind, found))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(etag: &str, content: &[u8]) -> Option<(&'static str, String)> {
        let mut digest = FileDigest::for_etag(etag, content.len() as u64);
        digest.update(content);
        digest.contradicts(etag)
    }

    #[test]
    fn the_hashes_are_those_of_sha256sum_and_git() {
        // printf abc | sha256sum; printf abc | git hash-object --stdin
        let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let git = "f2ba8f84ab5c1bce84a7b441cb1959cfc7093b7f";
        assert_eq!(check(sha256, b"abc"), None);
        assert_eq!(check(&sha256.to_uppercase(), b"abc"), None);
        assert_eq!(check(git, b"abc"), None);
        assert_eq!(check(sha256, b"abd").unwrap().0, "SHA-256");
        assert_eq!(check(git, b"abd").unwrap().0, "git blob SHA-1");
        assert_eq!(check("0123-12", b"abc"), None);
    }
}
