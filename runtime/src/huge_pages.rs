//! Weights of a mapped file in pages of 2 MiB, where memory allows it: a long answer is faster then.
//!
//! Decoding is bound by memory, and looking addresses up costs a part of it (docs/measurements/cpu-speed.md, "Huge pages"). But making
//! large pages costs as much as some dozens of tokens gain; on a virtual machine whose host took free memory back, some hundreds. So it
//! begins when a text is long, and goes on in small parts between tokens, which never take more than a sixteenth of the time that
//! tokens take. Nothing that is computed changes.

use std::fs;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use qsf_cpu::Cpu;
use qsf_format::{FileMap, HUGE_PAGE};

use crate::memory;

/// Bytes that are moved at a time, but for large models, whose parts are larger: a process may have 65530 maps (`vm.max_map_count`).
const PART: usize = 8 << 20;
const MOST_PARTS: usize = 4096;
/// Weights below this are in the caches, or nearly.
const LEAST_BYTES: usize = 64 << 20;
/// A step of more tokens is bound by arithmetic.
const MOST_TOKENS: usize = 16;
/// Steps that come before the first part.
const WAIT: usize = 24;
/// Steps that all parts are spread over at least, on one thread.
const SPREAD: usize = 32;
/// Parts may take this part of the time of steps: what a text that ends in between loses at most.
const SHARE: u64 = 16;
/// Memory that is left to everybody else: so much, and a part of all that the machine has.
const RESERVE: u64 = 1 << 30;
const RESERVED_PART: u64 = 10;

/// The weights of a model that are used where a file is mapped, and how many of them are in large pages.
#[derive(Debug, Default)]
pub struct HugePages {
    parts: Vec<(Arc<FileMap>, Range<usize>)>,
    /// How it is done; `None`: not at all. Decided when it begins.
    way: OnceLock<Option<Way>>,
    /// Nothing is left to do, or could be done.
    ended: AtomicBool,
    steps: AtomicUsize,
    /// Nanoseconds that these took, and parts.
    in_steps: AtomicU64,
    in_parts: AtomicU64,
    next: AtomicUsize,
    bytes: AtomicU64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The system's cache of the file has large pages.
    Collapse,
    /// Copies do, which take memory.
    Copy,
}

impl HugePages {
    /// Of weights at these places.
    pub(crate) fn new(places: Vec<(Arc<FileMap>, Range<usize>)>) -> HugePages {
        let parts = parts(places);
        let bytes: usize = parts.iter().map(|(_, range)| range.len()).sum();
        if bytes < LEAST_BYTES { HugePages::default() } else { HugePages { parts, ..HugePages::default() } }
    }

    /// Bytes of weights that are in large pages.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Moves all that can be moved, now.
    pub fn finish(&self, cpu: &Cpu) {
        self.advance(cpu, self.parts.len(), &has_room);
    }

    /// When a step of so many tokens begins, where that is to be known.
    pub(crate) fn before_step(&self, tokens: usize) -> Option<Instant> {
        let counts = !self.parts.is_empty() && !self.ended.load(Ordering::Relaxed) && tokens <= MOST_TOKENS;
        counts.then(Instant::now)
    }

    /// A step that began at `began` is done: perhaps moves some of the weights.
    pub(crate) fn after_step(&self, began: Option<Instant>, cpu: &Cpu) {
        if let Some(began) = began {
            self.after(began.elapsed(), cpu);
        }
    }

    fn after(&self, step: Duration, cpu: &Cpu) {
        add_time(&self.in_steps, step);
        let may_take = self.in_steps.load(Ordering::Relaxed) / SHARE;
        if self.steps.fetch_add(1, Ordering::Relaxed) >= WAIT
            && self.in_parts.load(Ordering::Relaxed) <= may_take
        {
            let began = Instant::now();
            self.advance(cpu, self.parts.len().div_ceil(SPREAD).next_multiple_of(cpu.threads()), &has_room);
            add_time(&self.in_parts, began.elapsed());
        }
    }

    /// Moves the next `count` parts, or none where copies of all that are left have no room.
    fn advance(&self, cpu: &Cpu, count: usize, has_room: &dyn Fn(u64) -> bool) {
        let Some((map, range)) = self.parts.first().filter(|_| !self.ended.load(Ordering::Relaxed)) else {
            return;
        };
        let way = *self.way.get_or_init(|| Way::of_system(|| map.collapse(range.clone()).is_ok()));
        let first = self.next.fetch_add(count, Ordering::Relaxed).min(self.parts.len());
        let left = &self.parts[first..];
        let may_move = match way {
            None => false,
            Some(Way::Collapse) => true,
            // Asked each time, as other programs take memory meanwhile.
            Some(Way::Copy) => has_room(left.iter().map(|(_, range)| range.len() as u64).sum()),
        };
        let parts = &left[..count.min(left.len())];
        if parts.is_empty() || !may_move {
            return self.ended.store(true, Ordering::Relaxed);
        }
        cpu.for_each(parts.len(), usize::MAX, |i| {
            let (map, range) = &parts[i];
            let moved = match way {
                Some(Way::Collapse) => map.collapse(range.clone()),
                _ => map.copy(range.clone()),
            };
            match moved {
                Ok(bytes) => _ = self.bytes.fetch_add(bytes, Ordering::Relaxed),
                // Where one part has no room, others have none.
                Err(_) => self.ended.store(true, Ordering::Relaxed),
            }
        });
    }
}

impl Way {
    /// The way that costs less, of those that the system has.
    fn of_system(collapses: impl FnOnce() -> bool) -> Option<Way> {
        system_has_huge_pages().then(|| if collapses() { Way::Collapse } else { Way::Copy })
    }
}

/// Whether programs may have large pages, and these are of the size that is expected (Linux, "Transparent Hugepage Support").
fn system_has_huge_pages() -> bool {
    let says = |name: &str| fs::read_to_string(format!("/sys/kernel/mm/transparent_hugepage/{name}")).ok();
    let size = says("hpage_pmd_size").and_then(|size| size.trim().parse().ok());
    size == Some(HUGE_PAGE) && says("enabled").is_some_and(|enabled| !enabled.contains("[never]"))
}

/// Whether a copy of `bytes` leaves enough to others: the file's own pages stay in the system's cache beside it.
fn has_room(bytes: u64) -> bool {
    fits(bytes, memory::room(), memory::total())
}

fn fits(bytes: u64, room: Option<u64>, total: Option<u64>) -> bool {
    let (Some(room), Some(total)) = (room, total) else { return false };
    bytes.saturating_add(RESERVE).saturating_add(total / RESERVED_PART) <= room
}

fn add_time(to: &AtomicU64, time: Duration) {
    to.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
}

/// The large pages of these places, in parts, each once.
fn parts(mut places: Vec<(Arc<FileMap>, Range<usize>)>) -> Vec<(Arc<FileMap>, Range<usize>)> {
    places.sort_by_key(|(map, range)| (map.as_ptr() as usize, range.start));
    let mut joined: Vec<(Arc<FileMap>, Range<usize>)> = Vec::new();
    for (map, range) in places {
        match joined.last_mut() {
            // What is between two matrices is in the same page as their ends.
            Some((last, all))
                if Arc::ptr_eq(last, &map) && range.start < all.end.saturating_add(HUGE_PAGE) =>
            {
                all.end = all.end.max(range.end);
            }
            _ => joined.push((map, range)),
        }
    }
    let all: usize = joined.iter().map(|(_, range)| range.len()).sum();
    let part = (all / MOST_PARTS).next_multiple_of(HUGE_PAGE).max(PART);
    let cut = |(map, range): (Arc<FileMap>, Range<usize>)| {
        let pages = map.huge_pages_in(range);
        let end = pages.end;
        pages.step_by(part).map(move |start| (map.clone(), start..end.min(start + part)))
    };
    joined.into_iter().flat_map(cut).collect()
}

#[cfg(test)]
mod tests;
