//! What the machine reads from memory per second, by a plain sum: about the most that decoding can reach. Asking for memory ahead may
//! read more (docs/measurements/cpu-kernels.md, "Tasks in a row").

use std::sync::Barrier;
use std::time::Instant;

use memmap2::MmapMut;
use serde::Serialize;

use super::machine::Caches;
use crate::error::{Result, RuntimeError};
use crate::memory;
use qsf_cpu::{Isa, Vectorized};

/// Read bandwidth of some threads.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Bandwidth {
    /// Threads that read at the same time, each its own part.
    pub threads: usize,
    /// Best of the passes, in GB (10^9 bytes) per second.
    pub gb_per_second: f64,
    /// Bytes of one pass.
    pub buffer_bytes: usize,
}

/// Passes over the buffer.
const PASSES: usize = 5;
/// Times its last-level cache that a thread reads: with 8 times, caches of 32 MB each kept so much from the pass before that the sum
/// was 3 % too fast (docs/measurements/cpu-kernels.md, "The bandwidth that shares are of").
const TIMES_CACHE: usize = 32;
/// What a thread reads: at least, and at most where caches are large.
const SHARE: std::ops::RangeInclusive<usize> = (512 << 20)..=(1 << 30);
/// What all threads read together is at most this, or eight times a cache that is larger: many threads share caches.
const MOST_BYTES: usize = 8 << 30;
/// A buffer that cannot be had is not made smaller than this.
const LEAST_BYTES: usize = 512 << 20;
/// Bytes that a thread sums up at a time.
const STEP: usize = 256;

/// Measures with `threads` threads of its own, over a buffer far beyond the caches but at most a quarter of the free memory.
///
/// # Errors
/// When the buffer cannot be had.
pub fn read_bandwidth(threads: usize) -> Result<Bandwidth> {
    // Registers of 32 bytes are enough, and what the compiler makes of the sum for AVX-512 is ten times as slow.
    let isa = Isa::by_name("avx2").unwrap_or(Isa::SCALAR);
    let wanted = wanted_bytes(threads, Caches::detect().last);
    let available = memory::available().map_or(1 << 30, |bytes| bytes as usize);
    read_buffer(isa, threads, wanted.min(available / 4))
}

/// Bytes that are far beyond the caches of `threads` threads, if each of them has a last-level cache of `last` bytes of its own.
fn wanted_bytes(threads: usize, last: usize) -> usize {
    let share = last.saturating_mul(TIMES_CACHE).clamp(*SHARE.start(), *SHARE.end());
    share.saturating_mul(threads).min(MOST_BYTES.max(last.saturating_mul(8)))
}

fn read_buffer(isa: Isa, threads: usize, bytes: usize) -> Result<Bandwidth> {
    let (share, mut buffer) = map_shares(threads, bytes)?;
    let bytes = buffer.len();
    // Only advice: with small pages, looking up addresses costs a little.
    #[cfg(target_os = "linux")]
    let _ = buffer.advise(memmap2::Advice::HugePage);
    let barrier = &Barrier::new(threads);
    let spans: Vec<Vec<(Instant, Instant)>> = std::thread::scope(|scope| {
        let parts: Vec<_> = buffer
            .chunks_exact_mut(share)
            .map(|part| {
                scope.spawn(move || {
                    // Each thread fills what it reads, so that on machines with several memories it lies in the near one.
                    part.fill(1);
                    let part = &*part;
                    let pass = |_| {
                        barrier.wait();
                        let started = Instant::now();
                        std::hint::black_box(isa.vectorize(Sum(part)));
                        (started, Instant::now())
                    };
                    (0..PASSES).map(pass).collect()
                })
            })
            .collect();
        // A thread that panicked was interrupted in plain arithmetic: impossible, and then there is nothing to report.
        parts.into_iter().filter_map(|part| part.join().ok()).collect()
    });
    let seconds = |pass: usize| {
        let starts = spans.iter().map(|spans| spans[pass].0).min();
        let ends = spans.iter().map(|spans| spans[pass].1).max();
        starts.zip(ends).map_or(f64::INFINITY, |(start, end)| (end - start).as_secs_f64())
    };
    let best = (0..PASSES).map(seconds).fold(f64::INFINITY, f64::min);
    Ok(Bandwidth { threads, gb_per_second: bytes as f64 / best / 1e9, buffer_bytes: bytes })
}

/// A buffer of `bytes`, and the bytes of it that belong to each thread. A process may have less than the machine (`ulimit -v`), and
/// last-level caches of a large host ask for gigabytes: then the buffer is the largest half, quarter, eighth that can be had.
fn map_shares(threads: usize, bytes: usize) -> Result<(usize, MmapMut)> {
    let share = (bytes / threads).next_multiple_of(STEP).max(STEP);
    match MmapMut::map_anon(share * threads) {
        Ok(buffer) => Ok((share, buffer)),
        Err(_) if bytes > LEAST_BYTES => map_shares(threads, (bytes / 2).max(LEAST_BYTES)),
        Err(_) => Err(RuntimeError::OutOfMemory {
            what: "buffer that bandwidth is measured with".into(),
            bytes: (share * threads) as u64,
        }),
    }
}

/// The wrapping sum of the 64-bit words of some bytes: as little work per byte as can be.
struct Sum<'a>(&'a [u8]);

impl Vectorized for Sum<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self) -> u64 {
        // As many sums as a step has words, so that no addition waits for another.
        let mut sums = [0_u64; STEP / 8];
        for step in self.0.as_chunks::<STEP>().0 {
            for (sum, word) in sums.iter_mut().zip(step.as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
            }
        }
        sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_read() {
        let bytes: Vec<u8> = (0..STEP * 5).map(|i| ((i * i) >> 3) as u8).collect();
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let expected = words.fold(0_u64, u64::wrapping_add);
        for isa in Isa::available() {
            assert_eq!(isa.vectorize(Sum(&bytes)), expected, "{isa:?}");
        }
    }

    #[test]
    fn what_caches_keep_is_a_small_part_of_what_a_thread_reads() {
        // Two threads with caches of 32 MB each, as on two chiplets of an EPYC.
        assert_eq!(wanted_bytes(2, 32 << 20), 2 << 30);
        assert_eq!(wanted_bytes(1, 2 << 20), 512 << 20);
        // A hundred threads do not fill a hundred gigabytes, but a shared cache of two gigabytes is still left far behind.
        assert_eq!(wanted_bytes(100, 32 << 20), 8 << 30);
        assert_eq!(wanted_bytes(100, 2 << 30), 16 << 30);
    }

    #[test]
    fn a_buffer_beyond_what_the_process_may_have_becomes_smaller() {
        // A quarter of all addresses: no system gives so much.
        let (share, buffer) = map_shares(2, usize::MAX / 4).unwrap();
        assert_eq!(buffer.len(), 2 * share);
        assert!(buffer.len() >= LEAST_BYTES && buffer.len() < usize::MAX / 4);
    }

    #[test]
    fn a_bandwidth_is_positive_for_any_number_of_threads() {
        for threads in [1, 2, 3] {
            let found = read_buffer(Isa::best(), threads, 1 << 20).unwrap();
            assert!(found.gb_per_second.is_finite() && found.gb_per_second > 0.0, "{found:?}");
            assert!(found.threads == threads && found.buffer_bytes >= 1 << 20, "{found:?}");
        }
    }
}
