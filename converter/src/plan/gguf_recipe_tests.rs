//! The types of every recipe against those that llama-quantize gives: what `llama-quantize --dry-run` printed (version of
//! llama-cpp-python 0.3.36) of models with and without an imatrix.

use qsf_format::{ModelConfig, QuantType, TensorId, TensorKind};
use qsf_runtime::source::TensorInfo;

use super::{GgufRecipe, GgufRules};

/// Of llama-53m (14 layers, 8 heads, 4 of keys, one matrix for embedding and head), with an imatrix or without: embedding,
/// queries, keys, values, output of attention, gate and up, down. `2xA,12xB` are the layers in their order.
const OF_LLAMA: [(&str, bool, &str); 35] = [
    ("Q4_0", true, "Q6_K Q4_0 Q4_0 Q4_0 Q4_0 Q4_0 1xQ4_1,13xQ4_0"),
    ("Q4_0", false, "Q6_K Q4_0 Q4_0 Q4_0 Q4_0 Q4_0 Q4_0"),
    ("Q4_1", true, "Q6_K Q4_1 Q4_1 Q4_1 Q4_1 Q4_1 Q4_1"),
    ("Q5_0", true, "Q6_K Q5_0 Q5_0 Q5_0 Q5_0 Q5_0 1xQ5_1,13xQ5_0"),
    ("Q5_0", false, "Q6_K Q5_0 Q5_0 Q5_0 Q5_0 Q5_0 Q5_0"),
    ("Q5_1", true, "Q6_K Q5_1 Q5_1 Q5_1 Q5_1 Q5_1 Q5_1"),
    ("Q2_K", true, "Q6_K Q2_K Q2_K Q3_K Q3_K Q2_K Q3_K"),
    ("Q2_K_S", true, "Q6_K Q2_K Q2_K Q2_K Q2_K Q2_K 1xQ4_K,13xQ2_K"),
    ("Q3_K_S", true, "Q6_K Q3_K Q3_K Q3_K Q3_K Q3_K Q3_K"),
    ("Q3_K_M", true, "Q6_K Q3_K Q3_K 2xQ5_K,12xQ4_K Q4_K Q3_K Q4_K"),
    ("Q3_K_L", true, "Q6_K Q3_K Q3_K Q5_K Q5_K Q3_K Q5_K"),
    ("Q4_K_S", true, "Q6_K Q4_K Q4_K 4xQ5_K,10xQ4_K Q4_K Q4_K 1xQ5_K,13xQ4_K"),
    (
        "Q4_K_M",
        true,
        "Q6_K Q4_K Q4_K 1xQ6_K,2xQ4_K,1xQ6_K,2xQ4_K,1xQ6_K,2xQ4_K,1xQ6_K,2xQ4_K,2xQ6_K Q4_K Q4_K 1xQ6_K,2xQ4_K,1xQ6_K,2xQ4_K,1xQ6_K,2xQ4_K,1xQ6_K,2xQ4_K,2xQ6_K",
    ),
    ("Q5_K_S", true, "Q6_K Q5_K Q5_K Q5_K Q5_K Q5_K Q5_K"),
    (
        "Q5_K_M",
        true,
        "Q6_K Q5_K Q5_K 1xQ6_K,2xQ5_K,1xQ6_K,2xQ5_K,1xQ6_K,2xQ5_K,1xQ6_K,2xQ5_K,2xQ6_K Q5_K Q5_K 1xQ6_K,2xQ5_K,1xQ6_K,2xQ5_K,1xQ6_K,2xQ5_K,1xQ6_K,2xQ5_K,2xQ6_K",
    ),
    ("Q6_K", true, "Q6_K Q6_K Q6_K Q6_K Q6_K Q6_K Q6_K"),
    ("Q8_0", true, "Q8_0 Q8_0 Q8_0 Q8_0 Q8_0 Q8_0 Q8_0"),
    ("IQ4_NL", true, "Q6_K IQ4_NL IQ4_NL IQ4_NL IQ4_NL IQ4_NL IQ4_NL"),
    ("IQ4_NL", false, "Q6_K IQ4_NL IQ4_NL IQ4_NL IQ4_NL IQ4_NL 1xQ5_K,13xIQ4_NL"),
    ("IQ4_XS", true, "Q6_K IQ4_XS IQ4_XS IQ4_XS IQ4_XS IQ4_XS IQ4_XS"),
    ("IQ4_XS", false, "Q6_K IQ4_XS IQ4_XS IQ4_XS IQ4_XS IQ4_XS 1xQ5_K,13xIQ4_XS"),
    ("IQ3_XXS", true, "Q5_K IQ2_S IQ2_S IQ3_XXS IQ3_S IQ3_XXS IQ3_XXS"),
    ("IQ3_XXS", false, "Q5_K IQ2_S IQ2_S IQ3_S IQ3_S IQ3_XXS 1xQ4_K,13xQ3_K"),
    ("IQ3_XS", true, "Q6_K IQ3_XXS IQ3_XXS IQ3_S IQ3_S 1xIQ3_S,11xIQ3_XXS,2xIQ3_S IQ3_S"),
    ("IQ3_S", true, "Q6_K IQ3_S IQ3_S IQ3_S IQ3_S IQ3_S IQ3_S"),
    ("IQ3_M", true, "Q6_K IQ3_S IQ3_S Q4_K Q4_K IQ3_S 1xQ4_K,13xIQ3_S"),
    ("IQ2_XXS", true, "Q5_K IQ2_XXS IQ2_XXS Q2_K IQ2_XXS IQ2_XXS 1xQ2_K,13xIQ2_XXS"),
    ("IQ2_XS", true, "Q5_K IQ2_XS IQ2_XS Q2_K IQ2_XS IQ2_XS 1xQ2_K,13xIQ2_XS"),
    ("IQ2_S", true, "Q5_K IQ2_XS IQ2_XS IQ3_S IQ3_S IQ2_XS 1xIQ3_S,13xIQ2_XS"),
    ("IQ2_M", true, "Q5_K IQ2_S IQ2_S IQ3_S IQ3_S IQ2_S 1xIQ3_S,13xIQ2_S"),
    ("IQ1_S", true, "Q5_K IQ1_S IQ1_S Q2_K IQ2_XXS IQ1_S 1xQ2_K,13xIQ1_S"),
    ("IQ1_M", true, "Q5_K IQ1_M IQ1_M Q2_K IQ2_XXS IQ1_M 1xQ2_K,13xIQ1_M"),
    ("TQ1_0", true, "Q6_K TQ1_0 TQ1_0 TQ1_0 TQ1_0 TQ1_0 TQ1_0"),
    ("TQ2_0", true, "Q6_K TQ2_0 TQ2_0 TQ2_0 TQ2_0 TQ2_0 TQ2_0"),
    ("MXFP4_MOE", true, "Q8_0 Q8_0 Q8_0 Q8_0 Q8_0 Q8_0 Q8_0"),
];

/// Of gpt2-17m, whose rows have 384 values, but 1536 in down: queries, keys and values in one, output of attention, up, down.
const OF_GPT2: [(&str, &str); 10] = [
    ("IQ4_XS", "IQ4_NL IQ4_NL IQ4_NL IQ4_XS"),
    ("IQ3_XXS", "IQ4_NL IQ4_NL IQ4_NL Q3_K"),
    ("IQ3_S", "IQ4_NL IQ4_NL IQ4_NL IQ3_S"),
    ("IQ3_M", "Q5_0 Q5_0 IQ4_NL IQ3_S"),
    ("IQ2_XS", "Q4_0 IQ4_NL IQ4_NL IQ2_XS"),
    ("IQ2_S", "IQ4_NL IQ4_NL IQ4_NL IQ2_XS"),
    ("IQ1_M", "Q4_0 IQ4_NL IQ4_NL IQ1_M"),
    ("TQ1_0", "Q4_0 Q4_0 Q4_0 TQ1_0"),
    ("TQ2_0", "Q4_0 Q4_0 Q4_0 TQ2_0"),
    ("MXFP4_MOE", "Q8_0 Q8_0 Q8_0 Q8_0"),
];

fn type_of(recipe: GgufRecipe, rules: &GgufRules<'_>, kind: TensorKind, layer: u32, cols: usize) -> String {
    let layer = (kind != TensorKind::TokenEmbedding).then_some(layer);
    let id = TensorId { layer, kind };
    let info = TensorInfo { id, name: id.to_string(), rows: 512, cols, stored: QuantType::F16.into() };
    recipe.assign(&info, rules).name().to_owned()
}

/// `2xA,12xB` of types in a row; the type alone where all are the same.
fn runs(types: &[String]) -> String {
    let runs: Vec<&[String]> = types.chunk_by(|a, b| a == b).collect();
    match runs.as_slice() {
        [only] => only[0].clone(),
        runs => runs.iter().map(|run| format!("{}x{}", run.len(), run[0])).collect::<Vec<_>>().join(","),
    }
}

#[test]
fn every_recipe_gives_the_types_that_llama_quantize_gives() {
    use TensorKind::*;
    let config = ModelConfig { layers: 14, heads: 8, kv_heads: 4, tied_head: true, ..ModelConfig::default() };
    for (name, calibrated, expected) in OF_LLAMA {
        let recipe: GgufRecipe = name.parse().unwrap();
        let rules = GgufRules {
            config: &config,
            architecture: "llama",
            calibrated,
            fused: false,
            head_columns: None,
        };
        let of = |kind, cols| {
            let types: Vec<String> =
                (0..config.layers).map(|layer| type_of(recipe, &rules, kind, layer, cols)).collect();
            runs(&types)
        };
        let found = [AttnQ, AttnK, AttnV, AttnOutput, FfnGate].map(|kind| of(kind, 512));
        let all = [of(TokenEmbedding, 512), found.join(" "), of(FfnDown, 1536)].join(" ");
        assert_eq!(all, expected, "{name}, imatrix: {calibrated}");
        assert_eq!(of(FfnUp, 512), found[4], "{name}");
    }
}

#[test]
fn rows_that_are_no_multiple_of_256_get_the_types_of_llama_quantize() {
    use TensorKind::*;
    let config = ModelConfig { layers: 6, heads: 6, kv_heads: 6, tied_head: true, ..ModelConfig::default() };
    for (name, expected) in OF_GPT2 {
        let recipe: GgufRecipe = name.parse().unwrap();
        let rules = GgufRules {
            config: &config,
            architecture: "gpt2",
            calibrated: false,
            fused: true,
            head_columns: None,
        };
        let of = |kind, cols| type_of(recipe, &rules, kind, 3, cols);
        let found = [of(AttnQ, 384), of(AttnOutput, 384), of(FfnUp, 384), of(FfnDown, 1536)];
        assert_eq!(found.join(" "), expected, "{name}");
        assert_eq!(of(AttnK, 384), found[0], "{name}: one tensor in the file");
        assert_eq!(type_of(recipe, &rules, TokenEmbedding, 0, 384), "Q8_0", "{name}");
    }
}
