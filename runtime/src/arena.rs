//! One allocation for everything of a model that stays within a budget: regions, each handed out once.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::MmapMut;

use crate::error::{Result, RuntimeError};

/// Where regions begin: a page, which a disk can read into directly.
pub const REGION_ALIGN: usize = 4096;

/// Memory of a fixed size, of which regions are taken until nothing is left.
pub struct Arena {
    memory: Arc<Memory>,
    used: usize,
}

struct Memory {
    start: NonNull<u8>,
    len: usize,
    /// Gives the memory back; not looked at otherwise.
    _map: Option<MmapMut>,
}

// SAFETY: the memory is only reached through regions, which own ranges that no other region has.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

/// A part of an arena that belongs to its holder.
pub struct Region {
    memory: Arc<Memory>,
    range: Range<usize>,
}

impl Arena {
    /// An arena of `bytes`, rounded up to whole pages. Pages take memory when they are first used.
    ///
    /// # Errors
    /// When the system refuses so much.
    pub fn new(bytes: usize) -> Result<Arena> {
        let refused = || RuntimeError::OutOfMemory { what: "arena of weights".into(), bytes: bytes as u64 };
        let len = bytes.checked_next_multiple_of(REGION_ALIGN).ok_or_else(refused)?;
        let memory = if len == 0 {
            Memory { start: NonNull::dangling(), len, _map: None }
        } else {
            let mut map = MmapMut::map_anon(len).map_err(|_| refused())?;
            let start = NonNull::new(map.as_mut_ptr()).ok_or_else(refused)?;
            Memory { start, len, _map: Some(map) }
        };
        Ok(Arena { memory: Arc::new(memory), used: 0 })
    }

    /// The next `bytes`, beginning at a page, zeros at first. `name` is for the error.
    ///
    /// # Errors
    /// When the arena has no more so many.
    pub fn take(&mut self, name: &'static str, bytes: usize) -> Result<Region> {
        let end = self.used.checked_add(bytes).filter(|end| *end <= self.memory.len);
        let Some(end) = end else {
            return Err(RuntimeError::OutOfMemory { what: name.to_owned(), bytes: bytes as u64 });
        };
        let range = self.used..end;
        self.used = end.next_multiple_of(REGION_ALIGN);
        Ok(Region { memory: self.memory.clone(), range })
    }
}

impl Deref for Region {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: inside of the memory, which lives as long as `memory`; nobody else has this range, and who has it mutably
        // borrows `self` mutably.
        unsafe {
            std::slice::from_raw_parts(self.memory.start.as_ptr().add(self.range.start), self.range.len())
        }
    }
}

impl DerefMut for Region {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe {
            std::slice::from_raw_parts_mut(self.memory.start.as_ptr().add(self.range.start), self.range.len())
        }
    }
}

impl std::fmt::Debug for Region {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Region({:?})", self.range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_begin_at_pages_do_not_overlap_and_end_with_the_arena() {
        let mut arena = Arena::new(3 * REGION_ALIGN - 5).unwrap();
        let mut first = arena.take("first", 5000).unwrap();
        let mut second = arena.take("second", 100).unwrap();
        first.fill(1);
        second.fill(2);
        assert!(first.iter().all(|b| *b == 1) && second.iter().all(|b| *b == 2));
        assert!(
            [&first, &second].iter().all(|region| (region.as_ptr() as usize).is_multiple_of(REGION_ALIGN))
        );
        let refused = arena.take("third", 1).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("third"), "{refused}");
        drop(arena);
        assert_eq!(second[99], 2, "regions outlive the arena");
        assert_eq!(Arena::new(0).unwrap().take("none", 0).unwrap().len(), 0);
    }
}
