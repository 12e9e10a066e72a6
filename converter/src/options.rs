//! What can be chosen about a conversion.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use qsf_calibration::{SELF_SEED, TextPart};
use qsf_format::{BlockSize, Compression, Layout};
use serde_json::{Map, Value, json};

use crate::dtype::HfOut;
use crate::limits::Limits;
use crate::plan::{Container, GgufRecipe, OutlierShare, Recipe, TensorType, TypeOverride};
use crate::replay::Replay;

/// Choices of a conversion: everything that influences the bytes of the output, and what the user permits.
#[derive(Debug, Clone)]
pub struct ConvertOptions {
    /// What each adapter was multiplied with that was added to the source. Its files are among those of the source.
    pub merged_scales: Vec<f32>,
    /// Types by tensor kind.
    pub recipe: Recipe,
    /// Write a GGUF file, with the types of this recipe instead.
    pub gguf: Option<GgufRecipe>,
    /// Write a HuggingFace directory with the values that the file would have.
    pub hf: Option<HfOut>,
    /// Most bytes of the values in a GGUF file: a larger model makes several files, by the rule of llama-gguf-split. The files do
    /// not name it, for the model is the same.
    pub split_size: Option<u64>,
    /// Weights that are stored apart from the blocks.
    pub outliers: OutlierChoice,
    /// Least cosine between a matrix and its stored form: one that has less goes on to a larger type; where types are chosen
    /// for a size, only such are.
    pub min_cosine: Option<f64>,
    /// Exceptions to the recipe.
    pub overrides: Vec<TypeOverride>,
    /// Values per block, of types whose blocks have no size of their own.
    pub block: BlockSize,
    /// Compression of layers and embedding.
    pub compression: Compression,
    /// Order of the blocks of every tensor that can have it; the others are in rows.
    pub layout: Layout,
    /// Replace an output that is there, and discard what an unfinished other conversion left beside it.
    pub force: bool,
    /// Keep tensors that are done beside the output until it is, so that a conversion that is killed need not encode them again.
    /// With a calibration text that is always so.
    pub keep_tensors: bool,
    /// Do not compare the tokenizer with what the source says of it.
    pub skip_tokenizer_check: bool,
    /// Quantize what was quantized before.
    pub allow_requantize: bool,
    /// Text that shows which errors matter.
    pub calibration: Option<Calibration>,
    /// Statistics of this model in files, added up: what a text would show otherwise. Without a calibration text the
    /// weights are fitted to them alone.
    pub stats_in: Vec<PathBuf>,
    /// Where to write the statistics of the calibration text.
    pub stats_out: Option<PathBuf>,
    /// Choose the type of every matrix so that the file has at most so many bytes and does least damage. Needs a
    /// calibration; overrides still hold.
    pub size_limit: Option<u64>,
    /// Among which types of GGUF files that choice is; where there are none, among those that pay.
    pub gguf_types: Vec<TensorType>,
    /// How long to search for what does least damage.
    pub effort: SearchEffort,
    /// Group the tokens of the vocabulary, so that the model can be run by the likeliest of them.
    pub clusters: Option<ClusterOptions>,
    /// Learn from a text when the model may be left before its last layer.
    pub early_exit: Option<Calibration>,
    /// Evaluate what was written against the source, and store the result in the file.
    pub evaluation: Option<EvaluationText>,
    /// What the file must reach to get its name.
    pub limits: Limits,
    /// What stands for the types in names of files, such as `4bit` or `24MB`.
    pub named: String,
    /// What a plan has decided; the other options are the plan's then.
    pub replay: Option<Replay>,
    /// Where to write the plan, as soon as types are chosen.
    pub save_plan: Option<PathBuf>,
}

impl Default for ConvertOptions {
    /// What `qsf-convert MODEL` does: the recipe that is the default, fitted to nothing.
    fn default() -> ConvertOptions {
        ConvertOptions {
            merged_scales: Vec::new(),
            recipe: Recipe::DEFAULT,
            gguf: None,
            hf: None,
            split_size: None,
            outliers: OutlierChoice::OFF,
            min_cosine: None,
            overrides: Vec::new(),
            block: BlockSize::B64,
            compression: Compression::None,
            layout: Layout::Panels16,
            force: false,
            keep_tensors: false,
            skip_tokenizer_check: false,
            allow_requantize: false,
            calibration: None,
            stats_in: Vec::new(),
            stats_out: None,
            size_limit: None,
            gguf_types: Vec::new(),
            effort: SearchEffort::Normal,
            clusters: None,
            early_exit: None,
            evaluation: None,
            limits: Limits::default(),
            named: Recipe::DEFAULT.name().to_owned(),
            replay: None,
            save_plan: None,
        }
    }
}

/// How long to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchEffort {
    /// A third of that, for a few percent more divergence.
    Low,
    /// As long as pays.
    #[default]
    Normal,
    /// Gradients of more tokens, and more paths through a trellis.
    High,
    /// Several times that, for the last few percent: types for a size are checked on the model as a whole, which is tuned at the end.
    Max,
}

impl SearchEffort {
    /// The name that `--effort` takes.
    pub const fn name(self) -> &'static str {
        match self {
            SearchEffort::Low => "low",
            SearchEffort::Normal => "normal",
            SearchEffort::High => "high",
            SearchEffort::Max => "max",
        }
    }
}

/// Which weights of block-quantized matrices are stored apart from the blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutlierChoice {
    /// So large a part of every matrix; overrides may say otherwise.
    Share(OutlierShare),
    /// Where types are chosen for a size: of each matrix as many as pay for their bytes.
    Auto,
}

impl OutlierChoice {
    /// None.
    pub const OFF: OutlierChoice = OutlierChoice::Share(OutlierShare::NONE);

    /// The part that every matrix has apart, unless something else is chosen for it.
    pub const fn share(self) -> OutlierShare {
        match self {
            OutlierChoice::Share(share) => share,
            OutlierChoice::Auto => OutlierShare::NONE,
        }
    }
}

/// What stands for the choice on the command line, in META and in plans.
impl fmt::Display for OutlierChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            OutlierChoice::OFF => f.write_str("off"),
            OutlierChoice::Share(share) => share.fmt(f),
            OutlierChoice::Auto => f.write_str("auto"),
        }
    }
}

impl FromStr for OutlierChoice {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Ok(match s {
            "off" => OutlierChoice::OFF,
            "auto" => OutlierChoice::Auto,
            _ => OutlierChoice::Share(s.parse().map_err(|error| format!("{error}; or off, or auto"))?),
        })
    }
}

/// A calibration text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Calibration {
    /// The files that it is of; none where it is the built-in text.
    pub files: Vec<PathBuf>,
    /// Tokens that were asked for.
    pub most_tokens: usize,
    /// Its tokens.
    pub tokens: Vec<u32>,
    /// SHA-256 of the text, lower-case hexadecimal; of several documents one behind the other.
    pub text_sha256: String,
    /// Whether conversations went through the model's chat template.
    pub chat_template: bool,
    /// What each file gave, or the built-in text.
    pub parts: Vec<TextPart>,
    /// What the model writes of it.
    pub written: Option<Written>,
}

impl Calibration {
    /// What stands among the files for text that the model writes; a file of this name is `./self`.
    pub const SELF: &str = "self";

    /// Whether `file` stands for text that the model writes.
    pub fn is_written(file: &Path) -> bool {
        file == Path::new(Calibration::SELF)
    }
}

/// Text that the model writes: a part of a calibration text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Where it is among the tokens; they are 0 until it is written.
    pub at: Range<usize>,
    /// Whether it is.
    pub done: bool,
    /// SHA-256 that the whole text must have then: that of the plan that it is of.
    pub expected: Option<String>,
}

/// Vocabulary clusters to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterOptions {
    /// How many, at most.
    pub count: u32,
    /// The text to measure them on.
    pub text: Calibration,
}

/// A text to evaluate on, and how much of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluationText {
    /// The file that it is of.
    pub file: PathBuf,
    /// As many tokens as are needed, at least a chunk.
    pub tokens: Vec<u32>,
    /// Hash of the whole text, lower-case hexadecimal.
    pub text_sha256: String,
    /// The token that the tokenizer puts before a text, where it does.
    pub bos: Option<u32>,
    /// Tokens per chunk.
    pub ctx: usize,
    /// Chunks; all whole ones of the text without it.
    pub chunks: Option<usize>,
}

impl ConvertOptions {
    /// All texts that it reads.
    pub(crate) fn calibrations(&self) -> Vec<&Calibration> {
        let clusters = self.clusters.as_ref().map(|clusters| &clusters.text);
        [self.calibration.as_ref(), clusters, self.early_exit.as_ref()].into_iter().flatten().collect()
    }

    /// The same, to be changed.
    pub(crate) fn calibrations_mut(&mut self) -> Vec<&mut Calibration> {
        let clusters = self.clusters.as_mut().map(|clusters| &mut clusters.text);
        [self.calibration.as_mut(), clusters, self.early_exit.as_mut()].into_iter().flatten().collect()
    }

    /// Whether the model writes one of them.
    pub(crate) fn has_model_write(&self) -> bool {
        self.calibrations().iter().any(|text| text.written.is_some())
    }

    /// Whether every tensor has a type of its own, as it follows from a size or as somebody has edited a plan.
    pub(crate) fn types_chosen(&self) -> bool {
        self.size_limit.is_some() || self.replay.as_ref().is_some_and(|replay| replay.chosen || replay.edited)
    }

    /// What types are chosen for where there is a choice.
    pub(crate) fn container(&self) -> Container {
        match (self.hf.and_then(|hf| hf.groups), self.gguf) {
            (Some(_), _) => Container::Groups,
            (None, Some(_)) => Container::Gguf,
            (None, None) => Container::Qsf,
        }
    }

    /// Name of the recipe.
    pub fn quant_name(&self) -> &'static str {
        match self.hf.and_then(|hf| hf.groups) {
            Some(groups) => groups.scheme.name(),
            None => self.gguf.as_ref().map_or(self.recipe.name(), GgufRecipe::name),
        }
    }

    /// Everything that influences the bytes, each with its value: the same for the same bytes.
    pub(crate) fn normalised(&self) -> Map<String, Value> {
        let overrides: Vec<String> = self.overrides.iter().map(ToString::to_string).collect();
        let calibration = self.calibration.as_ref();
        let calibrated = calibration.is_some();
        let text = |c: &Calibration| {
            let mut text = json!({ "text_sha256": c.text_sha256, "tokens": c.tokens.len(), "chat_template": c.chat_template });
            if let Some(written) = &c.written {
                text["written_by_model"] = json!({ "seed": SELF_SEED, "tokens": written.at.len() });
            }
            text
        };
        let calibration = calibration.map(text);
        let clusters = self.clusters.as_ref();
        let clusters = clusters.map(|c| json!({ "count": c.count, "text": text(&c.text) }));
        [
            ("quant", if self.types_chosen() { Value::Null } else { json!(self.quant_name()) }),
            ("block_size", json!(u16::from(self.block))),
            ("compress", json!(self.compression.name())),
            ("layout", json!(self.layout.name())),
            ("outliers", json!(self.outliers.to_string())),
            ("min_cosine", json!(self.min_cosine)),
            ("tensor_type", json!(overrides)),
            ("calibration", json!(calibration)),
            ("size_limit", json!(self.size_limit)),
            ("effort", json!(calibrated.then_some(self.effort.name()))),
            ("clusters", json!(clusters)),
        ]
        .into_iter()
        // Where it is not asked for, files stay as they were before there was such a thing.
        .chain((!self.merged_scales.is_empty()).then(|| ("merge_lora", json!(self.merged_scales))))
        .chain(self.hf.map(|hf| ("hf", json!(hf))))
        .chain((!self.gguf_types.is_empty()).then(|| ("gguf_types", json!(self.gguf_types))))
        .chain(self.early_exit.as_ref().map(|exits| ("early_exit", json!(text(exits)))))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
    }
}
