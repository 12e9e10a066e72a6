//! `--activations`: what weights of block types are multiplied with.

use std::sync::Arc;

use clap::{Args, ValueEnum};

use super::StreamArgs;
use crate::cpu::Cpu;
use crate::decoder::{Activations, Decoder};
use crate::error::{Result, RuntimeError};
use crate::weights::Model;

/// Flag of binaries that run models.
#[derive(Debug, Clone, Copy, Args)]
pub struct ActivationArgs {
    /// Type of activations [default: int8 for quantized weights, f32 for a source]
    #[arg(long, value_enum, value_name = "TYPE")]
    activations: Option<ActivationArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ActivationArg {
    /// 8-bit, a scale per 32 values: the same results on every processor
    Int8,
    /// Prompts in bfloat16 by the matrix unit of a processor that has one (Intel AMX): faster, but other last digits than on other
    /// processors; the rest as int8
    Bf16,
    /// 32-bit floats: the reference
    F32,
}

impl ActivationArgs {
    /// Whether the flag was given.
    pub(super) fn given(self) -> bool {
        self.activations.is_some()
    }

    /// A decoder with these activations.
    ///
    /// # Errors
    /// When the model has nothing to multiply with them, or the processor has no matrix unit for them, or not within a budget.
    pub fn decoder(self, model: Arc<Model>, cpu: Cpu, stream: &StreamArgs) -> Result<Decoder> {
        let (name, activations) = match self.activations {
            None => return Ok(Decoder::new(model, cpu, None)),
            Some(ActivationArg::F32) => return Ok(Decoder::new(model, cpu, Some(Activations::F32))),
            Some(ActivationArg::Int8) => ("int8", Activations::Int8),
            Some(ActivationArg::Bf16) => ("bf16", Activations::Bf16),
        };
        let refused = |why: String| Err(RuntimeError::Request(format!("--activations {name}: {why}")));
        if !model.has_blocks() {
            return refused("no matrix of this model is quantized, so that all would run in f32".into());
        }
        if activations == Activations::Bf16 && !cpu.kernels().has_bf16() {
            return refused(format!(
                "the instruction set in use, {}, has no matrix unit for it (that takes amx); leave it out for int8",
                cpu.isa().name()
            ));
        }
        if activations == Activations::Bf16 && stream.ram_budget.is_some() {
            return refused("not with --ram-budget, where reading takes longer than multiplying".into());
        }
        Ok(Decoder::new(model, cpu, Some(activations)))
    }
}
