//! What is wrong with a Parquet file.

/// A mistake in a file, without the file's name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flaw {
    pub place: String,
    pub expected: String,
    pub found: String,
}

impl Flaw {
    pub fn new(place: impl Into<String>, expected: impl Into<String>, found: impl Into<String>) -> Flaw {
        Flaw { place: place.into(), expected: expected.into(), found: found.into() }
    }
}

/// The error is what was found.
pub(super) type Found<T> = Result<T, String>;
