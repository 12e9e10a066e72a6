//! Stored weights to floats, fast: the same values as `qsf_format::decode_row` and `decode_panel_row`, written so that it
//! becomes vector code.

use qsf_format::panels::{block_of_row, superblock_bytes};
use qsf_format::{BlockSize, CodeTables, Encoding, FloatFormat, Planes, QuantType, RowCodes};

use super::decode_learned::DecodeLearned;
use super::float16::{bf16_to_f32, f16_to_f32};
use super::isa::{Isa, Vectorized};
use super::row_blocks::each_block;

/// Decodes one row of `out.len()` columns. Only learned types look at `tables`.
///
/// # Panics
/// When `bytes` is shorter than the row.
pub fn decode_row(
    isa: Isa,
    quant: QuantType,
    block: BlockSize,
    tables: &CodeTables,
    bytes: &[u8],
    out: &mut [f32],
) {
    if quant.is_learned() {
        return isa.vectorize(DecodeLearned { quant, tables, bytes, row: None, out });
    }
    #[cfg(target_arch = "x86_64")]
    if quant == QuantType::F16 && isa.has_avx2() {
        // SAFETY: the value of `isa` proves F16C.
        return unsafe { halves_f16c(bytes, out) };
    }
    isa.vectorize(DecodeRow { quant, block, bytes, out });
}

/// Decodes row `row` of a panel of `out.len()` columns.
///
/// # Panics
/// When `panel` is shorter than the panel of these columns, `row` is not below 16, or for a float type.
pub fn decode_panel_row(
    isa: Isa,
    quant: QuantType,
    block: BlockSize,
    tables: &CodeTables,
    panel: &[u8],
    row: usize,
    out: &mut [f32],
) {
    if quant.is_learned() {
        return isa.vectorize(DecodeLearned { quant, tables, bytes: panel, row: Some(row), out });
    }
    isa.vectorize(DecodePanelRow { quant, block, panel, row, out });
}

/// Half-precision numbers by the instruction for it: the values of [`f16_to_f32`], at a third of its cost.
///
/// # Panics
/// When `bytes` is too short.
///
/// # Safety
/// The processor must have AVX2 and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn halves_f16c(bytes: &[u8], out: &mut [f32]) {
    use core::arch::x86_64::{_mm_loadu_si128, _mm256_cvtph_ps, _mm256_storeu_ps};
    let bytes = &bytes[..2 * out.len()];
    let (out, out_rest) = out.as_chunks_mut::<8>();
    let (chunks, rest) = bytes.as_chunks::<16>();
    for (out, chunk) in out.iter_mut().zip(chunks) {
        // SAFETY: 16 bytes are read and 8 floats written, each the whole of an array.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), _mm256_cvtph_ps(_mm_loadu_si128(chunk.as_ptr().cast())));
        };
    }
    floats(rest, out_rest, |half| f16_to_f32(u16::from_le_bytes(half)));
}

struct DecodeRow<'a> {
    quant: QuantType,
    block: BlockSize,
    bytes: &'a [u8],
    out: &'a mut [f32],
}

impl Vectorized for DecodeRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let DecodeRow { quant, block, bytes, out } = self;
        match quant.encoding() {
            Encoding::Float(FloatFormat::F16) => floats(bytes, out, |b| f16_to_f32(u16::from_le_bytes(b))),
            Encoding::Float(FloatFormat::Bf16) => floats(bytes, out, |b| bf16_to_f32(u16::from_le_bytes(b))),
            Encoding::Float(FloatFormat::F32) => floats(bytes, out, f32::from_le_bytes),
            _ => match block.get() {
                32 => blocks::<32>(quant, block, bytes, out),
                64 => blocks::<64>(quant, block, bytes, out),
                128 => blocks::<128>(quant, block, bytes, out),
                _ => blocks::<256>(quant, block, bytes, out),
            },
        }
    }
}

struct DecodePanelRow<'a> {
    quant: QuantType,
    block: BlockSize,
    panel: &'a [u8],
    row: usize,
    out: &'a mut [f32],
}

impl Vectorized for DecodePanelRow<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        match self.block.get() {
            32 => self.blocks::<32>(),
            64 => self.blocks::<64>(),
            128 => self.blocks::<128>(),
            _ => self.blocks::<256>(),
        }
    }
}

impl DecodePanelRow<'_> {
    #[inline(always)]
    fn blocks<const N: usize>(self) {
        let DecodePanelRow { quant, block, panel, row, out } = self;
        let mut superblocks = panel.chunks_exact(superblock_bytes(quant, block));
        // The largest block: 256 codes of 8 bits.
        let mut room = [0; 2 + 256];
        let plain = &mut room[..quant.block_bytes(block)];
        let encoding = match quant.encoding() {
            // In panels codes are what they stand for, even where plain rows have them in another way.
            Encoding::Symmetric { levels, step, .. } => {
                Encoding::Symmetric { levels, step, rows: RowCodes::Plain }
            }
            encoding => encoding,
        };
        each_block::<N>(out, |out| {
            let superblock = superblocks.next().expect("panel shorter than its columns");
            block_of_row(quant, block, superblock, row, plain);
            decode_block::<N>(encoding, plain, out);
        });
    }
}

#[inline(always)]
fn floats<const W: usize>(bytes: &[u8], out: &mut [f32], read: impl Fn([u8; W]) -> f32) {
    let (values, _) = bytes.as_chunks::<W>();
    let values = &values[..out.len()];
    for (out, value) in out.iter_mut().zip(values) {
        *out = read(*value);
    }
}

#[inline(always)]
fn blocks<const N: usize>(quant: QuantType, block: BlockSize, bytes: &[u8], out: &mut [f32]) {
    let (mut bytes, encoding) = (bytes.chunks_exact(quant.block_bytes(block)), quant.encoding());
    each_block::<N>(out, |out| {
        decode_block::<N>(encoding, bytes.next().expect("row shorter than its columns"), out);
    });
}

/// One block. The values of a row of codes are `a * q + b`, rounded twice as the format says.
#[inline(always)]
fn decode_block<const N: usize>(encoding: Encoding, bytes: &[u8], out: &mut [f32; N]) {
    let first = f16_to_f32(u16::from_le_bytes([bytes[0], bytes[1]]));
    match encoding {
        Encoding::Affine(Planes::TWO) => {
            let min = second(bytes);
            two_bit(&bytes[4..], out, |q| first * f32::from(q) + min);
        }
        Encoding::Affine(Planes::TWO_AND_ONE) => {
            let min = second(bytes);
            let (low, high) = bytes[4..].split_at(N / 4);
            let mut codes = [0u8; N];
            for (k, codes) in codes.chunks_exact_mut(N / 4).enumerate() {
                for (code, byte) in codes.iter_mut().zip(low) {
                    *code = (byte >> (2 * k)) & 3;
                }
            }
            for ((out, codes), high) in out.chunks_exact_mut(8).zip(codes.chunks_exact(8)).zip(high) {
                for i in 0..8 {
                    let q = codes[i] | (((high >> i) & 1) << 2);
                    out[i] = first * f32::from(q) + min;
                }
            }
        }
        Encoding::Affine(Planes::FOUR) => {
            let min = second(bytes);
            let (low, high) = out.split_at_mut(N / 2);
            for ((low, high), byte) in low.iter_mut().zip(high).zip(&bytes[4..]) {
                *low = first * f32::from(byte & 15) + min;
                *high = first * f32::from(byte >> 4) + min;
            }
        }
        Encoding::Symmetric { rows: RowCodes::Plain, .. } => {
            // Levels are small whole numbers, and so exact.
            let (least, step) = (encoding.level(0), encoding.level(1) - encoding.level(0));
            let (least, step) = (f32::from(least), f32::from(step));
            two_bit(&bytes[2..], out, |q| first * (f32::from(q) * step + least));
        }
        Encoding::Symmetric { rows: RowCodes::SignAndZero, .. } => {
            let (sign, zero) = bytes[2..].split_at(N / 8);
            for ((out, sign), zero) in out.chunks_exact_mut(8).zip(sign).zip(zero) {
                for (i, out) in out.iter_mut().enumerate() {
                    let code = (1 - ((zero >> i) & 1) as i8) * (1 - 2 * ((sign >> i) & 1) as i8);
                    *out = first * f32::from(code);
                }
            }
        }
        Encoding::SignedBytes => {
            for (out, code) in out.iter_mut().zip(&bytes[2..]) {
                *out = first * f32::from(*code as i8);
            }
        }
        Encoding::Affine(_) | Encoding::Float(_) | Encoding::Grid { .. } | Encoding::Trellis { .. } => {
            unreachable!("{encoding:?} is not decoded by blocks here")
        }
    }
}

#[inline(always)]
fn second(bytes: &[u8]) -> f32 {
    f16_to_f32(u16::from_le_bytes([bytes[2], bytes[3]]))
}

#[inline(always)]
fn two_bit<const N: usize>(codes: &[u8], out: &mut [f32; N], value: impl Fn(u8) -> f32) {
    for (k, out) in out.chunks_exact_mut(N / 4).enumerate() {
        for (out, byte) in out.iter_mut().zip(codes) {
            *out = value((byte >> (2 * k)) & 3);
        }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::BUILT_IN;
    use qsf_format::panels::panel_bytes;

    use super::*;

    #[test]
    fn every_half_precision_number_converts_exactly() {
        for bits in 0..=u16::MAX {
            let expected = half::f16::from_bits(bits).to_f32();
            let all = [bits.to_le_bytes(); 33].concat();
            assert_eq!(f16_to_f32(bits).to_bits(), expected.to_bits(), "{bits:#06x}");
            if bits % 61 == 0 {
                let mut out = [0.0; 33];
                for isa in Isa::available() {
                    decode_row(isa, QuantType::F16, BlockSize::B64, &BUILT_IN, &all, &mut out);
                    assert!(out.iter().all(|v| v.to_bits() == expected.to_bits()), "{bits:#06x} {isa:?}");
                }
            }
        }
    }

    fn same(a: &[f32], b: &[f32]) -> bool {
        a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()))
    }

    #[test]
    fn fast_decode_gives_the_values_of_the_format() {
        for quant in QuantType::ALL {
            for block in BlockSize::ALL {
                for cols in [1, 31, 33, 63, 65, 256, 300] {
                    let len = quant.row_bytes(block, cols as u64).unwrap() as usize;
                    let bytes: Vec<u8> = (0..len).map(|i| (i * 167 + i / 7) as u8).collect();
                    let (mut expected, mut out) = (vec![0.0; cols], vec![0.0; cols]);
                    qsf_format::decode_row(quant, block, &BUILT_IN, &bytes, &mut expected);
                    for isa in Isa::available() {
                        decode_row(isa, quant, block, &BUILT_IN, &bytes, &mut out);
                        assert!(same(&out, &expected), "{quant} {block} {isa:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn fast_decode_of_panels_gives_the_values_of_the_format() {
        for quant in QuantType::ALL.into_iter().filter(|quant| !quant.is_float()) {
            for block in BlockSize::ALL {
                for cols in [1usize, 31, 33, 63, 65, 256, 300] {
                    let len = panel_bytes(quant, block, cols.div_ceil(quant.block_size(block).get()));
                    let panel: Vec<u8> = (0..len).map(|i| (i * 167 + i / 7) as u8).collect();
                    let (mut expected, mut out) = (vec![0.0; cols], vec![0.0; cols]);
                    for row in 0..16 {
                        qsf_format::decode_panel_row(quant, block, &BUILT_IN, &panel, row, &mut expected);
                        for isa in Isa::available() {
                            decode_panel_row(isa, quant, block, &BUILT_IN, &panel, row, &mut out);
                            assert!(same(&out, &expected), "{quant} {block} row {row} {isa:?}");
                        }
                    }
                }
            }
        }
    }
}
