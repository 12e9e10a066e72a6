//! Keys and values in codes of 8 bits, as the CPU has them (`cpu/src/attention/codes.rs`): a head is rotated by a Hadamard matrix
//! (QuaRot, arXiv 2404.00456), and every 32 of its values share a scale in f16. A code is one of -127 to 127, four to a word; what is
//! stored as the scale is the value of code 127.

use super::template::Template;
use qsf_cpu::hadamard_block;

/// Values that share a scale.
pub const GROUP: usize = 32;

/// Words of the codes of a head at one position. Behind the last value are zeros.
pub const fn row_words(head_dim: usize) -> usize {
    head_dim.div_ceil(4)
}

/// Words of its scales, two each.
pub const fn scale_words(head_dim: usize) -> usize {
    head_dim.div_ceil(2 * GROUP)
}

/// Statements by which `threads` threads rotate the `dim` values of an array of the workgroup, as `cpu/src/hadamard.rs` does. Done
/// twice, it is undone. All threads must have written before it; all may read behind it.
pub fn rotate(array: &str, dim: usize, threads: usize) -> String {
    let block = hadamard_block(dim);
    if block <= 1 {
        return String::new();
    }
    Template::part(include_str!("eight_bit.wgsl"), "rotate")
        .word("ARRAY", array)
        .number("BLOCK", block)
        .number("PAIRS", dim / 2)
        .number("WIDTH", dim)
        .number("THREADS", threads)
        .float("SCALE", (1.0 / (block as f64).sqrt()) as f32)
        .make()
}
