//! What a run over keys and values in codes uses later, fetched a line at a time: where more are asked for at once, the processor
//! waits for some of them (docs/measurements/cpu-kernels.md, "One line a cycle").

use std::mem;
use std::ops::Range;

use super::super::vector::{CacheLevel, LINE, prefetch_lines, prefetch_second};
use super::layer::KvHead;
use super::sizes::{CHUNK, STEP};

/// Steps of a chunk.
const STEPS: usize = CHUNK / STEP;

/// Asked from time to time.
pub(super) trait Fetch {
    /// Has the processor fetch the next line, where there is one.
    fn fetch(&mut self);
}

/// Nothing is fetched.
pub(super) struct NothingAhead;

/// The lines that are left, in the order in which they are used: of each chunk the keys, then the values.
pub(super) struct LinesAhead<'a> {
    kv: KvHead<'a>,
    /// Addresses: those that come next, and scales, which come then.
    lines: Range<usize>,
    scales: Range<usize>,
    /// The step that follows, of the keys of all chunks and of their values in turns, from the start of the text on.
    next: usize,
    /// Positions that are used.
    seen: Range<usize>,
}

impl<'a> LinesAhead<'a> {
    /// Those of positions `seen`. The keys of the first chunk are fetched when it is come to.
    pub fn new(kv: KvHead<'a>, seen: Range<usize>) -> LinesAhead<'a> {
        LinesAhead { kv, lines: 0..0, scales: 0..0, next: seen.start / CHUNK * 2 * STEPS, seen }
    }

    /// Fetches what is left of the keys of a chunk, which is used now.
    pub fn catch_up(&mut self, chunk: usize) {
        self.next = self.next.max(2 * STEPS * chunk);
        while self.next < 2 * STEPS * chunk + STEPS {
            prefetch_lines(self.lines.start as *const u8, self.lines.len(), CacheLevel::Second);
            if !self.turn() {
                break;
            }
        }
    }

    /// Goes on to what comes next, if something does.
    #[inline(never)]
    fn turn(&mut self) -> bool {
        self.lines = mem::replace(&mut self.scales, 0..0);
        while self.lines.is_empty() {
            let (part, step) = (self.next / STEPS, self.next % STEPS);
            let position = part / 2 * CHUNK + step * STEP;
            if position >= self.seen.end {
                return false;
            }
            self.next += 1;
            if position + STEP > self.seen.start {
                [self.lines, self.scales] = self.kv.lines_of_step(position, part % 2 == 1);
            }
        }
        true
    }
}

impl Fetch for LinesAhead<'_> {
    #[inline(always)]
    fn fetch(&mut self) {
        if self.lines.is_empty() && !self.turn() {
            return;
        }
        prefetch_second(self.lines.start as *const u8);
        self.lines.start += LINE;
    }
}

impl Fetch for NothingAhead {
    #[inline(always)]
    fn fetch(&mut self) {}
}
