//! What is otherwise in a directory for MLX: experts are one tensor, and `config.json` says what has which type. Names and fields are
//! those that mlx-lm 0.31 writes (`mlx_lm/utils.py`, `quantize_model`; `mlx_lm/models/switch_layers.py`).

use std::collections::HashMap;

use qsf_runtime::RuntimeError;
use qsf_runtime::grouped::GroupType;
use qsf_runtime::source::{SavedTensor, WeightSource};
use serde_json::{Map, Value, json};

use super::stored::DirTensor;
use crate::error::Result;

/// Models whose directories mlx-lm 0.32 opens and computes what transformers does (`scripts/check_mlx.py`). Of others it has no
/// code, or other names, fields or results.
const KNOWN: [&str; 31] = [
    "cohere",
    "cohere2",
    "ernie4_5",
    "gemma",
    "gemma2",
    "gemma3_text",
    "glm4",
    "glm4_moe",
    "gpt_bigcode",
    "gpt_neox",
    "granite",
    "helium",
    "hunyuan_v1_dense",
    "llama",
    "ministral3",
    "mistral",
    "mixtral",
    "nemotron",
    "olmo2",
    "olmo3",
    "olmoe",
    "phi",
    "phi3",
    "qwen2",
    "qwen2_moe",
    "qwen3",
    "qwen3_moe",
    "seed_oss",
    "smollm3",
    "stablelm",
    "starcoder2",
];

/// What the matrices of experts are called where transformers has other words.
const MATRICES: [(&str, &str); 3] = [("w1", "gate_proj"), ("w2", "down_proj"), ("w3", "up_proj")];

/// The tensors of a directory as MLX has them.
///
/// # Errors
/// When mlx-lm is not known to run such models.
pub(super) fn named_for_mlx(
    source: &dyn WeightSource,
    model_type: &str,
    saved: Vec<SavedTensor>,
) -> Result<Vec<SavedTensor>> {
    if !KNOWN.contains(&model_type) {
        let what = format!("a {model_type} model in a directory for MLX");
        let supported = format!("mlx-lm was tried with {}", KNOWN.join(", "));
        return Err(RuntimeError::unsupported(source.path(), what, supported).into());
    }
    let mut named: Vec<SavedTensor> = Vec::new();
    let mut experts: Vec<(String, Vec<SavedTensor>)> = Vec::new();
    for tensor in saved {
        match switched(&tensor.name) {
            None => named.push(tensor),
            Some(name) => match experts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, tensors)) => tensors.push(tensor),
                None => experts.push((name, vec![tensor])),
            },
        }
    }
    for (name, tensors) in experts {
        let stacked = SavedTensor::stacked(&tensors, name.clone()).ok_or_else(|| {
            let why = "its experts are not rows of one tensor";
            RuntimeError::unsupported(source.path(), format!("{name} in a directory for MLX"), why)
        })?;
        named.push(stacked);
    }
    Ok(named)
}

/// What the tensor of an expert is part of.
fn switched(name: &str) -> Option<String> {
    let (before, expert) = name.split_once(".experts.")?;
    let (number, matrix) = expert.split_once('.')?;
    number.parse::<u32>().ok()?;
    let matrix = matrix.strip_suffix(".weight")?;
    let matrix = MATRICES.iter().find(|(other, _)| *other == matrix).map_or(matrix, |(_, name)| name);
    Some(format!("{before}.switch_mlp.{matrix}.weight"))
}

/// Adds what a configuration of transformers 5 says elsewhere: mlx-lm reads most fields where transformers 4 had them.
pub(super) fn add_plain_fields(config: &mut Map<String, Value>, model_type: &str, plain: Map<String, Value>) {
    // Its rotary positions are read where they are, and have fields that there were no others for.
    if model_type == "ministral3" && config.contains_key("rope_parameters") {
        return;
    }
    for (name, value) in plain {
        config.entry(name).or_insert(value);
    }
    config.entry("rope_scaling").or_insert(Value::Null);
}

/// Fields of `config.json`: the type of most matrices, and those of the others by name.
pub(super) fn describe_for_mlx(tensors: &[DirTensor]) -> Map<String, Value> {
    let grouped = || tensors.iter().filter_map(|tensor| Some((&tensor.saved, tensor.groups?)));
    let mut values: HashMap<GroupType, usize> = HashMap::new();
    grouped().for_each(|(saved, ty)| *values.entry(ty).or_default() += saved.values());
    // Of two with as many values the one with more bits, so that the order of a table of hashes does not show.
    let most = values.into_iter().max_by_key(|(ty, count)| (*count, ty.bits, ty.group));
    let Some((general, _)) = most else { return Map::new() };
    let mut described = of_type(general);
    for (saved, ty) in grouped().filter(|(_, ty)| *ty != general) {
        let layer = saved.name.strip_suffix(".weight").unwrap_or(&saved.name);
        described.insert(layer.to_owned(), Value::Object(of_type(ty)));
    }
    let described = Value::Object(described);
    // The second name is that of transformers, which mlx-lm writes as well.
    ["quantization", "quantization_config"]
        .into_iter()
        .map(|name| (name.to_owned(), described.clone()))
        .collect()
}

fn of_type(ty: GroupType) -> Map<String, Value> {
    let fields = json!({ "group_size": ty.group, "bits": ty.bits, "mode": "affine" });
    fields.as_object().cloned().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn experts_are_called_what_mlx_calls_them() {
        let of = |name| switched(name).unwrap_or_default();
        assert_eq!(
            of("model.layers.3.mlp.experts.17.gate_proj.weight"),
            "model.layers.3.mlp.switch_mlp.gate_proj.weight"
        );
        assert_eq!(
            of("model.layers.0.block_sparse_moe.experts.0.w2.weight"),
            "model.layers.0.block_sparse_moe.switch_mlp.down_proj.weight"
        );
        for other in ["model.layers.0.mlp.gate.weight", "model.layers.0.mlp.shared_expert.up_proj.weight"] {
            assert_eq!(switched(other), None, "{other}");
        }
    }
}
