//! Falcon-H1: attention beside Mamba-2 in each layer. The factors of the model are in the weights of such files.

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use super::super::reading::Reading;
use super::state_spaces::{MAMBA, SSM};
use crate::error::Result;
use crate::source::gguf::name_groups::{ATTENTION, ENDS, FFN};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};
use qsf_format::TensorKind::{AttnNorm, FfnNorm, FinalNorm};

pub(in super::super) const FALCON_H1: Architecture = Architecture {
    name: "falcon-h1",
    model_type: "falcon_h1",
    also: &[],
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    keys: SSM,
    more: beside_attention,
    table: &TABLE,
    ..LLAMA
};

static TABLE: NameTable = table(join_rules!(ENDS, NORMS, ATTENTION, MAMBA, FFN));

/// One of the names is short of its ending.
const NORMS: &[NameRule] = &[
    rows("output_norm.weight", &[FinalNorm]),
    rows("blk.{}.attn_norm.weight", &[AttnNorm]),
    rows("blk.{}.ffn_norm", &[FfnNorm]),
];

fn beside_attention(reading: &mut Reading<'_>) -> Result<()> {
    let with_norm = !reading.layers_with("ssm_norm.weight").is_empty();
    reading.mamba2((0..reading.config.layers).collect())?;
    if let Some(recurrent) = &mut reading.config.recurrent {
        recurrent.beside_attention = true;
        recurrent.without_norm = !with_norm;
    }
    Ok(())
}
