//! `--bench`: a model with each of the numbers of threads.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use qsf_format::cli::print;

use super::report::{BenchReport, BenchRow};
use super::{BenchArgs, OutputFormat};
use crate::bench::{Bandwidth, TestKind, cold_load, read_bandwidth, speed};
use crate::cli::{ComputeArgs, HeadReport, LayerReport, ProgressLine, ShortcutArgs, model_name};
use crate::cpu::{Cpu, KvTypes};
use crate::decoder::Decoder;
use crate::error::Result;
use crate::progress::Cancel;
use crate::source::{self, WeightSource};
use crate::weights::Model;

/// Measures the model at `path` and prints what was found. With `verbose`, tables show where the time goes.
///
/// # Errors
/// When nothing is asked for, or the model cannot be loaded or run.
pub fn run_bench(
    args: &BenchArgs,
    path: &Path,
    (compute, shortcuts, kv): (&ComputeArgs, &ShortcutArgs, KvTypes),
    json: bool,
    verbose: bool,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    let tests = args.tests()?;
    let format = args.format(json);
    let explain = verbose || matches!(format, OutputFormat::Json | OutputFormat::Csv);
    let progress = ProgressLine::default();
    let counts = compute.counts()?;
    compute.start_loaders()?;
    let cpu = compute.cpu(counts.iter().copied().max().unwrap_or(1))?;
    let decoder_of =
        |model: &Arc<Model>, cpu: &Cpu| Decoder::new(model.clone(), cpu.clone(), None).stop_on(cancel);
    let open = || source::open(path);
    let prepare = |source: &dyn WeightSource| {
        cancel.check()?;
        Ok(shortcuts.apply(decoder_of(&Arc::new(Model::load(source)?), &cpu), source)?.0)
    };
    // First of all: pages of a model that is in use cannot be dropped.
    let cold = args.cold.then(|| cold_load(&open, &prepare, args.repetitions, &progress)).transpose()?;
    let started = Instant::now();
    let source = open()?;
    let model = Arc::new(Model::load(source.as_ref())?);
    let (measured, in_use) = shortcuts.apply(decoder_of(&model, &cpu), source.as_ref())?;
    let mut report = BenchReport {
        version: env!("CARGO_PKG_VERSION"),
        model: model_name(path),
        isa: cpu.isa().name(),
        activations: measured.activations().name(),
        kv_type: kv.to_string(),
        head: in_use.head.map(HeadReport::to_json),
        layers: in_use.layers.as_ref().map(LayerReport::to_json),
        layers_line: in_use.layers.as_ref().map(LayerReport::line),
        // By clusters, it depends on the token.
        weight_bytes_per_token: in_use.head.is_none().then(|| measured.bytes_per_token()),
        load_seconds: started.elapsed().as_secs_f64(),
        cold_load: cold,
        bandwidth: Vec::new(),
        rows: Vec::new(),
    };
    drop(measured);
    let decodes = tests.iter().any(|test| test.kind == TestKind::Decode);
    for threads in counts {
        cancel.check()?;
        let bandwidth = || decodes.then(|| read_bandwidth(threads)).transpose();
        let before = bandwidth()?;
        let (decoder, _) = shortcuts.apply(decoder_of(&model, &compute.cpu(threads)?), source.as_ref())?;
        let measure = |test| speed(&decoder, test, kv, (args.repetitions, explain), &progress);
        let speeds = tests.iter().copied().map(measure).collect::<Result<Vec<_>>>()?;
        // Its threads wait awake for a while.
        drop(decoder);
        // Before and after, as it varies on a shared machine; the larger is nearer to what the machine can do.
        let bandwidth = faster(before, bandwidth()?);
        report.bandwidth.extend(bandwidth);
        let bytes = report.weight_bytes_per_token;
        report.rows.extend(speeds.into_iter().map(|speed| BenchRow::new(threads, speed, bytes, bandwidth)));
    }
    print(&match format {
        OutputFormat::Table => report.text(),
        OutputFormat::Json => format!("{:#}\n", serde_json::to_value(&report)?),
        OutputFormat::Csv => report.to_csv(),
        OutputFormat::Md => report.to_markdown(),
    })?;
    Ok(())
}

fn faster(a: Option<Bandwidth>, b: Option<Bandwidth>) -> Option<Bandwidth> {
    a.into_iter().chain(b).max_by(|a, b| a.gb_per_second.total_cmp(&b.gb_per_second))
}
