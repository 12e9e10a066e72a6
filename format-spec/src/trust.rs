//! Whether this process trusts the authors of the files that it opens. It is said once, before the first is opened, and holds for
//! all: what a file may cost is no business of those who pass its parts on.

use std::sync::atomic::{AtomicBool, Ordering};

static UNTRUSTED: AtomicBool = AtomicBool::new(false);

/// From now on, files are those of strangers: limits on what they may take are halved, and whatever has no good limit is
/// refused. There is no way back.
pub fn distrust() {
    UNTRUSTED.store(true, Ordering::Relaxed);
}

/// Whether [`distrust`] was called.
pub fn is_untrusted() -> bool {
    UNTRUSTED.load(Ordering::Relaxed)
}

/// A limit, as it holds in this process.
pub fn in_force(limit: usize) -> usize {
    if is_untrusted() { limit / 2 } else { limit }
}
