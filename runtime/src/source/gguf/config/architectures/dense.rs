//! LLaMA with a difference: Seed-OSS, AFM.

use qsf_format::Activation;

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use crate::source::gguf::name_groups::{ATTENTION, ENDS, FFN, PRE_NORMS_LATE};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

/// The name of its second norm is another.
pub(in super::super) const SEED_OSS: Architecture = Architecture {
    name: "seed_oss",
    model_type: "seed_oss",
    also: &[],
    positions: ROTARY,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    table: &LATE,
    ..LLAMA
};

/// Squared rectifiers.
pub(in super::super) const ARCEE: Architecture = Architecture {
    name: "arcee",
    model_type: "arcee",
    also: &[],
    activation: Activation::Relu2,
    gated_ffn: false,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    ..LLAMA
};

static LATE: NameTable = table(join_rules!(ENDS, PRE_NORMS_LATE, ATTENTION, FFN));
