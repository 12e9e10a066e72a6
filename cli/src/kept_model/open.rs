//! Opens a model by options that come by name.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clap::Parser;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::generate::PROMPT_BATCH;
use qsf_runtime::memory;
use qsf_runtime::progress::Cancel;
use qsf_runtime::stream::{InUse, Need};
use qsf_runtime::{Decoder, KvOptions, RuntimeError, Tokenizer};

use crate::compute::ComputeArgs;
use crate::model_args::{
    ActivationArgs, DefaultActivations, Device, DeviceArgs, HugePageArgs, KvArgs, OpenModel, ShortcutArgs,
    StreamArgs, only_on_cpu,
};
#[cfg(feature = "gpu")]
use qsf_runtime::gpu::GpuDecoder;

/// Positions of a model within a budget, where nobody says how many are needed.
const DEFAULT_CONTEXT: usize = 2048;
/// Those that will do where the budget has no room for as many.
const LEAST_CONTEXT: usize = 256;

/// The flags that decide how a model is opened and run.
#[derive(Debug, Clone, Parser)]
#[command(name = "model", disable_help_flag = true)]
pub struct KeptModelArgs {
    /// The model
    pub model: PathBuf,
    /// Positions that prompt and text may take [default: what the model was made for; with a budget 2048]
    #[arg(long, visible_alias = "ctx", value_name = "N")]
    pub ctx_size: Option<usize>,
    #[command(flatten)]
    device: DeviceArgs,
    #[command(flatten)]
    compute: ComputeArgs,
    #[command(flatten)]
    activations: ActivationArgs,
    #[command(flatten)]
    shortcuts: ShortcutArgs,
    #[command(flatten)]
    stream: StreamArgs,
    #[command(flatten)]
    huge_pages: HugePageArgs,
    #[command(flatten)]
    kv: KvArgs,
}

/// A model that is open and loaded.
pub struct KeptModel {
    /// Its file.
    pub open: OpenModel,
    /// Its tokenizer.
    pub tokenizer: Tokenizer,
    /// What runs it on the processor.
    pub decoder: Decoder,
    /// What makes texts in its place.
    #[cfg(feature = "gpu")]
    pub gpu: Option<GpuDecoder>,
    /// Positions that prompt and text may take.
    pub context: usize,
    /// Tokens of the longest step.
    pub batch: usize,
    /// How keys and values are kept.
    pub kv: KvOptions,
    /// The budget, where there is one. It has room for one sequence.
    pub budget: Option<u64>,
    /// Held by the sequence that a budget has room for.
    pub turn: Mutex<()>,
}

impl KeptModelArgs {
    /// Threads and so on.
    pub fn compute(&self) -> &ComputeArgs {
        &self.compute
    }

    /// Opens and loads the model. A budget counts what the process has taken before, but not what it has given back since.
    ///
    /// # Errors
    /// When it cannot be read, or not be run as the flags say.
    pub fn load(&self, cpu: Cpu, cancel: &Cancel) -> anyhow::Result<KeptModel> {
        self.activations.check(cpu.isa(), &self.stream)?;
        let earlier_peak = memory::peak_anonymous();
        let mut open = self.stream.open(&self.model)?;
        cancel.check()?;
        let tokenizer = tokenizer(&open, &self.model)?;
        let longest = open.source().config().max_positions as usize;
        let whole = open.is_whole();
        let context = self.ctx_size.unwrap_or(if whole { longest } else { DEFAULT_CONTEXT.min(longest) });
        if context == 0 || context > longest {
            let problem = format!("ctx_size {context}: expected 1 to {longest}, the model's own");
            return Err(RuntimeError::Request(problem).into());
        }
        let kv = self.kv.options(open.default_kv());
        let layers = self.shortcuts.layers(open.source())?;
        let need = Need {
            context,
            least_context: self.ctx_size.unwrap_or(LEAST_CONTEXT.min(context)),
            batch: context.min(PROMPT_BATCH),
            logit_rows: 1,
            whole_head: self.shortcuts.whole_head(),
            kv,
            smaller_kv: if self.kv.kv_type.is_some() { Vec::new() } else { open.smaller_kv() },
            skipped: layers.as_ref().map_or_else(Vec::new, |layers| layers.skipped().to_vec()),
            threads: cpu.threads(),
            compared_with: None,
        };
        let (mut model, streaming) = open.load_beside(need, |unknown| in_use(unknown, earlier_peak))?;
        self.huge_pages.apply(&mut model, &open);
        let decoder = self.activations.decoder(Arc::new(model), cpu, DefaultActivations::Comparable)?;
        let (decoder, _) = self.shortcuts.apply_with(decoder, open.source(), layers)?;
        #[cfg_attr(not(feature = "gpu"), expect(unused_variables, reason = "there is one kind then"))]
        let runs = self.device.choose(decoder.clone(), self.only_on_cpu())?;
        let plan = streaming.as_ref().map(|streaming| &streaming.plan);
        let (context, batch, kv) =
            plan.map_or((context, PROMPT_BATCH, kv), |plan| (plan.context, plan.batch, plan.kv));
        let budget = plan.map(|plan| plan.budget.0);
        Ok(KeptModel {
            open,
            tokenizer,
            decoder,
            #[cfg(feature = "gpu")]
            gpu: runs.on_gpu(),
            context,
            batch,
            kv,
            budget,
            turn: Mutex::new(()),
        })
    }

    /// Why a graphics processor is not taken where one may be: most of what a library is asked for comes from the processor.
    fn only_on_cpu(&self) -> Option<&'static str> {
        if self.device.device == Device::Auto {
            return Some("device auto");
        }
        only_on_cpu(&self.stream, &self.kv, &self.shortcuts, self.activations)
    }
}

fn tokenizer(open: &OpenModel, path: &Path) -> Result<Tokenizer, RuntimeError> {
    let json = open.source().tokenizer_json();
    let json = json.ok_or_else(|| RuntimeError::bad_input(path, "tokenizer.json", "a tokenizer", "none"))?;
    Tokenizer::from_json(json, path)
}

/// What counts for a budget. A peak that was there before is not ours.
fn in_use(unknown: u64, earlier_peak: Option<u64>) -> InUse {
    let InUse { now, peak } = InUse::of_process(unknown);
    let ours = earlier_peak.is_none_or(|earlier| peak > earlier);
    InUse { now, peak: if ours { peak } else { now } }
}
