//! From a plan to the conversion that it was made of.

use qsf_runtime::RuntimeError;
use qsf_runtime::source::WeightSource;

use super::saved::{SavedPlan, SavedSurvey, tables_sha256};
use super::text::Texts;
use crate::error::{ConvertError, Result};
use crate::options::ConvertOptions;
use crate::replay::Replay;
use crate::sections::TOOL;

impl SavedPlan {
    /// The options of the conversion that the plan is of, with what it has decided.
    ///
    /// # Errors
    /// When another version of the program or of its tables made it, a text is missing or has changed, or it means nothing.
    pub fn options(&self, source: &dyn WeightSource, texts: &Texts<'_>) -> Result<ConvertOptions> {
        let path = texts.plan;
        let refused = |found: String| {
            ConvertError::Runtime(RuntimeError::bad_input(
                path,
                "plan",
                "a plan that --save-plan wrote",
                found,
            ))
        };
        let again = "only the same gives the same file: take that one, or make the plan again by --save-plan";
        if self.tool != TOOL {
            let problem = format!("{}: made by {}, and this is {TOOL}; {again}", path.display(), self.tool);
            return Err(RuntimeError::Request(problem).into());
        }
        if self.tables_sha256 != tables_sha256() {
            let problem =
                format!("{}: made by another build of {TOOL}, with other tables; {again}", path.display());
            return Err(RuntimeError::Request(problem).into());
        }
        let mut options = self.options.restore(source, texts, &refused)?;
        let edited = self.types.sha256() != self.types_sha256;
        if edited {
            // What is in the file now is what somebody wants, whatever its size.
            options.overrides = self.types.rules();
            options.size_limit = None;
        }
        options.named = self.named().to_owned();
        options.replay = Some(Replay {
            path: path.to_owned(),
            types: self.types.clone(),
            sources: self.sources.clone(),
            stats_texts: self.options.stats_texts.clone(),
            survey: self.survey.as_ref().map(SavedSurvey::restore),
            edited,
            chosen: self.options.size_limit.is_some(),
        });
        Ok(options)
    }
}
