//! The panel product element by element: the oracle of all others, and their documentation. Reads a panel by SPEC.md section
//! 6, layout 3.

use qsf_format::panels::PANEL_ROWS;

use super::KernelTable;
use super::panel::{PanelOut, PanelTask};
use super::unpack::{Q2_SYM, Q3, Q4, Q8, TERNARY, codes_offset, superblock_bytes};
use crate::cpu::activations::ACT_BLOCK;
use crate::cpu::decode::f16_to_f32;

pub(super) static SCALAR: KernelTable = table!("scalar", matmul);

/// Tokens for which the codes of a row are taken apart once.
const TOKENS: usize = 8;

/// # Safety
/// As for [`PanelFn`](super::panel::PanelFn).
unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    let panel_bytes = task.blocks * superblock_bytes(QUANT, task.block.get());
    for p in 0..task.panels {
        let panel = &task.weights[p * panel_bytes..][..panel_bytes];
        for first in task.tokens.clone().step_by(TOKENS) {
            let count = TOKENS.min(task.tokens.end - first);
            for row in 0..PANEL_ROWS {
                let results = dots::<QUANT>(task, panel, row, first, count);
                for (token, result) in (first..first + count).zip(results) {
                    // SAFETY: the caller's promise.
                    unsafe { *out.start.add(token * out.stride + p * PANEL_ROWS + row) = result };
                }
            }
        }
    }
}

/// One row against `count` tokens from `first` on.
fn dots<const QUANT: u8>(
    task: &PanelTask<'_>,
    panel: &[u8],
    row: usize,
    first: usize,
    count: usize,
) -> [f32; TOKENS] {
    let n = task.block.get();
    let (tokens, stride) = (task.input.rows(), task.input.stride());
    let (mut acc, mut acc_b) = ([0.0f32; TOKENS], [0.0f32; TOKENS]);
    for (j, block) in panel.chunks_exact(superblock_bytes(QUANT, n)).enumerate() {
        let (a, b) = scales::<QUANT>(block, row);
        for g in 0..n / ACT_BLOCK {
            let group = j * (n / ACT_BLOCK) + g;
            let mut u = [0; ACT_BLOCK];
            for (i, u) in u.iter_mut().enumerate() {
                *u = code::<QUANT>(&block[codes_offset(QUANT)..], n, row, ACT_BLOCK * g + i);
            }
            for t in 0..count {
                let x = &task.input.codes()[(first + t) * stride + ACT_BLOCK * group..][..ACT_BLOCK];
                let isum: i32 = u.iter().zip(x).map(|(u, x)| u * i32::from(*x)).sum();
                let scale = a * task.input.scales()[group * tokens + first + t];
                acc[t] = scale.mul_add(isum as f32, acc[t]);
                if QUANT != Q8 {
                    acc_b[t] = b.mul_add(task.input.sums()[group * tokens + first + t], acc_b[t]);
                }
            }
        }
    }
    for (acc, acc_b) in acc.iter_mut().zip(acc_b) {
        *acc = if QUANT == Q8 { *acc } else { *acc + acc_b };
    }
    acc
}

/// Scale a and offset b of a row.
fn scales<const QUANT: u8>(block: &[u8], row: usize) -> (f32, f32) {
    let half = |i: usize| f16_to_f32(u16::from_le_bytes([block[2 * i], block[2 * i + 1]]));
    let first = half(row);
    match QUANT {
        Q2_SYM => (first + first, first * -3.0),
        TERNARY => (first, -first),
        Q8 => (first, 0.0),
        _ => (first, half(PANEL_ROWS + row)),
    }
}

/// Code of an element of a row, of the `n` of a block whose words are `words`.
fn code<const QUANT: u8>(words: &[u8], n: usize, row: usize, element: usize) -> i32 {
    let (quad, column) = (element / 4, element % 4);
    let byte = |word: usize| words[4 * PANEL_ROWS * word + 4 * row + column];
    let two_bits = || byte(quad % (n / 16)) >> (2 * (quad / (n / 16))) & 3;
    match QUANT {
        Q4 => i32::from(byte(quad % (n / 8)) >> (4 * (quad / (n / 8))) & 15),
        Q3 => i32::from(two_bits() | (byte(n / 16 + quad / 8) >> (quad % 8) & 1) << 2),
        Q8 => i32::from(byte(quad) as i8),
        _ => i32::from(two_bits()),
    }
}
