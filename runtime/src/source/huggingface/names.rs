//! Which tensors an architecture has, under which names and shapes, and what they become.

use qsf_format::{ModelConfig, TensorKind};

use super::config::{Architecture, SourceConfig};

/// A tensor that a model directory should or may hold.
#[derive(Debug)]
pub(super) struct Expected {
    /// The name without the prefix of the architecture; [`HEAD`] has none.
    pub name: String,
    /// The layer it belongs to.
    pub layer: Option<u32>,
    /// Rows and columns as stored; one number for vectors.
    pub shape: Vec<usize>,
    /// Whether it is stored as `[in, out]`.
    pub transposed: bool,
    /// What its outputs are: one kind, or several that follow one another with so many rows (or values) each.
    pub parts: Vec<(TensorKind, usize)>,
    /// Whether a model without it is incomplete.
    pub required: bool,
}

/// The separate output head; always without prefix.
pub(super) const HEAD: &str = "lm_head.weight";

/// The prefix that a causal language model has before its names; a base model saved alone has none.
pub(super) const fn prefix(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Llama => "model.",
        Architecture::Gpt2 => "transformer.",
    }
}

/// The name of the token embedding, without prefix: every model has one.
pub(super) const fn embedding_name(architecture: Architecture) -> &'static str {
    match architecture {
        Architecture::Llama => "embed_tokens.weight",
        Architecture::Gpt2 => "wte.weight",
    }
}

/// Every tensor of the model, one after the other: a configuration that claims thousands of layers costs nothing
/// before the first of them is missed.
pub(super) fn expected(config: &SourceConfig) -> impl Iterator<Item = Expected> {
    let of_layer = match config.architecture {
        Architecture::Llama => llama_layer,
        Architecture::Gpt2 => gpt2_layer,
    };
    let of_model = match config.architecture {
        Architecture::Llama => llama_model(&config.model),
        Architecture::Gpt2 => gpt2_model(&config.model),
    };
    let layers = (0..config.model.layers).flat_map(move |layer| {
        of_layer(config).into_iter().map(move |mut tensor| {
            tensor.layer = Some(layer);
            tensor.name = match config.architecture {
                Architecture::Llama => format!("layers.{layer}.{}", tensor.name),
                Architecture::Gpt2 => format!("h.{layer}.{}", tensor.name),
            };
            tensor
        })
    });
    of_model.into_iter().chain(layers)
}

/// Whether a tensor that is not expected may be left out: constants that older versions saved, and the copy of the
/// embedding that a tied head sometimes is saved as.
pub(super) fn is_redundant(config: &SourceConfig, name: &str) -> bool {
    match config.architecture {
        _ if name == HEAD => config.model.tied_head,
        Architecture::Llama => name.ends_with(".rotary_emb.inv_freq"),
        // The causal mask; not to be mistaken for `attn.c_attn.bias`.
        Architecture::Gpt2 => name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"),
    }
}

fn llama_model(model: &ModelConfig) -> Vec<Expected> {
    let (vocab, hidden) = (model.vocab as usize, model.hidden as usize);
    let mut tensors = vec![
        matrix("embed_tokens.weight", TensorKind::TokenEmbedding, vocab, hidden),
        vector("norm.weight", TensorKind::FinalNorm, hidden),
    ];
    tensors.extend((!model.tied_head).then(|| matrix(HEAD, TensorKind::Head, vocab, hidden)));
    tensors
}

fn llama_layer(config: &SourceConfig) -> Vec<Expected> {
    let model = &config.model;
    let (hidden, ffn) = (model.hidden as usize, model.ffn as usize);
    let (q, kv) = (model.q_rows(), model.kv_rows());
    let projections = [
        ("self_attn.q_proj", TensorKind::AttnQ, TensorKind::AttnQBias, q, hidden, config.attention_bias),
        ("self_attn.k_proj", TensorKind::AttnK, TensorKind::AttnKBias, kv, hidden, config.attention_bias),
        ("self_attn.v_proj", TensorKind::AttnV, TensorKind::AttnVBias, kv, hidden, config.attention_bias),
        (
            "self_attn.o_proj",
            TensorKind::AttnOutput,
            TensorKind::AttnOutputBias,
            hidden,
            q,
            config.attention_bias,
        ),
        ("mlp.gate_proj", TensorKind::FfnGate, TensorKind::FfnGateBias, ffn, hidden, config.ffn_bias),
        ("mlp.up_proj", TensorKind::FfnUp, TensorKind::FfnUpBias, ffn, hidden, config.ffn_bias),
        ("mlp.down_proj", TensorKind::FfnDown, TensorKind::FfnDownBias, hidden, ffn, config.ffn_bias),
    ];
    let mut tensors = vec![
        vector("input_layernorm.weight", TensorKind::AttnNorm, hidden),
        vector("post_attention_layernorm.weight", TensorKind::FfnNorm, hidden),
    ];
    for (name, weight, bias, rows, cols, has_bias) in projections {
        tensors.push(matrix(&format!("{name}.weight"), weight, rows, cols));
        // `None`: an old configuration, which says nothing: take the biases that are there.
        if has_bias != Some(false) {
            let bias = vector(&format!("{name}.bias"), bias, rows);
            tensors.push(Expected { required: has_bias == Some(true), ..bias });
        }
    }
    tensors
}

fn gpt2_model(model: &ModelConfig) -> Vec<Expected> {
    let (vocab, hidden) = (model.vocab as usize, model.hidden as usize);
    let mut tensors = vec![
        matrix("wte.weight", TensorKind::TokenEmbedding, vocab, hidden),
        matrix("wpe.weight", TensorKind::Positions, model.max_positions as usize, hidden),
        vector("ln_f.weight", TensorKind::FinalNorm, hidden),
        vector("ln_f.bias", TensorKind::FinalNormBias, hidden),
    ];
    tensors.extend((!model.tied_head).then(|| matrix(HEAD, TensorKind::Head, vocab, hidden)));
    tensors
}

fn gpt2_layer(config: &SourceConfig) -> Vec<Expected> {
    use TensorKind::*;
    let (hidden, ffn) = (config.model.hidden as usize, config.model.ffn as usize);
    let (q, kv) = (config.model.q_rows(), config.model.kv_rows());
    vec![
        vector("ln_1.weight", AttnNorm, hidden),
        vector("ln_1.bias", AttnNormBias, hidden),
        vector("ln_2.weight", FfnNorm, hidden),
        vector("ln_2.bias", FfnNormBias, hidden),
        conv1d("attn.c_attn.weight", hidden, vec![(AttnQ, q), (AttnK, kv), (AttnV, kv)]),
        split_vector("attn.c_attn.bias", vec![(AttnQBias, q), (AttnKBias, kv), (AttnVBias, kv)]),
        conv1d("attn.c_proj.weight", q, vec![(AttnOutput, hidden)]),
        vector("attn.c_proj.bias", AttnOutputBias, hidden),
        conv1d("mlp.c_fc.weight", hidden, vec![(FfnUp, ffn)]),
        vector("mlp.c_fc.bias", FfnUpBias, ffn),
        conv1d("mlp.c_proj.weight", ffn, vec![(FfnDown, hidden)]),
        vector("mlp.c_proj.bias", FfnDownBias, hidden),
    ]
}

fn matrix(name: &str, kind: TensorKind, rows: usize, cols: usize) -> Expected {
    Expected { shape: vec![rows, cols], ..vector(name, kind, rows) }
}

fn vector(name: &str, kind: TensorKind, len: usize) -> Expected {
    split_vector(name, vec![(kind, len)])
}

fn split_vector(name: &str, parts: Vec<(TensorKind, usize)>) -> Expected {
    let len = parts.iter().map(|(_, len)| len).sum();
    Expected {
        name: name.to_owned(),
        layer: None,
        shape: vec![len],
        transposed: false,
        parts,
        required: true,
    }
}

/// A projection stored as `[in, out]`.
fn conv1d(name: &str, inputs: usize, outputs: Vec<(TensorKind, usize)>) -> Expected {
    let tensor = split_vector(name, outputs);
    Expected { shape: vec![inputs, tensor.shape[0]], transposed: true, ..tensor }
}
