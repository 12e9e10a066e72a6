//! `--ram` of a single conversion: it is refused where more is predicted, and stopped where it takes more after all.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use qsf_format::human_bytes;
use qsf_runtime::progress::Cancel;
use qsf_runtime::{RuntimeError, memory};

use super::args::ConvertArgs;

/// How often memory is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// What is named as enough is so in the next run, too. The prediction counts the pages of the program's own file that are in memory,
/// and these differ by a megabyte from one run to the next.
const SPREAD: u64 = 2 << 20;

/// The most memory that a conversion may have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ram(Option<u64>);

impl Ram {
    pub fn of(args: &ConvertArgs) -> Ram {
        Ram(args.batch.ram.map(|size| size.0))
    }

    /// Refuses what would need more; `predicted` is asked only with a bound.
    pub fn check<E: From<RuntimeError>>(self, predicted: impl FnOnce() -> Result<u64, E>) -> Result<(), E> {
        let Some(most) = self.0 else { return Ok(()) };
        let bytes = predicted()?;
        if bytes <= most {
            return Ok(());
        }
        Err(too_little(most, "predicted", bytes.saturating_add(SPREAD)).into())
    }

    /// Does `work`, and has it stop by `cancel` when the process has more memory that is no page of a file.
    pub fn watch<T>(self, cancel: &Cancel, work: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
        let Some(most) = self.0 else { return work() };
        let (done, grown) = (AtomicBool::new(false), AtomicU64::new(0));
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    if let Some(bytes) = memory::anonymous().filter(|bytes| *bytes > most) {
                        grown.store(bytes, Ordering::Relaxed);
                        cancel.request();
                        return;
                    }
                    thread::sleep(LOOK_EVERY);
                }
            });
            let result = work();
            done.store(true, Ordering::Relaxed);
            result
        });
        match grown.into_inner() {
            // Who was as good as done is done.
            bytes @ 1.. if result.is_err() => Err(too_little(most, "taken", bytes).into()),
            _ => result,
        }
    }
}

fn too_little(most: u64, how: &str, bytes: u64) -> RuntimeError {
    RuntimeError::OutOfMemory { what: format!("conversion within --ram {}, {how}", human_bytes(most)), bytes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_that_takes_more_is_stopped_and_no_other() {
        let cancel = Cancel::default();
        let wait = || -> anyhow::Result<()> {
            // As a conversion does between units of work.
            for _ in 0..500 {
                cancel.check()?;
                thread::sleep(Duration::from_millis(10));
            }
            Ok(())
        };
        Ram(Some(u64::MAX)).watch(&cancel, || Ok(())).unwrap();
        Ram(Some(u64::MAX)).check::<RuntimeError>(|| Ok(1 << 50)).unwrap();
        if memory::anonymous().is_some() {
            let error = Ram(Some(1)).watch(&cancel, wait).unwrap_err().to_string();
            assert!(error.contains("within --ram 1") && error.contains("taken"), "{error}");
        }
        let error = Ram(Some(9)).check::<RuntimeError>(|| Ok(10)).unwrap_err().to_string();
        assert!(error.contains("predicted") && error.contains(&format!("{} bytes", 10 + SPREAD)), "{error}");
    }
}
