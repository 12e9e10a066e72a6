//! Random rows in the bytes of a type, without a float in between: codes are random bits, scales make their size.

use half::{bf16, f16};
use qsf_format::{BUILT_IN, BlockSize, Encoding, FloatFormat, GRID_UNIT, QuantType, RowCodes, TRELLIS_UNIT};
use qsf_runtime::sample::Rng;

/// Values per block of the types that take the file's block size.
const BLOCK: BlockSize = BlockSize::B64;
/// Scales differ by up to this factor from their mean, as those of trained weights do.
const SPREAD: f32 = 0.25;
/// Least and most of the magnitude of a learned type's block scale, of at most 63.
const BLOCK_SCALES: (u8, u8) = (32, 47);

/// How the rows of one tensor are made.
pub(super) struct RandomRows {
    pub quant: QuantType,
    pub cols: usize,
    /// Standard deviation of the values.
    pub deviation: f64,
    /// All values are this one; float types only.
    pub constant: Option<f32>,
    pub seed: u64,
}

impl RandomRows {
    /// Bytes of a row.
    pub fn row_bytes(&self) -> usize {
        self.quant.row_bytes(BLOCK, self.cols as u64).expect("a row of u32 columns") as usize
    }

    /// Fills `out` with row `row`.
    pub fn fill(&self, row: usize, out: &mut [u8]) {
        let mut rng = Rng::new(self.seed.wrapping_add(row as u64));
        if self.quant.is_float() {
            self.fill_floats(&mut rng, out);
        } else {
            self.fill_blocks(&mut rng, out);
        }
    }

    fn fill_floats(&self, rng: &mut Rng, out: &mut [u8]) {
        // Uniform numbers of variance 1.
        let width = 12f64.sqrt() * self.deviation;
        let mut next = || self.constant.unwrap_or_else(|| ((rng.next_f64() - 0.5) * width) as f32);
        match self.quant.encoding() {
            Encoding::Float(FloatFormat::F32) => {
                out.as_chunks_mut().0.iter_mut().for_each(|v| *v = next().to_le_bytes());
            }
            Encoding::Float(FloatFormat::Bf16) => {
                out.as_chunks_mut().0.iter_mut().for_each(|v| *v = bf16::from_f32(next()).to_le_bytes());
            }
            _ => out.as_chunks_mut().0.iter_mut().for_each(|v| *v = f16::from_f32(next()).to_le_bytes()),
        }
    }

    fn fill_blocks(&self, rng: &mut Rng, out: &mut [u8]) {
        let (quant, n) = (self.quant, self.quant.block_size(BLOCK).get());
        let unit = (self.deviation / code_deviation(quant)) as f32;
        let (head, blocks) = out.split_at_mut(quant.row_head_bytes());
        if quant.is_learned() {
            head.copy_from_slice(&f16::from_f32(unit).to_le_bytes());
        }
        let mut cols = self.cols;
        for block in blocks.chunks_exact_mut(quant.block_bytes(BLOCK)) {
            fill_random(rng, block);
            let codes = match quant.encoding() {
                Encoding::Trellis { .. } => block,
                Encoding::Grid { .. } => {
                    // A sign, so that levels that are not symmetric have mean 0; the lowest bit chooses the grid.
                    let (least, most) = BLOCK_SCALES;
                    let size = (least + (block[0] >> 1) % (most - least + 1)) as i8;
                    let scale = if block[0] & 0x80 == 0 { size } else { -size };
                    block[0] = ((scale << 1) | (block[0] & 1) as i8) as u8;
                    &mut block[1..]
                }
                _ => fill_scales(quant, unit * (1.0 + SPREAD * (rng.next_f64() as f32 * 2.0 - 1.0)), block),
            };
            repair(quant, n, cols.min(n), codes);
            cols = cols.saturating_sub(n);
        }
    }
}

/// Fills bytes with random bits.
fn fill_random(rng: &mut Rng, out: &mut [u8]) {
    let (words, rest) = out.as_chunks_mut::<8>();
    words.iter_mut().for_each(|word| *word = rng.next_u64().to_le_bytes());
    let last = rng.next_u64().to_le_bytes();
    rest.copy_from_slice(&last[..rest.len()]);
}

/// Writes the scale of a block, and its min where the type has one, such that values are symmetric around 0. Gives the codes.
fn fill_scales(quant: QuantType, scale: f32, block: &mut [u8]) -> &mut [u8] {
    let scale = f16::from_f32(scale);
    let (first, rest) = block.split_at_mut(2);
    first.copy_from_slice(&scale.to_le_bytes());
    let Encoding::Affine(planes) = quant.encoding() else { return rest };
    let most = ((1 << planes.bits()) - 1) as f32;
    let (min, codes) = rest.split_at_mut(2);
    min.copy_from_slice(&f16::from_f32(-0.5 * most * scale.to_f32()).to_le_bytes());
    codes
}

/// What random bits must not be: codes that no writer makes, and padding codes behind the `used` values of a block of `n` that
/// are not zero (SPEC.md section 6).
fn repair(quant: QuantType, n: usize, used: usize, codes: &mut [u8]) {
    match quant.encoding() {
        Encoding::SignedBytes => codes.iter_mut().filter(|code| **code == 0x80).for_each(|code| *code = 0),
        Encoding::Symmetric { rows: RowCodes::SignAndZero, .. } => {
            let (sign, zero) = codes.split_at_mut(n / 8);
            sign.iter_mut().zip(zero).for_each(|(sign, zero)| *sign &= !*zero);
        }
        // Bits of padding are free.
        Encoding::Trellis { .. } => return,
        _ => {}
    }
    if used == n {
        return;
    }
    let mut rest = codes;
    for bits in planes(quant) {
        let (plane, behind) = rest.split_at_mut(n * bits / 8);
        rest = behind;
        for i in used..n {
            let (byte, shift) = match bits {
                1 => (i / 8, i % 8),
                8 => (i, 0),
                bits => (i % (n * bits / 8), bits * (i / (n * bits / 8))),
            };
            plane[byte] &= !(((1u16 << bits) - 1) << shift) as u8;
        }
    }
}

/// Bits of a value in each of the planes that the codes of a block consist of.
fn planes(quant: QuantType) -> Vec<usize> {
    match quant.encoding() {
        Encoding::Symmetric { rows: RowCodes::SignAndZero, .. } => vec![1, 1],
        encoding => {
            let planes = encoding.planes().map_or([0, 0], |planes| [planes.low, planes.high]);
            planes.into_iter().filter(|bits| *bits > 0).collect()
        }
    }
}

/// The standard deviation of values whose scale is 1 and whose codes are random bits.
fn code_deviation(quant: QuantType) -> f64 {
    let uniform = |levels: f64| ((levels * levels - 1.0) / 12.0).sqrt();
    let rms = |levels: &mut dyn Iterator<Item = f64>| {
        let (squares, count) =
            levels.fold((0.0, 0.0), |(sum, count), level| (sum + level * level, count + 1.0));
        (squares / count).sqrt()
    };
    if let Some((levels, shift)) = BUILT_IN.grid(quant) {
        let both = levels.iter().flat_map(|level| [f64::from(*level), f64::from(*level) + f64::from(shift)]);
        let (least, most) = BLOCK_SCALES;
        return f64::from(GRID_UNIT) * rms(&mut { both }) * rms(&mut (least..=most).map(f64::from));
    }
    if let Some(sums) = BUILT_IN.sums(quant) {
        return f64::from(TRELLIS_UNIT) * rms(&mut (0..=255).map(|state| f64::from(sums.level(state))));
    }
    match quant.encoding() {
        Encoding::Affine(planes) => uniform(f64::from(1u32 << planes.bits())),
        // Half of them are 0.
        Encoding::Symmetric { rows: RowCodes::SignAndZero, .. } => 0.5f64.sqrt(),
        encoding @ Encoding::Symmetric { levels, .. } => {
            rms(&mut (0..levels).map(|code| f64::from(encoding.level(code))))
        }
        _ => uniform(255.0),
    }
}
