//! CodeGen: GPT-J with queries, values and keys in one matrix, in the four shards that it was trained in.

use qsf_format::TensorKind::*;

use super::architecture::{Architecture, Marks, Reader, SourceConfig};
use super::gptj;
use crate::error::Result;
use crate::source::SHARDS;
use crate::source::mapping::{Form, NameTable, formed, rows};

pub(super) const CODEGEN: Architecture = Architecture {
    model_types: &["codegen"],
    base: "transformer.",
    table: NameTable {
        rules: &[
            rows("wte.weight", &[TokenEmbedding]),
            rows("ln_f.weight", &[FinalNorm]),
            rows("ln_f.bias", &[FinalNormBias]),
            rows("lm_head.weight", &[Head]),
            rows("lm_head.bias", &[HeadBias]),
            rows("h.{}.ln_1.weight", &[AttnNorm]),
            rows("h.{}.ln_1.bias", &[AttnNormBias]),
            formed("h.{}.attn.qkv_proj.weight", &[AttnQ, AttnV, AttnK], Form::Sharded),
            rows("h.{}.attn.out_proj.weight", &[AttnOutput]),
            rows("h.{}.mlp.fc_in.weight", &[FfnUp]),
            rows("h.{}.mlp.fc_in.bias", &[FfnUpBias]),
            rows("h.{}.mlp.fc_out.weight", &[FfnDown]),
            rows("h.{}.mlp.fc_out.bias", &[FfnDownBias]),
        ],
        // The causal mask, and angles.
        ignored: &[".attn.causal_mask", ".attn.bias", ".attn.masked_bias", ".attn.embed_positions"],
    },
    marks: Marks::BY_NAME,
    config,
};

fn config(reader: &Reader<'_>) -> Result<SourceConfig> {
    let read = gptj::config(reader)?;
    let hidden = read.model.hidden;
    if !(hidden as usize).is_multiple_of(SHARDS) {
        let expected = format!("a multiple of {SHARDS}, the shards of queries, values and keys");
        return Err(reader.fields.wrong("n_embd", expected, hidden));
    }
    Ok(read)
}
