//! Gemma 1: norms with 1 + w, scaled embeddings.

use qsf_format::Activation;

use super::super::architecture::{Architecture, ExpertUse, LLAMA, ROTARY, Window};
use crate::source::gguf::name_groups::{ATTENTION, ENDS, FFN, PRE_NORMS_PLUS_ONE};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameTable, join_rules};

pub(in super::super) const GEMMA: Architecture = Architecture {
    name: "gemma",
    model_type: "gemma",
    also: &[],
    gain_plus_one: true,
    activation: Activation::GeluTanh,
    positions: ROTARY,
    scaled_embedding: true,
    window: Window::Unknown,
    experts: ExpertUse::Never,
    table: &TABLE,
    ..LLAMA
};

static TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS_PLUS_ONE, ATTENTION, FFN));
