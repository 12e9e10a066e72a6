//! What a plan has decided, held against what there is now.

use std::path::{Path, PathBuf};

use qsf_format::SourceFile;
use qsf_runtime::RuntimeError;

use super::types::Types;
use crate::error::Result;
use crate::plan::Plan;

/// What was measured of the unchanged model when types were chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct SurveyedModel {
    /// Of each layer, how much it matters.
    pub importance: Vec<f32>,
}

/// What a plan has decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    /// Where the plan is.
    pub(crate) path: PathBuf,
    /// How every tensor is stored.
    pub(crate) types: Types,
    /// The model's files.
    pub(crate) sources: Vec<SourceFile>,
    /// What the files of `--stats-in` are of.
    pub(crate) stats_texts: Option<Vec<String>>,
    /// What was measured, where types were chosen for a size.
    pub(crate) survey: Option<SurveyedModel>,
    /// Whether somebody has changed the types.
    pub(crate) edited: bool,
    /// Whether types were chosen for a size.
    pub(crate) chosen: bool,
}

impl Replay {
    /// Gives every tensor its type.
    ///
    /// # Errors
    /// When the tensors are not those of the plan.
    pub(crate) fn apply(&self, plan: &mut Plan) -> Result<()> {
        self.types.apply(plan).map_err(|found| {
            let expected = "a type for every tensor of the model";
            RuntimeError::bad_input(&self.path, "plan", expected, found).into()
        })
    }

    /// Compares the files of `model`, hashed, with those of the plan.
    ///
    /// # Errors
    /// With the first that is another one.
    pub(crate) fn check_model(&self, model: &Path, found: &[SourceFile]) -> Result<()> {
        let differs = |name: &str, what: &str| {
            let (plan, model) = (self.path.display(), model.display());
            let problem = format!(
                "{plan}: made of another model than {model}: {name} {what}; make a plan of this one by --save-plan"
            );
            Err(RuntimeError::Request(problem).into())
        };
        for file in &self.sources {
            match found.iter().find(|other| other.name == file.name) {
                None => return differs(&file.name, "is missing here"),
                Some(other) if other != file => return differs(&file.name, "has other contents here"),
                Some(_) => {}
            }
        }
        match found.iter().find(|file| self.sources.iter().all(|known| known.name != file.name)) {
            Some(more) => differs(&more.name, "is not in the plan"),
            None => Ok(()),
        }
    }

    /// Compares what `--stats-in` files are of with what the plan was made by.
    ///
    /// # Errors
    /// When that is something else.
    pub(crate) fn check_statistics(&self, texts: Option<&[String]>) -> Result<()> {
        if self.stats_texts.as_deref() == texts {
            return Ok(());
        }
        let problem = format!(
            "{}: the statistics files are of other texts than those that the plan was made by; say where those are by --stats-in",
            self.path.display()
        );
        Err(RuntimeError::Request(problem).into())
    }
}
