//! Section META: the JSON that makes a file self-describing (SPEC.md section 8).

use serde::{Deserialize, Serialize};

use crate::model_config::ModelConfig;
use crate::quant_type::QuantType;

/// The schema version in META.
pub const META_VERSION: u32 = 1;

/// Everything in META. Unknown fields are ignored here (they may inform) but refused inside `model` (they would change
/// results). Holds no time, host name or absolute path: the same input gives the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// [`META_VERSION`].
    pub version: u32,
    /// The architecture.
    pub model: ModelConfig,
    /// Where the weights came from and how they were converted.
    pub provenance: Provenance,
    /// One record per tensor, in file order; the token embedding first.
    pub tensors: Vec<TensorRecord>,
}

/// Where a file came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Name and version of the writer.
    pub tool: String,
    /// The files that were read, by name without directory.
    pub sources: Vec<SourceFile>,
    /// Types that the sources' tensors were quantized to before they were quantized again, by the names of other tools;
    /// empty for a source at full precision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requantized_from: Vec<String>,
    /// Options that influence the bytes, normalised: every one with its value, defaults included.
    pub options: serde_json::Map<String, serde_json::Value>,
}

/// One source file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceFile {
    /// File name without directory.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256, lower-case hexadecimal.
    pub sha256: String,
}

/// What was decided for a tensor and how well it came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TensorRecord {
    /// Layer, absent for tensors of the model as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<u32>,
    /// Kind, by name.
    pub kind: String,
    /// Rows.
    pub rows: u32,
    /// Values per row.
    pub cols: u32,
    /// Stored type.
    #[serde(rename = "type")]
    pub quant: QuantType,
    /// Type that the plan asked for, where the values did not fit it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promoted_from: Option<QuantType>,
    /// Weights that are stored apart from the blocks (section OUTL).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub outliers: u64,
    /// Cosine between original and stored values, where it is known.
    #[serde(default, skip_serializing_if = "is_no_number")]
    pub cosine: Option<f64>,
    /// Norm of the difference over norm of the original, where it is known and finite.
    #[serde(default, skip_serializing_if = "is_no_number")]
    pub relative_error: Option<f64>,
    /// Largest absolute difference, where it is known and finite.
    #[serde(default, skip_serializing_if = "is_no_number")]
    pub max_abs_error: Option<f64>,
}

impl TensorRecord {
    /// The cosine; 0, which reaches no limit, where it is not known.
    pub fn cosine_or_zero(&self) -> f64 {
        self.cosine.unwrap_or(0.0)
    }
}

/// What JSON has no number for: left out, as if it were not known.
fn is_no_number(measure: &Option<f64>) -> bool {
    !measure.is_some_and(f64::is_finite)
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}
