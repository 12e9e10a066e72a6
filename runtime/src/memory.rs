//! Memory whose size a file or a user decides: refused rather than aborted on. And how much there is, and is in use.

use std::fs;
use std::path::Path;

use crate::error::{Result, RuntimeError};

/// How much what Linux says of a process's anonymous memory differs between runs of the same program: pages are counted for each
/// processor, and added up later (`percpu_counter`). What is named as enough has this on top, and so is enough in the next run.
pub const SPREAD: u64 = 500_000;

/// Asks the system whether it would give so much memory, and takes none.
///
/// # Errors
/// [`RuntimeError::OutOfMemory`] when it would not.
pub fn ask(bytes: u64, what: impl Fn() -> String) -> Result<()> {
    let refused = || RuntimeError::OutOfMemory { what: what(), bytes };
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| refused())
}

/// Memory that can be had without pushing others out, as Linux says; at most what the control group of this process may have.
pub fn available() -> Option<u64> {
    let available = kilobytes(Path::new("/proc/meminfo"), "MemAvailable:")?;
    Some(group_limit().map_or(available, |limit| available.min(limit)))
}

/// Bytes that the control group of this process may have (cgroups(7), of either version); `None` without a limit.
fn group_limit() -> Option<u64> {
    let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let limit = |line: &str| -> Option<u64> {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let file = match controllers {
            "" => format!("/sys/fs/cgroup{path}/memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                format!("/sys/fs/cgroup/memory{path}/memory.limit_in_bytes")
            }
            _ => return None,
        };
        // No number: no limit.
        fs::read_to_string(file).ok()?.trim().parse().ok()
    };
    groups.lines().filter_map(limit).min()
}

/// Resident memory of this process now, as Linux says.
pub fn resident() -> Option<u64> {
    kilobytes(Path::new("/proc/self/status"), "VmRSS:")
}

/// Anonymous memory of this process now: what is no page of a file. As Linux says.
pub fn anonymous() -> Option<u64> {
    kilobytes(Path::new("/proc/self/status"), "RssAnon:")
}

/// Anonymous memory of the process with this number now, as Linux says.
pub fn anonymous_of(process: u32) -> Option<u64> {
    kilobytes(Path::new(&format!("/proc/{process}/status")), "RssAnon:")
}

/// The most anonymous memory that this process has had, as far as Linux tells: it knows the most resident memory, of which the
/// pages of files that are resident now are taken away.
pub fn peak_anonymous() -> Option<u64> {
    let files = kilobytes(Path::new("/proc/self/status"), "RssFile:")?;
    Some(peak_resident()?.saturating_sub(files).max(anonymous()?))
}

/// The most resident memory that this process has had, as Linux says.
pub fn peak_resident() -> Option<u64> {
    kilobytes(Path::new("/proc/self/status"), "VmHWM:")
}

/// The most resident memory that the process with this number has had so far, as Linux says.
pub fn peak_resident_of(process: u32) -> Option<u64> {
    kilobytes(Path::new(&format!("/proc/{process}/status")), "VmHWM:")
}

/// A field of a file of Linux in kilobytes, in bytes.
fn kilobytes(file: &Path, field: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}
