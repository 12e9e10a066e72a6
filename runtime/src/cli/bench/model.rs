//! `--bench`: a model with each of the numbers of threads.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use qsf_format::cli::print;

use super::report::{BenchReport, BenchRow};
use super::{BenchArgs, OutputFormat};
use crate::bench::{Bandwidth, ColdLoad, Test, TestKind, cold_load, read_bandwidth, speed};
use crate::cli::{
    ActivationArgs, ComputeArgs, DeviceArgs, HeadReport, KvArgs, LayerReport, ProgressLine, Runs,
    ShortcutArgs, StreamArgs, Streaming, model_name, only_on_cpu,
};
use crate::cpu::{Cpu, KvTypes};
use crate::decoder::{Decoder, KvOptions};
use crate::error::Result;
use crate::generate::PROMPT_BATCH;
use crate::progress::Cancel;
use crate::source::{self, WeightSource};
use crate::stream::Need;
use crate::weights::Model;

/// What is measured, and how it runs.
pub struct BenchModel<'a> {
    /// The model.
    pub path: &'a Path,
    /// Threads.
    pub compute: &'a ComputeArgs,
    /// The processor or a graphics processor.
    pub device: DeviceArgs,
    /// What is left out of it.
    pub shortcuts: &'a ShortcutArgs,
    /// Within which budget.
    pub stream: &'a StreamArgs,
    /// Keys and values.
    pub kv: &'a KvArgs,
    /// What weights are multiplied with.
    pub activations: ActivationArgs,
}

impl BenchModel<'_> {
    fn decoder(&self, model: Arc<Model>, cpu: &Cpu, cancel: &Cancel) -> Result<Decoder> {
        Ok(self.activations.decoder(model, cpu.clone())?.stop_on(cancel))
    }
}

/// Measures a model and prints what was found. With `verbose`, tables show where the time goes.
///
/// # Errors
/// When nothing is asked for, or the model cannot be loaded or run.
pub fn run_bench(
    args: &BenchArgs,
    how: &BenchModel<'_>,
    json: bool,
    verbose: bool,
    cancel: &Cancel,
) -> anyhow::Result<()> {
    let tests = args.tests()?;
    let format = args.format(json);
    let explain = verbose || matches!(format, OutputFormat::Json | OutputFormat::Csv);
    let progress = ProgressLine::default();
    let counts = how.compute.counts()?;
    how.compute.start_loaders()?;
    let most_threads = counts.iter().copied().max().unwrap_or(1);
    let cpu = how.compute.cpu(most_threads)?;
    how.activations.check(cpu.isa(), how.stream)?;
    // First of all: pages of a model that is in use cannot be dropped.
    let cold = args.cold.then(|| cold(how, &cpu, args.repetitions, cancel, &progress)).transpose()?;
    let started = Instant::now();
    let mut open = how.stream.open(how.path)?;
    let kv = how.kv.options(open.default_kv()).types;
    let layers = how.shortcuts.layers(open.source())?;
    let skipped = layers.as_ref().map_or_else(Vec::new, |layers| layers.skipped().to_vec());
    let parts = (skipped, how.shortcuts.whole_head());
    let need = need(&tests, kv, parts, most_threads);
    let (model, streaming) = open.load(need)?;
    if let Some(streaming) = streaming.as_ref().filter(|_| how.stream.memory_plan) {
        return Ok(print(&streaming.describe(json))?);
    }
    let (model, source) = (Arc::new(model), open.source());
    let (measured, in_use) =
        how.shortcuts.apply_with(how.decoder(model.clone(), &cpu, cancel)?, source, layers.clone())?;
    let mut report = BenchReport {
        version: env!("CARGO_PKG_VERSION"),
        model: model_name(how.path),
        device: String::new(),
        isa: cpu.isa().name(),
        activations: measured.activations().name(),
        kv_type: kv.to_string(),
        head: in_use.head.map(HeadReport::to_json),
        layers: in_use.layers.as_ref().map(LayerReport::to_json),
        layers_line: in_use.layers.as_ref().map(LayerReport::line),
        // By clusters or with early exits, it depends on the token.
        weight_bytes_per_token: (in_use.head.is_none() && !measured.exits_early())
            .then(|| measured.bytes_per_token()),
        load_seconds: started.elapsed().as_secs_f64(),
        cold_load: cold,
        streaming: None,
        streaming_text: None,
        bandwidth: Vec::new(),
        rows: Vec::new(),
    };
    let only_on_cpu = if args.cold {
        Some("--cold")
    } else {
        only_on_cpu(how.stream, how.kv, how.shortcuts, how.activations)
    };
    let measured = how.device.choose(measured, only_on_cpu)?;
    let step = streaming.as_ref().map_or(PROMPT_BATCH, |streaming| streaming.plan.batch);
    // Measuring it takes memory that no budget has.
    let has_bandwidth = streaming.is_none() && tests.iter().any(|test| test.kind == TestKind::Decode);
    match measured {
        Runs::OnCpu(decoder) => report.of_runner(&*decoder),
        #[cfg(feature = "gpu")]
        Runs::OnGpu(decoder) => {
            report.of_runner(&*decoder);
            for test in &tests {
                let speed = speed(&*decoder, *test, (kv, step), (args.repetitions, explain), &progress)?;
                report.rows.push(BenchRow::new(1, speed, report.weight_bytes_per_token, None));
            }
            return report.print(format);
        }
    }
    for threads in counts {
        cancel.check()?;
        let bandwidth = || has_bandwidth.then(|| read_bandwidth(threads)).transpose();
        let before = bandwidth()?;
        let decoder = how.decoder(model.clone(), &how.compute.cpu(threads)?, cancel)?;
        let (decoder, _) = how.shortcuts.apply_with(decoder, source, layers.clone())?;
        let measure = |test| speed(&decoder, test, (kv, step), (args.repetitions, explain), &progress);
        let speeds = tests.iter().copied().map(measure).collect::<Result<Vec<_>>>()?;
        // Its threads wait awake for a while.
        drop(decoder);
        // Before and after, as it varies on a shared machine; the larger is nearer to what the machine can do.
        let bandwidth = faster(before, bandwidth()?);
        report.bandwidth.extend(bandwidth);
        let bytes = report.weight_bytes_per_token;
        report.rows.extend(speeds.into_iter().map(|speed| BenchRow::new(threads, speed, bytes, bandwidth)));
    }
    report.streaming = streaming.as_ref().map(Streaming::to_json);
    report.streaming_text = streaming.map(|streaming| streaming.describe(false));
    report.print(format)
}

/// Loads the model from disk again and again.
fn cold(
    how: &BenchModel<'_>,
    cpu: &Cpu,
    repetitions: usize,
    cancel: &Cancel,
    progress: &ProgressLine,
) -> Result<ColdLoad> {
    let prepare = |source: &dyn WeightSource| {
        cancel.check()?;
        let decoder = how.decoder(Arc::new(Model::load(source)?), cpu, cancel)?;
        Ok(how.shortcuts.apply(decoder, source)?.0)
    };
    cold_load(&|| source::open(how.path), &prepare, repetitions, progress)
}

/// What a budget must have room for.
fn need(tests: &[Test], kv: KvTypes, (skipped, whole_head): (Vec<usize>, bool), threads: usize) -> Need {
    let longest = tests.iter().map(|test| test.depth.saturating_add(test.tokens)).max().unwrap_or(1);
    let prompts =
        tests.iter().map(|test| if test.kind == TestKind::Prompt { test.tokens } else { test.depth });
    Need {
        context: longest,
        least_context: longest,
        batch: prompts.max().unwrap_or(1).clamp(1, PROMPT_BATCH),
        logit_rows: 1,
        whole_head,
        kv: KvOptions { whole: true, ..kv.into() },
        smaller_kv: Vec::new(),
        skipped,
        threads,
    }
}

fn faster(a: Option<Bandwidth>, b: Option<Bandwidth>) -> Option<Bandwidth> {
    a.into_iter().chain(b).max_by(|a, b| a.gb_per_second.total_cmp(&b.gb_per_second))
}
