//! `--bench`: a model with each of the numbers of threads.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use qsf_runtime::bench::{ColdLoad, Speed, SpeedOptions, Test, TestKind, cold_load, speed};
use qsf_runtime::cpu::{Cpu, KvTypes};
use qsf_runtime::generate::PROMPT_BATCH;
use qsf_runtime::progress::Cancel;
use qsf_runtime::source::{self, WeightSource};
use qsf_runtime::stream::Need;
use qsf_runtime::{Decoder, KvOptions, Model, Result, Runner, RuntimeError};

use super::bandwidth::BandwidthAround;
use super::report::BenchReport;
use super::{BenchArgs, OutputFormat};
use crate::compute::ComputeArgs;
use crate::console::print;
use crate::model_args::{
    ActivationArgs, DefaultActivations, DeviceArgs, HeadReport, HugePageArgs, KvArgs, LayerReport,
    LoraReport, Runs, ShortcutArgs, ShortcutReport, StreamArgs, Streaming, only_on_cpu,
};
use crate::model_name::model_name;
use crate::progress::ProgressLine;

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
    /// In which pages.
    pub huge_pages: HugePageArgs,
    /// Keys and values.
    pub kv: &'a KvArgs,
    /// What weights are multiplied with.
    pub activations: ActivationArgs,
    /// Numbers of sequences that are decoded together.
    pub sequences: &'a [usize],
}

impl BenchModel<'_> {
    fn decoder(&self, model: Arc<Model>, cpu: &Cpu, cancel: &Cancel) -> Result<Decoder> {
        let default = DefaultActivations::fast(self.stream);
        Ok(self.activations.decoder(model, cpu.clone(), default)?.stop_on(cancel))
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
    let tests = args.tests(how.sequences)?;
    let several = how.sequences.iter().any(|sequences| *sequences > 1);
    if several && how.stream.ram_budget.is_some() {
        let problem = "--sequences: several are not measured with --ram-budget";
        return Err(RuntimeError::Request(problem.into()).into());
    }
    let format = args.format_of(json);
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
    let (mut model, streaming) = open.load(Need {
        whole_head: how.shortcuts.whole_head(),
        skipped: layers.as_ref().map_or_else(Vec::new, |layers| layers.skipped().to_vec()),
        threads: most_threads,
        ..need(&tests, kv)
    })?;
    if let Some(streaming) = streaming.as_ref().filter(|_| how.stream.memory_plan) {
        return print_plan(streaming, format);
    }
    how.huge_pages.apply(&mut model, &open);
    let (model, source) = (Arc::new(model), open.source());
    let decoder = how.decoder(model.clone(), &cpu, cancel)?;
    let (decoder, in_use) = how.shortcuts.apply_with(decoder, source, layers.clone())?;
    let in_use = in_use.with_lora(open.lora());
    let mut report = empty_report(how, &decoder, &in_use, kv);
    report.load_seconds = started.elapsed().as_secs_f64();
    report.cold_load = cold;
    let measurement = Measurement {
        tests: &tests,
        kv,
        step: streaming.as_ref().map_or(PROMPT_BATCH, |streaming| streaming.plan.batch),
        repetitions: args.repetitions,
        explain: verbose || matches!(format, OutputFormat::Json | OutputFormat::Csv),
        progress: &progress,
    };
    match how.device.choose(decoder, only_on_cpu_of(args, how))? {
        Runs::OnCpu(decoder) => report.of_runner(&*decoder),
        #[cfg(feature = "gpu")]
        Runs::OnGpu(decoder) => {
            one_count(&counts)?;
            report.of_runner(&*decoder);
            report.add_rows(1, measurement.speeds(&*decoder)?, None);
            return report.print(format);
        }
    }
    // As in a long text. A measured one may be too short for that.
    model.huge_pages.finish(&cpu);
    report.huge_page_bytes = model.huge_pages.bytes();
    // Measuring it takes memory that no budget has.
    let has_bandwidth = streaming.is_none() && tests.iter().any(|test| test.kind == TestKind::Decode);
    for threads in counts {
        cancel.check()?;
        let speeds = || -> anyhow::Result<_> {
            let decoder = how.decoder(model.clone(), &how.compute.cpu(threads)?, cancel)?;
            let (decoder, _) = how.shortcuts.apply_with(decoder, source, layers.clone())?;
            // Then its threads end, which wait awake for a while.
            Ok(measurement.speeds(&decoder)?)
        };
        let (bandwidth, speeds) = match has_bandwidth {
            true => {
                BandwidthAround::measure(threads, speeds).map(|(around, speeds)| (Some(around), speeds))?
            }
            false => (None, speeds()?),
        };
        report.add_rows(threads, speeds, bandwidth);
    }
    report.streaming = streaming.as_ref().map(Streaming::to_json);
    report.streaming_text = streaming.map(|streaming| streaming.describe(false));
    report.print(format)
}

/// Prints what memory would be used for: a text or an object, no rows.
fn print_plan(streaming: &Streaming, format: OutputFormat) -> anyhow::Result<()> {
    if matches!(format, OutputFormat::Csv | OutputFormat::Md) {
        let problem = "--memory-plan: is no table of measurements; pass -o json, or no -o";
        return Err(RuntimeError::Request(problem.into()).into());
    }
    Ok(print(&streaming.describe(format == OutputFormat::Json))?)
}

/// A graphics processor is measured once, however many threads wait for it.
#[cfg(feature = "gpu")]
fn one_count(counts: &[usize]) -> Result<()> {
    if counts.len() > 1 {
        let problem = "--threads: a list of several numbers is for the processor; pass one, or --device cpu";
        return Err(RuntimeError::Request(problem.into()));
    }
    Ok(())
}

/// What is measured of a runner, and how.
struct Measurement<'a> {
    tests: &'a [Test],
    kv: KvTypes,
    /// Most tokens of a step.
    step: usize,
    repetitions: usize,
    /// Whether to find out where the time goes.
    explain: bool,
    progress: &'a ProgressLine,
}

impl Measurement<'_> {
    /// The speed in each of the tests.
    fn speeds<R: Runner>(&self, runner: &R) -> Result<Vec<Speed>> {
        let Measurement { kv, step, repetitions, explain, .. } = *self;
        let options = SpeedOptions { kv, step, repetitions, explain };
        let measure = |test| speed(runner, test, options, self.progress);
        self.tests.iter().copied().map(measure).collect()
    }
}

/// What is known of a model before it is measured.
fn empty_report(
    how: &BenchModel<'_>,
    decoder: &Decoder,
    in_use: &ShortcutReport,
    kv: KvTypes,
) -> BenchReport {
    BenchReport {
        version: env!("CARGO_PKG_VERSION"),
        model: model_name(how.path),
        device: String::new(),
        isa: decoder.cpu().isa().name(),
        activations: decoder.activations().name(),
        kv_type: kv.to_string(),
        head: in_use.head.map(HeadReport::to_json),
        layer_selection: in_use.layers.as_ref().map(LayerReport::to_json),
        lora: in_use.lora.iter().map(LoraReport::to_json).collect(),
        lora_lines: in_use.lora.iter().map(LoraReport::line).collect(),
        layers_line: in_use.layers.as_ref().map(LayerReport::line),
        // By clusters or with early exits, it depends on the token.
        weight_bytes_per_token: (in_use.head.is_none() && !decoder.exits_early())
            .then(|| decoder.bytes_per_token()),
        huge_page_bytes: 0,
        load_seconds: 0.0,
        cold_load: None,
        streaming: None,
        streaming_text: None,
        bandwidth: Vec::new(),
        rows: Vec::new(),
    }
}

/// The first of the flags given that only the CPU honours.
fn only_on_cpu_of(args: &BenchArgs, how: &BenchModel<'_>) -> Option<&'static str> {
    if args.cold {
        return Some("--cold");
    }
    if how.sequences.iter().any(|sequences| *sequences > 1) {
        return Some("--sequences");
    }
    only_on_cpu(how.stream, how.kv, how.shortcuts, how.activations)
}

/// Loads the model from disk again and again.
fn cold(
    how: &BenchModel<'_>,
    cpu: &Cpu,
    repetitions: usize,
    cancel: &Cancel,
    progress: &ProgressLine,
) -> Result<ColdLoad> {
    let prepare = |source: &mut dyn WeightSource| {
        cancel.check()?;
        let adapters = how.stream.adapters.take(source)?;
        let mut model = Model::load(source)?;
        model.adapt(adapters)?;
        let decoder = how.decoder(Arc::new(model), cpu, cancel)?;
        Ok(how.shortcuts.apply(decoder, source)?.0)
    };
    cold_load(&|| source::open(how.path), &prepare, repetitions, progress)
}

/// What a budget must have room for, of a model that is run whole by one thread.
fn need(tests: &[Test], kv: KvTypes) -> Need {
    let longest = tests.iter().map(|test| test.depth.saturating_add(test.tokens)).max().unwrap_or(1);
    let prompts =
        tests.iter().map(|test| if test.kind == TestKind::Prompt { test.tokens } else { test.depth });
    Need {
        context: longest,
        least_context: longest,
        batch: prompts.max().unwrap_or(1).clamp(1, PROMPT_BATCH),
        logit_rows: 1,
        whole_head: false,
        kv: KvOptions { whole: true, ..kv.into() },
        smaller_kv: Vec::new(),
        skipped: Vec::new(),
        threads: 1,
        compared_with: None,
    }
}
