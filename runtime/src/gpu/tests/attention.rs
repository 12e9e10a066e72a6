//! Attention on the device is softmax(Q K^T) V: with heads that share keys, behind a cache that was filled in several steps, in windows,
//! shared out among workgroups and put together, in every type of cache.

use half::f16;
use qsf_format::AttentionShape;

use super::{Bench, Numbers};
use crate::gpu::cache::{CacheType, LayerCache};
use crate::gpu::kernels::Kernel;
use crate::gpu::step::Command;
use crate::gpu::step::attend::{AttendBuffers, Attending};
use crate::gpu::wgsl::attend::Join;
use crate::gpu::wgsl::place::Place;
use qsf_cpu::hadamard_block;

/// Distance from the definition in 64 bits, relative to its norm. Storing rounds nothing of the keys and values here.
const LIMIT: f64 = 1e-3;

#[derive(Debug, Clone)]
struct Case {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    /// Width of a head of values, where it is another.
    value_dim: Option<usize>,
    /// Tokens of each step. The results of all steps are compared.
    steps: &'static [usize],
    window: Option<usize>,
    softcap: Option<f32>,
    slopes: bool,
    sinks: bool,
    in_chunks: bool,
}

impl Case {
    fn values(&self) -> usize {
        self.value_dim.unwrap_or(self.head_dim)
    }

    /// The first position that the token at `position` sees.
    fn first(&self, position: usize) -> usize {
        match self.window {
            Some(window) if self.in_chunks => position / window * window,
            window => (position + 1).saturating_sub(window.unwrap_or(usize::MAX)),
        }
    }
}

const CASE: Case = Case {
    heads: 6,
    kv_heads: 2,
    head_dim: 64,
    value_dim: None,
    steps: &[20, 5, 1, 1],
    window: None,
    softcap: None,
    slopes: false,
    sinks: false,
    in_chunks: false,
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
    turned(&rotated).into_iter().map(|value| value as f32).collect()
}

/// A head rotated, or turned back.
fn turned(head: &[f64]) -> Vec<f64> {
    let block = hadamard_block(head.len());
    let value = |at: usize| {
        let begin = at / block * block;
        let sign = |i: usize| if (i & (at - begin)).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 };
        (0..block).map(|i| sign(i) * head[begin + i]).sum::<f64>() / (block as f64).sqrt()
    };
    (0..head.len()).map(value).collect()
}

/// The definition, of one head of the last of `tokens`.
fn expected(case: &Case, slopes: &[f32], tokens: &[Token], head: usize) -> Vec<f64> {
    let (position, kv) = (tokens.len() - 1, head / (case.heads / case.kv_heads));
    let first = case.first(position);
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
    let sink = if case.sinks { f64::from(sink(head)) } else { f64::NEG_INFINITY };
    let most = scores.iter().copied().fold(sink, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - most).exp()).collect();
    let total = weights.iter().sum::<f64>() + (sink - most).exp();
    let value = |i: usize| -> f64 {
        weights.iter().zip(&tokens[first..]).map(|(w, token)| w * f64::from(token.values[kv][i])).sum()
    };
    (0..case.values()).map(|i| value(i) / total).collect()
}

/// The score of a head that has no value: next to nothing, or most of all.
fn sink(head: usize) -> f32 {
    2.0 * head as f32 - 3.0
}

fn check(bench: &Bench, case: &Case, cache_type: CacheType) {
    let Case { heads, kv_heads, head_dim, .. } = *case;
    let value_dim = case.values();
    let mut numbers = Numbers(11);
    let slopes: Vec<f32> = (0..heads).map(|head| 0.02 * (head + 1) as f32).collect();
    let vectors: Vec<f32> = slopes.iter().copied().chain((0..heads).map(sink)).collect();
    let context = case.steps.iter().sum::<usize>() + 3;
    let shape = AttentionShape { heads, kv_heads, key_dim: head_dim, value_dim };
    let cache = LayerCache::new(&bench.0.gpu, cache_type, shape, context).unwrap();
    let most = case.steps.iter().copied().max().unwrap();
    let stride = heads * value_dim + 5;
    let parts = bench.room(Attending::part_values(most, heads, value_dim, context));
    let (attended, vectors, angles) = (bench.room(most * stride), bench.floats(&vectors), bench.room(4));
    let mut tokens: Vec<Token> = Vec::new();
    let (mut error, mut square) = (0.0, 0.0);
    for &step in case.steps {
        let position = tokens.len();
        let mut qkv = Vec::new();
        for _ in 0..step {
            let stored = |numbers: &mut Numbers, dim: usize| match cache_type {
                CacheType::F16 => halves(numbers, dim),
                CacheType::EightBit => codes(numbers, dim),
            };
            let token = Token {
                queries: (0..heads).map(|_| (0..head_dim).map(|_| numbers.normal()).collect()).collect(),
                keys: (0..kv_heads).map(|_| stored(&mut numbers, head_dim)).collect(),
                values: (0..kv_heads).map(|_| stored(&mut numbers, value_dim)).collect(),
            };
            qkv.extend([&token.queries, &token.keys, &token.values].into_iter().flatten().flatten());
            tokens.push(token);
        }
        // A word behind the last query may be read.
        qkv.extend([0.0; 4]);
        let qkv = bench.floats(&qkv);
        let keys = Place::plain(head_dim, cache.scales.is_some());
        let values = Place { head_dim: value_dim, ..keys };
        let mut bound = vec![&qkv, &cache.keys, &cache.values, &vectors, &angles];
        bound.extend(&cache.scales);
        let (k_at, v_at) = (heads * head_dim, (heads + kv_heads) * head_dim);
        let row = v_at + kv_heads * value_dim;
        let command = |place: Place, some: std::ops::Range<usize>| {
            let mut job = [0; 16];
            job[..4].copy_from_slice(&[heads, kv_heads, position, context].map(|number| number as u32));
            job[8..12].copy_from_slice(&[row, k_at, v_at, some.start].map(|number| number as u32));
            Command::new(Kernel::Place(place), &bound, &job, (some.len() as u32, step as u32, 1))
        };
        let keys_end = heads + kv_heads;
        let mut commands = vec![command(keys, 0..keys_end), command(values, keys_end..keys_end + kv_heads)];
        let attending = Attending {
            heads,
            kv_heads,
            key_dim: head_dim,
            value_dim,
            tokens: step,
            position,
            context,
            window: case.window,
            in_chunks: case.in_chunks,
            scale: 1.0 / (head_dim as f32).sqrt(),
            softcap: case.softcap,
            slopes: case.slopes.then_some(0),
            sinks: case.sinks.then_some(heads as u32),
            row,
            stride,
            head_stride: value_dim,
        };
        let buffers = AttendBuffers { qkv: &qkv, vectors: &vectors, parts: &parts, attended: &attended };
        commands.extend(attending.commands(&cache, buffers));
        let found = bench.run(&commands, &attended);
        for (row, head) in (0..step).flat_map(|row| (0..heads).map(move |head| (row, head))) {
            let expected = expected(case, &slopes, &tokens[..=position + row], head);
            for (i, expected) in expected.into_iter().enumerate() {
                let found = f64::from(f32::from_bits(found[row * stride + head * value_dim + i]));
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

/// Two parts for each of fifteen tokens, which are longer than others.
#[test]
fn parts_are_no_more_than_keep_the_device_busy() {
    let case = Case { heads: 256, kv_heads: 1, head_dim: 12, steps: &[280, 15], ..CASE };
    check_all(&[Case { window: Some(270), ..case.clone() }, case]);
}

/// More parts than a workgroup has threads, of which some saw nothing, and heads that need several workgroups.
#[test]
fn any_number_of_parts_is_put_together() {
    let bench = Bench::new();
    let (heads, tokens) = (3, 2);
    for (value_dim, count, eight_bit) in [
        (12, 2, false),
        (12, 300, true),
        (64, 65, false),
        (512, 130, false),
        (512, 130, true),
        (300, 64, true),
    ] {
        let mut numbers = Numbers(5);
        let mut parts: Vec<f32> =
            (0..heads * tokens * count * (value_dim + 2)).map(|_| numbers.normal()).collect();
        let mut expected = Vec::new();
        for unit in parts.chunks_mut(count * (value_dim + 2)) {
            for (p, part) in unit.chunks_mut(value_dim + 2).enumerate() {
                part[value_dim + 1] = part[value_dim + 1].abs() + 1.0;
                if p % 3 == 2 {
                    part.fill(0.0);
                    part[value_dim] = -1e30;
                }
            }
            let all = || unit.chunks(value_dim + 2).map(|part| (f64::from(part[value_dim]).exp(), part));
            let total: f64 = all().map(|(weight, part)| weight * f64::from(part[value_dim + 1])).sum();
            let value =
                |i: usize| all().map(|(weight, part)| weight * f64::from(part[i])).sum::<f64>() / total;
            let head: Vec<f64> = (0..value_dim).map(value).collect();
            expected.extend(if eight_bit { turned(&head) } else { head });
        }
        let attended = bench.room(heads * tokens * value_dim);
        let join = Join { value_dim, eight_bit };
        let job = [heads, count, heads * value_dim, value_dim].map(|number| number as u32);
        let groups = (heads as u32, tokens as u32, 1);
        let bound = [&bench.floats(&parts), &attended];
        let found = bench.run(&[Command::new(Kernel::Join(join), &bound, &job, groups)], &attended);
        for (found, expected) in found.into_iter().zip(expected) {
            let found = f64::from(f32::from_bits(found));
            assert!(
                (found - expected).abs() < 1e-5,
                "{value_dim}, {count}, {eight_bit}: {found}, {expected}"
            );
        }
    }
}

/// DeepSeek V3 with its whole context: results of parts of 128 positions each would have 4 GB.
#[test]
fn results_of_parts_take_memory_that_does_not_grow_with_the_context() {
    let bytes = |context| 4 * Attending::part_values(512, 128, 512, context);
    assert!(bytes(163_840) <= 17 << 20, "{} bytes", bytes(163_840));
    assert_eq!(bytes(163_840), bytes(16_384));
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

#[test]
fn scores_without_values_take_part_wherever_the_window_begins() {
    let steps = &[130, 40, 1, 5, 1];
    check_all(&[
        Case { steps, sinks: true, ..CASE },
        Case { steps: &[400, 1, 2], sinks: true, window: Some(64), ..CASE },
        Case { steps, sinks: true, softcap: Some(1.5), heads: 4, kv_heads: 4, ..CASE },
    ]);
}

#[test]
fn windows_that_do_not_slide_begin_at_multiples_of_their_length() {
    let steps = &[130, 40, 1, 5, 1];
    check_all(&[
        Case { steps, in_chunks: true, window: Some(7), ..CASE },
        Case { steps: &[400, 1, 2, 140], in_chunks: true, window: Some(150), ..CASE },
    ]);
}

#[test]
fn values_may_be_narrower_or_wider_than_keys() {
    let steps = &[130, 40, 1, 5, 1];
    let widths = [(24, 16), (16, 24), (192, 128), (576, 512), (13, 9), (12, 8), (64, 300)];
    let case = |(head_dim, value_dim)| Case { steps, head_dim, value_dim: Some(value_dim), ..CASE };
    check_all(&widths.map(case));
}
