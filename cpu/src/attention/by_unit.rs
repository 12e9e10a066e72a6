//! A layer's attention of many tokens by instructions that multiply many rows at once, with what they multiply rounded.

use std::ops::Range;

use super::super::backend::Cpu;
use super::super::shared::Shared;
use super::super::vector::{self, Vector, VectorWork};
use super::queries::Queries;
use super::room::StepRoom;
use super::scratch::{Scratch, with_scratch};
use super::spread::{Block, Layer, ROWS};

/// Tasks that each thread should have at least.
const TASKS_PER_THREAD: usize = 4;
/// What a task keeps of all of its queries, 2048 of 64 dimensions: that of one chunk of keys after another passes over it, from a
/// second-level cache of 1 MiB. The more queries, the fewer times are keys and values rounded.
const TASK_BYTES: usize = 900 << 10;

/// Queries of some tokens over all that they see.
pub(super) struct UnitBlock<'a> {
    pub queries: Queries<'a>,
    pub tokens: usize,
    /// Positions that queries of the layer see: where keys have something in common, it is theirs, however queries are shared out.
    pub held: Range<usize>,
    pub step: &'a mut StepRoom,
    /// Called with the number of each row and its result.
    pub done: &'a mut dyn FnMut(usize, &[f32]),
}

/// How attention is computed so.
pub(super) trait Unit {
    /// What a thread keeps for it.
    type Room;

    /// Sets the unit up for this thread until the value is dropped.
    ///
    /// # Safety
    /// It must be one of this processor; there must be no other value of a unit on this thread.
    unsafe fn new() -> Self;

    fn room(scratch: &mut Scratch) -> (&mut Self::Room, &mut StepRoom);

    /// Bytes that a query takes, with its result.
    fn row_bytes(dim: usize, value_dim: usize) -> usize;

    /// Whether there is a result: not where a query, key or value is not finite, for a weight of zero would spread that to rows that
    /// do not see it.
    fn attend<V: Vector>(self, block: UnitBlock<'_>, room: &mut Self::Room) -> bool;
}

struct Work<'a, U: Unit> {
    unit: U,
    block: UnitBlock<'a>,
    room: &'a mut U::Room,
    finite: &'a mut bool,
}

impl<U: Unit> VectorWork for Work<'_, U> {
    #[inline(always)]
    fn run<V: Vector>(self) {
        *self.finite = self.unit.attend::<V>(self.block, self.room);
    }
}

impl Cpu {
    /// Several tokens.
    ///
    /// # Safety
    /// The unit must be one of this processor.
    pub(super) unsafe fn attend_by<U: Unit>(
        &self,
        layer: Layer<'_>,
        tokens: usize,
        work: usize,
        out: &Shared<'_, f32>,
    ) {
        // Fewer rows a task where there are few tasks.
        let all = (tokens * layer.attention.heads).div_ceil(TASKS_PER_THREAD * self.threads());
        let most = TASK_BYTES / U::row_bytes(layer.kv.head_dim(), layer.kv.value_dim());
        let rows = all.next_multiple_of(ROWS).min(most);
        self.for_each_block(layer, tokens, rows, work, |block| {
            // SAFETY: the caller's promise.
            unsafe { self.attend_block_by::<U>(block, out) };
        });
    }

    /// # Safety
    /// As for [`Cpu::attend_by`].
    unsafe fn attend_block_by<U: Unit>(&self, block: Block<'_>, out: &Shared<'_, f32>) {
        let (queries, tokens) = (block.queries(), block.tokens);
        let held = block.layer.held();
        let mut finite = false;
        with_scratch(|scratch| {
            let (room, step) = U::room(scratch);
            // SAFETY: each head of each token is in one block.
            let done = &mut |row: usize, result: &[f32]| unsafe { block.store(row, result, out) };
            let unit_block = UnitBlock { queries, tokens, held, step, done };
            // SAFETY: the caller's promise; this is the only unit of the thread.
            let unit = unsafe { U::new() };
            vector::run(self.isa(), Work { unit, block: unit_block, room, finite: &mut finite });
        });
        if !finite {
            let size = (ROWS / queries.heads).max(1);
            for first in (0..tokens).step_by(size) {
                let tokens = size.min(tokens - first);
                self.attend_block(Block { token: block.token + first, tokens, ..block }, out);
            }
        }
    }
}
