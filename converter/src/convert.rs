//! The conversion: tensors from a source, planned, encoded, streamed into a file; what is measured on the file, and its name.
//! At most one layer of output and one run of rows of input per thread are in memory; with a calibration text also the hidden
//! states of its tokens.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use qsf_format::{EarlyExits, Failure, MIXED, Provenance, SourceFile, VocabClusters};
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress, Unwatched};
use qsf_runtime::source::WeightSource;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::checks::{check_requantizing, check_request, check_tokenizer, notes_on_flags};
use crate::choose::SizeRequest;
use crate::encode::{NoCache, TensorCache, TensorEncoder};
use crate::error::{ConvertError, Result};
use crate::fit::{FittedFile, StatsFiles, importance_of, says_importance, tell_parts, with_text};
use crate::foresee::{check_room, memory_warning, target_warning, warnings};
use crate::limits::rejected_path;
use crate::options::{Calibration, ConvertOptions};
use crate::plan::{Plan, TensorReport};
use crate::plan_file::SavedPlan;
use crate::planning::plan_of;
use crate::predict::predict_peak;
use crate::replay::SurveyedModel;
use crate::resume::{Fingerprint, Journal, TensorJournal};
use crate::sections::{TOOL, clusters_of_file, evaluate_file, exits_of_file, hash_files};
use crate::session::Session;
use crate::write::{FileWriter, Finished, Published, Written};

/// What a conversion did.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// Which tensor got which type.
    pub plan: Arc<Plan>,
    /// The text that matrices were fitted to, where there was one.
    pub calibration: Option<Calibration>,
    /// One record per tensor, in file order.
    pub tensors: Vec<TensorReport>,
    /// The vocabulary clusters, where they were asked for.
    pub clusters: Option<VocabClusters>,
    /// Where the model may be left early, where that was asked for.
    pub early_exits: Option<EarlyExits>,
    /// How good the file is, where that was asked for: what section EVAL says.
    pub evaluation: Option<Value>,
    /// Where the file is: under the name that was asked for, or [`rejected_path`] where it misses its limits. Of several files, the
    /// first.
    pub path: PathBuf,
    /// All files, where a GGUF model makes several.
    pub files: Vec<PathBuf>,
    /// The limits that it misses, each in words with both figures.
    pub missed: Vec<String>,
    /// The files of the source, with their hashes.
    pub sources: Vec<SourceFile>,
    /// Size of the file.
    pub file_bytes: u64,
    /// Weights of all tensors.
    pub weights: u64,
    /// Wall time.
    pub seconds: f64,
}

impl Conversion {
    /// Bits of the whole file per weight.
    pub fn bits_per_weight(&self) -> f64 {
        self.file_bytes as f64 * 8.0 / self.weights.max(1) as f64
    }
}

/// Converts `source` into the QSF file `out`, and verifies what was written before it gets that name.
///
/// A conversion with a calibration text, or with [`ConvertOptions::keep_tensors`], keeps what it has done in a journal beside the
/// output, and goes on from there when it is started again.
///
/// # Errors
/// When the source is damaged or holds values that are not finite, the output cannot be written, or the user interrupts.
/// Nothing is left under the output's name then, and neither is when the file misses its limits, which is no error here.
pub fn convert(
    source: &dyn WeightSource,
    out: &Path,
    options: &ConvertOptions,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> Result<Conversion> {
    let started = Instant::now();
    check_request(source, out, options)?;
    // What goes on from tensors that are kept was checked before they were made: many restarts of quick work shall not do it
    // again each time.
    if !keeps_tensors(options) {
        check_tokenizer(source, options)?;
    }
    let plan = plan_of(source, options)?;
    check_room(source, out, &plan, options)?;
    warnings(source, Some(out), &plan, options).iter().for_each(|warning| progress.warn(warning));
    if !options.keep_tensors {
        // A batch sees to the memory of its jobs itself.
        memory_warning(predict_peak(source, options)?).iter().for_each(|warning| progress.warn(warning));
    }
    if let Some(replay) = &options.replay {
        replay.check_model(source.path(), &hash_files(&source.files(), &[cancel])?)?;
    }
    notes_on_flags(&plan, options).iter().for_each(|note| progress.note(note));
    check_requantizing(source, &plan, options)?;
    let written = with_text(source, options, Some(out), &Session { cpu, tokens: &[], progress, cancel })?;
    let options = written.as_ref().map_or(options, |written| &written.options);
    if let Some(calibration) = &options.calibration {
        tell_parts(calibration, progress);
    }
    let tokens = options.calibration.as_ref().map_or(&[][..], |calibration| &calibration.tokens);
    let session = Session { cpu, tokens, progress, cancel };
    let mut encoding = Encoding::begin(source, out, options, plan, session)?;
    let (sources, unfinished) = encoding.run(out)?;
    let provenance = encoding.provenance(sources);
    let Encoding { plan, file, .. } = encoding;
    cancel.check()?;
    let sources = provenance.sources.clone();
    let Written { mut file, tensors } = file.complete(source, header_id(options), provenance)?;
    let mut sections = Sections::default();
    let unmeasured = sections.measure(&mut file, source, options, &session).err();
    let bytes = file.bytes()?;
    target_warning(bytes, options).iter().for_each(|warning| progress.warn(warning));
    let mut missed = options.limits.missed(bytes, sections.evaluation.as_ref());
    // Of a directory of floats, the limit is that of the file whose values it has.
    let is_of_floats = options.hf.is_some_and(|hf| hf.groups.is_none());
    let size_limit = options.size_limit.filter(|_| !is_of_floats);
    missed.extend(over_target(bytes, size_limit));
    let path = if missed.is_empty() { out.to_owned() } else { rejected_path(out) };
    // Where something is kept, the same command goes on from there.
    let goes_on = |error: &ConvertError| {
        options.keep_tensors || (error.failure() == Failure::Interrupted && unfinished.is_kept())
    };
    let unmeasured = match unmeasured {
        Some(error) if goes_on(&error) => return Err(error),
        unmeasured => unmeasured,
    };
    let Published { bytes: file_bytes, files } = file.publish_as(&path)?;
    let path = files.first().cloned().unwrap_or(path);
    unfinished.remove();
    let calibration = options.calibration.clone();
    if let Some(written) = written {
        written.remove();
    }
    if let Some(source) = unmeasured {
        return Err(ConvertError::Unmeasured { path, source: Box::new(source) });
    }
    let Sections { clusters, early_exits, evaluation } = sections;
    Ok(Conversion {
        weights: plan.weights(),
        plan: Arc::new(plan),
        calibration,
        tensors,
        clusters,
        early_exits,
        evaluation,
        path,
        files,
        missed,
        sources,
        file_bytes,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// Whether tensors that are done are kept. Along a text that is done by the journal of the whole conversion.
fn keeps_tensors(options: &ConvertOptions) -> bool {
    options.keep_tensors && options.calibration.is_none() && options.stats_in.is_empty()
}

/// The type that the file header names.
fn header_id(options: &ConvertOptions) -> u8 {
    if options.types_chosen() { MIXED } else { options.recipe.header_id() }
}

/// What is to be said of a file that was to have at most `limit` bytes, and has more.
fn over_target(bytes: u64, limit: Option<u64>) -> Option<String> {
    let limit = limit.filter(|limit| bytes > *limit)?;
    Some(format!(
        "{bytes} bytes, at most {limit} (--target-size); ask for a slightly smaller size, and report this"
    ))
}

/// What stands in the file behind its tensors.
#[derive(Default)]
struct Sections {
    clusters: Option<VocabClusters>,
    early_exits: Option<EarlyExits>,
    evaluation: Option<Value>,
}

impl Sections {
    /// Adds what was asked for to a file that has no name yet: each is made by running what was written. What was added before
    /// something failed is in the file.
    fn measure(
        &mut self,
        file: &mut Finished,
        source: &dyn WeightSource,
        options: &ConvertOptions,
        session: &Session<'_>,
    ) -> Result<()> {
        if let Some(wanted) = &options.clusters {
            let clusters = clusters_of_file(file.path(), wanted, session)?;
            file.append_clusters(&clusters)?;
            self.clusters = Some(clusters);
        }
        // A recurrent state would miss the tokens that leave before it.
        if let Some(text) =
            options.early_exit.as_ref().filter(|_| source.config().never_left_early().is_none())
        {
            let exits = exits_of_file(file.path(), text, session)?;
            file.append_early_exits(&exits)?;
            self.early_exits = Some(exits);
        }
        if let Some(text) = &options.evaluation {
            let evaluation = evaluate_file(file.path(), source, text, session)?;
            file.append_evaluation(&evaluation)?;
            self.evaluation = Some(evaluation);
        }
        Ok(())
    }
}

/// What a conversion keeps beside its output until the file has its name.
enum Unfinished<'a> {
    Nothing,
    /// Of one along a text.
    Journal(Journal),
    /// Of one that fits tensors to nothing.
    Tensors(TensorJournal<'a>),
}

impl Unfinished<'_> {
    /// Whether the same command goes on from something.
    fn is_kept(&self) -> bool {
        !matches!(self, Unfinished::Nothing)
    }

    /// The conversion is done.
    fn remove(self) {
        match self {
            Unfinished::Nothing => {}
            Unfinished::Journal(journal) => journal.remove(),
            Unfinished::Tensors(kept) => kept.remove(),
        }
    }
}

/// A conversion whose tensors are being written.
struct Encoding<'a> {
    source: &'a dyn WeightSource,
    options: &'a ConvertOptions,
    session: Session<'a>,
    plan: Plan,
    encoder: TensorEncoder<'a>,
    stats: StatsFiles,
    /// The options as META has them.
    recorded: Map<String, Value>,
    file: FileWriter,
}

impl<'a> Encoding<'a> {
    /// Nothing is done yet, but nobody else can write the output.
    fn begin(
        source: &'a dyn WeightSource,
        out: &Path,
        options: &'a ConvertOptions,
        plan: Plan,
        session: Session<'a>,
    ) -> Result<Encoding<'a>> {
        // Where a text goes through the model, tokens are counted, not weights.
        let counted = if options.calibration.is_some() { &Unwatched } else { session.progress };
        let encoder = TensorEncoder::new(source, options, &Session { progress: counted, ..session });
        let stats_out = options.stats_out.clone();
        let stats = StatsFiles::open(source, &options.stats_in, stats_out, session.tokens, options.force)?;
        if let Some(replay) = &options.replay {
            replay.check_statistics(stats.texts())?;
        }
        let recorded = stats.recorded(options);
        let file = FileWriter::create(out, &encoder, &plan, options, &recorded)?;
        Ok(Encoding { source, options, session, plan, encoder, stats, recorded, file })
    }

    /// Writes all tensors. Gives the files that they are from, and what to remove once the file has its name.
    fn run(&mut self, out: &Path) -> Result<(Vec<SourceFile>, Unfinished<'a>)> {
        let (sources, unfinished) = match &self.options.calibration {
            // It may take hours to fit the types: the plan is written before.
            Some(_) => return self.along_text(out),
            None if !self.options.stats_in.is_empty() => self.by_statistics(),
            None => self.alone(out),
        }?;
        self.save_plan(&sources, None)?;
        Ok((sources, unfinished))
    }

    /// Writes the plan, if somebody wants it.
    fn save_plan(&self, sources: &[SourceFile], survey: Option<&SurveyedModel>) -> Result<()> {
        let Encoding { options, plan, stats, .. } = self;
        let Some(path) = &options.save_plan else { return Ok(()) };
        SavedPlan::of(options, plan, sources.to_vec(), stats.texts(), survey).write(path, options.force)
    }

    /// Each tensor for itself.
    fn alone(&mut self, out: &Path) -> Result<(Vec<SourceFile>, Unfinished<'a>)> {
        let Encoding { source, options, session, plan, encoder, recorded, file, .. } = self;
        let Session { progress, cancel, .. } = *session;
        let (files, mut kept) = (source.files(), None);
        if keeps_tensors(options) {
            let mut with = recorded.clone();
            with.insert("tokenizer compared".into(), json!(!options.skip_tokenizer_check));
            let kept = kept.insert(TensorJournal::open(out, &files, &with, progress, cancel)?);
            if !kept.goes_on() {
                check_tokenizer(*source, options)?;
            }
        }
        let cache = kept.as_ref().map_or(&NoCache as &dyn TensorCache, |kept| kept);
        progress.begin("converting", plan.weights());
        // Hashing reads the same files: beside the encoding, it finds them in the page cache.
        let failed = Cancel::default();
        let (written, sources) = rayon::join(
            || file.all(encoder, plan, cache).inspect_err(|_| failed.request()),
            || hash_files(&files, &[cancel, &failed]),
        );
        written?;
        progress.end();
        Ok((sources?, kept.map_or(Unfinished::Nothing, Unfinished::Tensors)))
    }

    /// Fitted to statistics, without a text.
    fn by_statistics(&mut self) -> Result<(Vec<SourceFile>, Unfinished<'a>)> {
        let Session { progress, cancel, .. } = self.session;
        progress.begin("quantizing", self.plan.weights());
        self.fitted().by_statistics()?;
        progress.end();
        Ok((hash_files(&self.source.files(), &[cancel])?, Unfinished::Nothing))
    }

    /// Fitted to a text; where a size is asked for, in types that are chosen for it.
    fn along_text(&mut self, out: &Path) -> Result<(Vec<SourceFile>, Unfinished<'a>)> {
        let Encoding { source, options, session, .. } = *self;
        let sources = hash_files(&source.files(), &[session.cancel])?;
        let provenance = self.provenance(sources.clone());
        let mut journal = Journal::open(out, &fingerprint(&provenance), options.force)?;
        if journal.goes_on() {
            session.progress.note(&format!("going on from {}", journal.path().display()));
        }
        let mut survey = None;
        if let Some(replay) = &options.replay {
            survey.clone_from(&replay.survey);
        } else if let Some(limit) = options.size_limit {
            let Encoding { plan, encoder, stats, .. } = self;
            let chosen = SizeRequest { limit, plan, options, encoder, provenance, session }
                .choose(stats, &mut journal)?;
            self.plan = chosen.plan;
            self.file.expect(self.source, &self.plan)?;
            survey = Some(SurveyedModel { importance: chosen.importance });
        }
        self.save_plan(&sources, survey.as_ref())?;
        if self.stats.writes() {
            self.stats.for_each_layer(source, &session, |_| Ok(()))?;
        }
        let importance = match survey {
            Some(survey) => survey.importance,
            None if says_importance(options) => importance_of(source, &mut journal, &session)?,
            None => Vec::new(),
        };
        self.fitted().along_text(&importance, &mut journal, options.effort)?;
        Ok((sources, Unfinished::Journal(journal)))
    }

    fn fitted(&mut self) -> FittedFile<'_, 'a> {
        let Encoding { plan, encoder, file, stats, session, .. } = self;
        FittedFile { encoder, plan, file, stats, session: *session }
    }

    /// What META says of the origin.
    fn provenance(&self, sources: Vec<SourceFile>) -> Provenance {
        let (tool, options) = (TOOL.into(), self.recorded.clone());
        Provenance { tool, sources, requantized_from: self.source.quantized_from(), options }
    }
}

/// What the journal of a conversion is known by.
fn fingerprint(provenance: &Provenance) -> Fingerprint {
    let json = serde_json::to_vec(provenance).expect("names and numbers are JSON");
    Sha256::digest(json).into()
}
