//! The sequences that a state holds, and which rows of the step under way are of which.

use std::ops::Range;

use super::kv_cache::KvCache;
use crate::error::Result;

/// A cache for each sequence. Sequences share every product of a step; only what they keep is apart.
pub(super) struct Caches {
    all: Vec<KvCache>,
    runs: Vec<Run>,
    /// Of each row of the step.
    positions: Vec<usize>,
}

/// Rows of a step that follow each other in a sequence.
struct Run {
    sequence: usize,
    rows: Range<usize>,
}

impl Caches {
    /// Of `all`, of which there is one at least, for steps of `batch` tokens.
    pub fn new(all: Vec<KvCache>, batch: usize) -> Caches {
        let runs = Vec::with_capacity(all.len());
        Caches { all, runs, positions: Vec::with_capacity(batch) }
    }

    /// All of them.
    pub fn all(&self) -> &[KvCache] {
        &self.all
    }

    /// All of them, to be changed between steps.
    pub fn all_mut(&mut self) -> &mut [KvCache] {
        &mut self.all
    }

    /// That of the first sequence, which is the only one of most states.
    pub fn first(&self) -> &KvCache {
        &self.all[0]
    }

    /// [`Caches::first`], to be changed.
    pub fn first_mut(&mut self) -> &mut KvCache {
        &mut self.all[0]
    }

    /// A step begins, with so many tokens of each of these sequences, in this order. No sequence comes twice.
    ///
    /// # Errors
    /// When there is no memory for their keys and values.
    pub fn begin(&mut self, parts: impl IntoIterator<Item = (usize, usize)>) -> Result<()> {
        self.runs.clear();
        self.positions.clear();
        for (sequence, tokens) in parts {
            let cache = &mut self.all[sequence];
            cache.reserve(tokens)?;
            let first = self.positions.len();
            self.runs.push(Run { sequence, rows: first..first + tokens });
            self.positions.extend(cache.len()..cache.len() + tokens);
        }
        Ok(())
    }

    /// Positions of the rows of the step, each in its sequence.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// Behind the last position that a sequence of the step has then.
    pub fn end(&self) -> usize {
        self.positions.iter().max().map_or(0, |last| last + 1)
    }

    /// Calls `work` for each sequence of the step: with its rows, and what it keeps.
    pub fn for_each(&mut self, mut work: impl FnMut(Range<usize>, &mut KvCache)) {
        for Run { sequence, rows } in &self.runs {
            work(rows.clone(), &mut self.all[*sequence]);
        }
    }

    /// Caches of the sequences of the step, in their order, where each has one row of it; `None` where one has more.
    pub fn of_single_rows(&self) -> Option<impl Iterator<Item = &KvCache>> {
        let single = self.runs.iter().all(|run| run.rows.len() == 1);
        single.then(|| self.runs.iter().map(|run| &self.all[run.sequence]))
    }

    /// The step is done.
    pub fn advance(&mut self) {
        self.for_each(|rows, cache| cache.advance(rows.len()));
    }
}
