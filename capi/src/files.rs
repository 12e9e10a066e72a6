//! Verify, inspect and evaluate files. Documents are those that the programs print with `--json` (docs/json.md).

use std::ffi::{CString, c_char};

use qsf_cli::convert::parse_named;
use qsf_cli::evaluate::{EvalArgs, evaluation_json};
use qsf_cli::inspect::inspect_json;
use qsf_runtime::progress::{Cancel, Unwatched};

use crate::arguments;
use crate::options::{given, qsf_options};
use crate::status::{guard, qsf_status};
use crate::text::qsf_cancel;

/// Reads every byte of a QSF file and compares all checksums. Nothing of it is run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_verify(path: *const c_char) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let path = unsafe { arguments::path(path, "path") }?;
        inspect_json(&path, false, true, false).map(drop)
    })
}

/// What qsf-inspect --json prints of a file, with tensors that of --tensors. The text is to be freed by qsf_string_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_inspect_json(
    path: *const c_char,
    tensors: bool,
    json: *mut *mut c_char,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let path = unsafe { arguments::path(path, "path") }?;
        let found = inspect_json(&path, tensors, false, true)?;
        // SAFETY: as the header demands.
        unsafe { arguments::give_string(found.to_string(), json) }
    })
}

/// What qsf-eval --json prints: the perplexity of a model on a text file, and with a base its divergence from that. Options are those
/// of qsf-eval ("ctx", "chunks", "ram_budget", "kv_type"). base, options and cancel may be NULL. The text is to be freed by
/// qsf_string_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_evaluate_json(
    model: *const c_char,
    text_file: *const c_char,
    base: *const c_char,
    options: *const qsf_options,
    cancel: *const qsf_cancel,
    json: *mut *mut c_char,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let (model, text) =
            unsafe { (arguments::path(model, "model")?, arguments::path(text_file, "text_file")?) };
        // SAFETY: as the header demands.
        let base = unsafe { arguments::optional_text(base, "base") }?.map(std::path::PathBuf::from);
        let mut files = vec![("file", text.as_path())];
        files.extend(base.as_deref().map(|base| ("base", base)));
        // SAFETY: as the header demands.
        let (given, cancel) = unsafe { (given(options), cancel.as_ref()) };
        let args: EvalArgs = parse_named(given, &[], &files, &[&model])?;
        let cpu = args.compute().start_in_library()?;
        let cancel = cancel.map_or_else(Cancel::default, |cancel| cancel.flag.clone());
        let found = evaluation_json(&args, &cpu, &Unwatched, &cancel)?;
        // SAFETY: as the header demands.
        unsafe { arguments::give_string(found.to_string(), json) }
    })
}

/// Frees a text that this library gave. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_string_free(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: it came from `give_string`, and is freed once, as the header demands.
        drop(unsafe { CString::from_raw(text) });
    }
}
