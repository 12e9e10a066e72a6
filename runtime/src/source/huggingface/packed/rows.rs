//! Rows of packed codes with a scale for each group of them: what every packed matrix is once it is loaded.
//!
//! Values are computed in 32-bit floats. With scales of 16 bits `scale * (code - zero)` is exact then, and `scale * code +
//! bias` is rounded once; the tools that wrote the files compute in the type of the scales, so that their values may be
//! the 16-bit neighbours of these.

use qsf_format::QuantType;

use crate::grouped::unpack_codes;
use crate::tensor::{ForeignRows, StoredType, Tensor, TensorBytes};
use qsf_cpu::Isa;

/// Widths of codes that can be unpacked.
pub(super) const WIDTHS: [u32; 6] = [2, 3, 4, 5, 6, 8];

/// The bytes of `count` codes of `bits` bits each, of a row that starts with a whole byte.
pub(super) fn code_bytes(bits: u32, count: usize) -> Option<usize> {
    Some(count.checked_mul(bits as usize)?.div_ceil(8))
}

/// What a code means.
#[derive(Debug)]
pub(super) enum Meaning {
    /// `scale * (code - zero)`; one zero for each scale, row by row.
    Zeros(Vec<u8>),
    /// `scale * code + bias`; one bias for each scale.
    Biases(Tensor),
    /// `scale * table[code]`.
    Table(&'static [f32; 16]),
}

/// Which scale each column has.
#[derive(Debug)]
pub(super) enum Groups {
    /// So many columns in turn; the last group may have fewer.
    Runs(usize),
    /// The number of the group of each column.
    Listed(Vec<u32>),
}

/// A matrix of packed codes.
#[derive(Debug)]
pub(super) struct PackedRows {
    stored: StoredType,
    bits: u32,
    cols: usize,
    codes: TensorBytes,
    scales: Tensor,
    meaning: Meaning,
    groups: Groups,
}

impl PackedRows {
    /// Rows of `cols` codes of `bits` bits, the first code of a row in the lowest bits of its first byte, each row in
    /// whole bytes; the scales of a row are a row of `scales`. `None` when one of them has not the size that follows from
    /// the others.
    pub fn new(
        stored: StoredType,
        bits: u32,
        cols: usize,
        codes: TensorBytes,
        scales: Tensor,
        meaning: Meaning,
        groups: Groups,
    ) -> Option<PackedRows> {
        let (rows, count) = (scales.rows(), scales.cols());
        let all_codes = code_bytes(bits, cols)?.checked_mul(rows)?;
        let meaning_fits = match &meaning {
            Meaning::Zeros(zeros) => Some(zeros.len()) == rows.checked_mul(count),
            Meaning::Biases(biases) => (biases.rows(), biases.cols()) == (rows, count),
            Meaning::Table(_) => bits == 4,
        };
        let groups_fit = match &groups {
            Groups::Runs(run) => *run > 0 && cols.div_ceil(*run) == count,
            Groups::Listed(groups) => groups.len() == cols && groups.iter().all(|&g| (g as usize) < count),
        };
        let fits =
            WIDTHS.contains(&bits) && all_codes == codes.as_slice().len() && meaning_fits && groups_fit;
        fits.then_some(PackedRows { stored, bits, cols, codes, scales, meaning, groups })
    }

    fn unpack(&self, row: usize, out: &mut [f32]) {
        let stride = (self.cols * self.bits as usize).div_ceil(8);
        let codes = &self.codes.as_slice()[row * stride..][..stride];
        unpack_codes(self.bits, codes, out);
    }
}

impl ForeignRows for PackedRows {
    fn stored_type(&self) -> StoredType {
        self.stored
    }

    fn row_bytes(&self) -> usize {
        let scale_bytes = |tensor: &Tensor| (tensor.stored_bytes() / tensor.rows().max(1) as u64) as usize;
        let meaning = match &self.meaning {
            Meaning::Zeros(_) => (self.scales.cols() * self.bits as usize).div_ceil(8),
            Meaning::Biases(biases) => scale_bytes(biases),
            Meaning::Table(_) => 0,
        };
        (self.cols * self.bits as usize).div_ceil(8) + scale_bytes(&self.scales) + meaning
    }

    fn decode_row(&self, isa: Isa, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.cols, "values of a row");
        self.unpack(row, out);
        let count = self.scales.cols();
        let mut scales = vec![0.0; count];
        self.scales.decode_row(isa, row, &mut scales);
        match &self.meaning {
            Meaning::Zeros(zeros) => {
                let zeros = &zeros[row * count..][..count];
                let value = |code: f32, g: usize| scales[g] * (code - f32::from(zeros[g]));
                self.groups.replace_each(out, value);
            }
            Meaning::Biases(biases) => {
                let mut offsets = vec![0.0; count];
                biases.decode_row(isa, row, &mut offsets);
                self.groups.replace_each(out, |code, g| scales[g] * code + offsets[g]);
            }
            Meaning::Table(table) => {
                self.groups.replace_each(out, |code, g| scales[g] * table[code as usize & 15]);
            }
        }
    }
}

impl Groups {
    /// Every code of a row by its value, which follows from it and the number of its group.
    fn replace_each(&self, row: &mut [f32], value: impl Fn(f32, usize) -> f32) {
        match self {
            Groups::Runs(run) => {
                for (g, codes) in row.chunks_mut(*run).enumerate() {
                    codes.iter_mut().for_each(|code| *code = value(*code, g));
                }
            }
            Groups::Listed(groups) => {
                row.iter_mut().zip(groups).for_each(|(code, &g)| *code = value(*code, g as usize));
            }
        }
    }
}

/// All codes of `bits` bits in `bytes`.
pub(super) fn unpack_all(bits: u32, bytes: &[u8]) -> Vec<u8> {
    let bits = bits as usize;
    let mask = (1u32 << bits) - 1;
    let count = bytes.len() * 8 / bits;
    let code = |i: usize| {
        let (byte, shift) = (i * bits / 8, i * bits % 8);
        let low = u32::from(bytes[byte]);
        let high = bytes.get(byte + 1).copied().map_or(0, u32::from);
        ((low | high << 8) >> shift & mask) as u8
    };
    (0..count).map(code).collect()
}

/// Whether a tensor of this type can be scales.
pub(super) fn is_float(stored: StoredType) -> bool {
    stored.native().is_some_and(QuantType::is_float)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::ForeignType;

    const STORED: StoredType = StoredType::Foreign(ForeignType { name: "test", quantized: true });

    /// Codes packed one bit at a time, as the definition says.
    fn pack(bits: usize, codes: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; (codes.len() * bits).div_ceil(8)];
        for (i, code) in codes.iter().enumerate() {
            for bit in 0..bits {
                let at = i * bits + bit;
                bytes[at / 8] |= (code >> bit & 1) << (at % 8);
            }
        }
        bytes
    }

    #[test]
    fn codes_of_every_width_come_out_as_they_went_in_also_off_whole_bytes() {
        for bits in WIDTHS {
            for count in [1, 7, 8, 9, 32, 45] {
                let codes: Vec<u8> =
                    (0..count).map(|i| (i * 73 + 5) as u8 & ((1u32 << bits) - 1) as u8).collect();
                let bytes = pack(bits as usize, &codes);
                let mut out = vec![0.0; count];
                let scales = Tensor::from_f32(1, 1, &[1.0]);
                let meaning = Meaning::Zeros(vec![0]);
                let rows = PackedRows::new(
                    STORED,
                    bits,
                    count,
                    bytes.clone().into(),
                    scales,
                    meaning,
                    Groups::Runs(64),
                );
                rows.unwrap().decode_row(Isa::best(), 0, &mut out);
                assert_eq!(out, codes.iter().map(|&code| f32::from(code)).collect::<Vec<_>>(), "{bits} bits");
                assert_eq!(unpack_all(bits, &bytes)[..count], codes, "{bits} bits");
            }
        }
    }

    #[test]
    fn each_column_has_the_scale_of_its_group_in_runs_and_listed() {
        let rows = |groups| {
            let scales = Tensor::from_f32(2, 2, &[1.0, 10.0, 0.5, -2.0]);
            let codes = pack(4, &[1, 2, 3, 4, 5, 6, 7, 8]).into();
            PackedRows::new(STORED, 4, 4, codes, scales, Meaning::Zeros(vec![0, 1, 2, 3]), groups)
        };
        let decode = |groups| {
            let rows = rows(groups).unwrap();
            let mut out = [0.0; 8];
            rows.decode_row(Isa::best(), 0, &mut out[..4]);
            rows.decode_row(Isa::best(), 1, &mut out[4..]);
            out
        };
        assert_eq!(decode(Groups::Runs(3)), [1.0, 2.0, 3.0, 30.0, 1.5, 2.0, 2.5, -10.0]);
        assert_eq!(decode(Groups::Listed(vec![1, 0, 1, 0])), [0.0, 2.0, 20.0, 4.0, -4.0, 2.0, -8.0, 3.0]);
        for wrong in [Groups::Runs(0), Groups::Runs(4), Groups::Runs(1)] {
            assert!(rows(wrong).is_none());
        }
        assert!(rows(Groups::Listed(vec![0, 1, 2, 0])).is_none());
        assert!(rows(Groups::Listed(vec![0, 1, 1])).is_none());
    }
}
