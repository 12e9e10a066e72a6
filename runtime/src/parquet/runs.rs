//! Runs of small numbers: levels, and indices into a dictionary (encoding RLE, `Encodings.md` of parquet-format).

use super::flaw::Found;
use super::thrift::{CUT, varint};

/// Reads numbers of some of a page's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Runs {
    at: usize,
    end: usize,
    /// Bits of a number, up to 32.
    width: u32,
    left: u64,
    run: Run,
}

#[derive(Debug, Clone, Copy)]
enum Run {
    Equal(u32),
    /// Numbers side by side, from this bit of the page on.
    Packed(usize),
}

impl Runs {
    /// Numbers of `width` bits in the bytes from `at` to `end`.
    pub fn new(at: usize, end: usize, width: u32) -> Runs {
        Runs { at, end, width, left: 0, run: Run::Equal(0) }
    }

    /// The next number.
    pub fn next(&mut self, bytes: &[u8]) -> Found<u32> {
        while self.left == 0 {
            self.begin_run(bytes)?;
        }
        self.left -= 1;
        match &mut self.run {
            Run::Equal(number) => Ok(*number),
            Run::Packed(bit) => {
                let first = *bit / 8;
                let last = (*bit + self.width as usize).div_ceil(8);
                if last > self.end {
                    return Err(CUT.into());
                }
                let window = little_endian(&bytes[first..last]) >> (*bit % 8);
                *bit += self.width as usize;
                Ok((window & ((1 << self.width) - 1)) as u32)
            }
        }
    }

    fn begin_run(&mut self, bytes: &[u8]) -> Found<()> {
        let (head, length) = varint(&bytes[self.at..self.end])?;
        self.at += length;
        if head & 1 == 0 {
            self.left = head >> 1;
            let taken = self.width.div_ceil(8) as usize;
            let number = bytes[self.at..self.end].get(..taken).ok_or(CUT)?;
            self.run = Run::Equal(little_endian(number) as u32);
            self.at += taken;
        } else {
            // Groups of eight.
            let groups = head >> 1;
            self.left = groups.checked_mul(8).ok_or("a run that is too long")?;
            self.run = Run::Packed(self.at * 8);
            let taken = groups.saturating_mul(u64::from(self.width));
            // Writers may leave out bytes behind the last number.
            self.at =
                usize::try_from(taken).map_or(self.end, |taken| self.at.saturating_add(taken).min(self.end));
        }
        Ok(())
    }
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}
