//! CRCs that are taken when bytes are first used: a file is then read once for its check and the first step, and not twice.
//!
//! Reading is what both are bound by. A piece that was hashed is in a cache when a kernel multiplies with it a moment later
//! (docs/measurements/memory.md). Whoever gives an answer asks [`DeferredChecks::settle`] first, which hashes what nobody has
//! used: no answer is made of a file that is damaged anywhere.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use crc32fast::Hasher;

use crate::error::{Damage, FormatError};

/// Bytes that are hashed together: a task that needs a part of them hashes all of them, and reads so much more.
const PIECE: usize = 32 << 10;
/// Pieces that a thread takes at a time where it only checks.
const TURN: usize = 16;
/// States of a piece; one that is hashed has its CRC in the lower half.
const NEW: u64 = 0;
const BUSY: u64 = 1 << 32;
const HASHED: u64 = 2 << 32;

/// Bytes of a file that have a CRC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeferredPart {
    pub range: Range<usize>,
    pub crc: u32,
    /// Its name in messages.
    pub place: String,
}

/// The checks of some parts of a mapped file.
#[derive(Debug)]
pub(crate) struct DeferredChecks {
    path: PathBuf,
    /// By offset.
    parts: Vec<Part>,
    pieces: Vec<AtomicU64>,
    /// Parts that are not checked.
    left: AtomicUsize,
    /// The pieces before this one are not yet taken by threads that only check.
    untaken: AtomicUsize,
    /// The damage that was found; of several the first in the file.
    damage: Mutex<Option<Damage>>,
}

#[derive(Debug)]
struct Part {
    wanted: DeferredPart,
    first_piece: usize,
    /// Pieces that are not hashed.
    left: AtomicUsize,
}

impl Part {
    fn pieces(&self) -> usize {
        self.wanted.range.len().div_ceil(PIECE)
    }

    fn range_of(&self, piece: usize) -> Range<usize> {
        let Range { start, end } = self.wanted.range;
        let first = start + (piece - self.first_piece) * PIECE;
        first..end.min(first + PIECE)
    }
}

impl DeferredChecks {
    /// Checks of `parts`, which do not overlap, of the file at `path`.
    pub fn new(path: &Path, mut parts: Vec<DeferredPart>) -> DeferredChecks {
        parts.retain(|part| !part.range.is_empty());
        parts.sort_by_key(|part| part.range.start);
        let mut pieces = 0;
        let mut counted = |wanted: DeferredPart| {
            let mut part = Part { wanted, first_piece: pieces, left: AtomicUsize::new(0) };
            part.left = AtomicUsize::new(part.pieces());
            pieces += part.pieces();
            part
        };
        let parts: Vec<Part> = parts.into_iter().map(&mut counted).collect();
        DeferredChecks {
            path: path.to_owned(),
            left: AtomicUsize::new(parts.len()),
            parts,
            untaken: AtomicUsize::new(pieces),
            pieces: (0..pieces).map(|_| AtomicU64::new(NEW)).collect(),
            damage: Mutex::default(),
        }
    }

    /// Whether all is checked.
    pub fn is_settled(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }

    /// Hashes what of `range` of `file` was not yet. Does not wait for what another thread hashes at the moment.
    pub fn check(&self, file: &[u8], range: Range<usize>) {
        if self.is_settled() {
            return;
        }
        let first = self.parts.partition_point(|part| part.wanted.range.end <= range.start);
        for part in self.parts[first..].iter().take_while(|part| part.wanted.range.start < range.end) {
            let all = &part.wanted.range;
            let (start, end) = (range.start.max(all.start) - all.start, range.end.min(all.end) - all.start);
            if part.left.load(Ordering::Relaxed) > 0 {
                for piece in start / PIECE..end.div_ceil(PIECE) {
                    self.check_piece(file, part, part.first_piece + piece);
                }
            }
        }
    }

    /// Checks from the end of `file` on, where nobody begins to use it, as long as `goes_on` says so. Several threads share the work.
    pub fn check_while(&self, file: &[u8], goes_on: &dyn Fn() -> bool) {
        while !self.is_settled() && goes_on() {
            let taken = |end: usize| (end > 0).then(|| end.saturating_sub(TURN));
            let Ok(end) = self.untaken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken) else {
                return;
            };
            for piece in end.saturating_sub(TURN)..end {
                let part = self.parts.partition_point(|part| part.first_piece <= piece) - 1;
                self.check_piece(file, &self.parts[part], piece);
            }
        }
    }

    fn check_piece(&self, file: &[u8], part: &Part, number: usize) {
        let state = &self.pieces[number];
        let taken = state.compare_exchange(NEW, BUSY, Ordering::Relaxed, Ordering::Relaxed);
        if taken.is_err() {
            return;
        }
        let crc = crc32fast::hash(&file[part.range_of(number)]);
        state.store(HASHED | u64::from(crc), Ordering::Relaxed);
        // Whoever is last sees what all have stored before they counted.
        if part.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.check_part(part);
        }
    }

    /// Compares the CRC of a part whose pieces are all hashed.
    fn check_part(&self, part: &Part) {
        let mut whole = Hasher::new();
        for piece in part.first_piece..part.first_piece + part.pieces() {
            let crc = self.pieces[piece].load(Ordering::Relaxed) as u32;
            let len = part.range_of(piece).len() as u64;
            whole.combine(&Hasher::new_with_initial_len(crc, len));
        }
        let (found, DeferredPart { range, crc, place }) = (whole.finalize(), &part.wanted);
        if found != *crc {
            let at = range.start as u64;
            let damage = Damage::new(place, at, format!("CRC32 {crc:08x}"), format!("{found:08x}"));
            let mut first = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
            if first.as_ref().is_none_or(|first| at < first.offset) {
                *first = Some(damage);
            }
        }
        self.left.fetch_sub(1, Ordering::AcqRel);
    }

    /// Checks what is left of `file`, and says whether it is sound. `for_each` calls what it is given with each number below the first
    /// argument, on all threads.
    ///
    /// # Errors
    /// The damage, also in parts that were checked before.
    pub fn settle(
        &self,
        file: &[u8],
        for_each: impl FnOnce(usize, &(dyn Fn(usize) + Sync)),
    ) -> Result<(), FormatError> {
        if !self.is_settled() {
            for_each(self.parts.len(), &|i| self.check(file, self.parts[i].wanted.range.clone()));
            // What threads of other calls hash at the moment.
            while !self.is_settled() {
                std::thread::yield_now();
            }
        }
        let damage = self.damage.lock().unwrap_or_else(PoisonError::into_inner);
        damage.clone().map_or(Ok(()), |damage| Err(damage.in_file(&self.path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> Vec<u8> {
        (0..5 * PIECE + 1234).map(|i| ((i * i) >> 7) as u8).collect()
    }

    /// Three parts, with bytes that nobody checks around them.
    fn checks(file: &[u8]) -> DeferredChecks {
        let part = |range: Range<usize>| DeferredPart {
            crc: crc32fast::hash(&file[range.clone()]),
            place: format!("part at {}", range.start),
            range,
        };
        let (first, second) = (100..2 * PIECE + 345, 2 * PIECE + 345..4 * PIECE);
        let parts = vec![part(4 * PIECE + 7..file.len()), part(first), part(second)];
        DeferredChecks::new(Path::new("model.qsf"), parts)
    }

    fn in_turn(count: usize, run: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(run);
    }

    #[test]
    fn what_is_used_is_hashed_and_nothing_twice() {
        let file = file();
        let checks = checks(&file);
        let hashed = || checks.pieces.iter().filter(|piece| piece.load(Ordering::Relaxed) != NEW).count();
        assert_eq!(checks.pieces.len(), 3 + 2 + 2);
        checks.check(&file, 0..100);
        assert_eq!(hashed(), 0, "bytes before the first part");
        checks.check(&file, 0..101);
        assert_eq!(hashed(), 1);
        checks.check(&file, 100 + PIECE - 1..100 + PIECE + 1);
        assert_eq!(hashed(), 2);
        // The last piece of the first part and the first of the second.
        checks.check(&file, 2 * PIECE + 344..2 * PIECE + 346);
        assert_eq!(hashed(), 4);
        // What was hashed is not looked at again: other bytes there would not be seen.
        let other = vec![0; file.len()];
        checks.check(&other, 0..2 * PIECE + 346);
        assert!(!checks.is_settled());
        checks.settle(&file, in_turn).unwrap();
        assert!(checks.is_settled());
    }

    #[test]
    fn damage_anywhere_is_found_before_an_answer() {
        let sound = file();
        for (at, place) in [(100, 100), (2 * PIECE + 344, 100), (4 * PIECE - 1, 2 * PIECE + 345)] {
            for used in [0..0, at..at + 1, 0..sound.len()] {
                let (checks, mut file) = (checks(&sound), sound.clone());
                file[at] ^= 4;
                *file.last_mut().unwrap() ^= 1;
                checks.check(&file, used);
                // Each time, and of two damaged parts the first one.
                for _ in 0..2 {
                    let error = checks.settle(&file, in_turn).unwrap_err().to_string();
                    assert!(
                        error.contains("model.qsf") && error.contains(&format!("part at {place}")),
                        "{error}"
                    );
                }
            }
        }
        let (checks, mut file) = (checks(&sound), sound);
        file[99] ^= 1;
        file[4 * PIECE + 3] ^= 1;
        checks.settle(&file, in_turn).unwrap();
    }

    #[test]
    fn what_is_checked_beside_something_else_is_not_hashed_again() {
        let file = file();
        let (checks, other) = (checks(&file), vec![0; file.len()]);
        checks.check_while(&other, &|| false);
        // All pieces are one turn here.
        checks.check_while(&file, &|| true);
        assert!(checks.is_settled());
        checks.settle(&other, in_turn).unwrap();
    }

    #[test]
    fn threads_share_the_work() {
        let file = file();
        for damaged in [false, true] {
            let checks = checks(&file);
            let mut seen = file.clone();
            seen[3 * PIECE] ^= u8::from(damaged);
            let sound = std::thread::scope(|scope| {
                let one = |first: usize| {
                    let (checks, seen) = (&checks, &seen);
                    scope.spawn(move || {
                        for start in (first..seen.len()).step_by(1000) {
                            checks.check(seen, start..seen.len().min(start + 1500));
                        }
                        checks.settle(seen, in_turn).is_ok()
                    })
                };
                let threads: Vec<_> = [0, 5 * PIECE / 2, 7, 4 * PIECE].map(one).into();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
            });
            assert_eq!(sound, [!damaged; 4]);
        }
    }
}
