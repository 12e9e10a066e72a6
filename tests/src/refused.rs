//! Calls that must fail.

use std::path::Path;

use crate::{Program, Snapshot};

/// Runs `call`, which must fail with `code`, say all of `says` on stderr, and change nothing below `dir`.
#[track_caller]
pub fn refused(what: &str, dir: &Path, call: Program, code: i32, says: &[&str]) {
    let before = Snapshot::of(dir);
    let output = call.dir(dir).run();
    assert_eq!(output.code, code, "{what}: {}{}", output.stdout, output.stderr);
    assert!(!output.stderr.contains("panicked"), "{what}: {}", output.stderr);
    let is_error = output.stderr.contains("error: ") || output.stderr.contains("\"document\":\"error\"");
    assert!(is_error, "{what}: {}", output.stderr);
    assert_eq!(output.stdout, "", "{what}: errors belong on stderr");
    for part in says {
        assert!(output.stderr.contains(part), "{what}: {part:?} is not in: {}", output.stderr);
    }
    assert_eq!(before.changes(&Snapshot::of(dir)), Vec::<String>::new(), "{what}");
}
