//! `--task`: how often a model finds the right one of several continuations.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use qsf_format::{FormatError, PartialFile};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::eval::EvalOptions;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::score::ScoreOptions;
use qsf_runtime::source::{WeightSource, tokenizer_of};
use qsf_runtime::stream::Need;
use qsf_runtime::tasks::{ScoredItem, TaskReader, TaskRequest, TaskSide, TaskSurvey, evaluate_task, survey};
use qsf_runtime::tokenizer::Tokenizer;
use qsf_runtime::{Decoder, KvOptions, Model, Result, Runner, RuntimeError};

use super::args::EvalArgs;
use super::base::Base;
use super::measure::{Outcome, STREAMED_LOGIT_ROWS, decoder, only_on_cpu};
use super::outputs::check_outputs;
use super::report::{Facts, streaming_report};
use super::task_report::{TaskNames, TaskReport};
use crate::model_args::{DeviceArgs, Runs, ShortcutReport, Streaming};

/// Everything that is known before a model runs.
struct Prepared<'a> {
    args: &'a EvalArgs,
    request: TaskRequest<'a>,
    survey: TaskSurvey,
    tokenizer: Tokenizer,
    /// That of the base, which may be another one: continuations are compared, not distributions.
    base_tokenizer: Option<Tokenizer>,
    options: ScoreOptions,
    base_options: ScoreOptions,
    names: TaskNames,
}

/// Scores the task that the flags name.
pub(super) fn measure_task(
    args: &EvalArgs,
    request: TaskRequest<'_>,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Outcome> {
    if let Some(path) = args.task_out.as_ref().filter(|path| !args.force && path.symlink_metadata().is_ok()) {
        return Err(FormatError::Exists { path: path.clone() }.into());
    }
    let mut open = args.stream.open(args.model()?)?;
    let base = Base::open(args.base.as_deref())?;
    check_outputs(args, open.source(), &base)?;
    let base_source = match &base {
        Base::Saved(_) => {
            let problem =
                "--task: the base has to run, and --base names saved log-probabilities; pass the model";
            return Err(RuntimeError::Request(problem.into()).into());
        }
        base => base.source(),
    };
    let kv = KvOptions { whole: true, ..args.kv.options(open.default_kv()) };
    let mut prepared = prepare(args, request, open.source(), base_source, kv)?;
    cancel.check()?;
    let layers = args.shortcuts.layers(open.source())?;
    let base_kv = KvOptions { whole: true, ..EvalOptions::default().base_kv.into() };
    let need = Need {
        context: prepared.options.context,
        least_context: prepared.options.context,
        batch: prepared.options.step,
        logit_rows: prepared.options.logit_rows,
        whole_head: args.shortcuts.whole_head(),
        kv,
        smaller_kv: Vec::new(),
        skipped: layers.as_ref().map_or_else(Vec::new, |layers| layers.skipped().to_vec()),
        threads: cpu.threads(),
        compared_with: base_source.map(|base| (base.config().clone(), base_kv)),
    };
    // Before the model, so that a budget counts what it takes.
    let base = match base_source {
        Some(source) => {
            let decoder = Decoder::new(Arc::new(Model::load(source)?), cpu.clone(), None);
            Some(args.device.choose(decoder.stop_on(cancel), only_on_cpu(args))?)
        }
        None => None,
    };
    let (model, streaming) = open.load(need)?;
    let streaming = match streaming {
        Some(streaming) if args.stream.memory_plan => return Ok(Outcome::Plan(Box::new(streaming))),
        streaming => streaming,
    };
    if let Some(streaming) = &streaming {
        prepared.options.step = streaming.plan.batch;
    }
    let decoder = decoder(args, cpu, model)?.stop_on(cancel);
    let (decoder, shortcuts) = args.shortcuts.apply_with(decoder, open.source(), layers)?;
    let shortcuts = shortcuts.with_lora(open.lora());
    let device = if matches!(base, Some(Runs::OnCpu(_))) { DeviceArgs::CPU } else { args.device };
    let report = match (device.choose(decoder, only_on_cpu(args))?, base) {
        (Runs::OnCpu(model), None) => prepared.run(&*model, None, &shortcuts, streaming, progress),
        (Runs::OnCpu(model), Some(Runs::OnCpu(base))) => {
            prepared.run(&*model, Some(&*base), &shortcuts, streaming, progress)
        }
        #[cfg(feature = "gpu")]
        (Runs::OnGpu(model), None) => prepared.run(&*model, None, &shortcuts, streaming, progress),
        #[cfg(feature = "gpu")]
        (Runs::OnGpu(model), Some(Runs::OnGpu(base))) => {
            prepared.run(&*model, Some(&*base), &shortcuts, streaming, progress)
        }
        #[cfg(feature = "gpu")]
        (Runs::OnCpu(_), Some(Runs::OnGpu(_))) | (Runs::OnGpu(_), Some(Runs::OnCpu(_))) => {
            Err(super::measure::only_one_on_gpu())
        }
    };
    Ok(Outcome::Task(Box::new(report?)))
}

/// Reads the task once, and decides how long contexts are.
fn prepare<'a>(
    args: &'a EvalArgs,
    request: TaskRequest<'a>,
    model: &dyn WeightSource,
    base: Option<&dyn WeightSource>,
    kv: KvOptions,
) -> Result<Prepared<'a>> {
    let tokenizer = tokenizer_of(model, "the task")?;
    let base_tokenizer = base.map(|base| tokenizer_of(base, "the task")).transpose()?;
    let survey_of = |source: &dyn WeightSource, tokenizer: &Tokenizer| {
        let found = survey(request, tokenizer, source.config())?;
        let most = source.config().max_positions as usize;
        if let Some(asked) = args.ctx_size.filter(|asked| *asked == 0 || *asked > most) {
            return Err(RuntimeError::Request(format!(
                "--ctx-size {asked}: expected 1 to {most}, which the model was made for"
            )));
        }
        let context = found.longest.min(args.ctx_size.unwrap_or(most));
        let options = ScoreOptions::new(context);
        Ok((found, ScoreOptions { step: options.step.min(context), ..options }))
    };
    let (found, mut options) = survey_of(model, &tokenizer)?;
    options.kv = kv;
    if args.stream.ram_budget.is_some() {
        options.logit_rows = STREAMED_LOGIT_ROWS;
    }
    let mut base_options = options;
    if let (Some(base), Some(tokenizer)) = (base, &base_tokenizer) {
        (_, base_options) = survey_of(base, tokenizer)?;
        base_options.kv = EvalOptions::default().base_kv.into();
    }
    let names = TaskNames::of(args, request, base)?;
    Ok(Prepared { args, request, survey: found, tokenizer, base_tokenizer, options, base_options, names })
}

impl Prepared<'_> {
    fn run<R: Runner>(
        self,
        model: &R,
        base: Option<&R>,
        shortcuts: &ShortcutReport,
        streaming: Option<Streaming>,
        progress: &dyn Progress,
    ) -> Result<TaskReport> {
        let Prepared { args, request, survey, tokenizer, base_tokenizer, options, base_options, names } =
            self;
        let facts = Facts::of(model, options.kv, shortcuts);
        let mut side = TaskSide::new(model, &tokenizer, options)?;
        let mut base = match (base, &base_tokenizer) {
            (Some(base), Some(tokenizer)) => Some(TaskSide::new(base, tokenizer, base_options)?),
            _ => None,
        };
        let mut items = args.task_out.as_deref().map(|path| Items::create(path, args.force)).transpose()?;
        let mut see = |item: &ScoredItem| items.as_mut().map_or(Ok(()), |items| items.put(item));
        let figures = evaluate_task(request, survey, &mut side, base.as_mut(), progress, &mut see)?;
        if let Some(items) = items {
            items.finish()?;
        }
        let format = TaskReader::open(request)?.format();
        let context = options.context;
        Ok(TaskReport {
            figures,
            names,
            facts,
            format,
            context,
            streaming: streaming.as_ref().map(streaming_report),
        })
    }
}

/// `--task-out`: a line of JSON for each item.
struct Items<'a> {
    target: PartialFile,
    file: BufWriter<File>,
    path: &'a Path,
}

impl<'a> Items<'a> {
    fn create(path: &'a Path, force: bool) -> Result<Items<'a>> {
        let (target, file) = PartialFile::create(path, force)?;
        Ok(Items { target, file: BufWriter::new(file), path })
    }

    fn put(&mut self, item: &ScoredItem) -> Result<()> {
        let written = serde_json::to_writer(&mut self.file, item).map_err(std::io::Error::from);
        let written = written.and_then(|()| self.file.write_all(b"\n"));
        written.map_err(|e| RuntimeError::io(self.path, "write", e))
    }

    /// Gives the file its name.
    fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(|e| RuntimeError::io(self.path, "write", e))?;
        Ok(self.target.publish(self.file.get_ref())?)
    }
}
