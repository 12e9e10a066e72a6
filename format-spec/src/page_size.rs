//! Sizes of the pages that files and memory are mapped in.

/// A multiple of every page that is in use for files (4, 16 and 64 KiB): which one the system has is not known here.
#[cfg(unix)]
pub(crate) const ANY_PAGE: usize = 64 << 10;

/// Bytes of a large page, and what it begins at a multiple of: on x86-64, and on ARM with small pages of 4 KiB.
pub const HUGE_PAGE: usize = 2 << 20;
