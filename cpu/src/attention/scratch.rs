//! What a thread keeps from one task to the next.

use std::cell::RefCell;

use super::super::aligned::AlignedFloats;
#[cfg(any(test, target_arch = "x86_64"))]
use super::byte_room::ByteTileRoom;
#[cfg(any(test, target_arch = "x86_64"))]
use super::room::TileRoom;
use super::room::{ByteRoom, QueryRoom, StepRoom};

/// Buffers that grow with what they are used for.
#[derive(Default)]
pub(super) struct Scratch {
    /// Queries as kernels take them.
    pub packed: QueryRoom,
    pub scores: AlignedFloats,
    /// Results of chunks.
    pub parts: AlignedFloats,
    /// Results of queries; and a row of keys or values on its way to where it is stored.
    pub rows: AlignedFloats,
    /// Keys and values of a step, where they are not stored as floats.
    pub step: StepRoom,
    /// What a matrix unit for bytes takes and gives, where a thread has used one.
    pub bytes: Option<Box<ByteRoom>>,
    /// What a matrix unit takes and gives.
    #[cfg(any(test, target_arch = "x86_64"))]
    pub tiles: TileRoom,
    /// What products of bytes take and give.
    #[cfg(any(test, target_arch = "x86_64"))]
    pub byte_tiles: ByteTileRoom,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Calls `task` with the buffers of this thread.
pub(super) fn with_scratch<R>(task: impl FnOnce(&mut Scratch) -> R) -> R {
    SCRATCH.with_borrow_mut(task)
}
