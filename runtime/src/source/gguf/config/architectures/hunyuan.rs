//! Hunyuan, dense and with a mixture of experts: norms of queries and keys behind their rotation.

use qsf_format::QkNorm;

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use crate::source::gguf::name_groups::{ATTENTION, ENDS, EXPERTS, FFN, PRE_NORMS, QK_NORMS, SHARED_EXPERTS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

pub(in super::super) const HUNYUAN_DENSE: Architecture = Architecture {
    name: "hunyuan-dense",
    model_type: "hunyuan_v1_dense",
    also: &[],
    qk_norm: Some(QkNorm::RotatedHead),
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    table: &TABLE,
    ..LLAMA
};

pub(in super::super) const HUNYUAN_MOE: Architecture = Architecture {
    name: "hunyuan-moe",
    model_type: "hunyuan_v1_moe",
    experts: ExpertUse::Always,
    keys: &["expert_shared_count", "expert_shared_feed_forward_length"],
    ..HUNYUAN_DENSE
};

static TABLE: NameTable =
    table(join_rules!(ENDS, PRE_NORMS, ATTENTION, QK_NORMS, FFN, EXPERTS, SHARED_EXPERTS));
