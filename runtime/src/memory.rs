//! Memory whose size a file or a user decides: refused rather than aborted on. And how much there is, and is in use.

use std::fs;
use std::path::{Path, PathBuf};

use qsf_format::copied_file_bytes;

use crate::error::{Result, RuntimeError};

/// How much what Linux says of a process's anonymous memory differs between runs of the same program: pages are counted for each
/// processor, and added up later (`percpu_counter`). What is named as enough has this on top, and so is enough in the next run.
pub const SPREAD: u64 = 500_000;

/// Bytes from which it is asked how much there is. Below, the question would take longer than it is worth.
const MUCH: u64 = 256 << 20;

/// Asks the system whether it would give so much memory, and takes none.
///
/// # Errors
/// [`RuntimeError::OutOfMemory`] when it would not.
pub fn ask(bytes: u64, what: impl Fn() -> String) -> Result<()> {
    let refused = || RuntimeError::OutOfMemory { what: what(), bytes };
    // Linux promises more than it has, and ends a process that comes to use it.
    if bytes >= MUCH && room().is_some_and(|room| bytes > room.saturating_add(free_swap())) {
        return Err(refused());
    }
    let len = usize::try_from(bytes).map_err(|_| refused())?;
    Vec::<u8>::new().try_reserve_exact(len).map_err(|_| refused())
}

/// Memory that can be had without pushing others out, as Linux says; at most what the control group of this process may have.
pub fn available() -> Option<u64> {
    let available = kilobytes(Path::new("/proc/meminfo"), "MemAvailable:")?;
    Some(groups().filter_map(|group| group.limit()).fold(available, u64::min))
}

/// Memory that can be had beside what is in use: as [`available`], and no more than the control group of this process has left.
pub fn room() -> Option<u64> {
    Some(groups().filter_map(|group| group.room()).fold(available()?, u64::min))
}

/// What can be written out to swap space yet, as Linux says.
fn free_swap() -> u64 {
    kilobytes(Path::new("/proc/meminfo"), "SwapFree:").unwrap_or(0)
}

/// Memory of the machine, as Linux says.
pub fn total() -> Option<u64> {
    kilobytes(Path::new("/proc/meminfo"), "MemTotal:")
}

/// A control group that counts the memory of this process (cgroups(7)): its folder, and names of the files there.
struct Group {
    folder: PathBuf,
    limit: &'static str,
    in_use: &'static str,
    /// In `memory.stat`: pages of files that nobody has used lately, which are given up first.
    idle_cache: &'static str,
}

/// Those of this process, of either version.
fn groups() -> impl Iterator<Item = Group> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let found: Vec<Group> = groups.lines().filter_map(Group::of_line).collect();
    found.into_iter()
}

impl Group {
    /// A line of `/proc/self/cgroup`.
    fn of_line(line: &str) -> Option<Group> {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        let (folder, limit, in_use, idle_cache) = match controllers {
            "" => (format!("/sys/fs/cgroup{path}"), "memory.max", "memory.current", "inactive_file"),
            _ if controllers.split(',').any(|name| name == "memory") => (
                format!("/sys/fs/cgroup/memory{path}"),
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            ),
            _ => return None,
        };
        Some(Group { folder: folder.into(), limit, in_use, idle_cache })
    }

    /// Bytes that it may have; `None` without a limit, which is no number.
    fn limit(&self) -> Option<u64> {
        self.number(self.limit)
    }

    /// Bytes that it has left; `None` without a limit.
    fn room(&self) -> Option<u64> {
        let statistics = fs::read_to_string(self.folder.join("memory.stat")).unwrap_or_default();
        let idle =
            statistics.lines().find_map(|line| line.strip_prefix(self.idle_cache)?.trim().parse().ok());
        let in_use = self.number(self.in_use)?.saturating_sub(idle.unwrap_or(0));
        Some(self.limit()?.saturating_sub(in_use))
    }

    fn number(&self, file: &str) -> Option<u64> {
        fs::read_to_string(self.folder.join(file)).ok()?.trim().parse().ok()
    }
}

/// Resident memory of this process now, as Linux says.
pub fn resident() -> Option<u64> {
    kilobytes(Path::new("/proc/self/status"), "VmRSS:")
}

/// Anonymous memory of this process now: what is no page of a file, nor a copy of one in its place. As Linux says.
pub fn anonymous() -> Option<u64> {
    let all = kilobytes(Path::new("/proc/self/status"), "RssAnon:")?;
    Some(all.saturating_sub(copied_file_bytes()))
}

/// Anonymous memory of the process with this number now, as Linux says.
pub fn anonymous_of(process: u32) -> Option<u64> {
    kilobytes(Path::new(&format!("/proc/{process}/status")), "RssAnon:")
}

/// The most anonymous memory that this process has had, as far as Linux tells: it knows the most resident memory, of which the
/// pages of files that are resident now are taken away.
pub fn peak_anonymous() -> Option<u64> {
    let files = kilobytes(Path::new("/proc/self/status"), "RssFile:")?.saturating_add(copied_file_bytes());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_has_left_what_it_may_have_and_nobody_uses() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
        let group = |line: &str| Group { folder: dir.path().into(), ..Group::of_line(line).unwrap() };
        for (line, limit, in_use, idle) in [
            ("0::/user.slice", "memory.max", "memory.current", "inactive_file"),
            (
                "4:cpu,memory:/docker/1",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file",
            ),
        ] {
            write(limit, "5000\n");
            write(in_use, "3000\n");
            assert_eq!((group(line).limit(), group(line).room()), (Some(5000), Some(2000)), "{line}");
            // Pages of files that nobody needs make room.
            write("memory.stat", &format!("anon 7\n{idle} 1000\nactive_file 9\n"));
            assert_eq!(group(line).room(), Some(3000), "{line}");
            write(in_use, "9000\n");
            assert_eq!(group(line).room(), Some(0), "{line}");
            write(limit, "max\n");
            assert_eq!((group(line).limit(), group(line).room()), (None, None), "{line}");
        }
        assert!(Group::of_line("7:blkio:/").is_none() && Group::of_line("").is_none());
    }

    #[test]
    fn more_memory_than_there_is_is_refused_though_linux_would_promise_it() {
        if let Some(total) = total() {
            let bytes = total + free_swap() + MUCH;
            assert!(matches!(ask(bytes, String::new), Err(RuntimeError::OutOfMemory { .. })));
        }
        ask(1 << 20, String::new).unwrap();
    }

    #[test]
    fn there_is_no_more_room_than_memory() {
        if let (Some(room), Some(available), Some(total)) = (room(), available(), total()) {
            assert!(room <= total && available <= total && room > 0, "{room} {available} {total}");
        }
    }
}
