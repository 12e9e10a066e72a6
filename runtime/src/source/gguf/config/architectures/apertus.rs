//! Apertus: a plain feed-forward of xIELU, whose two factors files have as keys, a number for each layer.

use qsf_format::TensorKind::{FfnActAbove, FfnActBelow};
use qsf_format::{Activation, QkNorm};

use super::super::architecture::{Architecture, ExpertUse, LLAMA, LayerValues, ROTARY, Window};
use super::super::reading::Reading;
use crate::error::{Result, RuntimeError};
use crate::source::gguf::name_groups::{ATTENTION, ENDS, FFN, PRE_NORMS, QK_NORMS};
use crate::source::gguf::names::table;
use crate::source::mapping::{NameRule, NameTable, join_rules, rows};

pub(in super::super) const APERTUS: Architecture = Architecture {
    name: "apertus",
    model_type: "apertus",
    also: &[],
    activation: Activation::Xielu,
    gated_ffn: false,
    positions: ROTARY,
    qk_norm: Some(QkNorm::Head),
    window: Window::Unknown,
    experts: ExpertUse::Never,
    layer_values: &[
        LayerValues { key: "xielu.alpha_p", name: ABOVE },
        LayerValues { key: "xielu.alpha_n", name: BELOW },
    ],
    more: constants,
    table: &TABLE,
    ..LLAMA
};

const ABOVE: &str = "blk.{}.xielu.alpha_p";
const BELOW: &str = "blk.{}.xielu.alpha_n";

static TABLE: NameTable = table(join_rules!(ENDS, PRE_NORMS, ATTENTION, QK_NORMS, FFN, FACTORS));

const FACTORS: &[NameRule] = &[rows(ABOVE, &[FfnActAbove]), rows(BELOW, &[FfnActBelow])];

/// The two numbers of the function that no model has learned: -1e-6 is rounded to 16 bits in most.
fn constants(reading: &mut Reading<'_>) -> Result<()> {
    for (key, expected, near) in [("xielu.beta", 0.5, 0.0), ("xielu.eps", -1e-6, 1e-8)] {
        let found = reading.file.metadata.f32s(key)?.unwrap_or_default();
        let is_it = |found: &&f32| (**found - expected).abs() <= near;
        if let Some(other) = found.iter().find(|found| !is_it(found)) {
            let what = format!("{key} = {other}");
            return Err(RuntimeError::unsupported(reading.file.path(), what, format!("only {expected} is")));
        }
    }
    Ok(())
}
