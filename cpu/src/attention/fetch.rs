//! Lines that are used later, asked for as others are used.

/// Asked from time to time.
pub(super) trait Fetch {
    /// Has the processor fetch the next line, where there is one.
    fn fetch(&mut self);
}

/// Nothing is fetched.
pub(super) struct NothingAhead;

impl Fetch for NothingAhead {
    #[inline(always)]
    fn fetch(&mut self) {}
}
