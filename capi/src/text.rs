//! Text that continues a prompt.

use std::ffi::{c_char, c_void};

use qsf_cli::kept_model::TextRequest;
use qsf_runtime::RuntimeError;
use qsf_runtime::generate::StopReason;
use qsf_runtime::progress::Cancel;
use qsf_runtime::sample::SamplerOptions;

use crate::arguments;
use crate::model::qsf_model;
use crate::status::{guard, qsf_status};

/// A flag that stops work in another thread.
#[allow(non_camel_case_types, reason = "a name of C")]
#[derive(Default)]
pub struct qsf_cancel {
    pub(crate) flag: Cancel,
}

/// A flag that is not raised. To be freed by qsf_cancel_free.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_cancel_new() -> *mut qsf_cancel {
    Box::into_raw(Box::default())
}

/// Stops, soon and for good, all work that has this flag. Any thread may call it. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_cancel_request(cancel: *const qsf_cancel) {
    // SAFETY: it is valid or NULL, as the header demands.
    if let Some(cancel) = unsafe { cancel.as_ref() } {
        cancel.flag.request();
    }
}

/// Frees a flag that no work has any longer. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_cancel_free(cancel: *mut qsf_cancel) {
    if !cancel.is_null() {
        // SAFETY: it came from `qsf_cancel_new`, and is freed once, as the header demands.
        drop(unsafe { Box::from_raw(cancel) });
    }
}

/// How tokens are chosen. qsf_sampling_default fills it.
#[repr(C)]
#[allow(non_camel_case_types, reason = "a name of C")]
#[derive(Debug, Clone, Copy)]
pub struct qsf_sampling {
    /// 0 always takes the likeliest token.
    pub temperature: f32,
    /// Only the top_k likeliest tokens; 0 for all.
    pub top_k: u32,
    /// Only the likeliest tokens that together reach this probability; 1 for all.
    pub top_p: f32,
    /// Only tokens at least this likely relative to the likeliest; 0 for all.
    pub min_p: f32,
    /// The same seed gives the same tokens on every machine.
    pub seed: u64,
}

impl qsf_sampling {
    pub(crate) fn options(self) -> Result<SamplerOptions, RuntimeError> {
        let qsf_sampling { temperature, top_k, top_p, min_p, seed } = self;
        SamplerOptions::new(temperature, top_k as usize, top_p, min_p, seed)
    }
}

/// The defaults of qsf-run: temperature 0.7, top_k 40, top_p 0.9, min_p 0, and seed 0.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_sampling_default() -> qsf_sampling {
    qsf_sampling { temperature: 0.7, top_k: 40, top_p: 0.9, min_p: 0.0, seed: 0 }
}

/// How a generation ended.
#[repr(C)]
#[allow(non_camel_case_types, reason = "a name of C")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum qsf_stop {
    /// The model ended its text.
    QSF_STOP_TOKEN = 0,
    /// There are as many tokens as asked for.
    QSF_STOP_MAX_TOKENS = 1,
    /// The callback or a cancellation ended it.
    QSF_STOP_INTERRUPTED = 2,
}

/// What a generation took.
#[repr(C)]
#[allow(non_camel_case_types, reason = "a name of C")]
#[derive(Debug, Clone, Copy)]
pub struct qsf_stats {
    /// Tokens of the prompt.
    pub prompt_tokens: u64,
    /// Tokens that were generated.
    pub tokens: u64,
    /// Seconds up to the first token.
    pub prompt_seconds: f64,
    /// Seconds of all others.
    pub decode_seconds: f64,
    /// How it ended.
    pub stop: qsf_stop,
}

/// Gets a piece of the text, in UTF-8 without a zero at its end, in the thread that called. false ends the generation.
#[allow(non_camel_case_types, reason = "a name of C")]
pub type qsf_on_text =
    Option<unsafe extern "C" fn(text: *const c_char, length: usize, user_data: *mut c_void) -> bool>;

/// Continues a prompt. With chat it is what a user says, which goes into the model's chat template, behind system_prompt.
/// max_tokens 0: 256, or what the context leaves. system_prompt, sampling (the defaults), on_text, cancel and stats may be NULL.
///
/// A generation that the callback or a cancellation ends gives QSF_OK, and stats say so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_generate(
    model: *const qsf_model,
    prompt: *const c_char,
    chat: bool,
    system_prompt: *const c_char,
    max_tokens: usize,
    sampling: *const qsf_sampling,
    on_text: qsf_on_text,
    user_data: *mut c_void,
    cancel: *const qsf_cancel,
    stats: *mut qsf_stats,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let (model, prompt) =
            unsafe { (arguments::object(model, "model")?, arguments::text(prompt, "prompt")?) };
        // SAFETY: as the header demands.
        let system = unsafe { arguments::optional_text(system_prompt, "system_prompt") }?;
        // SAFETY: as the header demands.
        let sampling = unsafe { sampling.as_ref() }.copied().unwrap_or_else(|| qsf_sampling_default());
        let request = TextRequest {
            prompt: prompt.to_owned(),
            max_tokens: (max_tokens > 0).then_some(max_tokens),
            sampling: sampling.options()?,
            chat,
            system_prompt: system.map(str::to_owned),
            stop: Vec::new(),
            ignore_eos: false,
        };
        // SAFETY: as the header demands.
        let given = unsafe { cancel.as_ref() };
        let cancel = given.map_or_else(Cancel::default, |cancel| cancel.flag.clone());
        let mut is_over = false;
        let made = model.kept.generate(&request, &cancel, &mut |piece| {
            let Some(on_text) = on_text.filter(|_| !is_over) else { return Ok(()) };
            // SAFETY: the callback is the caller's own, and gets what the header promises.
            let goes_on = unsafe { on_text(piece.as_ptr().cast(), piece.len(), user_data) };
            is_over = !goes_on;
            if goes_on { Ok(()) } else { Err(RuntimeError::Interrupted) }
        })?;
        // SAFETY: as the header demands.
        if let Some(stats) = unsafe { stats.as_mut() } {
            *stats = qsf_stats {
                prompt_tokens: made.prompt_tokens as u64,
                tokens: made.generation.tokens.len() as u64,
                prompt_seconds: made.generation.prefill.as_secs_f64(),
                decode_seconds: made.generation.decode.as_secs_f64(),
                stop: match made.generation.stop {
                    // Callers of C give no stop texts.
                    StopReason::StopToken | StopReason::StopText => qsf_stop::QSF_STOP_TOKEN,
                    StopReason::MaxTokens => qsf_stop::QSF_STOP_MAX_TOKENS,
                    StopReason::Interrupted => qsf_stop::QSF_STOP_INTERRUPTED,
                },
            };
        }
        Ok(())
    })
}
