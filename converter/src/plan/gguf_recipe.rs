//! What `--quant` asks for in a GGUF file: the recipes of llama-quantize by their names, with the types that it gives each tensor
//! (`llama_tensor_get_type_impl` in llama.cpp's src/llama-quant.cpp, version of llama-cpp-python 0.3.36).

use std::fmt;
use std::str::FromStr;

use qsf_format::{ModelConfig, TensorId, TensorKind};
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::source::TensorInfo;

use super::tensor_type::TensorType;

/// A recipe of llama-quantize.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GgufRecipe {
    name: &'static str,
    /// Number of the recipe in `general.file_type`.
    file_type: u32,
    /// What tensors get that no rule is about.
    default: GgmlType,
}

/// Every recipe that can be made, as llama-quantize lists them.
const ALL: [GgufRecipe; 33] = {
    use GgmlType::*;
    const fn recipe(name: &'static str, file_type: u32, default: GgmlType) -> GgufRecipe {
        GgufRecipe { name, file_type, default }
    }
    [
        recipe("Q4_0", 2, Q4_0),
        recipe("Q4_1", 3, Q4_1),
        recipe("Q5_0", 8, Q5_0),
        recipe("Q5_1", 9, Q5_1),
        recipe("MXFP4_MOE", 38, MXFP4),
        recipe("IQ2_XXS", 19, IQ2_XXS),
        recipe("IQ2_XS", 20, IQ2_XS),
        recipe("IQ2_S", 28, IQ2_XS),
        recipe("IQ2_M", 29, IQ2_S),
        recipe("IQ1_S", 24, IQ1_S),
        recipe("IQ1_M", 31, IQ1_M),
        recipe("TQ1_0", 36, TQ1_0),
        recipe("TQ2_0", 37, TQ2_0),
        recipe("Q2_K", 10, Q2_K),
        recipe("Q2_K_S", 21, Q2_K),
        recipe("IQ3_XXS", 23, IQ3_XXS),
        recipe("IQ3_S", 26, IQ3_S),
        recipe("IQ3_M", 27, IQ3_S),
        recipe("IQ3_XS", 22, IQ3_S),
        recipe("Q3_K_S", 11, Q3_K),
        recipe("Q3_K_M", 12, Q3_K),
        recipe("Q3_K_L", 13, Q3_K),
        recipe("IQ4_NL", 25, IQ4_NL),
        recipe("IQ4_XS", 30, IQ4_XS),
        recipe("Q4_K_S", 14, Q4_K),
        recipe("Q4_K_M", 15, Q4_K),
        recipe("Q5_K_S", 16, Q5_K),
        recipe("Q5_K_M", 17, Q5_K),
        recipe("Q6_K", 18, Q6_K),
        recipe("Q8_0", 7, Q8_0),
        recipe("F16", 1, F16),
        recipe("BF16", 32, BF16),
        recipe("F32", 0, F32),
    ]
};

/// Other names that llama-quantize takes.
const ALIASES: [(&str, &str); 3] = [("Q3_K", "Q3_K_M"), ("Q4_K", "Q4_K_M"), ("Q5_K", "Q5_K_M")];

/// What llama-quantize can do beside: types that cannot be written yet, and none at all.
const NOT_YET: [&str; 4] = ["Q1_0", "Q2_0", "NVFP4", "COPY"];

/// What of a model decides, beside the tensor.
#[derive(Debug, Clone, Copy)]
pub struct GgufRules<'a> {
    /// The model.
    pub config: &'a ModelConfig,
    /// `general.architecture`.
    pub architecture: &'a str,
    /// Whether weights are fitted to a text: what llama-quantize is with an imatrix.
    pub calibrated: bool,
    /// Whether queries, keys and values are one tensor of the file, which is then treated as values are.
    pub fused: bool,
    /// Columns of a head of the output of recurrent mixers, where files have the heads in another order: blocks must fit into one.
    pub head_columns: Option<usize>,
}

impl GgufRecipe {
    /// Whether this is a recipe of llama-quantize that is not written here.
    pub fn is_foreign(name: &str) -> bool {
        NOT_YET.iter().any(|other| other.eq_ignore_ascii_case(name))
    }

    /// Q4_K_M, which most people take.
    pub const DEFAULT: GgufRecipe = GgufRecipe { name: "Q4_K_M", file_type: 15, default: GgmlType::Q4_K };

    /// Every recipe.
    pub fn all() -> impl Iterator<Item = GgufRecipe> {
        ALL.into_iter()
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Its number in `general.file_type`.
    pub const fn file_type(&self) -> u32 {
        self.file_type
    }

    /// Whether it rounds nothing to blocks.
    pub fn is_float(&self) -> bool {
        TensorType::from(self.default).is_float()
    }

    /// The type of a tensor.
    pub fn assign(&self, info: &TensorInfo, rules: &GgufRules<'_>) -> TensorType {
        let kind = info.id.kind;
        if !kind.is_matrix() || matches!(kind, TensorKind::Router | TensorKind::Positions) {
            return TensorType::F32;
        }
        if self.is_float() {
            return self.default.into();
        }
        let category = match kind {
            TensorKind::AttnQ | TensorKind::AttnK if rules.fused => Some(Category::Value),
            _ => Category::of(kind),
        };
        let embeds = category == Some(Category::Embedding);
        let wanted = match category {
            _ if embeds && rules.config.tied_head => self.output(info.cols, rules),
            Some(Category::Output) => self.output(info.cols, rules),
            _ if self.name == "MXFP4_MOE" => {
                let of_expert =
                    matches!(kind, TensorKind::ExpertGate | TensorKind::ExpertUp | TensorKind::ExpertDown);
                if of_expert { GgmlType::MXFP4 } else { GgmlType::Q8_0 }
            }
            _ if embeds => self.embedding(),
            Some(category) if self.is_below_three_bits() => self.of_small_layer(category, info.id, rules),
            Some(category) => self.of_layer(category, info.id, rules),
            None => self.default,
        };
        let heads = rules.head_columns.filter(|_| kind == TensorKind::MixerOutput);
        TensorType::from(wanted).or_smaller_blocks(heads.unwrap_or(info.cols))
    }

    /// The head, and an embedding that is one.
    fn output(&self, cols: usize, rules: &GgufRules<'_>) -> GgmlType {
        let own_rule = self.name == "MXFP4_MOE" || rules.architecture == "falcon";
        if own_rule || self.default == GgmlType::Q8_0 || !cols.is_multiple_of(self.default.block_len()) {
            GgmlType::Q8_0
        } else if self.is_below_three_bits() || self.name == "IQ3_XXS" {
            GgmlType::Q5_K
        } else {
            GgmlType::Q6_K
        }
    }

    /// The embedding beside a head of its own.
    fn embedding(&self) -> GgmlType {
        match self.name {
            "IQ2_XXS" | "IQ2_XS" | "IQ1_S" | "IQ1_M" => GgmlType::Q2_K,
            "IQ2_S" | "IQ2_M" | "IQ3_XXS" => GgmlType::IQ3_S,
            "TQ1_0" | "TQ2_0" => GgmlType::Q4_K,
            _ => self.default,
        }
    }

    fn is_below_three_bits(&self) -> bool {
        matches!(self.name, "IQ2_XXS" | "IQ2_XS" | "IQ2_S" | "IQ2_M" | "IQ1_S" | "IQ1_M")
    }

    /// Rules of the recipes that have the fewest bits.
    fn of_small_layer(&self, category: Category, id: TensorId, rules: &GgufRules<'_>) -> GgmlType {
        use GgmlType::*;
        let config = rules.config;
        let experts = config.experts.as_ref().map_or(0, |experts| experts.count);
        let better = if matches!(self.name, "IQ2_S" | "IQ2_M") { IQ3_S } else { Q2_K };
        match category {
            Category::Value if config.heads / config.kv_heads.max(1) >= 4 || experts >= 4 => Q4_K,
            Category::Value => better,
            Category::Key if experts == 8 => Q4_K,
            Category::Down if id.layer.unwrap_or(0) < config.layers / 8 => better,
            Category::AttnOutput if experts == 8 => Q5_K,
            Category::AttnOutput if matches!(self.name, "IQ1_S" | "IQ1_M") => IQ2_XXS,
            Category::AttnOutput if better == IQ3_S => IQ3_S,
            _ => self.default,
        }
    }

    fn of_layer(&self, category: Category, id: TensorId, rules: &GgufRules<'_>) -> GgmlType {
        use GgmlType::*;
        let (config, layer) = (rules.config, id.layer.unwrap_or(0));
        let layers = config.layers;
        let experts = config.experts.as_ref().map_or(0, |experts| experts.count);
        let many_queries = config.heads / config.kv_heads.max(1) >= 4;
        let falcon = rules.architecture == "falcon";
        match category {
            Category::Value => {
                let wanted = match self.name {
                    "Q2_K" => {
                        if many_queries {
                            Q4_K
                        } else {
                            Q3_K
                        }
                    }
                    "Q2_K_S" | "IQ3_XXS" | "IQ3_XS" | "IQ3_S" if many_queries => Q4_K,
                    "IQ3_XXS" if !rules.calibrated => IQ3_S,
                    "IQ3_M" => Q4_K,
                    "Q3_K_M" => {
                        if layer < 2 {
                            Q5_K
                        } else {
                            Q4_K
                        }
                    }
                    "Q3_K_L" => Q5_K,
                    "IQ4_NL" | "IQ4_XS" if many_queries => Q5_K,
                    "Q4_K_M" | "Q5_K_M" if is_sensitive(layer, layers) => Q6_K,
                    "Q4_K_S" if layer < 4 => Q5_K,
                    _ => self.default,
                };
                // llama.cpp's 70B: eighty layers whose queries share values.
                let large = rules.architecture == "llama" && layers == 80 && config.heads != config.kv_heads;
                match (wanted, large, experts) {
                    (_, _, 8) => Q8_0,
                    (Q3_K | Q4_K, true, _) => Q5_K,
                    (wanted, _, _) => wanted,
                }
            }
            Category::Key if experts == 8 => Q8_0,
            Category::Query | Category::Key if self.name == "IQ3_XS" => IQ3_XXS,
            Category::Query | Category::Key if self.name == "IQ3_XXS" => IQ2_S,
            Category::GateOrUp if self.name == "IQ3_XS" && layer >= layers / 8 && layer < 7 * layers / 8 => {
                IQ3_XXS
            }
            Category::Down if self.name == "IQ3_M" => {
                let better = layer < layers / 8 || experts == 8 && is_sensitive(layer, layers);
                if better { Q4_K } else { IQ3_S }
            }
            Category::Down => self.down(layer, layers, falcon, rules.calibrated),
            Category::AttnOutput if falcon => {
                if self.name == "Q3_K_L" {
                    Q4_K
                } else {
                    self.default
                }
            }
            Category::AttnOutput if experts == 8 => match self.name {
                "Q2_K" | "Q3_K_S" | "Q3_K_M" | "IQ4_NL" | "Q4_K_S" | "Q4_K_M" | "IQ4_XS" | "IQ3_XXS"
                | "IQ3_XS" | "IQ3_S" | "IQ3_M" => Q5_K,
                _ => self.default,
            },
            Category::AttnOutput => match self.name {
                "Q2_K" => Q3_K,
                "IQ3_XXS" => IQ3_S,
                "Q3_K_M" | "IQ3_M" => Q4_K,
                "Q3_K_L" => Q5_K,
                _ => self.default,
            },
            _ => self.default,
        }
    }

    fn down(&self, layer: u32, layers: u32, falcon: bool, calibrated: bool) -> GgmlType {
        use GgmlType::*;
        let first = layer < layers / 8;
        match self.name {
            "Q2_K" => Q3_K,
            "Q2_K_S" if first => Q4_K,
            "IQ3_XXS" if !calibrated => {
                if first {
                    Q4_K
                } else {
                    Q3_K
                }
            }
            "Q3_K_M" if layer < layers / 16 => Q5_K,
            "Q3_K_M" if !falcon || is_sensitive(layer, layers) => Q4_K,
            "Q3_K_L" if falcon => Q4_K,
            "Q3_K_L" => Q5_K,
            "Q4_K_M" if falcon && layer < layers / 16 => Q6_K,
            "Q4_K_M" if falcon && is_sensitive(layer, layers) => Q5_K,
            "Q4_K_M" | "Q5_K_M" if !falcon && is_sensitive(layer, layers) => Q6_K,
            "Q5_K_M" if is_sensitive(layer, layers) => Q6_K,
            "IQ4_NL" | "IQ4_XS" if first && !calibrated => Q5_K,
            "Q4_K_S" if !falcon && first => Q5_K,
            "Q4_0" if calibrated && first => Q4_1,
            "Q5_0" if calibrated && first => Q5_1,
            _ => self.default,
        }
    }
}

/// What the rules know tensors by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Category {
    Output,
    Embedding,
    /// Also queries, keys and values in one.
    Value,
    Key,
    Query,
    GateOrUp,
    AttnOutput,
    Down,
}

impl Category {
    fn of(kind: TensorKind) -> Option<Category> {
        Some(match kind {
            TensorKind::Head => Category::Output,
            TensorKind::TokenEmbedding => Category::Embedding,
            TensorKind::AttnV => Category::Value,
            TensorKind::AttnK => Category::Key,
            TensorKind::AttnQ => Category::Query,
            TensorKind::FfnGate
            | TensorKind::FfnUp
            | TensorKind::ExpertGate
            | TensorKind::ExpertUp
            | TensorKind::SharedGate
            | TensorKind::SharedUp => Category::GateOrUp,
            TensorKind::AttnOutput => Category::AttnOutput,
            TensorKind::FfnDown | TensorKind::ExpertDown | TensorKind::SharedDown => Category::Down,
            _ => return None,
        })
    }
}

/// The first and the last eighth of the layers, and every third between.
fn is_sensitive(layer: u32, layers: u32) -> bool {
    let eighth = layers / 8;
    layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2
}

impl fmt::Display for GgufRecipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

impl FromStr for GgufRecipe {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let alias = ALIASES.into_iter().find(|(alias, _)| alias.eq_ignore_ascii_case(s));
        let wanted = alias.map_or(s, |(_, name)| name);
        let names = || ALL.map(|recipe| recipe.name).join(", ");
        ALL.into_iter().find(|recipe| recipe.name.eq_ignore_ascii_case(wanted)).ok_or_else(|| {
            if GgufRecipe::is_foreign(s) {
                format!("'{s}' needs types that qsf-convert does not write yet; it writes {}", names())
            } else {
                format!("unknown recipe '{s}' of GGUF files; known: {}", names())
            }
        })
    }
}
