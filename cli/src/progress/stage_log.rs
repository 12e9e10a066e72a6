//! A stage of long work in a log: a line when it has begun, and one every half minute.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use qsf_format::printable::printable;

/// Time between lines, in seconds, for whoever reads logs at another pace; 0 for no lines.
const INTERVAL_VARIABLE: &str = "QSF_PROGRESS_SECONDS";
const INTERVAL: Duration = Duration::from_secs(30);
/// A stage that is shorter has no line: quick commands are silent.
const FIRST_LINE: Duration = Duration::from_secs(1);

/// Time between lines of a log; longer than any work where there are to be none.
pub fn log_interval() -> Duration {
    let wanted = std::env::var(INTERVAL_VARIABLE).ok().and_then(|seconds| seconds.parse::<f64>().ok());
    if wanted == Some(0.0) {
        return Duration::MAX;
    }
    wanted.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or(INTERVAL)
}

/// A stage that is under way. Dropped, it is over.
#[derive(Debug)]
pub(super) struct StageLog {
    shared: Arc<Shared>,
    /// `None` where the system gave no thread: then there are no lines.
    writer: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    what: String,
    total: u64,
    began: Instant,
    done: AtomicU64,
    over: Mutex<bool>,
    ends: Condvar,
}

impl StageLog {
    pub fn begin(what: &str, total: u64) -> StageLog {
        let shared = Arc::new(Shared {
            what: what.to_owned(),
            total,
            began: Instant::now(),
            done: AtomicU64::new(0),
            over: Mutex::new(false),
            ends: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        let writer = thread::Builder::new().name("progress".into()).spawn(move || of_thread.write_lines());
        StageLog { shared, writer: writer.ok() }
    }

    pub fn advance(&self, units: u64) {
        self.shared.done.fetch_add(units, Ordering::Relaxed);
    }
}

impl Drop for StageLog {
    fn drop(&mut self) {
        *self.shared.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.shared.ends.notify_all();
        if let Some(writer) = self.writer.take() {
            let _ = writer.join();
        }
    }
}

impl Shared {
    fn write_lines(&self) {
        let interval = log_interval();
        if interval == Duration::MAX {
            return;
        }
        let mut wait = interval.min(FIRST_LINE);
        let mut over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        while !*over {
            let (guard, timeout) = self.ends.wait_timeout(over, wait).unwrap_or_else(PoisonError::into_inner);
            over = guard;
            if timeout.timed_out() && !*over {
                let done = self.done.load(Ordering::Relaxed);
                eprintln!("{}", printable(&line(&self.what, done, self.total, self.began.elapsed())));
                wait = interval;
            }
        }
    }
}

/// How far a stage is, in a line.
fn line(what: &str, done: u64, total: u64, elapsed: Duration) -> String {
    let part = done.min(total) as f64 / total.max(1) as f64;
    let left = if part > 0.0 { elapsed.as_secs_f64() * (1.0 - part) / part } else { f64::INFINITY };
    let left = Duration::try_from_secs_f64(left).map_or_else(|_| "not known yet".to_owned(), clock);
    format!("{what}: {:.0} %, elapsed {}, left {left}", 100.0 * part, clock(elapsed))
}

/// A duration as `1:02:03` or `2:03`.
pub fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_it_is_and_when_it_ends() {
        let line = |done, seconds| line("quantizing", done, 200, Duration::from_secs(seconds));
        assert_eq!(line(50, 1800), "quantizing: 25 %, elapsed 30:00, left 1:30:00");
        assert_eq!(line(0, 3), "quantizing: 0 %, elapsed 0:03, left not known yet");
        assert_eq!(line(300, 61), "quantizing: 100 %, elapsed 1:01, left 0:00");
    }
}
