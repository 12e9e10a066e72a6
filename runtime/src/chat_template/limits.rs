//! What a template may take. The process that renders limits itself: its memory by the system's limit of data, its time by a
//! thread that looks at the clock of the processor.

use std::time::Duration;

/// Bytes that the process may take beside its program and the conversation.
pub(super) const MEMORY: u64 = 40 << 20;
/// Bytes that it may take for each byte that it is asked: JSON, its values, the text and its copies.
const MEMORY_PER_BYTE: u64 = 16;
/// Time of the processor that reading or rendering may take.
const TIME: Duration = Duration::from_secs(1);
/// The same for each MiB that the process is asked.
const TIME_PER_MIB: Duration = Duration::from_secs(1);
/// Stack of the thread that reads and renders.
pub(super) const STACK: usize = 16 << 20;

/// Bytes that a question of `bytes` bytes may take.
pub(super) fn memory_for(bytes: u64) -> u64 {
    MEMORY.saturating_add(bytes.saturating_mul(MEMORY_PER_BYTE))
}

/// Time of the processor that a question of `bytes` bytes may take.
pub(super) fn time_for(bytes: u64) -> Duration {
    TIME + TIME_PER_MIB * u32::try_from(bytes >> 20).unwrap_or(u32::MAX).min(60)
}

/// Time after which the process is ended in any case. Where it can look at the clock of the processor, this is for machines
/// that have no time for it; elsewhere it is the limit.
pub(super) fn patience_for(bytes: u64) -> Duration {
    if cfg!(unix) { 20 * time_for(bytes) } else { time_for(bytes) + Duration::from_millis(500) }
}

/// Lets this process take `more` bytes than it has `taken`, and dump no memory. Systems without such limits go without.
#[cfg(unix)]
pub(super) fn limit_memory(taken: u64, more: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    let limit = |resource, bytes: u64| {
        // The hard limit stays, so that a longer conversation may have more. A template has no way to call the system.
        let maximum = getrlimit(resource).maximum;
        let current = Some(maximum.map_or(bytes, |maximum| maximum.min(bytes)));
        let _ = setrlimit(resource, Rlimit { current, maximum });
    };
    limit(Resource::Core, 0);
    limit(Resource::Data, taken.saturating_add(more));
}

#[cfg(not(unix))]
pub(super) fn limit_memory(_taken: u64, _more: u64) {}

/// Bytes that count for the limit of data and are taken already.
pub(super) fn data_taken() -> u64 {
    // Pages of data and stacks are the sixth number (proc_pid_statm(5)). Elsewhere a guess: what a program takes when it starts.
    const GUESS: u64 = 32 << 20;
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(5).and_then(|pages| pages.parse::<u64>().ok());
    pages.map_or(GUESS, |pages| pages * page_size())
}

#[cfg(unix)]
fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

#[cfg(not(unix))]
fn page_size() -> u64 {
    4096
}

/// Time of the processor that this process has had.
#[cfg(unix)]
pub(super) fn time_taken() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(not(unix))]
pub(super) fn time_taken() -> Duration {
    Duration::ZERO
}
