//! Mutations that know where a file has its fields: for fuzzers, which would need very long to hit a length and to make checksums
//! right, and for tests.
//!
//! | File | Files |
//! |---|---|
//! | `qsf` | QSF: header, index, directory, chunk tables, tensor headers, META; checksums are made right again |
//! | `gguf` | GGUF: counts, lengths, types, shapes, offsets, values |
//!
//! The fuzz targets, a workspace of their own, have this folder as a module, too.

pub mod gguf;
pub mod qsf;

/// Numbers that follow from a seed, the same on every machine.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Dice that fall as `seed` says.
    pub fn new(seed: u32) -> Dice {
        Dice(u64::from(seed).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number (xorshift64*).
    pub fn roll(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `end`, or 0.
    pub fn below(&mut self, end: usize) -> usize {
        (self.roll() >> 16) as usize % end.max(1)
    }
}

/// A little-endian number in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Where its first byte is.
    pub at: usize,
    /// Bytes: 1, 2, 4 or 8.
    pub width: usize,
}

impl Field {
    fn get(self, file: &[u8]) -> Option<u64> {
        let bytes = file.get(self.at..self.at.checked_add(self.width)?)?;
        let mut value = [0; 8];
        value[..self.width].copy_from_slice(bytes);
        Some(u64::from_le_bytes(value))
    }

    fn set(self, file: &mut [u8], value: u64) {
        if let Some(bytes) = file.get_mut(self.at..self.at + self.width) {
            bytes.copy_from_slice(&value.to_le_bytes()[..self.width]);
        }
    }
}

/// Gives one of the fields a value that readers may trip over.
fn change_a_field(file: &mut [u8], fields: &[Field], dice: &mut Dice) {
    let Some(&field) = fields.get(dice.below(fields.len())) else { return };
    let Some(old) = field.get(file) else { return };
    let other = fields[dice.below(fields.len())].get(file).unwrap_or(0);
    let most = u64::MAX >> (64 - 8 * field.width);
    let value = match dice.below(12) {
        0 => 0,
        1 => 1,
        2 => most,
        3 => most / 2 + 1,
        4 => old.wrapping_add(1),
        5 => old.wrapping_sub(1),
        6 => old.wrapping_mul(2),
        7 => 1 << dice.below(8 * field.width),
        8 => (1 << dice.below(8 * field.width)) - 1,
        9 => file.len() as u64,
        10 => other,
        _ => dice.roll(),
    };
    field.set(file, value);
}
