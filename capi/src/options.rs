//! Options by name.

use std::ffi::c_char;

use qsf_cli::batch::manifest::Given;

use crate::arguments;
use crate::status::{guard, qsf_status};

/// Options: those of the programs by their names, such as "threads", "ram_budget", "kv_type" or "quality".
#[allow(non_camel_case_types, reason = "a name of C")]
#[derive(Default)]
pub struct qsf_options {
    pub(crate) given: Vec<(String, Given)>,
}

/// Options of which none is set. To be freed by qsf_options_free.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_options_new() -> *mut qsf_options {
    Box::into_raw(Box::default())
}

/// Sets an option. Values are written as on a command line ("200MB", "8bit,4bit"); a flag is "true" or "false". Whether there is
/// such an option is checked where the options are used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_options_set(
    options: *mut qsf_options,
    name: *const c_char,
    value: *const c_char,
) -> qsf_status {
    guard(|| {
        // SAFETY: as the header demands.
        let (options, name) =
            unsafe { (arguments::place(options, "options")?, arguments::text(name, "name")?) };
        // SAFETY: as the header demands.
        let value = match unsafe { arguments::text(value, "value") }? {
            "true" => Given::Flag(true),
            "false" => Given::Flag(false),
            text => Given::Text(text.to_owned()),
        };
        options.given.retain(|(given, _)| given != name);
        options.given.push((name.to_owned(), value));
        Ok(())
    })
}

/// Frees options. NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsf_options_free(options: *mut qsf_options) {
    if !options.is_null() {
        // SAFETY: it came from `qsf_options_new`, and is freed once, as the header demands.
        drop(unsafe { Box::from_raw(options) });
    }
}

/// The options at `pointer`; none for NULL.
///
/// # Safety
/// It is valid for reads as long as the result is used, or NULL.
pub unsafe fn given<'a>(pointer: *const qsf_options) -> &'a [(String, Given)] {
    // SAFETY: as the caller promises.
    unsafe { pointer.as_ref() }.map_or(&[], |options| &options.given)
}
