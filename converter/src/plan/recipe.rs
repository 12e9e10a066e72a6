//! What `--quant` asks for: one type for all matrices, or `mixed`.

use std::fmt;
use std::str::FromStr;

use qsf_format::{BlockSize, MIXED, QuantType, TensorId, TensorKind};
use qsf_runtime::source::TensorInfo;

use super::nearest::nearest_name;
use super::tensor_type::TensorType;

/// How a model's tensors are to be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// Every matrix in this type.
    Uniform(QuantType),
    /// 2 bits where errors average out over many inputs (query, key, value, gate, up), 4 bits where they go straight into
    /// the residual stream or the logits (attention output, down, embedding, head).
    Mixed,
}

/// Short forms by bit count, as other converters take them.
const ALIASES: [(&str, QuantType); 4] =
    [("2", QuantType::Q2), ("3", QuantType::Q3), ("4", QuantType::Q4), ("8", QuantType::Q8)];

impl Recipe {
    /// What no other type beats at its size, and quick to make (docs/measurements/quality.md).
    pub const DEFAULT: Recipe = Recipe::Uniform(QuantType::N4);

    /// The type that a tensor is stored in, before overrides and before promotion for want of range.
    ///
    /// - Routers, and factors of streams, stay f32: they are small, and a wrong expert costs more than any rounding. So do rotary factors, whose
    ///   error grows with the position, and what says how fast a recurrent state decays: its error goes from token to token.
    /// - Norms, biases and other vectors are f16; of a float recipe's type in a float recipe.
    /// - Learned positions are added to every embedding and never share a scale with it: 8 bits at least.
    /// - Everything else is the recipe's: uniform means uniform, embedding and head included.
    pub fn assign(&self, id: TensorId) -> QuantType {
        use TensorKind::*;
        if matches!(
            id.kind,
            Router
                | RopeFactors
                | MixerStep
                | MixerBeta
                | MixerDecay
                | MixerStepBias
                | MixerSkip
                | StreamRouter
                | StreamPrediction
                | StreamCorrection
        ) {
            return QuantType::F32;
        }
        match *self {
            Recipe::Uniform(quant) if quant.is_float() => quant,
            _ if !id.kind.is_matrix() => QuantType::F16,
            _ if id.kind == Positions => QuantType::Q8,
            Recipe::Uniform(quant) => quant,
            Recipe::Mixed => mixed(id.kind),
        }
    }

    /// [`Recipe::assign`], but for a matrix that is stored in three values: it stays so in a recipe of blocks, as this loses nothing.
    pub fn assign_stored(&self, info: &TensorInfo) -> QuantType {
        match self.assign(info.id) {
            quant if !quant.is_float() && info.stored.is_ternary() => QuantType::Ternary,
            quant => quant,
        }
    }

    /// The default type id of the file header.
    pub fn header_id(&self) -> u8 {
        match self {
            Recipe::Uniform(quant) => quant.id(),
            Recipe::Mixed => MIXED,
        }
    }

    /// The name that `--quant` takes.
    pub fn name(&self) -> &'static str {
        match self {
            Recipe::Uniform(quant) => quant.name(),
            Recipe::Mixed => "mixed",
        }
    }

    /// Bytes of all tensor values under this recipe, without headers and before compression; `None` beyond `u64`.
    pub fn predicted_bytes(&self, tensors: &[TensorInfo], block: BlockSize) -> Option<u64> {
        payload_bytes(tensors.iter().map(|tensor| (tensor, self.assign_stored(tensor).into())), block)
    }

    /// Every recipe, in the order of type ids.
    fn all() -> impl Iterator<Item = Recipe> {
        QuantType::ALL.into_iter().map(Recipe::Uniform).chain([Recipe::Mixed])
    }
}

/// Bytes of the values of all `tensors`; `None` beyond `u64`.
pub(super) fn payload_bytes<'a>(
    mut tensors: impl Iterator<Item = (&'a TensorInfo, TensorType)>,
    block: BlockSize,
) -> Option<u64> {
    tensors.try_fold(0u64, |sum, (info, quant)| {
        sum.checked_add(quant.tensor_bytes(block, info.rows as u64, info.cols as u64)?)
    })
}

fn mixed(kind: TensorKind) -> QuantType {
    match kind {
        TensorKind::AttnQ
        | TensorKind::AttnK
        | TensorKind::AttnV
        | TensorKind::AttnQDown
        | TensorKind::AttnKUp
        | TensorKind::AttnVUp
        | TensorKind::FfnGate
        | TensorKind::FfnUp
        | TensorKind::ExpertGate
        | TensorKind::ExpertUp
        | TensorKind::SharedGate
        | TensorKind::SharedUp
        | TensorKind::AttnGate
        | TensorKind::MixerIn
        | TensorKind::MixerGate => QuantType::Q2,
        _ => QuantType::Q4,
    }
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Recipe {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let wanted = s.to_ascii_lowercase();
        let named = Recipe::all().find(|recipe| recipe.name() == wanted);
        named.or_else(|| by_alias(&wanted).map(Recipe::Uniform)).ok_or_else(|| unknown_type(s))
    }
}

/// The recipe that whoever writes `name` most likely wants; `None` where it is like no type.
pub fn nearest_type(name: &str) -> Option<Recipe> {
    let known: Vec<&str> = Recipe::all().map(|recipe| recipe.name()).collect();
    let nearest = nearest_name(name, &known)?;
    Recipe::all().find(|recipe| recipe.name() == nearest)
}

/// What is said of a name that is no type.
pub(super) fn unknown_type(name: &str) -> String {
    let names = Recipe::all().map(|recipe| recipe.name()).collect::<Vec<_>>().join(", ");
    let nearest =
        nearest_type(name).map_or_else(String::new, |found| format!("the nearest is {}; ", found.name()));
    format!("there is no type '{name}': {nearest}types are {names}")
}

/// The type that a short form stands for.
pub(super) fn by_alias(name: &str) -> Option<QuantType> {
    ALIASES.into_iter().find(|(alias, _)| *alias == name).map(|(_, quant)| quant)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assigned(recipe: &str, kind: TensorKind) -> QuantType {
        let id = TensorId { layer: kind.is_per_layer().then_some(0), kind };
        recipe.parse::<Recipe>().unwrap().assign(id)
    }

    #[test]
    fn every_name_parses_in_any_case_and_a_wrong_one_is_told_all_of_them() {
        for recipe in Recipe::all() {
            assert_eq!(recipe.name().to_uppercase().parse(), Ok(recipe));
        }
        assert_eq!("4".parse(), Ok(Recipe::Uniform(QuantType::Q4)));
        let error = "q4_k_m".parse::<Recipe>().unwrap_err();
        assert!(
            error.contains("'q4_k_m': the nearest is n4") && Recipe::all().all(|r| error.contains(r.name())),
            "{error}"
        );
    }

    #[test]
    fn a_uniform_recipe_covers_embedding_and_head_and_leaves_vectors_as_floats() {
        for (recipe, quant) in
            [("2bit", QuantType::Q2), ("ternary", QuantType::Ternary), ("8", QuantType::Q8)]
        {
            for &kind in TensorKind::ALL.iter().filter(|kind| kind.is_matrix()) {
                let expected = match kind {
                    TensorKind::Router | TensorKind::MixerStep | TensorKind::MixerBeta => QuantType::F32,
                    TensorKind::Positions => QuantType::Q8,
                    _ => quant,
                };
                assert_eq!(assigned(recipe, kind), expected, "{recipe} {kind}");
            }
            assert_eq!(assigned(recipe, TensorKind::FfnNorm), QuantType::F16);
            assert_eq!(assigned(recipe, TensorKind::AttnQBias), QuantType::F16);
            assert_eq!(assigned(recipe, TensorKind::RopeFactors), QuantType::F32);
        }
    }

    #[test]
    fn a_float_recipe_stores_vectors_and_positions_in_its_own_type() {
        for kind in [TensorKind::FinalNorm, TensorKind::Positions, TensorKind::TokenEmbedding] {
            assert_eq!(assigned("f32", kind), QuantType::F32);
            assert_eq!(assigned("bf16", kind), QuantType::Bf16);
        }
    }

    #[test]
    fn mixed_spends_four_bits_where_errors_reach_the_residual_stream() {
        for kind in [TensorKind::AttnQ, TensorKind::AttnV, TensorKind::FfnUp, TensorKind::ExpertGate] {
            assert_eq!(assigned("mixed", kind), QuantType::Q2, "{kind}");
        }
        for kind in
            [TensorKind::AttnOutput, TensorKind::FfnDown, TensorKind::Head, TensorKind::TokenEmbedding]
        {
            assert_eq!(assigned("mixed", kind), QuantType::Q4, "{kind}");
        }
        assert_eq!("mixed".parse::<Recipe>().unwrap().header_id(), 5);
    }

    #[test]
    fn predicted_bytes_are_those_of_whole_blocks_per_row() {
        let info = |kind, rows, cols| TensorInfo {
            id: TensorId::of_model(kind),
            name: String::new(),
            rows,
            cols,
            stored: QuantType::F32.into(),
        };
        let tensors = [info(TensorKind::Head, 10, 65), info(TensorKind::FinalNorm, 1, 65)];
        let recipe = Recipe::Uniform(QuantType::Q4);
        assert_eq!(recipe.predicted_bytes(&tensors, BlockSize::B64), Some(10 * 2 * 36 + 65 * 2));
        let huge = [info(TensorKind::Head, usize::MAX, usize::MAX)];
        assert_eq!(recipe.predicted_bytes(&huge, BlockSize::B64), None);
    }
}
