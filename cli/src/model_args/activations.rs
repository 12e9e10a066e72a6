//! `--activations`: what weights of block types are multiplied with.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use qsf_runtime::cpu::{Cpu, Isa, KernelTable};
use qsf_runtime::{Activations, Decoder, Model, Result, RuntimeError};

use super::StreamArgs;

/// Flag of binaries that run models.
#[derive(Debug, Clone, Copy, Args)]
pub struct ActivationArgs {
    /// Type of activations [default: int8 for quantized weights, or int8-128 for a text of qsf-run where the processor has it; f32 for
    /// a source]
    #[arg(long, value_enum, value_name = "TYPE")]
    activations: Option<ActivationArg>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ActivationArg {
    /// 8-bit, a scale per 32 values: the same results on every processor
    Int8,
    /// For steps of 32 tokens and more, on a processor with AVX-512 VNNI or AMX: 8-bit, a scale per 128 values, weights recoded to 8
    /// bits, and attention in bfloat16: faster, a little less exact. Other steps, and all with --ram-budget, as int8
    #[value(name = "int8-128")]
    Int8Wide,
    /// 32-bit floats: the reference
    F32,
}

/// What activations are where the flag was not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultActivations {
    /// The same on every processor.
    Comparable,
    /// What this processor is fastest with.
    Fast,
}

impl DefaultActivations {
    /// The fast ones, but for a model that is read again for each step: that takes longer than multiplying.
    pub fn fast(stream: &StreamArgs) -> DefaultActivations {
        if stream.ram_budget.is_some() { DefaultActivations::Comparable } else { DefaultActivations::Fast }
    }
}

impl ActivationArgs {
    /// Whether the flag was given.
    pub(super) fn given(self) -> bool {
        self.activations.is_some()
    }

    /// What can be checked without a model.
    ///
    /// # Errors
    /// When the processor has no kernels for these activations, or they do not go with a budget.
    pub fn check(self, isa: Isa, stream: &StreamArgs) -> Result<()> {
        if self.activations != Some(ActivationArg::Int8Wide) {
            return Ok(());
        }
        if !KernelTable::of(isa).has_wide() {
            return refused(
                Activations::Int8Wide,
                &format!(
                    "the instruction set in use, {}, has no kernels for it (avx512 and amx have); leave it out for int8",
                    isa.name()
                ),
            );
        }
        if stream.ram_budget.is_some() {
            let why = "not with --ram-budget, where reading takes longer than multiplying";
            return refused(Activations::Int8Wide, why);
        }
        Ok(())
    }

    /// A decoder with these activations, which have been checked.
    ///
    /// # Errors
    /// When the model has nothing to multiply with them.
    pub fn decoder(self, model: Arc<Model>, cpu: Cpu, default: DefaultActivations) -> Result<Decoder> {
        let fast = default == DefaultActivations::Fast && model.has_blocks() && cpu.kernels().has_wide();
        let activations = match self.activations {
            Some(ActivationArg::Int8) => Some(Activations::Int8),
            Some(ActivationArg::Int8Wide) => Some(Activations::Int8Wide),
            Some(ActivationArg::F32) => Some(Activations::F32),
            None => fast.then_some(Activations::Int8Wide),
        };
        match activations {
            Some(coded @ (Activations::Int8 | Activations::Int8Wide)) if !model.has_blocks() => {
                refused(coded, "no matrix of this model is quantized, so that all would run in f32")
            }
            _ => Ok(Decoder::new(model, cpu, activations)),
        }
    }
}

fn refused<T>(activations: Activations, why: &str) -> Result<T> {
    Err(RuntimeError::Request(format!("--activations {}: {why}", activations.name())))
}
