//! What a run over keys and values in codes uses later, fetched a line at a time: where more are asked for at once, the processor
//! waits for some of them (docs/measurements/cpu-kernels.md, "One line a cycle").

use std::mem;
use std::ops::Range;

use super::super::vector::{CacheLevel, LINE, prefetch_lines, prefetch_second};
use super::fetch::Fetch;
use super::layer::KvHead;
use super::sizes::{CHUNK, STEP};

/// Steps of a chunk.
const STEPS: usize = CHUNK / STEP;

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

/// What is used after the keys of a chunk in codes, asked for without a call, for which registers would be saved: the values of the chunk,
/// then the keys of the next, of both the scales first. Then what came last again, which costs next to nothing.
pub(super) struct ChunkLines {
    /// Addresses.
    lines: Range<usize>,
    then: [Range<usize>; 2],
    /// Ranges of `then` that are left.
    left: usize,
    /// Whether there are none, and the last was asked for.
    done: bool,
}

impl ChunkLines {
    /// The values of the positions `seen` of a chunk.
    #[inline(always)]
    pub fn new(kv: KvHead<'_>, seen: Range<usize>) -> ChunkLines {
        let [codes, scales] = lines_of_chunk(kv, seen, true);
        // Of floats there are no scales.
        let lines = if scales.is_empty() { codes.clone() } else { scales };
        ChunkLines { lines, then: [codes.clone(), codes], left: 1, done: false }
    }

    /// Has the keys of the positions `next` follow: later than the values, for where they are is itself fetched meanwhile.
    #[inline(always)]
    pub fn follow(&mut self, kv: KvHead<'_>, next: Range<usize>) {
        let [codes, scales] = lines_of_chunk(kv, next, false);
        self.then = [codes, scales];
        self.left = 2;
        if self.done {
            self.turn();
        }
    }

    #[inline(always)]
    fn turn(&mut self) {
        self.done = self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.lines = self.then[self.left].clone();
    }
}

/// Addresses of the codes, or floats, and of the scales of keys, or `values`, at positions of a chunk. Of a ring, in which a chunk may be in two pages,
/// those of the first step.
#[inline(always)]
fn lines_of_chunk(kv: KvHead<'_>, positions: Range<usize>, values: bool) -> [Range<usize>; 2] {
    let first = kv.lines_of_step(positions.start, values);
    let last = kv.lines_of_step(positions.end - 1, values);
    let mut all = [0..0, 0..0];
    for ((all, first), last) in all.iter_mut().zip(first).zip(last) {
        let steps = last.start.wrapping_sub(first.start) < STEPS * first.len();
        *all = if steps { first.start..last.end } else { first };
    }
    all
}

impl Fetch for ChunkLines {
    #[inline(always)]
    fn fetch(&mut self) {
        prefetch_second(self.lines.start as *const u8);
        self.lines.start += LINE;
        if self.lines.start >= self.lines.end {
            self.turn();
        }
    }
}
