//! The conversion: tensors from a source, planned, encoded, streamed into a file. At most one layer of output and one run of
//! rows of input per thread are in memory; with a calibration text also the hidden states of its tokens.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use qsf_calibration::LayerStats;
use qsf_format::{
    CodeTables, EarlyExits, FormatError, MAX_CLUSTERS, META_VERSION, MIXED, Meta, Provenance, QuantType,
    SourceFile, TensorId, TensorKind, TensorRecord, VocabClusters, stored_section_bytes,
};
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress, Unwatched};
use qsf_runtime::source::WeightSource;
use qsf_runtime::tokenizer::Tokenizer;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::choose::refine::Refinement;
use crate::choose::survey::{survey, types_to_choose, unmeasured};
use crate::encode::tensor::{Job, Tools};
use crate::error::{ConvertError, Result};
use crate::fit::passes::{write_fitted, write_fitted_by_statistics};
use crate::fit::statistics::StatsFiles;
use crate::limits::rejected_path;
use crate::options::{ConvertOptions, SearchEffort};
use crate::plan::{Candidate, Plan, PlanError, PlannedTensor, SizeModel, StoredForm, plan_for_size};
use crate::resume::journal::{Fingerprint, Journal};
use crate::resume::tensor_cache::KeptTensors;
use crate::sections::clusters::clusters_of_file;
use crate::sections::evaluation::evaluate_file;
use crate::sections::exits::{self, exits_of_file};
use crate::sections::provenance::{TOOL, hash_files};

/// What a conversion did.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// Which tensor got which type.
    pub plan: Arc<Plan>,
    /// One record per tensor, in file order.
    pub tensors: Vec<TensorRecord>,
    /// The vocabulary clusters, where they were asked for.
    pub clusters: Option<VocabClusters>,
    /// Where the model may be left early, where that was asked for.
    pub early_exits: Option<EarlyExits>,
    /// How good the file is, where that was asked for: what section EVAL says.
    pub evaluation: Option<Value>,
    /// Where the file is: under the name that was asked for, or [`rejected_path`] where it misses its limits.
    pub path: PathBuf,
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
    refuse_own_input(source, out)?;
    refuse_old_rejected(out, options)?;
    check_cluster_count(source, options)?;
    check_layer_count(source, options)?;
    // What goes on from tensors that are kept was checked before they were made: many restarts of quick work shall not do it
    // again each time.
    let keeps = options.keep_tensors && options.calibration.is_none() && options.stats_in.is_empty();
    if !keeps {
        check_tokenizer(source, options.skip_tokenizer_check)?;
    }
    let plan = Plan::new(source.tensors(), options.recipe, &options.overrides, options.outliers.share())?;
    let requantized_from = source.quantized_from();
    let quantizes = plan.quantizes() || options.size_limit.is_some();
    if !requantized_from.is_empty() && quantizes && !options.allow_requantize {
        return Err(ConvertError::Requantize {
            path: source.path().to_owned(),
            types: requantized_from.join(", "),
        });
    }
    let tables = Arc::new(CodeTables::default());
    let tokens = options.calibration.as_ref().map_or(&[][..], |calibration| &calibration.tokens);
    // Where a text goes through the model, tokens are counted, not weights.
    let counted = if options.calibration.is_some() { &Unwatched } else { progress };
    let mut job =
        Job::begin(source, out, plan, options, &tables, &Tools { cpu, tokens, progress: counted, cancel })?;
    let files = source.files();
    let mut stats =
        StatsFiles::open(source, &options.stats_in, options.stats_out.clone(), tokens, options.force)?;
    let mut recorded = options.normalised();
    recorded.insert("statistics".into(), json!(stats.texts()));
    let provenance = |sources| Provenance {
        tool: TOOL.into(),
        sources,
        requantized_from: requantized_from.clone(),
        options: recorded.clone(),
    };
    let mut journal = None;
    // Until the file has its name.
    let mut kept = KeptTensors::none(cancel);
    let sources = match &options.calibration {
        None if !options.stats_in.is_empty() => {
            let tools = Tools { cpu, tokens: &[], progress, cancel };
            progress.begin("quantizing", job.weights());
            write_fitted_by_statistics(&mut job, &mut stats, &tools)?;
            progress.end();
            hash_files(&files, &[cancel])?
        }
        None => {
            if keeps {
                let mut with = recorded.clone();
                with.insert("tokenizer compared".into(), json!(!options.skip_tokenizer_check));
                kept = KeptTensors::open(out, &files, &with, progress, cancel)?;
                if !kept.goes_on() {
                    check_tokenizer(source, options.skip_tokenizer_check)?;
                }
            }
            progress.begin("converting", job.weights());
            // Hashing reads the same files: beside the encoding, it finds them in the page cache.
            let failed = Cancel::default();
            let (written, sources) = rayon::join(
                || job.write_all(&kept).inspect_err(|_| failed.request()),
                || hash_files(&files, &[cancel, &failed]),
            );
            written?;
            progress.end();
            sources?
        }
        Some(_) => {
            let sources = hash_files(&files, &[cancel])?;
            let provenance = provenance(sources.clone());
            let journal = journal.insert(Journal::open(out, &fingerprint(&provenance), options.force)?);
            if journal.goes_on() {
                progress.note(&format!("going on from {}", journal.path().display()));
            }
            let tools = Tools { cpu, tokens, progress, cancel };
            let surveyed = match options.size_limit {
                Some(limit) => {
                    let stats = &mut stats;
                    let chosen = choose_types(&mut job, limit, provenance, options, stats, journal, &tools)?;
                    Some((chosen.head, chosen.importance))
                }
                None => None,
            };
            write_fitted(&mut job, journal, &tables, surveyed, &mut stats, options.effort, &tools)?;
            sources
        }
    };
    let meta = Meta {
        version: META_VERSION,
        model: source.config().clone(),
        provenance: provenance(sources),
        tensors: std::mem::take(&mut job.records),
    };
    cancel.check()?;
    let (weights, header_id) = (job.weights(), header_id(options));
    let mut file = job.writer.complete(&meta, header_id, source.tokenizer_json(), source.chat_template())?;
    let clusters = match &options.clusters {
        Some(wanted) => Some(clusters_of_file(file.path(), wanted, cpu, progress, cancel)?),
        None => None,
    };
    if let Some(clusters) = &clusters {
        file.append_clusters(clusters)?;
    }
    let early_exits = match &options.early_exit {
        Some(text) => Some(exits_of_file(file.path(), text, cpu, progress, cancel)?),
        None => None,
    };
    if let Some(exits) = &early_exits {
        file.append_early_exits(exits)?;
    }
    let evaluation = match &options.evaluation {
        Some(text) => Some(evaluate_file(file.path(), source, text, cpu, progress, cancel)?),
        None => None,
    };
    if let Some(evaluation) = &evaluation {
        file.append_evaluation(evaluation.to_string().as_bytes())?;
    }
    let bytes = fs::metadata(file.path()).map_err(|e| ConvertError::io(file.path(), "read", e))?.len();
    if let Some(limit) = options.size_limit.filter(|limit| bytes > *limit) {
        return Err(ConvertError::OverTarget { path: out.to_owned(), limit, bytes });
    }
    let missed = options.limits.missed(bytes, evaluation.as_ref());
    let path = if missed.is_empty() { out.to_owned() } else { rejected_path(out) };
    let file_bytes = file.publish_as(&path)?;
    if let Some(journal) = journal {
        journal.remove();
    }
    kept.remove();
    let seconds = started.elapsed().as_secs_f64();
    Ok(Conversion {
        plan: job.plan,
        tensors: meta.tensors,
        clusters,
        early_exits,
        evaluation,
        path,
        missed,
        sources: meta.provenance.sources,
        file_bytes,
        weights,
        seconds,
    })
}

/// What was measured to choose types for a size.
pub(crate) struct ChosenTypes {
    /// What the head reads in the unchanged model.
    pub head: LayerStats,
    /// Divergence of the model's predictions without each layer.
    pub importance: Vec<f32>,
    /// Sum of the damages of the types that were chosen.
    pub damage: f64,
}

/// Gives the job types for a size.
pub(crate) fn choose_types(
    job: &mut Job<'_>,
    limit: u64,
    provenance: Provenance,
    options: &ConvertOptions,
    stats: &mut StatsFiles,
    journal: &mut Journal,
    tools: &Tools<'_>,
) -> Result<ChosenTypes> {
    job.plan = Arc::new(as_stored(job)?);
    let free = |planned: &PlannedTensor| {
        let id = planned.info.id;
        let fixed = options.overrides.iter().any(|rule| rule.names(id));
        !fixed && id.kind.is_matrix() && planned.quant == options.recipe.assign(id) && may_be_chosen(id)
    };
    let sections = section_sizes(job, provenance, options)?;
    let (config, block) = (job.source.config(), options.block);
    let size = SizeModel { config, block, layout: options.layout, sections: &sections };
    // Said now, not after minutes of measuring.
    plan_for_size(&job.plan, &unmeasured(&job.plan, free), limit, &size)?;
    let survey = survey(job, free, types_to_choose, stats, journal, tools)?;
    let candidates: Vec<Candidate> = survey
        .tensors
        .iter()
        .filter_map(|t| Some(Candidate { id: t.id()?, options: t.options.clone() }))
        .collect();
    let (plan, damage) =
        plan_for_size(&job.plan, &candidates, limit, &size).map_err(|e| match (e, options.min_cosine) {
            // All types together were small enough.
            (PlanError::TooSmall { limit, least }, Some(wanted)) => {
                ConvertError::CosineTooLarge { limit, least, wanted }
            }
            (e, _) => e.into(),
        })?;
    job.plan = Arc::new(plan);
    if options.effort == SearchEffort::Max {
        Refinement { candidates: &candidates, limit, size }.run(job, stats, journal, tools)?;
    }
    Ok(ChosenTypes { head: survey.head, importance: survey.importance, damage })
}

/// The plan with the types of those tensors that the planned ones have no range for: their bytes count.
fn as_stored(job: &Job<'_>) -> Result<Plan> {
    let mut plan = Plan::clone(&job.plan);
    for planned in job.plan.tensors() {
        let tensor = job.source.load(planned.info.id)?;
        let quant = job.encoder.choose_type(&planned.info, &tensor, planned.quant)?;
        plan.set(planned.info.id, StoredForm { quant, ..planned.form() });
    }
    Ok(plan)
}

/// Whether the type of a tensor may follow from a size: routers and positions keep the recipe's.
fn may_be_chosen(id: TensorId) -> bool {
    !matches!(id.kind, TensorKind::Router | TensorKind::RopeFactors | TensorKind::Positions)
}

/// Stored bytes of META, about: its figures are not known yet.
pub(crate) fn meta_bytes(job: &Job<'_>, provenance: Provenance) -> Result<u64> {
    let records = job.plan.tensors().iter().enumerate().map(|(i, planned)| {
        // Digits that compress as badly as those of real figures.
        let noise = |salt: u64| {
            let mut z = (i as u64 * 4 + salt).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            (z ^ (z >> 31)) as f64 / 2f64.powi(70)
        };
        planned.record(planned.quant, noise(0), noise(1), noise(2))
    });
    let meta = Meta {
        version: META_VERSION,
        model: job.source.config().clone(),
        provenance,
        tensors: records.collect(),
    };
    let json = serde_json::to_vec(&meta).expect("finite numbers and names are JSON");
    Ok(stored_section_bytes(&json)?)
}

/// Stored bytes of the sections that are no tensors, at most.
fn section_sizes(job: &Job<'_>, provenance: Provenance, options: &ConvertOptions) -> Result<Vec<u64>> {
    let mut sizes = vec![meta_bytes(job, provenance)? + META_RESERVE];
    for section in [job.source.tokenizer_json(), job.source.chat_template()].into_iter().flatten() {
        sizes.push(stored_section_bytes(section)?);
    }
    if let Some(clusters) = &options.clusters {
        sizes.push(clusters.section_bytes(job.source.config()));
    }
    if options.early_exit.is_some() {
        sizes.push(exits::section_bytes(job.source.config()));
    }
    if options.evaluation.is_some() {
        sizes.push(EVALUATION_RESERVE);
    }
    sizes.push(CodeTables::default().to_bytes(&QuantType::ALL).len() as u64);
    Ok(sizes)
}

/// More bytes than an evaluation takes.
const EVALUATION_RESERVE: u64 = 1024;
/// Bytes that META may take more than predicted.
const META_RESERVE: u64 = 1024;

/// The type that the file header names.
fn header_id(options: &ConvertOptions) -> u8 {
    if options.size_limit.is_some() { MIXED } else { options.recipe.header_id() }
}

/// What the journal of a conversion is known by.
fn fingerprint(provenance: &Provenance) -> Fingerprint {
    let json = serde_json::to_vec(provenance).expect("names and numbers are JSON");
    Sha256::digest(json).into()
}

/// Said now, not when everything else is done.
fn check_cluster_count(source: &dyn WeightSource, options: &ConvertOptions) -> Result<()> {
    let (vocab, count) = (source.config().vocab, options.clusters.as_ref().map_or(1, |c| c.count));
    let most = vocab.min(MAX_CLUSTERS);
    if (1..=most).contains(&count) {
        return Ok(());
    }
    let problem = format!("--clusters {count}: expected 1 to {most} for a vocabulary of {vocab}");
    Err(RuntimeError::Request(problem).into())
}

/// A model of one layer has none to leave it behind: said now, not when everything else is done.
fn check_layer_count(source: &dyn WeightSource, options: &ConvertOptions) -> Result<()> {
    if options.early_exit.is_none() || source.config().layers > 1 {
        return Ok(());
    }
    Err(RuntimeError::Request("--early-exit: a model of one layer cannot be left before its last".into())
        .into())
}

/// A tokenizer that no reader could use, or that is not what the source says, is found now, not by whoever gets the file.
fn check_tokenizer(source: &dyn WeightSource, skip_comparison: bool) -> Result<()> {
    let Some(json) = source.tokenizer_json() else { return Ok(()) };
    let tokenizer = Tokenizer::from_json(json, &source.path().join("tokenizer.json"))?;
    if !skip_comparison {
        source.check_tokenizer(&tokenizer).map_err(ConvertError::TokenizerDiffers)?;
    }
    Ok(())
}

/// What misses its limits gets another name, which may be taken as well.
fn refuse_old_rejected(out: &Path, options: &ConvertOptions) -> Result<()> {
    let path = rejected_path(out);
    if options.limits.any() && !options.force && path.symlink_metadata().is_ok() {
        return Err(FormatError::Exists { path }.into());
    }
    Ok(())
}

/// An output that is one of the inputs would destroy it, `--force` or not.
pub(crate) fn refuse_own_input(source: &dyn WeightSource, out: &Path) -> Result<()> {
    let Ok(out_path) = out.canonicalize() else { return Ok(()) };
    let is_input = source.files().iter().any(|file| file.canonicalize().is_ok_and(|f| f == out_path));
    if is_input { Err(ConvertError::OutputIsInput { path: out.to_owned() }) } else { Ok(()) }
}
