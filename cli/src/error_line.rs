//! The line that a program ends with when it fails: for people, or for those who read JSON.

use std::sync::atomic::{AtomicBool, Ordering};

use qsf_format::Failure;
use qsf_format::printable::printable;
use serde_json::{Value, json};

use crate::json_document::document;

/// Whether whoever started this process reads JSON.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// From here on errors are JSON documents.
pub fn report_errors_as_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// The line, without its end.
pub fn error_line(failure: Failure, message: &str) -> String {
    match AS_JSON.load(Ordering::Relaxed) {
        true => error_json(failure, message).to_string(),
        false => format!("error: {}", printable(message)),
    }
}

/// The document of an error.
pub fn error_json(failure: Failure, message: &str) -> Value {
    let members = json!({ "class": failure.name(), "exit_code": failure.exit_code(), "message": message });
    document("error", members)
}
