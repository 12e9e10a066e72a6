//! What a file is named by wherever its content matters: name, size and SHA-256.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use qsf_format::SourceFile;
use sha2::{Digest, Sha256};

use crate::error::{Result, RuntimeError};
use crate::progress::Cancel;

/// Name, size and hash of a file; given up when one of `stops` is requested.
///
/// # Errors
/// When it cannot be read, or a stop was requested.
pub fn hash_file(path: &Path, stops: &[&Cancel]) -> Result<SourceFile> {
    let mut file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        stops.iter().try_for_each(|stop| stop.check())?;
        let n = file.read(&mut buffer).map_err(|e| RuntimeError::io(path, "read", e))?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        bytes += n as u64;
    }
    let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Ok(SourceFile { name, bytes, sha256: hex(&hash.finalize()) })
}

/// SHA-256 of bytes in memory, lower-case hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// A hash in lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_that_sha256sum_prints() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let file = hash_file(&path, &[]).unwrap();
        assert_eq!(file.sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!((file.name.as_str(), file.bytes), ("abc", 3));
        assert_eq!(sha256(b"abc"), file.sha256);
    }
}
