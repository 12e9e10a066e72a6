//! Text files.

use std::path::Path;

use crate::error::RuntimeError;

/// Texts are held in memory, several times over while they become tokens.
const MAX_TEXT_BYTES: u64 = 1 << 30;

/// Reads a text file as UTF-8.
///
/// # Errors
/// When it cannot be read or is not UTF-8; the error names the first bad byte.
pub fn read_text(path: &Path) -> Result<String, RuntimeError> {
    let found = std::fs::metadata(path).map_err(|e| RuntimeError::io(path, "read", e))?;
    if !found.is_file() || found.len() > MAX_TEXT_BYTES {
        let expected = format!("a regular file of at most {MAX_TEXT_BYTES} bytes");
        return Err(RuntimeError::bad_input(path, "the text", expected, format!("{} bytes", found.len())));
    }
    let bytes = std::fs::read(path).map_err(|e| RuntimeError::io(path, "read", e))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        RuntimeError::bad_input(
            path,
            format!("offset {at}"),
            "UTF-8 text",
            format!("byte {:#04x}", e.as_bytes()[at]),
        )
    })
}
