//! Physical cores, and threads that stay on one.
//!
//! Kernels keep a core's vector units or its share of the memory busy, so that a second thread on the same core (SMT) has
//! nothing to gain and only disturbs.

use std::io;
use std::num::NonZero;
use std::sync::OnceLock;
use std::thread::available_parallelism;

/// Most threads of a pool.
pub const MAX_THREADS: usize = 1024;

/// A processor (by the system's number) of each physical core that this process may use, in ascending order; only performance
/// cores where there are those and others. As it was when first asked, so that pinning does not change it. `None` where the
/// system does not tell.
pub fn physical_cores() -> Option<&'static [usize]> {
    static CORES: OnceLock<Option<Vec<usize>>> = OnceLock::new();
    CORES.get_or_init(system::physical_cores).as_deref()
}

/// Threads that a pool has by default: one for each physical core, and not more than the processors and the processor time
/// (of a control group, on Linux) that this process may use.
pub fn default_threads() -> usize {
    let available = available_parallelism().map_or(1, NonZero::get);
    let cores = physical_cores().map_or(available, <[usize]>::len);
    cores.min(available).clamp(1, MAX_THREADS)
}

/// Lets the calling thread run on this processor only.
pub(super) fn pin_to(processor: usize) -> io::Result<()> {
    system::pin_to(processor)
}

#[cfg(target_os = "linux")]
mod system {
    use std::collections::HashSet;
    use std::fs;
    use std::io;
    use std::path::Path;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    pub(super) fn physical_cores() -> Option<Vec<usize>> {
        let allowed = sched_getaffinity(None).ok()?;
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        first_of_each_core(Path::new("/sys/devices"), &allowed)
    }

    pub(super) fn pin_to(processor: usize) -> io::Result<()> {
        let mut only = CpuSet::new();
        only.set(processor);
        Ok(sched_setaffinity(None, &only)?)
    }

    /// The first of the `allowed` processors (ascending) of each core, by what the kernel shows in `devices`
    /// (Documentation/admin-guide/cputopology.rst). `None` where that does not say it of all.
    pub(super) fn first_of_each_core(devices: &Path, allowed: &[usize]) -> Option<Vec<usize>> {
        // Only hybrid processors of Intel have this folder: the performance cores, each with up to two processors.
        let fast = fs::read_to_string(devices.join("cpu_core/cpus")).map_or(Vec::new(), |list| parse(&list));
        let only_fast = allowed.iter().any(|cpu| fast.contains(cpu));
        let mut seen = HashSet::new();
        let mut first = Vec::new();
        for cpu in allowed.iter().copied().filter(|cpu| !only_fast || fast.contains(cpu)) {
            // The processors of one core, the same text for each of them. Numbers of cores do not tell as much: they count
            // anew in each package, on some machines in each die or cluster.
            let path = format!("system/cpu/cpu{cpu}/topology/thread_siblings_list");
            if seen.insert(fs::read_to_string(devices.join(path)).ok()?) {
                first.push(cpu);
            }
        }
        (!first.is_empty()).then_some(first)
    }

    /// Lists as the kernel writes them: `0-3,8`. What is no number is left out.
    fn parse(list: &str) -> Vec<usize> {
        let ranges = list.trim().split(',').filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some(first.parse().ok()?..=last.parse().ok()?)
        });
        ranges.flatten().collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    use std::io;

    pub(super) fn physical_cores() -> Option<Vec<usize>> {
        None
    }

    pub(super) fn pin_to(_processor: usize) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

#[cfg(target_os = "linux")]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::system::first_of_each_core;

    /// A machine whose processors have these siblings.
    fn machine(dir: &Path, siblings: &[&str]) {
        for (cpu, siblings) in siblings.iter().enumerate() {
            let topology = dir.join(format!("system/cpu/cpu{cpu}/topology"));
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("thread_siblings_list"), format!("{siblings}\n")).unwrap();
        }
    }

    #[test]
    fn a_core_with_two_processors_counts_once_and_forbidden_processors_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path(), &["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"]);
        let first = |allowed: &[usize]| first_of_each_core(dir.path(), allowed);
        assert_eq!(first(&[0, 1, 2, 3, 4, 5, 6, 7]), Some(vec![0, 1, 2, 3]));
        assert_eq!(
            first(&[2, 4, 5, 6]),
            Some(vec![2, 4, 5]),
            "the sibling of a forbidden one stands for the core"
        );
        assert_eq!(first(&[3]), Some(vec![3]));
    }

    #[test]
    fn performance_cores_are_taken_alone_unless_none_is_allowed() {
        let dir = tempfile::tempdir().unwrap();
        machine(dir.path(), &["0-1", "0-1", "2-3", "2-3", "4", "5", "6", "7"]);
        fs::create_dir_all(dir.path().join("cpu_core")).unwrap();
        fs::write(dir.path().join("cpu_core/cpus"), "0-3\n").unwrap();
        let first = |allowed: &[usize]| first_of_each_core(dir.path(), allowed);
        assert_eq!(first(&[0, 1, 2, 3, 4, 5, 6, 7]), Some(vec![0, 2]));
        assert_eq!(first(&[5, 6, 7]), Some(vec![5, 6, 7]));
    }

    #[test]
    fn a_system_that_hides_its_cores_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(first_of_each_core(dir.path(), &[0, 1]), None);
        machine(dir.path(), &["0"]);
        assert_eq!(first_of_each_core(dir.path(), &[0, 1]), None, "told of one processor only");
    }
}
