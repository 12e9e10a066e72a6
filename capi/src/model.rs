//! Models, and text to tokens and back.

use std::ffi::c_char;
use std::sync::Arc;

use qsf_cli::convert::parse_named;
use qsf_cli::kept_model::{KeptModel, KeptModelArgs};
use qsf_runtime::progress::Cancel;

use crate::arguments;
use crate::options::{given, qsf_options};
use crate::status::{guard, qsf_status};

/// A model in memory. Threads may share it.
#[allow(non_camel_case_types, reason = "a name of C")]
pub struct qsf_model {
    pub(crate) kept: Arc<KeptModel>,
}

/// What a model is.
#[repr(C)]
#[allow(non_camel_case_types, reason = "a name of C")]
#[derive(Debug, Clone, Copy, Default)]
pub struct qsf_model_info {
    /// Tokens of the vocabulary: as many logits has a position.
    pub vocab: u32,
    /// Positions that a text may take here.
    pub context: u32,
    /// Layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Query heads of a layer.
    pub heads: u32,
    /// Key and value heads of a layer.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Token that starts a text, or -1.
    pub bos: i64,
    /// Token that ends a text, the first of several, or -1.
    pub eos: i64,
}

/// Opens and loads a model: a QSF file, a HuggingFace directory or a GGUF file. Every byte that is used is checked first. Options are
/// those of qsf-run: "threads", "ram_budget", "huge_pages", "ctx_size", "kv_type", "kv_window", "activations", "quality",
/// "head", "early_exit"; options may be NULL. The model is to be freed by qsf_model_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_model_open(
    path: *const c_char,
    options: *const qsf_options,
    model: *mut *mut qsf_model,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let (path, place) = unsafe { (arguments::path(path, "path")?, arguments::place(model, "model")?) };
        // SAFETY: as the header demands.
        let args: KeptModelArgs = parse_named(unsafe { given(options) }, &[], &[], &[&path])?;
        let kept = args.load(args.compute().start_in_library()?, &Cancel::default())?;
        *place = Box::into_raw(Box::new(qsf_model { kept: Arc::new(kept) }));
        Ok(())
    })
}

/// Frees a model. Its sessions stay valid. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_model_free(model: *mut qsf_model) {
    if !model.is_null() {
        // SAFETY: it came from `qsf_model_open`, and is freed once, as the header demands.
        drop(unsafe { Box::from_raw(model) });
    }
}

/// What the model is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_model_describe(
    model: *const qsf_model,
    info: *mut qsf_model_info,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let (model, place) = unsafe { (arguments::object(model, "model")?, arguments::place(info, "info")?) };
        let config = &model.kept.decoder.model().config;
        *place = qsf_model_info {
            vocab: config.vocab,
            context: u32::try_from(model.kept.context).unwrap_or(u32::MAX),
            layers: config.layers,
            hidden: config.hidden,
            heads: config.heads,
            kv_heads: config.kv_heads,
            head_dim: config.head_dim,
            bos: config.bos.map_or(-1, i64::from),
            eos: config.stop_tokens.first().map_or(-1, |&token| i64::from(token)),
        };
        Ok(())
    })
}

/// The tokens of a text, with those that the tokenizer itself adds. Writes at most capacity ids, and to length how many there are:
/// with QSF_BUFFER_TOO_SMALL the size that is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_tokenize(
    model: *const qsf_model,
    text: *const c_char,
    ids: *mut u32,
    capacity: usize,
    length: *mut usize,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let (model, text) = unsafe { (arguments::object(model, "model")?, arguments::text(text, "text")?) };
        let found = model.kept.tokenizer.encode(text)?;
        // SAFETY: as the header demands.
        unsafe { arguments::give(&found, ids, capacity, length) }
    })
}

/// The text of tokens, in UTF-8 without a zero at its end; with skip_special without special tokens. Writes at most capacity bytes,
/// and to length how many there are: with QSF_BUFFER_TOO_SMALL the size that is needed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_detokenize(
    model: *const qsf_model,
    ids: *const u32,
    count: usize,
    skip_special: bool,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let (model, ids) =
            unsafe { (arguments::object(model, "model")?, arguments::values(ids, count, "ids")?) };
        let found = model.kept.tokenizer.decode(ids, skip_special)?;
        // SAFETY: as the header demands; a byte is as large as a char of C.
        unsafe { arguments::give(found.as_bytes(), text.cast(), capacity, length) }
    })
}
