//! Threads and kernels for a call.

use std::sync::Once;

use qsf_cli::compute::ComputeArgs;
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;

/// What reads and encodes is on one pool for the whole process, as large as the first call says.
static LOADERS: Once = Once::new();

/// The kernels of this processor (`QSF_CPU` overrides the choice), on so many threads as `compute` says.
///
/// # Errors
/// When there cannot be so many, or `QSF_CPU` cannot be honoured.
pub fn cpu_of(compute: &ComputeArgs) -> anyhow::Result<Cpu> {
    let counts = compute.counts()?;
    let [threads] = counts[..] else {
        return Err(RuntimeError::Request("threads: expected one number".into()).into());
    };
    LOADERS.call_once(|| {
        // Refused where something else in this process has started the pool: then it is used as it is.
        let _ = compute.start_loaders();
    });
    compute.cpu(threads)
}
