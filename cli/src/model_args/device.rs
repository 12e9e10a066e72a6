//! `--device`: whether the processor or a graphics processor runs a model.

use clap::{Args, ValueEnum};
use qsf_runtime::cpu::KvTypes;
#[cfg(feature = "gpu")]
use qsf_runtime::gpu::{AdapterSummary, Gpu, GpuDecoder, adapters};
use qsf_runtime::{Decoder, Result, RuntimeError};
use serde_json::Value;

use super::{ActivationArgs, HeadChoice, KvArgs, ShortcutArgs, StreamArgs};
#[cfg(feature = "gpu")]
use crate::console::note;

/// Flag of binaries that run models.
#[derive(Debug, Clone, Copy, Args)]
pub struct DeviceArgs {
    /// What runs the model: the processor (cpu), a graphics processor (gpu), or that where there is one that can do what is
    /// asked for (auto)
    #[arg(long, value_enum, value_name = "DEVICE", default_value = DEFAULT, help_heading = "Machine")]
    pub device: Device,
}

/// Nobody makes a build for graphics processors and then does not want them.
const DEFAULT: &str = if cfg!(feature = "gpu") { "auto" } else { "cpu" };

/// What runs a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Device {
    /// The processor
    Cpu,
    /// A graphics processor
    Gpu,
    /// A graphics processor if possible
    Auto,
}

/// A model with what runs it.
pub enum Runs {
    /// The processor.
    OnCpu(Box<Decoder>),
    /// A graphics processor.
    #[cfg(feature = "gpu")]
    OnGpu(Box<GpuDecoder>),
}

#[cfg(feature = "gpu")]
impl Runs {
    /// The one on a graphics processor.
    pub fn on_gpu(self) -> Option<GpuDecoder> {
        match self {
            Runs::OnCpu(_) => None,
            Runs::OnGpu(gpu) => Some(*gpu),
        }
    }
}

impl DeviceArgs {
    /// The processor.
    pub const CPU: DeviceArgs = DeviceArgs { device: Device::Cpu };

    /// Takes the model of `decoder` to the device. `only_on_cpu` is a flag that was given and that no graphics processor honours.
    ///
    /// # Errors
    /// With `--device gpu`, when there is none or it cannot run the model so.
    pub fn choose(self, decoder: Decoder, only_on_cpu: Option<&str>) -> Result<Runs> {
        match (self.device, only_on_cpu) {
            (Device::Cpu, _) | (Device::Auto, Some(_)) => Ok(Runs::OnCpu(Box::new(decoder))),
            (Device::Gpu, Some(flag)) => Err(RuntimeError::Request(format!(
                "{flag}: not with --device gpu, where keys and values are both f16 or both 8bit and the whole model is run from \
                 the memory of the device; leave one of the two out"
            ))),
            (device, None) => choose_gpu(decoder, device == Device::Auto),
        }
    }
}

#[cfg(feature = "gpu")]
fn choose_gpu(decoder: Decoder, if_possible: bool) -> Result<Runs> {
    // One that is a program on the CPU is slower than the CPU: only for who insists.
    let taken = Gpu::open(!if_possible).and_then(|gpu| GpuDecoder::new(gpu, &decoder));
    match taken {
        Ok(decoder) => {
            if let Some(why) = decoder.room().note() {
                note(&why);
            }
            Ok(Runs::OnGpu(Box::new(decoder)))
        }
        Err(_) if if_possible => Ok(Runs::OnCpu(Box::new(decoder))),
        Err(error) => Err(error),
    }
}

#[cfg(not(feature = "gpu"))]
fn choose_gpu(decoder: Decoder, if_possible: bool) -> Result<Runs> {
    if if_possible {
        return Ok(Runs::OnCpu(Box::new(decoder)));
    }
    Err(built_without())
}

/// There is no support of graphics processors here.
#[cfg(not(feature = "gpu"))]
pub fn built_without() -> RuntimeError {
    let why = "it was built without the feature gpu, as in cargo install --path cli --features gpu";
    RuntimeError::NoGpu { why: why.into() }
}

/// The first of the flags given that only the CPU honours.
pub fn only_on_cpu(
    stream: &StreamArgs,
    kv: &KvArgs,
    shortcuts: &ShortcutArgs,
    activations: ActivationArgs,
) -> Option<&'static str> {
    let flags = [
        ("--activations", activations.given()),
        ("--ram-budget", stream.ram_budget.is_some()),
        ("--kv-type", kv.kv_type.is_some_and(|types| !matches!(types, KvTypes::F16 | KvTypes::EIGHT_BIT))),
        ("--kv-window", kv.kv_window.is_some()),
        ("--head", shortcuts.head() != HeadChoice::Exact),
        ("--quality", shortcuts.leaves_layers_out()),
        ("--early-exit", shortcuts.exits_early()),
    ];
    flags.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
}

/// The graphics processors, for JSON; null where the build has no support of them.
#[cfg(feature = "gpu")]
pub fn adapters_json() -> Value {
    serde_json::json!(adapters())
}

/// The graphics processors, for JSON; null where the build has no support of them.
#[cfg(not(feature = "gpu"))]
pub fn adapters_json() -> Value {
    Value::Null
}

/// The graphics processors in lines for people.
#[cfg(feature = "gpu")]
pub fn adapters_text() -> String {
    let line = |adapter: AdapterSummary| {
        format!(
            "GPU: {} ({}, {}, {}), {}, {}buffers of up to {}{}\n",
            adapter.name,
            adapter.backend,
            adapter.kind,
            adapter.driver,
            match adapter.matrix_units {
                Some(side) => format!("matrix units of {side} x {side}"),
                None => "no matrix units".into(),
            },
            if adapter.shared_memory { "memory shared with the processor, " } else { "" },
            qsf_format::human_bytes(adapter.max_binding_bytes.min(adapter.max_buffer_bytes)),
            if adapter.usable { "" } else { "; cannot run models: it has no immediates" }
        )
    };
    let all: String = adapters().into_iter().map(line).collect();
    if all.is_empty() { "GPU: none found\n".into() } else { all }
}

/// Says that the build has no support of graphics processors.
#[cfg(not(feature = "gpu"))]
pub fn adapters_text() -> String {
    "GPU: not in this build (cargo install --path cli --features gpu)\n".into()
}
