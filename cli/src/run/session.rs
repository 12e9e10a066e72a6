//! A model that is loaded as the flags say, with the prompt that it is to continue.

use std::io::{IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use qsf_runtime::cpu::Cpu;
use qsf_runtime::generate::PROMPT_BATCH;
use qsf_runtime::source::check_beside;
use qsf_runtime::stream::Need;
use qsf_runtime::{Decoder, KvOptions, Result, RuntimeError, Tokenizer};

use super::args::RunArgs;
use super::lengths::Lengths;
use super::outputs::check_outputs;
use super::prompt::{all_prompts, no_tokenizer, prompt_tokens};
use super::prompt_lines::Prompts;
use crate::console::{note as tell, print};
use crate::interrupt::cancel_on_interrupt;
use crate::kept_model::KeptModel;
use crate::model_args::{DefaultActivations, Device, OpenModel, ShortcutReport, Streaming};

/// What text is generated with, beside the decoder.
pub(super) struct Session {
    pub open: OpenModel,
    pub tokenizer: Option<Tokenizer>,
    /// Tokens to continue; of several prompts the most.
    pub prompt: Vec<u32>,
    /// All of --prompts or --classify.
    pub prompts: Option<Prompts>,
    pub lengths: Lengths,
    pub kv: KvOptions,
    pub shortcuts: ShortcutReport,
    pub streaming: Option<Streaming>,
    /// When loading began.
    pub started: Instant,
}

impl Session {
    /// Loads the model at `path`; `None` where only its memory plan was asked for, which is printed.
    pub fn load(args: &RunArgs, path: &Path, cpu: Cpu) -> anyhow::Result<Option<(Decoder, Session)>> {
        let started = Instant::now();
        // While somebody types, there is time to check all of the file. What writes files of its own begins with them.
        let only_answers = args.lines().is_none() && args.look.attention.is_none();
        let answers_at_once =
            only_answers && !args.interactive.interactive && args.device.device == Device::Cpu;
        let mut open =
            if answers_at_once { args.stream.open_for_answer(path)? } else { args.stream.open(path)? };
        check_outputs(args, open.source())?;
        let cancel = cancel_on_interrupt()?;
        // Before the weights, so that a budget is made with what the tokenizer takes. Token ids that nobody reads need none.
        let ids_only = args.prompt_ids.is_some() && args.stream.ram_budget.is_some();
        let source = open.source();
        let json = source.tokenizer_json().filter(|_| !ids_only);
        let tokenizer = check_beside(source, cpu.threads(), || {
            json.map(|json| Tokenizer::from_json(json, source.path())).transpose()
        })?;
        let prompts = all_prompts(args, source, tokenizer.as_ref())?;
        let prompt = match &prompts {
            Some(prompts) => prompts.longest().to_vec(),
            None => prompt_tokens(args, source, tokenizer.as_ref())?,
        };
        let lengths = Lengths::new(args, source.config(), &prompt)?;
        let kv = args.kv.options(open.default_kv());
        let layers = args.shortcuts.layers(open.source())?;
        let (mut model, streaming) = open.load(Need {
            context: lengths.context,
            least_context: lengths.least_context,
            batch: lengths.step,
            logit_rows: 1,
            whole_head: args.shortcuts.whole_head(),
            kv,
            smaller_kv: if args.kv.kv_type.is_some() { Vec::new() } else { open.smaller_kv() },
            skipped: layers.as_ref().map_or_else(Vec::new, |layers| layers.skipped().to_vec()),
            threads: cpu.threads(),
            compared_with: None,
        })?;
        if let Some(streaming) = streaming.as_ref().filter(|_| args.stream.memory_plan) {
            print(&streaming.describe(args.json))?;
            return Ok(None);
        }
        if let Some(note) =
            streaming.as_ref().and_then(|streaming| streaming.concessions(lengths.context, kv))
        {
            tell(&note);
        }
        args.huge_pages.apply(&mut model, &open);
        // Prompts that share steps give what each gives alone.
        let default = match prompts {
            Some(_) => DefaultActivations::Comparable,
            None => DefaultActivations::fast(&args.stream),
        };
        let decoder = args.activations.decoder(Arc::new(model), cpu, default)?.stop_on(&cancel);
        let (decoder, shortcuts) = args.shortcuts.apply_with(decoder, open.source(), layers)?;
        let shortcuts = shortcuts.with_lora(open.lora());
        if args.verbose || std::io::stderr().is_terminal() {
            write!(std::io::stderr(), "{}", shortcuts.lines())?;
        }
        let session =
            Session { open, tokenizer, prompt, prompts, lengths, kv, shortcuts, streaming, started };
        Ok(Some((decoder, session)))
    }

    /// The model and its many prompts, for a run that takes them together.
    ///
    /// # Errors
    /// When there are none, or nothing that makes texts of tokens.
    pub fn keep(self, decoder: Decoder, args: &RunArgs) -> Result<(KeptModel, Prompts)> {
        let Session { open, tokenizer, prompts, kv, streaming, .. } = self;
        let prompts = prompts.ok_or_else(|| RuntimeError::Request("there are no prompts".into()))?;
        let tokenizer = tokenizer.ok_or_else(|| no_tokenizer(open.source().path()))?;
        let plan = streaming.as_ref().map(|streaming| &streaming.plan);
        let limit = args.ctx_size.unwrap_or(decoder.model().config.max_positions as usize);
        let (context, batch, kv) = plan.map_or((limit, PROMPT_BATCH, kv), |p| (p.context, p.batch, p.kv));
        let budget = plan.map(|plan| plan.budget.0);
        let turn = Mutex::new(());
        let model = KeptModel {
            open,
            tokenizer,
            decoder,
            #[cfg(feature = "gpu")]
            gpu: None,
            context,
            batch,
            kv,
            budget,
            turn,
        };
        Ok((model, prompts))
    }
}
