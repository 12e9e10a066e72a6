//! Vectors of length 1.

use crate::isa::{Isa, Vectorized};
use crate::lanes::dot;

/// Added to the square of the length before the root, as in every model that does this.
const EPSILON: f32 = 1e-6;

/// `x = x / sqrt(sum(x^2) + 1e-6) * length`.
pub fn scale_to_length(isa: Isa, x: &mut [f32], length: f32) {
    isa.vectorize(ScaleToLength { x, length });
}

struct ScaleToLength<'a> {
    x: &'a mut [f32],
    length: f32,
}

impl Vectorized for ScaleToLength<'_> {
    type Output = ();

    #[inline(always)]
    fn run(self) {
        let factor = 1.0 / (dot(self.x, self.x) + EPSILON).sqrt();
        for x in self.x {
            *x = *x * factor * self.length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_get_the_length_on_every_instruction_set_and_zeros_stay() {
        for n in [1, 12, 16, 37, 128] {
            let x: Vec<f32> = (0..n).map(|i| i as f32 * 0.37 - 4.0).collect();
            let mut expected = x.clone();
            scale_to_length(Isa::SCALAR, &mut expected, 0.25);
            let length = expected.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>().sqrt();
            assert!((length - 0.25).abs() < 1e-6, "{n}: {length}");
            for isa in Isa::available() {
                let mut found = x.clone();
                scale_to_length(isa, &mut found, 0.25);
                assert_eq!(found, expected, "{isa:?} {n}");
            }
        }
        let mut zeros = [0.0; 5];
        scale_to_length(Isa::best(), &mut zeros, 1.0);
        assert_eq!(zeros, [0.0; 5]);
    }
}
