//! How much room there is on a disk.

use std::path::Path;

/// Bytes that this user may still write where `path` is or will be; `None` where the system does not tell.
#[cfg(unix)]
pub fn free_bytes(path: &Path) -> Option<u64> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let found = rustix::fs::statvfs(folder).ok()?;
    // File systems without a disk say 0 of 0.
    found.f_bavail.checked_mul(found.f_frsize).filter(|_| found.f_blocks > 0)
}

/// Bytes that this user may still write where `path` is or will be; `None` where the system does not tell.
#[cfg(not(unix))]
pub fn free_bytes(_path: &Path) -> Option<u64> {
    None
}
