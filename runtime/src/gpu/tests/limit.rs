//! Rows of any size become such that f16 has, by powers of two.

use super::{Bench, Numbers};
use crate::gpu::kernels::Kernel;
use crate::gpu::step::Command;

#[test]
fn the_largest_value_of_a_row_becomes_less_than_two_to_the_fifteenth() {
    let bench = Bench::new();
    let largest = [0.0f32, 1e-30, 1.0, 32767.9, 32768.0, -65504.0, 65535.9, 65536.0, 1e6, -3e38];
    let (width, stride) = (700, 768);
    let mut numbers = Numbers(3);
    let mut rows = Vec::new();
    for (token, value) in largest.into_iter().enumerate() {
        let mut row: Vec<f32> = (0..stride).map(|_| 0.9 * value * numbers.uniform()).collect();
        row[(token * 97) % width] = value;
        // What is behind a row counts for nothing.
        row[width..].fill(1e9);
        rows.extend(row);
    }
    let factors = bench.room(largest.len());
    let bound = [&bench.floats(&rows), &factors];
    let groups = (largest.len() as u32, 1, 1);
    let command = Command::new(Kernel::Limit, &bound, &[width as u32, stride as u32], groups);
    for (found, value) in bench.run(&[command], &factors).into_iter().zip(largest) {
        let factor = f32::from_bits(found);
        let expected = if value.abs() < 32768.0 { 1.0..=1.0 } else { 0.0..=0.5 };
        assert!(expected.contains(&factor) && factor.log2().fract() == 0.0, "{value}: {factor}");
        let product = value.abs() * factor;
        assert!(product < 32768.0 && (factor == 1.0 || product >= 16384.0), "{value}: {factor}");
    }
}
