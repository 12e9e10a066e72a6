//! Runs a model over a text, as the flags say.

use std::path::Path;
use std::sync::Arc;

use qsf_converter::evaluation_record;
use qsf_format::{FormatError, QsfFile, store_evaluation};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::eval::{BaseWriter, Demand, EvalOptions, Reference, SavedBase, demand, evaluate_part};
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::source::{self, WeightSource, tokenizer_of};
use qsf_runtime::stream::Need;
use qsf_runtime::text_file::TextFile;
use qsf_runtime::tokenizer::Tokenizer;
use qsf_runtime::{Decoder, Model, Result, Runner, RuntimeError, WorkPart};

use super::args::EvalArgs;
use super::base::{Base, EvaluatedText, base_facts, text_sha256};
use super::outputs::check_outputs;
use super::parts::{Fingerprints, MeasuredPart, WrittenPart};
use super::report::{Facts, Names, Report, SavedFile, streaming_report};
use super::task_report::TaskReport;
use crate::model_args::{DefaultActivations, DeviceArgs, OpenModel, Runs, ShortcutReport, Streaming};

/// What came of the flags.
pub(super) enum Outcome {
    /// Of `--memory-plan`.
    Plan(Box<Streaming>),
    /// Of `--part`.
    Part(WrittenPart),
    Measured(Box<Report>),
    /// Of `--task`.
    Task(Box<TaskReport>),
}

/// Tokens per chunk.
const DEFAULT_CTX: usize = 512;

/// Positions whose logits are held at once within a RAM budget.
pub(super) const STREAMED_LOGIT_ROWS: usize = 4;

/// Bytes of text for a token, where the text is not read yet: some of code and of other scripts than Latin.
const BYTES_PER_TOKEN: u64 = 3;

/// A model, and what it is evaluated on.
struct Opened {
    open: OpenModel,
    base: Base,
    tokens: Vec<u32>,
    options: EvalOptions,
    /// Hash of the whole text, where it is to be stored.
    text_sha256: Option<String>,
}

impl Opened {
    /// Opens and reads all, on `threads` threads.
    fn new(args: &EvalArgs, threads: usize) -> Result<Opened> {
        let Some(file) = &args.file else {
            return Err(RuntimeError::Request("pass --file or --golden".into()));
        };
        let open = args.stream.open(args.model()?)?;
        let mut options = EvalOptions {
            ctx: args.ctx_size.unwrap_or(DEFAULT_CTX),
            chunks: args.chunks.map(|n| n as usize),
            kv: args.kv.options(open.default_kv()),
            ..EvalOptions::default()
        };
        if args.stream.ram_budget.is_some() {
            options.logit_rows = STREAMED_LOGIT_ROWS;
        }
        let most = options.most_tokens();
        let bytes = TextFile::open(file)?.size()?;
        let tokens = bytes.div_ceil(BYTES_PER_TOKEN).min(most as u64);
        let mut base = Base::open(args.base.as_deref())?;
        check_outputs(args, open.source(), &base)?;
        let tokenizer = tokenizer_of(open.source(), "the text to evaluate on")?;
        // Before the text, so that what cannot be is refused at once.
        let reading = tokens * size_of::<u32>() as u64 + Tokenizer::READING_BYTES;
        open.check(need(&options, threads, base.source()), reading)?;
        let tokens = tokenizer.encode_first(&mut TextFile::open(file)?, most, true)?;
        let text_sha256 = if args.store { Some(text_sha256(file)?) } else { None };
        options.bos = tokenizer.bos();
        drop(tokenizer);
        base.check(open.source(), &EvaluatedText { path: file, tokens: &tokens }, &options)?;
        Ok(Opened { open, base, tokens, options, text_sha256 })
    }
}

/// What the evaluation that the flags ask for takes.
///
/// # Errors
/// When a model or the text cannot be read, or the two do not fit together.
pub fn evaluation_demand(args: &EvalArgs) -> Result<Demand> {
    let Opened { open, base, tokens, options, .. } = Opened::new(args, 1)?;
    demand(open.source(), base.source(), &tokens, options)
}

/// Evaluates a text.
pub(super) fn measure(
    args: &EvalArgs,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Outcome> {
    // Said now, not after the work.
    let mut written = args.part_out.iter().chain(&args.save_base);
    if let Some(path) = written.find(|path| !args.force && path.symlink_metadata().is_ok()) {
        return Err(FormatError::Exists { path: path.clone() }.into());
    }
    let Opened { mut open, base, tokens, mut options, text_sha256 } = Opened::new(args, cpu.threads())?;
    if args.store {
        check_storable(open.source(), &base, progress)?;
    }
    cancel.check()?;
    let fingerprints = match args.part {
        Some(_) => Some(Fingerprints::of(open.source(), &base, &tokens, &options)?),
        None => None,
    };
    let layers = args.shortcuts.layers(open.source())?;
    let need = Need {
        whole_head: args.shortcuts.whole_head(),
        skipped: layers.as_ref().map_or_else(Vec::new, |layers| layers.skipped().to_vec()),
        ..need(&options, cpu.threads(), base.source())
    };
    // Before the model, so that a budget counts what it takes.
    let base_name = base.name();
    let (base, saved) = match base {
        Base::Model(source) => {
            // At its own default precision.
            let decoder = Decoder::new(Arc::new(Model::load(source.as_ref())?), cpu.clone(), None);
            (Some(args.device.choose(decoder.stop_on(cancel), only_on_cpu(args))?), None)
        }
        Base::Saved(saved) => (None, Some(saved)),
        Base::Nothing => (None, None),
    };
    let (model, streaming) = open.load(need)?;
    let streaming = match streaming {
        Some(streaming) if args.stream.memory_plan => return Ok(Outcome::Plan(Box::new(streaming))),
        streaming => streaming,
    };
    if let Some(streaming) = &streaming {
        options.step = streaming.plan.batch;
    }
    let decoder = decoder(args, cpu, model)?.stop_on(cancel);
    let (decoder, shortcuts) = args.shortcuts.apply_with(decoder, open.source(), layers)?;
    let shortcuts = shortcuts.with_lora(open.lora());
    let names = Names::of(args, base_name)?;
    let how =
        How { args, tokens: &tokens, options, fingerprints, names, shortcuts, streaming, text_sha256, saved };
    // Both on the same device, as the base was loaded first.
    let device = if matches!(base, Some(Runs::OnCpu(_))) { DeviceArgs::CPU } else { args.device };
    match (device.choose(decoder, only_on_cpu(args))?, base) {
        (Runs::OnCpu(model), None) => how.measure(&*model, None, progress),
        (Runs::OnCpu(model), Some(Runs::OnCpu(base))) => how.measure(&*model, Some(&*base), progress),
        #[cfg(feature = "gpu")]
        (Runs::OnGpu(model), None) => how.measure(&*model, None, progress),
        #[cfg(feature = "gpu")]
        (Runs::OnGpu(model), Some(Runs::OnGpu(base))) => how.measure(&*model, Some(&*base), progress),
        #[cfg(feature = "gpu")]
        (Runs::OnCpu(_), Some(Runs::OnGpu(_))) | (Runs::OnGpu(_), Some(Runs::OnCpu(_))) => {
            Err(only_one_on_gpu().into())
        }
    }
}

/// Where only one of two models runs on the graphics processor.
#[cfg(feature = "gpu")]
pub(super) fn only_one_on_gpu() -> RuntimeError {
    let problem = "only the base runs on the GPU, and both have to run on the same device: pass --device cpu";
    RuntimeError::Request(problem.into())
}

/// How a model is evaluated.
struct How<'a> {
    args: &'a EvalArgs,
    tokens: &'a [u32],
    options: EvalOptions,
    /// Of a part.
    fingerprints: Option<Fingerprints>,
    shortcuts: ShortcutReport,
    streaming: Option<Streaming>,
    text_sha256: Option<String>,
    names: Names,
    /// A base that does not run.
    saved: Option<Box<SavedBase>>,
}

impl How<'_> {
    fn measure<R: Runner>(
        self,
        model: &R,
        base: Option<&R>,
        progress: &dyn Progress,
    ) -> anyhow::Result<Outcome> {
        let How { args, tokens, options, fingerprints, names, shortcuts, streaming, text_sha256, mut saved } =
            self;
        let part = args.part.unwrap_or(WorkPart::ALL);
        let facts = Facts::of(model, options.kv, &shortcuts);
        let mut writer = match &args.save_base {
            Some(path) => Some(saving(args, path, tokens, &options, &facts)?),
            None => None,
        };
        let reference = match (base, &mut saved, &mut writer) {
            (Some(base), _, _) => Reference::Model(base),
            (None, Some(saved), _) => Reference::Saved(saved),
            (None, None, Some(writer)) => Reference::Save(writer),
            (None, None, None) => Reference::Nothing,
        };
        let sums = evaluate_part(model, reference, tokens, options, part, progress)?;
        let streaming = streaming.as_ref().map(streaming_report);
        Ok(match (fingerprints, &args.part_out) {
            (Some(fingerprints), Some(path)) => {
                let mark = fingerprints.mark(&options, &facts)?;
                let streaming = streaming.map(|(_, json)| json);
                let measured = MeasuredPart { part, mark, names: &names, streaming, sums };
                Outcome::Part(measured.write(path, args.force)?)
            }
            _ => {
                let result = sums.evaluation()?;
                if let Some(text_sha256) = text_sha256 {
                    let record = evaluation_record(&result, &text_sha256, &facts.activations);
                    store_evaluation(args.model()?, record.to_string().as_bytes())?;
                }
                let saved_base = match (writer, &args.save_base) {
                    (Some(writer), Some(path)) => Some(SavedFile::finish(writer, path)?),
                    _ => None,
                };
                let report = Report { result, names, facts, streaming, saved_base, parts: None };
                Outcome::Measured(Box::new(report))
            }
        })
    }
}

/// What takes the log-probabilities of the model.
fn saving(
    args: &EvalArgs,
    path: &Path,
    tokens: &[u32],
    options: &EvalOptions,
    facts: &Facts,
) -> Result<BaseWriter> {
    // A second look, as the first is gone into the model.
    let source = source::open(args.model()?)?;
    let text = EvaluatedText { path: args.file.as_deref().unwrap_or(Path::new("-")), tokens };
    let facts = base_facts(source.as_ref(), &text, options, facts)?;
    BaseWriter::create(path, args.force, &facts)
}

/// Whether the file can take an evaluation: said before the work. The base should be what it was made of.
fn check_storable(model: &dyn WeightSource, base: &Base, progress: &dyn Progress) -> anyhow::Result<()> {
    let is_qsf = QsfFile::open(model.path());
    let file =
        is_qsf.map_err(|error| RuntimeError::Request(format!("--store: MODEL is no QSF file: {error}")))?;
    let sources = file.meta()?.map(|meta| meta.provenance.sources).unwrap_or_default();
    let files = base.files();
    if !sources
        .iter()
        .all(|known| files.iter().any(|file| (&file.name, file.bytes) == (&known.name, known.bytes)))
    {
        progress.warn("--store: the base has other files than the model that the file was made of, and the file will call it the source");
    }
    Ok(())
}

/// The first of the flags given that only the CPU honours.
pub(super) fn only_on_cpu(args: &EvalArgs) -> Option<&'static str> {
    crate::model_args::only_on_cpu(&args.stream, &args.kv, &args.shortcuts, args.activations)
}

pub(super) fn decoder(args: &EvalArgs, cpu: &Cpu, model: Model) -> Result<Decoder> {
    args.activations.decoder(Arc::new(model), cpu.clone(), DefaultActivations::Comparable)
}

/// What an evaluation needs of memory, beside tokens.
fn need(options: &EvalOptions, threads: usize, base: Option<&dyn WeightSource>) -> Need {
    Need {
        context: options.ctx,
        least_context: options.ctx,
        batch: options.ctx.clamp(1, options.step),
        logit_rows: options.logit_rows,
        whole_head: false,
        kv: options.kv,
        smaller_kv: Vec::new(),
        skipped: Vec::new(),
        threads,
        compared_with: base.map(|base| (base.config().clone(), options.base_kv.into())),
    }
}
