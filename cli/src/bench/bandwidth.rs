//! What the machine reads from memory per second, around the rows that are compared with it.

use qsf_runtime::bench::{Bandwidth, read_bandwidth};
use serde::Serialize;

/// Where the smaller of two measurements is below this part of the larger, the machine has changed: neighbours came or went, or its
/// cores now share what they did not.
const ALIKE: f64 = 0.9;

/// The read bandwidth of so many threads, measured before the rows and after them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct BandwidthAround {
    /// Threads.
    pub threads: usize,
    /// The larger of both, which is nearer to what the machine can do.
    pub gb_per_second: f64,
    pub gb_per_second_before: f64,
    pub gb_per_second_after: f64,
    /// Bytes of one pass.
    pub buffer_bytes: usize,
}

impl BandwidthAround {
    /// Measures before and after `work`, and gives what that does.
    ///
    /// # Errors
    /// When the work fails, or there is no memory to measure with.
    pub fn measure<T>(
        threads: usize,
        work: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<(BandwidthAround, T)> {
        let before = read_bandwidth(threads)?;
        let done = work()?;
        Ok((BandwidthAround::of(before, read_bandwidth(threads)?), done))
    }

    fn of(before: Bandwidth, after: Bandwidth) -> BandwidthAround {
        BandwidthAround {
            threads: before.threads,
            gb_per_second: before.gb_per_second.max(after.gb_per_second),
            gb_per_second_before: before.gb_per_second,
            gb_per_second_after: after.gb_per_second,
            buffer_bytes: after.buffer_bytes,
        }
    }

    /// `18.89 GB/s by 2 threads`.
    pub fn text(&self) -> String {
        format!("{:.2} GB/s by {}", self.gb_per_second, self.by())
    }

    /// What is to be said where the machine has changed.
    pub fn warning(&self) -> Option<String> {
        let (before, after) = (self.gb_per_second_before, self.gb_per_second_after);
        (before.min(after) < ALIKE * self.gb_per_second).then(|| {
            format!(
                "{} read {before:.2} GB/s before and {after:.2} after: the machine changed, so run it again for \
                 a share of the bandwidth that holds",
                self.by()
            )
        })
    }

    fn by(&self) -> String {
        format!("{} thread{}", self.threads, if self.threads == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn around(before: f64, after: f64) -> BandwidthAround {
        let of = |gb_per_second| Bandwidth { threads: 2, gb_per_second, buffer_bytes: 1 << 20 };
        BandwidthAround::of(of(before), of(after))
    }

    #[test]
    fn the_larger_counts_and_a_machine_that_changed_is_told() {
        assert_eq!(around(50.0, 52.0).text(), "52.00 GB/s by 2 threads");
        assert_eq!(around(50.0, 52.0).warning(), None);
        for (before, after) in [(50.0, 85.0), (85.0, 50.0)] {
            let around = around(before, after);
            assert_eq!(around.gb_per_second, 85.0);
            let said = around.warning().unwrap();
            let begins = format!("2 threads read {before:.2} GB/s before and {after:.2} after");
            assert!(said.starts_with(&begins), "{said}");
        }
    }

    #[test]
    fn it_is_measured_around_the_work_whose_result_is_given() {
        let (around, done) = BandwidthAround::measure(1, || Ok(7)).unwrap();
        assert_eq!((done, around.threads), (7, 1));
        assert!(around.gb_per_second_before > 0.0 && around.gb_per_second_after > 0.0, "{around:?}");
    }
}
