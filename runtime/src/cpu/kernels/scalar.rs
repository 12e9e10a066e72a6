//! The panel product element by element: the oracle of all others, and their documentation. Reads a panel by SPEC.md sections
//! 6.1 and 6.4 (layout 3).

use qsf_format::panels::PANEL_ROWS;

use super::KernelTable;
use super::panel::{PanelOut, PanelTask};
use super::unpack::{
    N2, N3, N4, N5, Q2_SYM, Q3, Q4, Q6, Q8, T2, T3, TERNARY, codes_offset, head_bytes, quant_type,
    superblock_bytes,
};
use crate::cpu::activations::ACT_BLOCK;
use crate::cpu::decode::f16_to_f32;

pub(super) static SCALAR: KernelTable = table!("scalar", matmul);

/// Tokens for which the codes of a row are taken apart once.
const TOKENS: usize = 8;

/// # Safety
/// As for [`PanelFn`](super::panel::PanelFn).
unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    let panel_bytes = head_bytes(QUANT) + task.blocks * superblock_bytes(QUANT, task.block.get());
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
    let (head, superblocks) = panel.split_at(head_bytes(QUANT));
    for (j, block) in superblocks.chunks_exact(superblock_bytes(QUANT, n)).enumerate() {
        let (a, b) = scales::<QUANT>(task, head, block, row);
        for g in 0..n / ACT_BLOCK {
            let group = j * (n / ACT_BLOCK) + g;
            let mut u = [0; ACT_BLOCK];
            for (i, u) in u.iter_mut().enumerate() {
                *u = match QUANT {
                    T2 | T3 => trellis_level::<QUANT>(task, superblocks, row, ACT_BLOCK * group + i),
                    _ => {
                        let code = code::<QUANT>(&block[codes_offset(QUANT)..], n, row, ACT_BLOCK * g + i);
                        level::<QUANT>(task, code)
                    }
                };
            }
            for t in 0..count {
                let x = &task.input.codes()[(first + t) * stride + ACT_BLOCK * group..][..ACT_BLOCK];
                let isum: i32 = u.iter().zip(x).map(|(u, x)| u * i32::from(*x)).sum();
                let scale = a * task.input.scales()[group * tokens + first + t];
                acc[t] = scale.mul_add(isum as f32, acc[t]);
                if let Some(b) = b {
                    acc_b[t] = b.mul_add(task.input.sums()[group * tokens + first + t], acc_b[t]);
                }
            }
        }
    }
    for (acc, acc_b) in acc.iter_mut().zip(acc_b) {
        *acc = if matches!(QUANT, Q8 | T2 | T3) { *acc } else { *acc + acc_b };
    }
    acc
}

/// Scale a and offset b of a row.
fn scales<const QUANT: u8>(
    task: &PanelTask<'_>,
    head: &[u8],
    block: &[u8],
    row: usize,
) -> (f32, Option<f32>) {
    let half = |bytes: &[u8], i: usize| f16_to_f32(u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]));
    match QUANT {
        N2 | N3 | N4 | N5 | Q6 => {
            let scale = block[row] as i8;
            let a = half(head, row) / 4096.0 * f32::from(scale >> 1);
            let shift = task.tables.grid(quant_type(QUANT)).map_or(0, |(_, shift)| shift);
            (a, Some(if scale & 1 == 1 { a * f32::from(shift) } else { 0.0 }))
        }
        T2 | T3 => (half(head, row) / 128.0, None),
        _ => {
            let first = half(block, row);
            match QUANT {
                Q2_SYM => (first + first, Some(first * -3.0)),
                TERNARY => (first, Some(-first)),
                Q8 => (first, None),
                _ => (first, Some(half(block, PANEL_ROWS + row))),
            }
        }
    }
}

/// Code of an element of a row, of the `n` of a block whose words are `words`.
fn code<const QUANT: u8>(words: &[u8], n: usize, row: usize, element: usize) -> i32 {
    let (quad, column) = (element / 4, element % 4);
    let byte = |word: usize| words[4 * PANEL_ROWS * word + 4 * row + column];
    // Two and four bits of each element in words from `first` on, one bit in the word `first`.
    let two = |first: usize| byte(first + quad % (n / 16)) >> (2 * (quad / (n / 16))) & 3;
    let four = || byte(quad % (n / 8)) >> (4 * (quad / (n / 8))) & 15;
    let one = |first: usize| byte(first + quad / 8) >> (quad % 8) & 1;
    match QUANT {
        Q4 | N4 => i32::from(four()),
        Q3 | N3 => i32::from(two(0) | one(n / 16) << 2),
        N5 => i32::from(four() | one(n / 8) << 4),
        Q6 => i32::from(four() | two(n / 8) << 4),
        Q8 => i32::from(byte(quad) as i8),
        _ => i32::from(two(0)),
    }
}

/// What a code is multiplied with the activation as.
fn level<const QUANT: u8>(task: &PanelTask<'_>, code: i32) -> i32 {
    match (QUANT, task.tables.grid(quant_type(QUANT))) {
        (Q6, _) => 2 * code - 64,
        (_, Some((levels, _))) => i32::from(levels[code as usize]),
        (_, None) => code,
    }
}

/// The level of a column of a row of a trellis type, from the row's string of bits.
fn trellis_level<const QUANT: u8>(
    task: &PanelTask<'_>,
    superblocks: &[u8],
    row: usize,
    column: usize,
) -> i32 {
    let bits = superblock_bytes(QUANT, ACT_BLOCK) / (PANEL_ROWS * 4);
    let bit = |i: usize| {
        // Byte j * bits + v of the row's block is byte j of its word in line v.
        let (block, byte) = (i / (ACT_BLOCK * bits), i / 8 % (4 * bits));
        let line =
            &superblocks[block * superblock_bytes(QUANT, ACT_BLOCK) + 4 * PANEL_ROWS * (byte % bits)..];
        line[4 * row + byte / bits] >> (i % 8) & 1
    };
    let step = qsf_format::step_of_column(column % ACT_BLOCK) + column / ACT_BLOCK * ACT_BLOCK;
    let end = bits * (step + 1);
    let state = (0..8).map(|i| (end + i).checked_sub(8).map_or(0, bit) << i).sum();
    task.tables.sums(quant_type(QUANT)).map_or(0, |sums| i32::from(sums.level(state)))
}
