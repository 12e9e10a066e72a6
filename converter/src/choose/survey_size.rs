//! How much of a model a survey measures.

use crate::options::SearchEffort;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SurveySize {
    /// Rows of a matrix, or of a class of its rows, that are quantized in every type.
    pub sample_rows: usize,
    /// Chunks of the text for the moments that types are compared by: what a matrix is fitted to in the end takes more.
    pub heard_chunks: usize,
}

impl SurveySize {
    /// For a search of this effort.
    pub const fn of(effort: SearchEffort) -> SurveySize {
        match effort {
            SearchEffort::Low => SurveySize { sample_rows: 64, heard_chunks: 8 },
            _ => SurveySize { sample_rows: 128, heard_chunks: 32 },
        }
    }
}
