//! The panel product element by element: the oracle of all others, and their documentation. Reads a panel by SPEC.md sections
//! 6.1 and 6.4 (layout 3).

use qsf_format::Encoding;
use qsf_format::panels::PANEL_ROWS;

use super::form::{EIGHT, FOUR, FOUR_AND_ONE, FOUR_AND_TWO, Form, TWO_AND_ONE};
use super::panel::{PanelOut, PanelTask};
use super::table::KernelTable;
use crate::activations::ACT_BLOCK;
use crate::float16::f16_to_f32;

pub(super) static SCALAR: KernelTable = table!("scalar", matmul);

/// Tokens for which the codes of a row are taken apart once.
const TOKENS: usize = 8;

/// # Safety
/// As for [`PanelFn`](super::panel::PanelFn).
unsafe fn matmul<const QUANT: u8>(task: &PanelTask<'_>, out: PanelOut) {
    let panel_bytes =
        Form::<QUANT>::HEAD_BYTES + task.blocks * Form::<QUANT>::superblock_bytes(task.block.get());
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
    let (head, superblocks) = panel.split_at(Form::<QUANT>::HEAD_BYTES);
    for (j, block) in superblocks.chunks_exact(Form::<QUANT>::superblock_bytes(n)).enumerate() {
        let (a, b) = scales::<QUANT>(block, row);
        for g in 0..n / ACT_BLOCK {
            let group = j * (n / ACT_BLOCK) + g;
            let mut u = [0; ACT_BLOCK];
            for (i, u) in u.iter_mut().enumerate() {
                *u = if Form::<QUANT>::IS_TRELLIS {
                    trellis_level::<QUANT>(task, superblocks, row, ACT_BLOCK * group + i)
                } else {
                    let words = &block[Form::<QUANT>::CODES_OFFSET..];
                    level::<QUANT>(task, code::<QUANT>(words, n, row, ACT_BLOCK * g + i))
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
        if Form::<QUANT>::IS_LEARNED {
            if let Some((_, shift)) = task.tables.grid(Form::<QUANT>::TYPE) {
                *acc = acc_b.mul_add(f32::from(shift), *acc);
            }
            *acc *= half(head, row) * Form::<QUANT>::ROW_UNIT;
        } else if Form::<QUANT>::HAS_OFFSET {
            *acc += acc_b;
        }
    }
    acc
}

fn half(bytes: &[u8], i: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([bytes[2 * i], bytes[2 * i + 1]]))
}

/// Scale a and offset b of a row in a block.
fn scales<const QUANT: u8>(block: &[u8], row: usize) -> (f32, Option<f32>) {
    if Form::<QUANT>::IS_TRELLIS {
        return (1.0, None);
    }
    if Form::<QUANT>::IS_LEARNED {
        let byte = block[row] as i8;
        let scale = f32::from(byte & !1);
        return (scale, Some(if byte & 1 == 1 { scale } else { 0.0 }));
    }
    let first = half(block, row);
    if Form::<QUANT>::HAS_MIN {
        (first, Some(half(block, PANEL_ROWS + row)))
    } else if Form::<QUANT>::HAS_OFFSET {
        (first * Form::<QUANT>::LEVEL_STEP, Some(first * Form::<QUANT>::FIRST_LEVEL))
    } else {
        (first, None)
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
    match Form::<QUANT>::PLANES {
        FOUR => i32::from(four()),
        TWO_AND_ONE => i32::from(two(0) | one(n / 16) << 2),
        FOUR_AND_ONE => i32::from(four() | one(n / 8) << 4),
        FOUR_AND_TWO => i32::from(four() | two(n / 8) << 4),
        EIGHT => i32::from(byte(quad) as i8),
        _ => i32::from(two(0)),
    }
}

/// What a code is multiplied with the activation as.
fn level<const QUANT: u8>(task: &PanelTask<'_>, code: i32) -> i32 {
    match task.tables.grid(Form::<QUANT>::TYPE) {
        Some((levels, _)) => i32::from(levels[code as usize]),
        None => code,
    }
}

/// The level of a column of a row of a trellis type, from the row's string of bits.
fn trellis_level<const QUANT: u8>(
    task: &PanelTask<'_>,
    superblocks: &[u8],
    row: usize,
    column: usize,
) -> i32 {
    let bits = Form::<QUANT>::CODE_BITS;
    let bit = |i: usize| {
        // Byte j * bits + v of the row's block is byte j of its word in line v.
        let (block, byte) = (i / (ACT_BLOCK * bits), i / 8 % (4 * bits));
        let line = &superblocks
            [block * Form::<QUANT>::superblock_bytes(ACT_BLOCK) + 4 * PANEL_ROWS * (byte % bits)..];
        line[4 * row + byte / bits] >> (i % 8) & 1
    };
    let step = qsf_format::step_of_column(column % ACT_BLOCK) + column / ACT_BLOCK * ACT_BLOCK;
    let end = bits * (step + 1);
    let last: u16 = (0..16).map(|i| u16::from((end + i).checked_sub(16).map_or(0, bit)) << i).sum();
    let (Encoding::Trellis { state, .. }, Some(sums)) =
        (Form::<QUANT>::TYPE.encoding(), task.tables.sums(Form::<QUANT>::TYPE))
    else {
        return 0;
    };
    i32::from(sums.level(state.fold(last)))
}
