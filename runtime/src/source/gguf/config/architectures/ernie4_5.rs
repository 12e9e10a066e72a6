//! ERNIE 4.5, with experts and without: rotation of neighbouring pairs.

use qsf_format::RouterScore;

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use crate::source::gguf::name_groups::{ATTENTION_PAIRS, ENDS, EXPERTS, FFN, PRE_NORMS, SHARED_EXPERTS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

pub(in super::super) const ERNIE4_5: Architecture = Architecture {
    name: "ernie4_5",
    model_type: "ernie4_5",
    also: &[],
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    table: &TABLE,
    ..LLAMA
};

pub(in super::super) const ERNIE4_5_MOE: Architecture = Architecture {
    name: "ernie4_5-moe",
    model_type: "ernie4_5_moe",
    experts: ExpertUse::Always,
    router: Some(RouterScore::Softmax),
    keys: &[
        "expert_shared_count",
        "expert_shared_feed_forward_length",
        "interleave_moe_layer_step",
        "leading_dense_block_count",
    ],
    ..ERNIE4_5
};

static TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS, ATTENTION_PAIRS, FFN, EXPERTS, SHARED_EXPERTS));
