//! Flags of a RAM budget, and opening a model with or without one, and its adapters.

use std::path::Path;

use clap::{Args, ValueEnum};
use qsf_runtime::cpu::{KvType, KvTypes};
use qsf_runtime::source::adapter::Adapter;
use qsf_runtime::source::{self, WeightSource};
use qsf_runtime::stream::{
    InUse, Io, MemoryPlan, Need, RamBudget, StreamSource, StreamStatus, StreamedModel,
};
use qsf_runtime::{KvOptions, Model, Result, RuntimeError, megabytes};
use serde_json::{Value, json};

use super::{LoraArgs, LoraReport};
use crate::byte_size::{ByteSize, positive_size};
use crate::json_document::document;

/// Flags of programs that can run a model within a RAM budget.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Memory")]
pub struct StreamArgs {
    /// Use at most so much memory, such as 200MB or 1.5GiB (a number alone is megabytes), and read the weights that do not
    /// fit from the file for every token
    #[arg(long, value_name = "SIZE", value_parser = budget)]
    pub ram_budget: Option<RamBudget>,
    /// How weights are read: without --ram-budget from a map of the file, whose pages the system keeps as it has room
    /// [default: with --ram-budget direct where the file is larger than the memory that is free, else pread]
    #[arg(long, value_enum, value_name = "WAY")]
    pub io: Option<IoArg>,
    /// With --ram-budget: show what memory is used for and how much every token reads, and stop
    #[arg(long, requires = "ram_budget")]
    pub memory_plan: bool,
    /// What is added to the model.
    #[command(flatten)]
    pub adapters: LoraArgs,
}

/// `--ram-budget`.
fn budget(text: &str) -> std::result::Result<RamBudget, String> {
    positive_size(text).map(|ByteSize(bytes)| RamBudget(bytes))
}

/// How weights are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum IoArg {
    /// From a map of the file
    Mmap,
    /// By reads through the system's cache
    Pread,
    /// By reads past the system's cache (Linux)
    Direct,
}

impl From<IoArg> for Io {
    fn from(io: IoArg) -> Io {
        match io {
            IoArg::Mmap => Io::Mmap,
            IoArg::Pread => Io::Pread,
            IoArg::Direct => Io::Direct,
        }
    }
}

/// A model that is open, and its adapters.
pub struct OpenModel {
    file: OpenFile,
    /// Until they are added to the loaded model.
    adapters: Vec<Adapter>,
    reports: Vec<LoraReport>,
}

/// Opens a model that is run without a budget.
type OpenWhole = fn(&Path) -> Result<Box<dyn WeightSource>>;

enum OpenFile {
    /// In memory or mapped, and checked, or to be checked before the first answer.
    Whole(Box<dyn WeightSource>),
    /// To be run within a budget.
    Streamed(Box<StreamSource>, RamBudget),
}

/// What a budget was spent on, and how reading goes.
pub struct Streaming {
    /// The plan.
    pub plan: MemoryPlan,
    /// The reader.
    pub status: StreamStatus,
    /// How it reads.
    pub io: Io,
}

impl StreamArgs {
    /// Opens the model at `path`, as the flags say.
    ///
    /// # Errors
    /// When it cannot be read or is damaged, or with a budget is no QSF file; when an adapter is none, or for another model.
    pub fn open(&self, path: &Path) -> Result<OpenModel> {
        self.open_by(path, source::open)
    }

    /// [`StreamArgs::open`] of a model that the processor answers with at once ([`source::open_for_answer`]).
    ///
    /// # Errors
    /// As [`StreamArgs::open`].
    pub fn open_for_answer(&self, path: &Path) -> Result<OpenModel> {
        self.open_by(path, source::open_for_answer)
    }

    fn open_by(&self, path: &Path, whole: OpenWhole) -> Result<OpenModel> {
        let mut file = self.open_file(path, whole)?;
        let adapters = self.adapters.take(file.source_mut())?;
        let reports = adapters.iter().map(LoraReport::of).collect();
        Ok(OpenModel { file, adapters, reports })
    }

    fn open_file(&self, path: &Path, whole: OpenWhole) -> Result<OpenFile> {
        let Some(budget) = self.ram_budget else {
            if self.io.is_some_and(|io| io != IoArg::Mmap) {
                let problem = "--io: weights are read in other ways than from a map with --ram-budget only";
                return Err(RuntimeError::Request(problem.into()));
            }
            return Ok(OpenFile::Whole(whole(path)?));
        };
        if path.is_dir() || source::gguf::is_gguf(path) {
            return Err(RuntimeError::Unsupported {
                path: path.to_owned(),
                what: "a RAM budget for a model that is no QSF file".into(),
                supported: "convert it with qsf-convert first".into(),
            });
        }
        source::refuse_what_is_no_model(path)?;
        let io = self.io.map_or_else(|| Io::suitable(path), Io::from);
        Ok(OpenFile::Streamed(Box::new(StreamSource::open(path, io)?), budget))
    }
}

impl OpenModel {
    /// The model's file.
    pub fn source(&self) -> &dyn WeightSource {
        self.file.source()
    }

    /// What is added to it.
    pub fn adapters(&self) -> &[Adapter] {
        &self.adapters
    }

    /// What is said of these.
    pub fn lora(&self) -> &[LoraReport] {
        &self.reports
    }

    /// Whether it runs without a budget.
    pub fn is_whole(&self) -> bool {
        matches!(self.file, OpenFile::Whole(_))
    }

    /// The type of the key/value cache, where none is asked for.
    pub fn default_kv(&self) -> KvTypes {
        match &self.file {
            OpenFile::Whole(_) => KvTypes::F16,
            OpenFile::Streamed(..) => KvTypes { keys: KvType::Q8, values: KvType::Q4 },
        }
    }

    /// Types of the key/value cache that will do where a budget has no room for the default.
    pub fn smaller_kv(&self) -> Vec<KvTypes> {
        match &self.file {
            OpenFile::Whole(_) => Vec::new(),
            OpenFile::Streamed(..) => vec![KvType::Q4.into(), KvType::Q2.into()],
        }
    }

    /// Whether a budget has room for the least that a model needs, before more memory is taken: what `need` says, and `more` bytes
    /// that will come.
    ///
    /// # Errors
    /// When the budget is too small.
    pub fn check(&self, need: Need, more: u64) -> Result<()> {
        if let OpenFile::Streamed(source, budget) = &self.file {
            let InUse { now, peak } = InUse::of_process(UNKNOWN_USE);
            MemoryPlan::new(source, need, *budget, InUse { now: now.saturating_add(more), peak })?;
        }
        Ok(())
    }

    /// The model: with a budget one that can do what `need` says, beside what the process has taken so far.
    ///
    /// # Errors
    /// When the budget is too small, or weights are damaged or cannot be read.
    pub fn load(&mut self, need: Need) -> Result<(Model, Option<Streaming>)> {
        self.load_beside(need, InUse::of_process)
    }

    /// [`OpenModel::load`] where `in_use` says what the process has taken so far, given what to say where the system does not
    /// tell: for a program that has done other things before.
    ///
    /// # Errors
    /// As [`OpenModel::load`].
    pub fn load_beside(
        &mut self,
        need: Need,
        in_use: impl FnOnce(u64) -> InUse,
    ) -> Result<(Model, Option<Streaming>)> {
        let (mut model, streaming) = match &mut self.file {
            OpenFile::Whole(source) => (Model::load(source.as_ref())?, None),
            OpenFile::Streamed(source, budget) => {
                source.drop_tokenizer_json();
                let plan = MemoryPlan::new(source, need, *budget, in_use(UNKNOWN_USE))?;
                let StreamedModel { model, plan, status } = StreamedModel::load(source, plan)?;
                (model, Some(Streaming { plan, status, io: source.io() }))
            }
        };
        model.adapt(std::mem::take(&mut self.adapters))?;
        Ok((model, streaming))
    }
}

impl OpenFile {
    fn source_mut(&mut self) -> &mut dyn WeightSource {
        match self {
            OpenFile::Whole(source) => source.as_mut(),
            OpenFile::Streamed(source, _) => source.as_mut(),
        }
    }

    fn source(&self) -> &dyn WeightSource {
        match self {
            OpenFile::Whole(source) => source.as_ref(),
            OpenFile::Streamed(source, _) => source.as_ref(),
        }
    }
}

/// What a program takes before it loads weights, where the system does not tell.
const UNKNOWN_USE: u64 = 40_000_000;

impl Streaming {
    /// What the budget had no room for, of a context of `context` positions whose keys and values are kept as `kv` says.
    pub fn concessions(&self, context: usize, kv: KvOptions) -> Option<String> {
        let mut made = Vec::new();
        if self.plan.context < context {
            made.push(format!("the context is {} tokens instead of {context} (-c, -n)", self.plan.context));
        }
        if self.plan.kv != kv {
            made.push(format!(
                "the key/value cache is {} instead of {} (--kv-type), which costs quality",
                self.plan.kv.types, kv.types
            ));
        }
        let budget = megabytes(self.plan.budget.0);
        (!made.is_empty()).then(|| format!("a RAM budget of {budget} is small: {}", made.join(", and ")))
    }

    /// A map of the memory, as text or as JSON.
    pub fn describe(&self, json: bool) -> String {
        if json {
            return format!("{:#}\n", document("memory_plan", self.to_json()));
        }
        let waited = self.status.waited().as_secs_f64();
        let waited =
            if waited > 0.0 { format!("waited {waited:.2} s for the disk\n") } else { String::new() };
        self.plan.describe(self.status.read_rate()) + &waited
    }

    /// For JSON.
    pub fn to_json(&self) -> Value {
        let regions: serde_json::Map<String, Value> =
            self.plan.regions.iter().map(|(name, bytes)| ((*name).to_owned(), json!(bytes))).collect();
        json!({
            "budget_bytes": self.plan.budget.0,
            "planned_bytes": self.plan.total(),
            "region_bytes": regions,
            "context": self.plan.context,
            "kv_type": self.plan.kv.types.to_string(),
            "prompt_step": self.plan.batch,
            "bytes_read_per_token": self.plan.bytes_per_token,
            "weight_bytes": self.plan.weight_bytes,
            "io": self.io.name(),
            "bytes_read_per_second": self.status.read_rate(),
            "waited_seconds": self.status.waited().as_secs_f64(),
        })
    }
}
