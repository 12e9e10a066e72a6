//! Where a tensor holds NaN or infinity: checked before anything is quantized, for no search survives either.

use qsf_runtime::cpu::{Isa, Vectorized};

/// Values looked at between two decisions.
const STRIDE: usize = 256;

/// Index of the first NaN or infinity in `values`.
pub fn first_non_finite(isa: Isa, values: &[f32]) -> Option<usize> {
    isa.vectorize(FirstNonFinite(values))
}

struct FirstNonFinite<'a>(&'a [f32]);

impl Vectorized for FirstNonFinite<'_> {
    type Output = Option<usize>;

    #[inline(always)]
    fn run(self) -> Option<usize> {
        for (i, values) in self.0.chunks(STRIDE).enumerate() {
            // No branch per value, so that this loop is a few vector instructions per 16 of them.
            let any = values.iter().fold(false, |any, v| any | is_non_finite(*v));
            if any {
                return values.iter().position(|v| is_non_finite(*v)).map(|at| i * STRIDE + at);
            }
        }
        None
    }
}

/// All exponent bits set; a signed comparison, which the baseline of x86-64 has for vectors.
#[inline(always)]
fn is_non_finite(v: f32) -> bool {
    (v.to_bits() & 0x7FFF_FFFF) as i32 >= 0x7F80_0000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_the_first_bad_value_is_reported_wherever_it_stands() {
        for isa in Isa::available() {
            for len in [0, 1, 255, 256, 257, 1000] {
                let mut values = vec![f32::MAX; len];
                assert_eq!(first_non_finite(isa, &values), None);
                for at in (0..len).step_by(51).rev() {
                    values[at] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY][at % 3];
                    assert_eq!(first_non_finite(isa, &values), Some(at));
                }
            }
        }
    }
}
