//! Where the model looks.

use qsf_runtime::attention::{AttentionArray, AttentionInMemory, AttentionPlan, attention};
use qsf_runtime::progress::Cancel;
use qsf_runtime::{KvOptions, Result, RuntimeError};

use super::KeptModel;

impl KeptModel {
    /// The weights and keys of `layers` (`None`: all) for `tokens`, each array with its values. Keys and values are kept in f32.
    ///
    /// # Errors
    /// When there are no tokens or no such layers, they do not fit into the context or into memory, there is a budget of
    /// memory, or the model cannot be run.
    pub fn attention(
        &self,
        tokens: &[u32],
        layers: Option<&[u32]>,
        cancel: &Cancel,
    ) -> Result<Vec<(AttentionArray, Vec<f32>)>> {
        if tokens.len() > self.context {
            let problem =
                format!("{} tokens: expected 1 to {}, the context of the model", tokens.len(), self.context);
            return Err(RuntimeError::Request(problem));
        }
        // Weights and keys in f32 are beyond what was planned.
        if self.budget.is_some() {
            let problem = "attention within a RAM budget is not shown: open the model without ram_budget";
            return Err(RuntimeError::Request(problem.into()));
        }
        let plan = AttentionPlan::new(&self.decoder.model().config, tokens.len(), layers)?;
        let mut taken = AttentionInMemory::new(&plan)?;
        let decoder = self.on_cpu("attention", cancel)?;
        attention(&decoder, tokens, &plan, KvOptions::default(), &mut taken)?;
        Ok(plan.arrays.into_iter().zip(taken.arrays).collect())
    }
}
