//! Weights per second of every stored type, one thread. The converter's promise of seconds per model rests on these.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use qsf_converter::quantize::{first_non_finite, quantize_rows};
use qsf_format::{BlockSize, QuantType};
use qsf_runtime::compare::ErrorStats;
use qsf_runtime::cpu::Isa;

const ROWS: usize = 256;
const COLS: usize = 2048;

/// Sums of twelve uniform numbers: near enough to Gaussian for timing.
fn weights() -> Vec<f32> {
    let mut state = 1u64;
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 24) as f32
    };
    (0..ROWS * COLS).map(|_| ((0..12).map(|_| uniform()).sum::<f32>() - 6.0) * 0.02).collect()
}

fn quantizers(c: &mut Criterion) {
    let values = weights();
    let importance: Vec<f32> = (0..COLS).map(|i| 0.1 + (i % 37) as f32).collect();
    let mut group = c.benchmark_group("quantize");
    group.throughput(Throughput::Elements(values.len() as u64));
    let written = QuantType::ALL;
    let cases = written.into_iter().map(|quant| (quant, 64));
    for (quant, size) in cases.chain([(QuantType::Q4, 32), (QuantType::Q4, 256)]) {
        let Some(block) = BlockSize::new(size) else { continue };
        let bytes = quant.tensor_bytes(block, ROWS as u64, COLS as u64).unwrap_or(0);
        let mut out = vec![0; bytes as usize];
        group.bench_function(format!("{quant}/{block}"), |b| {
            let importance = Some(importance.as_slice());
            b.iter(|| {
                quantize_rows(Isa::best(), quant, block, COLS, black_box(&values), importance, &mut out)
            });
        });
    }
    group.finish();
}

fn checks(c: &mut Criterion) {
    let values = weights();
    let mut group = c.benchmark_group("check");
    group.throughput(Throughput::Elements(values.len() as u64));
    group.bench_function("first_non_finite", |b| {
        b.iter(|| first_non_finite(Isa::best(), black_box(&values)));
    });
    group.bench_function("error_stats", |b| {
        b.iter(|| {
            let mut stats = ErrorStats::new();
            values.chunks(COLS).for_each(|row| stats.add_row(Isa::best(), row, black_box(row)));
            stats.cosine()
        });
    });
    group.finish();
}

fn config() -> Criterion {
    Criterion::default()
        .sample_size(10)
        .warm_up_time(std::time::Duration::from_millis(300))
        .measurement_time(std::time::Duration::from_secs(1))
}

criterion_group! { name = benches; config = config(); targets = quantizers, checks }
criterion_main!(benches);
