//! What queries see of a chunk, step by step.

use std::ops::Range;

use super::super::vector::Vector;
#[cfg(any(test, target_arch = "x86_64"))]
use super::queries::Attention;
use super::queries::Queries;
use super::sizes::{CHUNK, STEP};

/// Positions of a chunk whose keys, or values, stay in the first-level cache while all rows use them.
#[inline(always)]
pub(super) fn steps() -> impl Iterator<Item = Range<usize>> {
    (0..CHUNK).step_by(STEP).map(|start| start..start + STEP)
}

/// Positions of a chunk, which of them any row sees, counted from the start of the text, and the one whose keys are used next.
#[derive(Clone)]
pub(super) struct Seen {
    pub step: Range<usize>,
    pub seen: Range<usize>,
    pub next: usize,
}

/// A chunk and what is asked of it.
#[derive(Clone, Copy)]
pub(super) struct Within<'a> {
    pub queries: &'a Queries<'a>,
    pub chunk: usize,
}

impl Within<'_> {
    /// Its first position.
    pub fn start(self) -> usize {
        self.chunk * CHUNK
    }

    /// What a row sees of the positions `step` of the chunk.
    #[inline(always)]
    pub fn seen(self, row: usize, step: &Range<usize>) -> Range<usize> {
        let Range { start, end } = self.queries.seen(row);
        let (start, end) = (start.saturating_sub(self.start()), end.saturating_sub(self.start()));
        start.max(step.start).min(step.end)..end.max(step.start).min(step.end)
    }

    /// Whether each of some rows sees all of the positions, and its products with keys are its scores.
    #[cfg(any(test, target_arch = "x86_64"))]
    #[inline(always)]
    pub fn all_plain(self, rows: &Range<usize>, positions: &Range<usize>) -> bool {
        let Attention { softcap, slopes, .. } = *self.queries.attention;
        softcap.is_none() && slopes.is_empty() && self.all_see(rows, positions)
    }

    /// Whether each of some rows sees all of the positions.
    #[inline(always)]
    pub fn all_see(self, rows: &Range<usize>, positions: &Range<usize>) -> bool {
        let sees = |row| self.seen(row, positions) == *positions;
        // Rows between the first and the last see what both do.
        sees(rows.start) && sees(rows.end - 1)
    }

    /// Whether halves and bytes become floats in registers as each few rows read them, rather than once for all rows in a room:
    /// so few rows, or registers so wide that it costs next to nothing.
    #[inline(always)]
    pub fn in_place<V: Vector>(self, rows: &Range<usize>) -> bool {
        V::MANY || rows.len() <= 4
    }

    /// Steps of the chunk that any of some rows sees, and what it sees of each.
    #[inline(always)]
    pub fn seen_steps(self, rows: &Range<usize>) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
        steps().filter_map(move |step| self.seen_by_any(rows, &step).map(|seen| (step, seen)))
    }

    /// What any of some rows sees of them, counted from the start of the text.
    #[inline(always)]
    pub fn seen_by_any(self, rows: &Range<usize>, step: &Range<usize>) -> Option<Range<usize>> {
        // Later rows begin and end later.
        let last = rows.end.checked_sub(1)?;
        let (start, end) = (self.seen(rows.start, step).start, self.seen(last, step).end);
        (start < end).then(|| self.start() + start..self.start() + end)
    }
}
