//! Where a model that is kept open runs. Texts come from either kind of processor; all else is computed by the one that is always there.

#[cfg(feature = "gpu")]
use qsf_runtime::Runner as _;
use qsf_runtime::progress::Cancel;
use qsf_runtime::{Decoder, Result, RuntimeError};

use super::KeptModel;

impl KeptModel {
    /// The decoder that computes `what`, which no graphics processor does here, and stops when `cancel` is requested.
    ///
    /// # Errors
    /// When the model was opened on one.
    pub fn on_cpu(&self, what: &str, cancel: &Cancel) -> Result<Decoder> {
        if self.is_on_gpu() {
            let problem =
                format!("{what}: not with device gpu, which makes texts; open the model with device cpu");
            return Err(RuntimeError::Request(problem));
        }
        Ok(self.decoder.clone().stop_on(cancel))
    }

    /// Whether texts come from a graphics processor.
    pub fn is_on_gpu(&self) -> bool {
        #[cfg(feature = "gpu")]
        return self.gpu.is_some();
        #[cfg(not(feature = "gpu"))]
        false
    }

    /// What makes texts: `cpu`, or the name of a graphics processor and how it is spoken to.
    pub fn device(&self) -> String {
        #[cfg(feature = "gpu")]
        if let Some(gpu) = &self.gpu {
            return gpu.device();
        }
        "cpu".into()
    }
}
