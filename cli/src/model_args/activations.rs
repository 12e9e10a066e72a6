//! `--activations`: what weights of block types are multiplied with.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use qsf_runtime::cpu::{Cpu, Isa, KernelTable};
use qsf_runtime::{Activations, Decoder, Model, Result, RuntimeError};

use super::StreamArgs;

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
    /// For prompts on a processor with a matrix unit (Intel AMX): 8-bit, a scale per 256 values, weights recoded to the like, and
    /// attention in bfloat16: much faster, a little less exact; the rest as int8
    #[value(name = "int8-256")]
    Int8Wide,
    /// 32-bit floats: the reference
    F32,
}

impl ActivationArgs {
    /// Whether the flag was given.
    pub(super) fn given(self) -> bool {
        self.activations.is_some()
    }

    /// What can be checked without a model.
    ///
    /// # Errors
    /// When the processor has no matrix unit for these activations, or they do not go with a budget.
    pub fn check(self, isa: Isa, stream: &StreamArgs) -> Result<()> {
        if self.activations != Some(ActivationArg::Int8Wide) {
            return Ok(());
        }
        if !KernelTable::of(isa).has_matrix_unit() {
            return refused(
                Activations::Int8Wide,
                &format!(
                    "the instruction set in use, {}, has no matrix unit for it (that takes amx); leave it out for int8",
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
    pub fn decoder(self, model: Arc<Model>, cpu: Cpu) -> Result<Decoder> {
        let activations = self.activations.map(|activations| match activations {
            ActivationArg::Int8 => Activations::Int8,
            ActivationArg::Int8Wide => Activations::Int8Wide,
            ActivationArg::F32 => Activations::F32,
        });
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
