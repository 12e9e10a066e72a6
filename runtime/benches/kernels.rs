//! Throughput of weight matrix times activations: one token (decoding) and batches (prefill, evaluation); of attention and
//! what else is around matrices; and of decoding the rows of GGUF files.
//!
//! The element of the reported throughput is one weight times one token. Runs on the pool of the process, a thread for each
//! physical core that it may use: `taskset -c 0` gives the speed of one core, `QSF_CPU` another instruction set.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use qsf_format::{BlockSize, QuantType};
use qsf_runtime::cpu::{
    Attention, AttentionBuffer, ColumnPanels, Cpu, Function, GatedDelta, Int8Rows, KvLayer, KvShape,
    RopeFrequencies, RopeTable, ShortConv, Slabs, decays, gated, positive_steps, rms_norm, scale_to_length,
};
use qsf_runtime::ggml::{GgmlType, decode_row};
use qsf_runtime::linear::{Input, Products};
use qsf_runtime::source::Tensor;

const SHAPES: [(usize, usize); 2] = [(1536, 512), (4096, 4096)];

/// Bytes that end no number that is infinite or subnormal.
fn arbitrary_bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8 & 0x2F | 0x10).collect()
}

fn weight(quant: QuantType, rows: usize, cols: usize) -> Tensor {
    let block = BlockSize::B64;
    let len = quant.tensor_bytes(block, rows as u64, cols as u64).expect("fits memory") as usize;
    Tensor::new(rows, cols, quant, block, arbitrary_bytes(len).into()).expect("of this size")
}

fn activations(rows: usize, cols: usize) -> Vec<f32> {
    (0..rows * cols).map(|i| ((i * 7_919) % 2_003) as f32 / 1_000.0 - 1.0).collect()
}

fn path(c: &mut Criterion, name: &str, quants: &[QuantType], tokens: &[usize], int8: bool) {
    let cpu = Cpu::from_env().expect("an instruction set of this processor");
    for &m in tokens {
        for (rows, cols) in SHAPES {
            let mut group = c.benchmark_group(format!("{name}/{rows}x{cols}/{m} tokens"));
            group.sample_size(10).warm_up_time(Duration::from_millis(200));
            group.measurement_time(Duration::from_millis(600));
            group.throughput(Throughput::Elements((rows * cols * m) as u64));
            let x = activations(m, cols);
            let mut codes = Int8Rows::new();
            codes.quantize(&cpu, &x, m, cols);
            let input = if int8 { Input::with_int8(&x, cols, &codes) } else { Input::float(&x, cols) };
            let mut out = vec![0.0; m * rows];
            for &quant in quants {
                let weight = weight(quant, rows, cols);
                group.bench_function(BenchmarkId::from_parameter(quant), |b| {
                    b.iter(|| cpu.linear(black_box(&weight), None, &input, &mut out));
                });
            }
            group.finish();
        }
    }
}

fn int8(c: &mut Criterion) {
    let quants: Vec<_> = QuantType::ALL.into_iter().filter(|quant| !quant.is_float()).collect();
    path(c, "int8", &quants, &[1, 64], true);
}

fn float(c: &mut Criterion) {
    path(c, "f32", &[QuantType::F16, QuantType::Bf16, QuantType::F32, QuantType::Q4], &[1, 64, 512], false);
}

fn around(c: &mut Criterion) {
    let cpu = Cpu::from_env().expect("an instruction set of this processor");
    let mut group = c.benchmark_group("around");
    group.sample_size(20).warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(600));
    let x = activations(64, 4096);
    let mut codes = Int8Rows::new();
    group.throughput(Throughput::Elements(x.len() as u64));
    group.bench_function("quantize 64x4096", |b| {
        b.iter(|| codes.quantize(&cpu, black_box(&x), 64, 4096));
    });
    let (row, gain) = (activations(1, 2048), activations(1, 2048));
    let mut out = vec![0.0; 2048];
    group.throughput(Throughput::Elements(row.len() as u64));
    group.bench_function("rms norm 2048", |b| {
        b.iter(|| rms_norm(cpu.isa(), black_box(&row), &gain, 1e-5, &mut out));
    });
    let mut table = RopeTable::new(&RopeFrequencies::new(10_000.0, None, 64, 1024), 64);
    table.reserve(1024).expect("memory");
    group.bench_function("rope 32x64", |b| b.iter(|| table.apply(cpu.isa(), black_box(&mut out), 1000)));
    let (up, mut gate) = (activations(1, 5632), activations(1, 5632));
    group.throughput(Throughput::Elements(up.len() as u64));
    let clipped = Function::ClippedSilu { alpha: 1.702, limit: 7.0 };
    let functions =
        [Function::Silu, Function::GeluTanh, Function::GeluErf, Function::Relu, Function::Relu2, clipped];
    for function in functions {
        group.bench_function(format!("gated {function:?} 5632"), |b| {
            b.iter(|| {
                gate.copy_from_slice(&up);
                gated(cpu.isa(), function, black_box(&mut gate), &up);
            });
        });
    }
    group.finish();
}

/// Attention of one layer. Of one token the element is a stored value that is read, of a prompt a multiply-add.
fn attention(c: &mut Criterion) {
    const DIM: usize = 64;
    let cpu = Cpu::from_env().expect("an instruction set of this processor");
    let mut group = c.benchmark_group("attention");
    group.sample_size(20).warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(600));
    for (heads, kv_heads) in [(32, 4), (12, 12)] {
        let parameters = Attention {
            heads,
            window: usize::MAX,
            first: 0,
            scale: 0.125,
            softcap: None,
            slopes: &[],
            sinks: &[],
            by_unit: false,
        };
        let types = ["f32", "f16", "8bit", "8bit,4bit", "4bit"];
        for (positions, types) in [128, 1024, 16384].into_iter().flat_map(|n| types.map(|types| (n, types))) {
            let stored = activations(positions, kv_heads * DIM);
            let shape =
                KvShape { kv_heads, head_dim: DIM, value_dim: DIM, types: types.parse().expect("a type") };
            let mut kv = KvLayer::new(shape, positions);
            kv.reserve(&mut Slabs::default(), positions).expect("memory");
            kv.store(&cpu, 0, &stored, &stored);
            let mut buffer = AttentionBuffer::new(heads, DIM, positions).expect("memory");
            // Of the last positions.
            let q = activations(positions.min(1024), heads * DIM);
            let mut out = vec![0.0; q.len()];
            let mut run = |position: usize, by_unit| {
                let q = black_box(&q[q.len() - (positions - position) * heads * DIM..]);
                let parameters = Attention { by_unit, ..parameters };
                cpu.attend(&parameters, &kv, position, q, &mut buffer, &mut out[..q.len()]);
            };
            group.throughput(Throughput::Elements(2 * stored.len() as u64));
            group.bench_function(
                format!("{types}, {heads} heads of {kv_heads}, one token at {positions}"),
                |b| {
                    b.iter(|| run(positions - 1, false));
                },
            );
            if positions > 1024 {
                // A prompt of so many takes seconds.
                let tokens = 512;
                let pairs = tokens * (positions - tokens / 2);
                group.throughput(Throughput::Elements((2 * pairs * heads * DIM) as u64));
                let name =
                    format!("{types}, {heads} heads of {kv_heads}, {tokens} tokens by unit at {positions}");
                group.bench_function(name, |b| b.iter(|| run(positions - tokens, true)));
                continue;
            }
            let pairs = positions * (positions + 1) / 2;
            group.throughput(Throughput::Elements((2 * pairs * heads * DIM) as u64));
            group.bench_function(format!("{types}, {heads} heads of {kv_heads}, {positions} tokens"), |b| {
                b.iter(|| run(0, false));
            });
        }
    }
    group.finish();
}

/// A recurrent layer of Qwen3.5-0.8B, without its matrices. Here the element is a token.
fn recurrent(c: &mut Criterion) {
    const HEADS: usize = 16;
    const DIM: usize = 128;
    const WIDTH: usize = 3 * HEADS * DIM;
    const TOKENS: usize = 512;
    let cpu = Cpu::from_env().expect("an instruction set of this processor");
    let mut group = c.benchmark_group("recurrent");
    group.sample_size(20).warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(600));
    let mut inputs = activations(TOKENS, WIDTH);
    for row in inputs.chunks_exact_mut(WIDTH) {
        scale_to_length(cpu.isa(), &mut row[..2 * HEADS * DIM], DIM, 1.0);
    }
    let from = vec![0.0; GatedDelta::state_len(HEADS, DIM, DIM)];
    let (mut to, mut out) = (from.clone(), vec![0.0; TOKENS * HEADS * DIM]);
    for (tokens, by_channel) in [(TOKENS, false), (TOKENS, true), (1, false), (1, true)] {
        let (decay, beta) =
            (vec![0.9; tokens * HEADS * if by_channel { DIM } else { 1 }], vec![0.5; tokens * HEADS]);
        let step = GatedDelta {
            key_heads: HEADS,
            key_dim: DIM,
            value_heads: HEADS,
            value_dim: DIM,
            inputs: &inputs[..tokens * WIDTH],
            decay: &decay,
            by_channel,
            beta: &beta,
        };
        let out = &mut out[..tokens * HEADS * DIM];
        group.throughput(Throughput::Elements(tokens as u64));
        group.bench_function(format!("gated delta, by channel: {by_channel}, {tokens} tokens"), |b| {
            b.iter(|| cpu.gated_delta(black_box(&step), &from, &mut to, out));
        });
    }
    let (taps, past) = (activations(4, WIDTH), activations(3, WIDTH));
    let conv = ShortConv { taps: &taps, bias: None, channels: WIDTH, silu: true };
    let mut mixed = vec![0.0; TOKENS * WIDTH];
    group.throughput(Throughput::Elements(TOKENS as u64));
    group.bench_function("convolution", |b| {
        b.iter(|| {
            cpu.for_each_rows([(&mut mixed, WIDTH)], 64 * WIDTH, |first, [mixed]| {
                conv.rows(cpu.isa(), &past, black_box(&inputs), first, mixed);
            });
        });
    });
    let (rows, bias, factors) = (activations(TOKENS, HEADS * DIM), vec![0.1; HEADS * DIM], [-0.5; HEADS]);
    let mut steps = rows.clone();
    group.bench_function("decays of channels, one thread", |b| {
        b.iter(|| {
            steps.copy_from_slice(black_box(&rows));
            positive_steps(cpu.isa(), &mut steps, &bias);
            decays(cpu.isa(), &mut steps, HEADS * DIM, &factors);
        });
    });
    group.finish();
}

/// Sums of outer products of 512 tokens. Here the element is one product; a second moment has half of all.
fn moments(c: &mut Criterion) {
    let cpu = Cpu::from_env().expect("an instruction set of this processor");
    let mut group = c.benchmark_group("moments");
    group.sample_size(10).warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(600));
    for cols in [512, 2048] {
        let mut panels = ColumnPanels::new();
        panels.fill(&cpu, &activations(512, cols), cols);
        let mut totals = vec![0.0; cols * cols];
        group.throughput(Throughput::Elements((512 * cols * (cols + 1) / 2) as u64));
        group.bench_function(format!("second, {cols} columns"), |b| {
            b.iter(|| cpu.add_second_moment(black_box(&panels), &mut totals));
        });
        group.throughput(Throughput::Elements((512 * cols * cols) as u64));
        group.bench_function(format!("cross, {cols} columns"), |b| {
            b.iter(|| cpu.add_cross_moment(black_box(&panels), &panels, &mut totals));
        });
    }
    group.finish();
}

/// Rows of GGUF files to floats. Here the element is one value.
fn ggml(c: &mut Criterion) {
    const COLS: usize = 4096;
    let cpu = Cpu::from_env().expect("an instruction set of this processor");
    let mut group = c.benchmark_group("ggml decode");
    group.sample_size(20).warm_up_time(Duration::from_millis(200));
    group.measurement_time(Duration::from_millis(600));
    group.throughput(Throughput::Elements(COLS as u64));
    for ty in [GgmlType::Q4_K, GgmlType::Q6_K, GgmlType::IQ2_XXS] {
        let row = arbitrary_bytes(COLS / ty.block_len() * ty.block_bytes());
        let mut out = vec![0.0; COLS];
        group.bench_function(BenchmarkId::from_parameter(ty), |b| {
            b.iter(|| decode_row(cpu.isa(), ty, black_box(&row), &mut out));
        });
    }
    group.finish();
}

criterion_group!(benches, int8, float, around, attention, recurrent, moments, ggml);
criterion_main!(benches);
