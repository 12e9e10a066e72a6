//! A token that may be chosen.

use std::cmp::Ordering;

/// A token and its logit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub id: u32,
    pub logit: f32,
}

/// Likeliest first; of equals, the lowest id. Total, for NaN is never a candidate.
pub(super) fn by_rank(a: &Candidate, b: &Candidate) -> Ordering {
    b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.id.cmp(&b.id))
}
