//! The options of a conversion as a plan has them: everything that decides the bytes of the file, texts by path and hash.

use std::path::PathBuf;
use std::str::FromStr;

use qsf_format::{BlockSize, Compression, Layout, QuantType};
use qsf_runtime::source::WeightSource;
use serde::{Deserialize, Serialize};

use super::text::{SavedEvaluation, SavedText, Texts};
use crate::dtype::HfOut;
use crate::error::Result;
use crate::options::{ClusterOptions, ConvertOptions, OutlierChoice, SearchEffort};
use crate::plan::{GgufRecipe, Recipe, TensorType, TypeOverride};

const COMPRESSIONS: [Compression; 4] =
    [Compression::None, Compression::Lz4, Compression::Lz4Hc, Compression::Zstd];
const LAYOUTS: [Layout; 2] = [Layout::Rows, Layout::Panels16];
const QSF: &str = "qsf";
const GGUF: &str = "gguf";
const HF: &str = "hf";
const COMPRESSED: &str = "compressed-tensors";
const MLX: &str = "mlx";
const EFFORTS: [SearchEffort; 4] =
    [SearchEffort::Low, SearchEffort::Normal, SearchEffort::High, SearchEffort::Max];

/// Options of a conversion.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedOptions {
    /// The format of the file: `qsf`, `gguf`, `hf` or `compressed-tensors`.
    pub to: String,
    quant: String,
    tensor_type: Vec<String>,
    outliers: String,
    min_cosine: Option<f64>,
    block_size: u16,
    compress: String,
    layout: String,
    /// Bytes that the file has at most.
    pub size_limit: Option<u64>,
    /// Types of GGUF files among which is chosen for that; those that pay, where there are none.
    #[serde(default)]
    gguf_types: Vec<TensorType>,
    effort: String,
    pub calibration: Option<SavedText>,
    pub stats_in: Vec<PathBuf>,
    /// What the statistics are of.
    pub stats_texts: Option<Vec<String>>,
    clusters: Option<SavedClusters>,
    early_exit: Option<SavedText>,
    pub evaluation: Option<SavedEvaluation>,
    /// Of a HuggingFace directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hf: Option<HfOut>,
}

/// Vocabulary clusters to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedClusters {
    count: u32,
    text: SavedText,
}

impl SavedOptions {
    /// Those of a conversion whose `--stats-in` files are of texts with the fingerprints `stats_texts`.
    pub fn of(options: &ConvertOptions, stats_texts: Option<&[String]>) -> SavedOptions {
        let clusters = options.clusters.as_ref();
        SavedOptions {
            to: format_of(options).to_owned(),
            hf: options.hf,
            quant: options.quant_name().to_owned(),
            tensor_type: options.overrides.iter().map(ToString::to_string).collect(),
            outliers: options.outliers.to_string(),
            min_cosine: options.min_cosine,
            block_size: options.block.into(),
            compress: options.compression.name().to_owned(),
            layout: options.layout.name().to_owned(),
            size_limit: options.size_limit,
            gguf_types: options.gguf_types.clone(),
            effort: options.effort.name().to_owned(),
            calibration: options.calibration.as_ref().map(SavedText::of),
            stats_in: options.stats_in.clone(),
            stats_texts: stats_texts.map(<[String]>::to_vec),
            clusters: clusters.map(|c| SavedClusters { count: c.count, text: SavedText::of(&c.text) }),
            early_exit: options.early_exit.as_ref().map(SavedText::of),
            evaluation: options.evaluation.as_ref().map(SavedEvaluation::of),
        }
    }

    /// What they stand for, with the texts read by the tokenizer of `source`.
    ///
    /// # Errors
    /// When one of them means nothing, or a text is missing or has changed.
    pub fn restore(
        &self,
        source: &dyn WeightSource,
        texts: &Texts<'_>,
        refused: &dyn Fn(String) -> crate::ConvertError,
    ) -> Result<ConvertOptions> {
        let rules: Result<Vec<TypeOverride>, String> =
            self.tensor_type.iter().map(|rule| rule.parse()).collect();
        let block = BlockSize::from_str(&self.block_size.to_string());
        let clustered = self.clusters.as_ref().map(|clusters| &clusters.text);
        texts.all_used(self.calibration.iter().chain(clustered).chain(&self.early_exit), &self.stats_in)?;
        let text = |saved: &SavedText| texts.calibration(source, saved);
        let clusters = match &self.clusters {
            Some(SavedClusters { count, text: saved }) => {
                Some(ClusterOptions { count: *count, text: text(saved)? })
            }
            None => None,
        };
        let (recipe, gguf) = match self.to.as_str() {
            HF if self.hf.is_none() => return Err(refused("to 'hf' without a type of values".into())),
            to @ (COMPRESSED | MLX) => match self.hf.and_then(|hf| hf.groups) {
                // What is not in groups keeps its values.
                Some(groups) if groups.scheme.is_mlx() == (to == MLX) => {
                    (Recipe::Uniform(QuantType::F32), None)
                }
                _ => return Err(refused(format!("to '{to}' without a scheme of its own"))),
            },
            HF => match self.quant.parse::<Recipe>() {
                Ok(recipe) => (recipe, None),
                Err(_) => (ConvertOptions::default().recipe, Some(self.quant.parse().map_err(refused)?)),
            },
            QSF => (self.quant.parse::<Recipe>().map_err(refused)?, None),
            GGUF => {
                (ConvertOptions::default().recipe, Some(self.quant.parse::<GgufRecipe>().map_err(refused)?))
            }
            other => return Err(refused(format!("to '{other}'"))),
        };
        Ok(ConvertOptions {
            recipe,
            gguf,
            hf: self.hf.filter(|_| [HF, COMPRESSED, MLX].contains(&self.to.as_str())),
            overrides: rules.map_err(refused)?,
            outliers: self.outliers.parse::<OutlierChoice>().map_err(refused)?,
            min_cosine: self.min_cosine,
            block: block.map_err(|error| refused(error.to_string()))?,
            compression: named("compress", &self.compress, COMPRESSIONS, Compression::name)
                .map_err(refused)?,
            layout: named("layout", &self.layout, LAYOUTS, Layout::name).map_err(refused)?,
            size_limit: self.size_limit,
            gguf_types: self.gguf_types.clone(),
            effort: named("effort", &self.effort, EFFORTS, SearchEffort::name).map_err(refused)?,
            calibration: self.calibration.as_ref().map(text).transpose()?,
            stats_in: texts.statistics(&self.stats_in),
            clusters,
            early_exit: self.early_exit.as_ref().map(text).transpose()?,
            evaluation: texts.evaluation(source, self.evaluation.as_ref())?,
            ..ConvertOptions::default()
        })
    }
}

fn format_of(options: &ConvertOptions) -> &'static str {
    match (options.hf, options.gguf) {
        (Some(hf), _) => match hf.groups {
            Some(groups) if groups.scheme.is_mlx() => MLX,
            Some(_) => COMPRESSED,
            None => HF,
        },
        (None, Some(_)) => GGUF,
        (None, None) => QSF,
    }
}

fn named<T: Copy, const N: usize>(
    option: &str,
    found: &str,
    all: [T; N],
    name: impl Fn(T) -> &'static str,
) -> Result<T, String> {
    all.into_iter().find(|value| name(*value) == found).ok_or_else(|| format!("{option} '{found}'"))
}
