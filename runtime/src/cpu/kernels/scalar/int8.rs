//! The int8 oracle: one row, one token, one lane at a time.

use half::f16;
use qsf_format::QuantType;

use crate::cpu::activations::ACT_BLOCK;
use crate::cpu::kernels::int8::{Int8Task, tree};

/// Largest block.
const MAX_BLOCK: usize = 256;

/// One block: scale, offset where the type has one, and codes.
struct Block {
    a: f32,
    b: Option<f32>,
    codes: [i32; MAX_BLOCK],
}

/// Every row against every token, for the type with the id `QUANT`. Safe on every processor.
pub(super) fn matmul<const QUANT: u8>(task: Int8Task<'_>, out: &mut [f32]) {
    let quant = QuantType::from_id(QUANT).expect("the tables name known types only");
    let size = quant.block_bytes(task.block);
    let tokens = task.input.rows();
    for (row, out) in out.chunks_exact_mut(tokens.max(1)).enumerate() {
        let bytes = &task.weights[row * task.row_bytes..][..task.row_bytes];
        let blocks: Vec<Block> =
            bytes.chunks_exact(size).map(|bytes| unpack(quant, task.block.get(), bytes)).collect();
        for (token, out) in out.iter_mut().enumerate() {
            *out = dot(&task, &blocks, token);
        }
    }
}

fn dot(task: &Int8Task<'_>, blocks: &[Block], token: usize) -> f32 {
    let (n, input) = (task.block.get(), task.input);
    let x = &input.codes()[token * input.stride()..][..input.stride()];
    let mut acc = [0.0f32; 8];
    let mut acc_b = 0.0f32;
    for (index, block) in blocks.iter().enumerate() {
        for (g, codes) in block.codes[..n].chunks_exact(ACT_BLOCK).enumerate() {
            let group = index * (n / ACT_BLOCK) + g;
            let at = group * input.rows() + token;
            let scale = block.a * input.scales()[at];
            let x = &x[group * ACT_BLOCK..][..ACT_BLOCK];
            for (acc, (u, x)) in acc.iter_mut().zip(codes.chunks_exact(4).zip(x.chunks_exact(4))) {
                let isum: i32 = u.iter().zip(x).map(|(u, x)| u * i32::from(*x)).sum();
                *acc = scale.mul_add(isum as f32, *acc);
            }
            if let Some(b) = block.b {
                acc_b = b.mul_add(input.sums()[at], acc_b);
            }
        }
    }
    tree(acc) + acc_b
}

/// Reads one block of `n` codes.
fn unpack(quant: QuantType, n: usize, bytes: &[u8]) -> Block {
    let half = |at: usize| f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32();
    let two_bit = |plane: &[u8], i: usize| i32::from((plane[i % (n / 4)] >> (2 * (i / (n / 4)))) & 3);
    let bit = |plane: &[u8], i: usize| i32::from((plane[i / 8] >> (i % 8)) & 1);
    let mut codes = [0; MAX_BLOCK];
    let mut fill = |code: &dyn Fn(usize) -> i32| {
        for (i, c) in codes[..n].iter_mut().enumerate() {
            *c = code(i);
        }
    };
    let d = half(0);
    let (a, b) = match quant {
        QuantType::Q2Sym => {
            fill(&|i| two_bit(&bytes[2..], i));
            (2.0 * d, Some(-3.0 * d))
        }
        QuantType::Q2 => {
            fill(&|i| two_bit(&bytes[4..], i));
            (d, Some(half(2)))
        }
        QuantType::Q3 => {
            let (low, high) = bytes[4..].split_at(n / 4);
            fill(&|i| two_bit(low, i) | (bit(high, i) << 2));
            (d, Some(half(2)))
        }
        QuantType::Q4 => {
            fill(&|i| i32::from((bytes[4 + i % (n / 2)] >> (4 * (i / (n / 2)))) & 15));
            (d, Some(half(2)))
        }
        QuantType::Ternary => {
            let (sign, zero) = bytes[2..].split_at(n / 8);
            fill(&|i| 1 + (1 - bit(zero, i)) * (1 - 2 * bit(sign, i)));
            (d, Some(-d))
        }
        _ => {
            fill(&|i| i32::from(bytes[2 + i] as i8));
            (d, None)
        }
    };
    Block { a, b, codes }
}
