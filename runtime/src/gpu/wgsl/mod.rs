//! The text of the kernels.
//!
//! | File | Kernels |
//! |---|---|
//! | `codes` | how values of each type come out of panels; no kernel of its own |
//! | `embed` | rows of the embedding |
//! | `mat_vec`, `int_dot`, `mat_mat` | matrices times few vectors, in integers too, and times many |
//! | `norm` | the residual stream and its norms |
//! | `place`, `attend` | queries, keys and values; attention |
//! | `eight_bit` | keys and values in codes of 8 bits; no kernel of its own |
//! | `pointwise`, `activation` | each value alone |
//! | `route` | which experts a token goes through, and their results together |
//! | `choose`, `likeliest` | the likeliest token; the likeliest of them |
//! | `sum` | words added up, to measure other kernels by |

pub mod activation;
pub mod attend;
pub mod choose;
pub mod codes;
pub mod eight_bit;
pub mod embed;
mod int_dot;
pub mod likeliest;
pub mod mat_mat;
pub mod mat_vec;
pub mod norm;
pub mod place;
pub mod pointwise;
pub mod route;
pub mod sum;

use std::fmt::Write;

/// A function that makes a key of the bits of a logit: it grows with the logit, and is 0 for NaN and negative infinity, which are never
/// chosen. By integers, as kernels may take it for granted that floats are numbers. Zeros are equal, and infinity is the largest
/// number, as for the CPU's sampler.
const KEY: &str = "fn key(bits: u32) -> u32 {
if ((bits & 0x7fffffffu) > 0x7f800000u || bits == 0xff800000u) { return 0u; }
if (bits > 0x80000000u) { return ~bits; }
return min(bits & 0x7fffffffu, 0x7f7fffffu) | 0x80000000u;
}
";

/// Declares the levels of a learned type; nothing without any.
fn write_table(out: &mut String, levels: &[f32]) {
    if levels.is_empty() {
        return;
    }
    let list: Vec<String> = levels.iter().map(|level| format!("{level:?}")).collect();
    let n = levels.len();
    let _ = writeln!(out, "var<workgroup> table: array<f32, {n}>;");
    let _ = writeln!(out, "const levels = array<f32, {n}>({});", list.join(", "));
}

/// Statements by which `threads` threads put the levels where all of them find them quickly.
fn fill_table(levels: &[f32], threads: usize) -> String {
    if levels.is_empty() {
        return String::new();
    }
    let n = levels.len();
    format!("for (var i = lid; i < {n}u; i += {threads}u) {{ table[i] = levels[i]; }}\nworkgroupBarrier();\n")
}
