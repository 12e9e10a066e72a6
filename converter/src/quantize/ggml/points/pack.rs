//! Scales and points as the bytes of ggml's blocks: the inverse of `qsf_runtime::ggml`, where each layout is described.

use half::f16;
use qsf_runtime::ggml::GgmlType;

use super::codebook::Codebook;
use super::shape::{SHIFT, WIDTH};

/// What one block of 256 columns stores.
pub(super) struct PointBlock<'a> {
    pub ty: GgmlType,
    pub book: &'a Codebook,
    /// Binary16 number of the block.
    pub unit: f32,
    /// Codes of the scales of its groups.
    pub scales: &'a [u8],
    /// What each column has times its scale.
    pub levels: &'a [f32; 256],
}

/// Eight columns.
#[derive(Clone, Copy, Default)]
struct Eight {
    /// One code, or two where points have four values.
    codes: [usize; 2],
    signs: u8,
    down: bool,
}

impl PointBlock<'_> {
    /// Writes the block; `out` has exactly its bytes, all zero.
    pub fn write(&self, out: &mut [u8]) {
        let mut eights = [Eight::default(); 32];
        for (eight, levels) in eights.iter_mut().zip(self.levels.as_chunks().0) {
            *eight = self.eight(levels);
        }
        match self.ty {
            GgmlType::IQ1_M => self.iq1_m(&eights, out),
            _ => {
                out[..2].copy_from_slice(&f16::from_f32(self.unit).to_le_bytes());
                self.body(&eights, &mut out[2..]);
            }
        }
    }

    /// Codes of eight levels. Those of a group whose scale is 0 are none, and any code does.
    fn eight(&self, levels: &[f32; WIDTH]) -> Eight {
        if matches!(self.ty, GgmlType::IQ1_S | GgmlType::IQ1_M) {
            let down = levels[0] - levels[0].floor() > 0.5;
            let shift = if down { -SHIFT } else { SHIFT };
            let point = levels.map(|level| (level - shift) as i8);
            return Eight { codes: [self.book.code(&point).unwrap_or(0), 0], signs: 0, down };
        }
        let mut signs = 0;
        for (k, level) in levels.iter().enumerate() {
            signs |= u8::from(*level < 0.0) << k;
        }
        let size = levels.map(|level| level.abs() as i8);
        if self.book.dims() == WIDTH {
            return Eight { codes: [self.book.code(&size).unwrap_or(0), 0], signs, down: false };
        }
        let code = |half: usize| {
            let mut point = [0; WIDTH];
            point[..4].copy_from_slice(&size[4 * half..4 * half + 4]);
            self.book.code(&point).unwrap_or(0)
        };
        Eight { codes: [code(0), code(1)], signs, down: false }
    }

    /// All after the scale of the block.
    fn body(&self, eights: &[Eight; 32], out: &mut [u8]) {
        match self.ty {
            GgmlType::IQ2_XXS => {
                for (g, out) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                    for i in 0..4 {
                        out[i] = eights[4 * g + i].codes[0] as u8;
                    }
                    out[4..].copy_from_slice(&self.signs_and_scale(eights, g).to_le_bytes());
                }
            }
            GgmlType::IQ2_XS => {
                for (eight, out) in eights.iter().zip(out.as_chunks_mut::<2>().0) {
                    let code = eight.codes[0] as u16 | u16::from(eight.signs & 127) << 9;
                    *out = code.to_le_bytes();
                }
                self.nibbles(&mut out[64..72]);
            }
            GgmlType::IQ2_S => {
                for (i, eight) in eights.iter().enumerate() {
                    out[i] = eight.codes[0] as u8;
                    out[32 + i] = eight.signs;
                    out[64 + i / 4] |= ((eight.codes[0] >> 8) as u8) << (2 * (i % 4));
                }
                self.nibbles(&mut out[72..80]);
            }
            GgmlType::IQ3_XXS => {
                for (i, eight) in eights.iter().enumerate() {
                    out[2 * i..2 * i + 2].copy_from_slice(&eight.codes.map(|code| code as u8));
                }
                for (g, out) in out[64..].as_chunks_mut::<4>().0.iter_mut().enumerate() {
                    *out = self.signs_and_scale(eights, g).to_le_bytes();
                }
            }
            GgmlType::IQ3_S => {
                for (i, eight) in eights.iter().enumerate() {
                    for (half, code) in eight.codes.into_iter().enumerate() {
                        out[2 * i + half] = code as u8;
                        out[64 + i / 4] |= ((code >> 8) as u8) << (2 * (i % 4) + half);
                    }
                    out[72 + i] = eight.signs;
                }
                self.nibbles(&mut out[104..108]);
            }
            // IQ1_S
            _ => {
                for (i, eight) in eights.iter().enumerate() {
                    out[i] = eight.codes[0] as u8;
                }
                for (g, out) in out[32..].as_chunks_mut::<2>().0.iter_mut().enumerate() {
                    let of_group = &eights[4 * g..4 * g + 4];
                    let mut word = u16::from(self.scales[g]) << 12 | u16::from(of_group[0].down) << 15;
                    for (i, eight) in of_group.iter().enumerate() {
                        word |= ((eight.codes[0] >> 8) as u16) << (3 * i);
                    }
                    *out = word.to_le_bytes();
                }
            }
        }
    }

    fn iq1_m(&self, eights: &[Eight; 32], out: &mut [u8]) {
        for (i, eight) in eights.iter().enumerate() {
            out[i] = eight.codes[0] as u8;
            let high = (eight.codes[0] >> 8) as u8 | u8::from(eight.down) << 3;
            out[32 + i / 2] |= high << (4 * (i % 2));
        }
        let unit = f16::from_f32(self.unit).to_bits();
        for (w, out) in out[48..].as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let mut word = (unit >> (4 * w)) << 12;
            for (i, scale) in self.scales[4 * w..4 * w + 4].iter().enumerate() {
                word |= u16::from(*scale) << (3 * i);
            }
            *out = word.to_le_bytes();
        }
    }

    /// Seven signs for each eight columns of a group of 32, and its scale on top.
    fn signs_and_scale(&self, eights: &[Eight; 32], group: usize) -> u32 {
        let mut word = u32::from(self.scales[group]) << 28;
        for (i, eight) in eights[4 * group..4 * group + 4].iter().enumerate() {
            word |= u32::from(eight.signs & 127) << (7 * i);
        }
        word
    }

    /// Scales in four bits each.
    fn nibbles(&self, out: &mut [u8]) {
        for (g, scale) in self.scales.iter().enumerate() {
            out[g / 2] |= scale << (4 * (g % 2));
        }
    }
}
