//! Attention on the device is softmax(Q K^T) V: with heads that share keys, behind a cache that was filled in several steps, in windows,
//! shared out among workgroups and put together, in every type of cache.

use half::f16;

use super::{Bench, Numbers};
use crate::gpu::cache::{CacheType, LayerCache};
use crate::gpu::kernels::Kernel;
use crate::gpu::step::Command;
use crate::gpu::step::attend::{AttendBuffers, Attending};
use crate::gpu::wgsl::place::Place;
use qsf_cpu::hadamard_block;

/// Distance from the definition in 64 bits, relative to its norm. Storing rounds nothing of the keys and values here.
const LIMIT: f64 = 1e-3;

#[derive(Debug, Clone)]
struct Case {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Tokens of each step. The results of all steps are compared.
    steps: &'static [usize],
    window: Option<usize>,
    softcap: Option<f32>,
    slopes: bool,
}

const CASE: Case = Case {
    heads: 6,
    kv_heads: 2,
    head_dim: 64,
    steps: &[20, 5, 1, 1],
    window: None,
    softcap: None,
    slopes: false,
};

/// What a token asks for and is remembered by.
struct Token {
    queries: Vec<Vec<f32>>,
    keys: Vec<Vec<f32>>,
    values: Vec<Vec<f32>>,
}

/// A head whose values are f16.
fn halves(numbers: &mut Numbers, head_dim: usize) -> Vec<f32> {
    (0..head_dim).map(|_| f16::from_f32(numbers.normal()).to_f32()).collect()
}

/// A head whose values, rotated, are whole numbers of 127ths of the largest of 32, which is an f16.
fn codes(numbers: &mut Numbers, head_dim: usize) -> Vec<f32> {
    let mut rotated: Vec<f64> = Vec::new();
    for begin in (0..head_dim).step_by(32) {
        // A little more than the f16, which rounding to nearest and to zero both make of it.
        let largest = f64::from(f16::from_f32(1.0 + numbers.uniform().abs()).to_f32()) * (1.0 + 1e-5);
        let outermost = begin + numbers.next() as usize % 32.min(head_dim - begin);
        for at in begin..head_dim.min(begin + 32) {
            let code = f64::from(numbers.next() % 255) - 127.0;
            let code = if at == outermost { 127.0f64.copysign(code) } else { code };
            rotated.push(largest * code / 127.0);
        }
    }
    let block = hadamard_block(head_dim);
    let turned = |at: usize| {
        let begin = at / block * block;
        let sign = |i: usize| if (i & (at - begin)).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        (0..block).map(|i| sign(i) * rotated[begin + i]).sum::<f64>() / (block as f64).sqrt()
    };
    (0..head_dim).map(|at| turned(at) as f32).collect()
}

/// The definition, of one head of the last of `tokens`.
fn expected(case: &Case, slopes: &[f32], tokens: &[Token], head: usize) -> Vec<f64> {
    let (position, kv) = (tokens.len() - 1, head / (case.heads / case.kv_heads));
    let first = tokens.len().saturating_sub(case.window.unwrap_or(usize::MAX));
    let scores: Vec<f64> = (first..tokens.len())
        .map(|p| {
            let pairs = tokens[position].queries[head].iter().zip(&tokens[p].keys[kv]);
            let product: f64 = pairs.map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
            let score = product / (case.head_dim as f64).sqrt();
            let score = case.softcap.map_or(score, |cap| f64::from(cap) * (score / f64::from(cap)).tanh());
            let slope = if case.slopes { f64::from(slopes[head]) } else { 0.0 };
            score - slope * (position - p) as f64
        })
        .collect();
    let most = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    let value = |i: usize| -> f64 {
        weights.iter().zip(&tokens[first..]).map(|(w, token)| w * f64::from(token.values[kv][i])).sum()
    };
    (0..case.head_dim).map(|i| value(i) / total).collect()
}

fn check(bench: &Bench, case: &Case, cache_type: CacheType) {
    let Case { heads, kv_heads, head_dim, .. } = *case;
    let mut numbers = Numbers(11);
    let slopes: Vec<f32> = (0..heads).map(|head| 0.02 * (head + 1) as f32).collect();
    let context = case.steps.iter().sum::<usize>() + 3;
    let cache = LayerCache::new(&bench.0.gpu, cache_type, kv_heads, head_dim, context).unwrap();
    let most = case.steps.iter().copied().max().unwrap();
    let stride = heads * head_dim + 5;
    let parts = bench.room(Attending::part_values(most, heads, head_dim, context));
    let (attended, vectors, angles) = (bench.room(most * stride), bench.floats(&slopes), bench.room(4));
    let mut tokens: Vec<Token> = Vec::new();
    let (mut error, mut square) = (0.0, 0.0);
    for &step in case.steps {
        let position = tokens.len();
        let mut qkv = Vec::new();
        for _ in 0..step {
            let stored = |numbers: &mut Numbers| match cache_type {
                CacheType::F16 => halves(numbers, head_dim),
                CacheType::EightBit => codes(numbers, head_dim),
            };
            let token = Token {
                queries: (0..heads).map(|_| (0..head_dim).map(|_| numbers.normal()).collect()).collect(),
                keys: (0..kv_heads).map(|_| stored(&mut numbers)).collect(),
                values: (0..kv_heads).map(|_| stored(&mut numbers)).collect(),
            };
            qkv.extend([&token.queries, &token.keys, &token.values].into_iter().flatten().flatten());
            tokens.push(token);
        }
        let qkv = bench.floats(&qkv);
        let place = Place { head_dim, rotated: 0, norm: false, eight_bit: cache.scales.is_some() };
        let mut bound = vec![&qkv, &cache.keys, &cache.values, &vectors, &angles];
        bound.extend(&cache.scales);
        let job = [heads as u32, kv_heads as u32, position as u32, context as u32, 0, 0, 0, 0];
        let groups = ((heads + 2 * kv_heads) as u32, step as u32, 1);
        let mut commands = vec![Command::new(Kernel::Place(place), &bound, &job, groups)];
        let attending = Attending {
            heads,
            kv_heads,
            head_dim,
            tokens: step,
            position,
            context,
            window: case.window,
            scale: 1.0 / (head_dim as f32).sqrt(),
            softcap: case.softcap,
            slopes: case.slopes.then_some(0),
            stride,
        };
        let buffers = AttendBuffers { qkv: &qkv, vectors: &vectors, parts: &parts, attended: &attended };
        commands.extend(attending.commands(&cache, buffers));
        let found = bench.run(&commands, &attended);
        for (row, head) in (0..step).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            let expected = expected(case, &slopes, &tokens[..=position + row], head);
            for (i, expected) in expected.into_iter().enumerate() {
                let found = f64::from(f32::from_bits(found[row * stride + head * head_dim + i]));
                error += (found - expected).powi(2);
                square += expected.powi(2);
            }
        }
    }
    let distance = (error / square).sqrt();
    println!("{cache_type:?}, heads of {head_dim}, steps {:?}: {distance:.2e}", case.steps);
    assert!(distance <= LIMIT, "{case:?}, {cache_type:?}: {distance:.2e}");
}

fn check_all(cases: &[Case]) {
    let bench = Bench::new();
    for case in cases {
        check(&bench, case, CacheType::F16);
        check(&bench, case, CacheType::EightBit);
    }
}

#[test]
fn heads_of_every_width_share_keys_behind_a_filled_cache() {
    let widths = [10, 12, 24, 64, 80, 96, 128, 256];
    let cases: Vec<Case> = widths.into_iter().map(|head_dim| Case { head_dim, ..CASE }).collect();
    check_all(&cases);
    check_all(&[Case { heads: 4, kv_heads: 4, ..CASE }, Case { heads: 8, kv_heads: 1, ..CASE }]);
}

#[test]
fn a_long_context_is_shared_out_among_workgroups_and_put_together() {
    // 128 positions are a part; from 16 tokens on there is one part of any length.
    let steps = &[127, 1, 1, 271, 15, 16, 3];
    check_all(&[Case { steps, ..CASE }, Case { steps, head_dim: 128, heads: 4, kv_heads: 1, ..CASE }]);
}

#[test]
fn windows_caps_and_slopes_are_those_of_the_definition() {
    let steps = &[130, 40, 1, 5, 1];
    check_all(&[
        Case { steps, window: Some(1), ..CASE },
        Case { steps, window: Some(30), ..CASE },
        // Whole parts lie before the window.
        Case { steps: &[400, 1, 2], window: Some(64), ..CASE },
        Case { steps, softcap: Some(1.5), ..CASE },
        Case { steps, slopes: true, window: Some(150), ..CASE },
    ]);
}
