//! Memory that the jobs of a batch share.

use std::fs;

use qsf_runtime::memory;

/// What a job takes before it has said what it will.
pub(super) const UNKNOWN: u64 = 64 << 20;

/// The most that all jobs together may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget(Option<u64>);

impl Budget {
    /// No bound: somebody else sees to memory.
    pub const NONE: Budget = Budget(None);

    /// So many bytes for all jobs.
    #[cfg(test)]
    pub const fn of(bytes: u64) -> Budget {
        Budget(Some(bytes))
    }

    /// `ram` bytes for this process and all jobs; without it four fifths of what is free. Where the system does not tell, there
    /// is no bound.
    pub fn new(ram: Option<u64>) -> Budget {
        let free = || memory::available().map(|bytes| bytes.min(of_group().unwrap_or(u64::MAX)) / 5 * 4);
        Budget(ram.or_else(free).map(|bytes| bytes.saturating_sub(memory::resident().unwrap_or(0))))
    }

    /// Whether jobs that take so much together may run.
    pub fn allows(self, bytes: u64) -> bool {
        self.0.is_none_or(|most| bytes <= most)
    }

    /// How many jobs that each take `bytes` may run side by side; one at least.
    pub fn jobs_of(self, bytes: u64) -> usize {
        self.0.map_or(usize::MAX, |most| (most / bytes.max(1)).max(1) as usize)
    }

    /// The bound.
    pub fn bytes(self) -> u64 {
        self.0.unwrap_or(u64::MAX)
    }
}

/// What the control group of this process leaves free: in a container it is less than the machine has (Linux, version 2).
fn of_group() -> Option<u64> {
    let number = |name: &str| {
        let text = fs::read_to_string(format!("/sys/fs/cgroup/memory.{name}")).ok()?;
        text.trim().parse::<u64>().ok()
    };
    Some(number("max")?.saturating_sub(number("current")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_counts_this_process_and_lets_one_job_run_at_least() {
        let budget = Budget::new(Some(1 << 30));
        assert!(budget.bytes() <= 1 << 30 && budget.allows(1 << 29) && !budget.allows(1 << 31));
        assert_eq!((budget.jobs_of(1 << 29), budget.jobs_of(1 << 40)), (1, 1));
        assert!(Budget(None).allows(u64::MAX));
    }
}
