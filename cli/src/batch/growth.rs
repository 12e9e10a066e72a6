//! What jobs really take: a prediction may be wrong, and the machine must not pay for it.

use super::budget::Budget;

/// A job under way, with its memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    /// The number of the job.
    pub job: usize,
    /// What it has now that is no page of a file: those the system takes back when it needs room.
    pub anonymous: u64,
    /// What is set aside for it.
    pub reserved: u64,
}

/// What is to be done about jobs that take more than there is for all of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All is well.
    Fits,
    /// This job has grown furthest beyond its share: it makes room for the others, and is done later.
    PutOff(usize),
    /// This job is alone, and takes more than there is at all.
    TooLarge(usize),
}

/// Looks at the jobs that have begun.
pub(super) fn verdict(budget: Budget, jobs: &[Taken]) -> Verdict {
    let all = jobs.iter().map(|taken| taken.anonymous).fold(0, u64::saturating_add);
    let furthest = jobs.iter().max_by_key(|taken| i128::from(taken.anonymous) - i128::from(taken.reserved));
    match furthest {
        Some(_) if budget.allows(all) => Verdict::Fits,
        Some(taken) if jobs.len() == 1 => Verdict::TooLarge(taken.job),
        Some(taken) => Verdict::PutOff(taken.job),
        None => Verdict::Fits,
    }
}

/// What is set aside for a job that was put off when it had `anonymous` bytes: it was still growing.
pub(super) fn share_after(anonymous: u64, budget: Budget) -> u64 {
    anonymous.saturating_add(anonymous / 2).min(budget.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_that_is_furthest_beyond_its_share_makes_room() {
        let budget = Budget::of(100);
        let job = |job, anonymous, reserved| Taken { job, anonymous, reserved };
        assert_eq!(verdict(budget, &[]), Verdict::Fits);
        assert_eq!(verdict(budget, &[job(0, 60, 30), job(1, 40, 40)]), Verdict::Fits);
        assert_eq!(verdict(budget, &[job(0, 61, 60), job(1, 40, 20)]), Verdict::PutOff(1));
        assert_eq!(verdict(budget, &[job(7, 101, 90)]), Verdict::TooLarge(7));
        assert_eq!(verdict(Budget::NONE, &[job(7, u64::MAX, 0), job(8, 9, 9)]), Verdict::Fits);
        assert_eq!((share_after(40, budget), share_after(90, budget)), (60, 100));
    }
}
