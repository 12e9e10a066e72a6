//! `--plan FILE`: the type of every matrix as JSON that people can edit, written by one conversion and replayed by another.
//!
//! ```json
//! { "version": 1, "types": { "token_embedding": "n5", "layer 0 attn_q": "n3+0.5%" } }
//! ```
//!
//! The type `n3+0.5%` stores half a percent of the weights apart from the blocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use qsf_format::{JsonLimits, PartialFile, from_json};
use qsf_runtime::RuntimeError;
use serde::{Deserialize, Serialize};

use crate::error::{ConvertError, Result};
use crate::plan::{Plan, TypeOverride};

/// Most tensors of a plan, of which every one becomes a rule.
const MAX_TENSORS: usize = 1 << 17;
const VERSION: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlanFile {
    version: u32,
    /// In file order when written; the order means nothing when read.
    types: Types,
}

/// A map that keeps the order it was given, and refuses a name that comes twice when read.
#[derive(Debug)]
struct Types(Vec<(String, String)>);

impl Serialize for Types {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, form)| (name, form)))
    }
}

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Types, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Types;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensor names and types")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Types, A::Error> {
                let mut types = BTreeMap::new();
                while let Some((name, form)) = map.next_entry::<String, String>()? {
                    if types.len() == MAX_TENSORS {
                        return Err(serde::de::Error::custom(format!("more than {MAX_TENSORS} tensors")));
                    }
                    if types.insert(name.clone(), form).is_some() {
                        return Err(serde::de::Error::custom(format!("tensor '{name}' comes twice")));
                    }
                }
                Ok(Types(types.into_iter().collect()))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}

/// Writes the types of all matrices of `plan`; replaces what is at `path`.
///
/// # Errors
/// When the file cannot be written.
pub fn write_plan(path: &Path, plan: &Plan) -> Result<()> {
    let matrices = plan.tensors().iter().filter(|tensor| tensor.info.id.kind.is_matrix());
    let types = matrices.map(|tensor| (tensor.info.id.to_string(), tensor.form().to_string())).collect();
    let file = PlanFile { version: VERSION, types: Types(types) };
    let mut json = serde_json::to_vec_pretty(&file).expect("names and types are JSON");
    json.push(b'\n');
    let (mut target, mut file) = PartialFile::create(path, true)?;
    file.write_all(&json).map_err(|e| ConvertError::io(target.partial(), "write", e))?;
    Ok(target.publish(&file)?)
}

/// The types that a file gives, as overrides that name one tensor each.
///
/// # Errors
/// When the file cannot be read, is no plan, or names a tensor twice.
pub fn read_plan(path: &Path) -> Result<Vec<TypeOverride>> {
    let refused = |found: String| {
        let expected = "a plan: {\"version\": 1, \"types\": {\"layer 0 attn_q\": \"n4\", ...}}";
        ConvertError::Runtime(RuntimeError::bad_input(path, "plan", expected, found))
    };
    let file = File::open(path).map_err(|e| ConvertError::io(path, "open", e))?;
    let mut json = Vec::new();
    // One byte beyond the limit tells a file that is too large, also one that grows meanwhile.
    let most = JsonLimits::DESCRIPTION.bytes as u64;
    file.take(most + 1).read_to_end(&mut json).map_err(|e| ConvertError::io(path, "read", e))?;
    if json.len() as u64 > most {
        return Err(refused(format!("more than {most} bytes")));
    }
    let file: PlanFile = from_json(&json, JsonLimits::DESCRIPTION).map_err(refused)?;
    if file.version != VERSION {
        return Err(refused(format!("version {}", file.version)));
    }
    let rules = file.types.0.into_iter().map(|(name, form)| TypeOverride::exactly(&name, &form));
    rules.collect::<Result<_, String>>().map_err(refused)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use qsf_format::{QuantType, TensorId, TensorKind};
    use qsf_runtime::source::TensorInfo;

    use super::*;
    use crate::plan::{OutlierShare, Recipe};

    #[test]
    fn a_plan_that_was_written_gives_the_same_plan() {
        let info =
            |id| TensorInfo { id, name: "t".into(), rows: 64, cols: 64, stored: QuantType::F16.into() };
        let tensors = [
            info(TensorId::of_model(TensorKind::TokenEmbedding)),
            info(TensorId::of_layer(10, TensorKind::AttnQ)),
            info(TensorId::of_layer(1, TensorKind::AttnQ)),
        ];
        let rules = ["layer 10 attn_q=8bit".parse().unwrap(), "token_embedding=3bit+0.25%".parse().unwrap()];
        let plan = Plan::new(&tensors, Recipe::Uniform(QuantType::Q4), &rules, OutlierShare::NONE).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.json");
        write_plan(&path, &plan).unwrap();
        let rules = read_plan(&path).unwrap();
        let again = Plan::new(&tensors, Recipe::Uniform(QuantType::Q2), &rules, OutlierShare::NONE).unwrap();
        assert_eq!(again, plan);
    }

    #[test]
    fn a_wrong_plan_is_refused_with_what_is_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("plan.json");
        for (text, part) in [
            (r#"{"version": 2, "types": {}}"#, "version 2"),
            (r#"{"version": 1, "types": {"layer 0 attn_q": "q5_k"}}"#, "q5_k"),
            (r#"{"version": 1, "types": {"head": "n4", "head": "n3"}}"#, "'head' comes twice"),
            (r#"{"version": 1, "types": {"head": "n3+half"}}"#, "half"),
            (r#"{"version": 1, "typos": {}}"#, "typos"),
            ("PK", "expected value"),
        ] {
            fs::write(&path, text).unwrap();
            let error = with_causes(&read_plan(&path).unwrap_err());
            assert!(error.contains(part) && error.contains("plan.json"), "{error}");
        }
    }

    fn with_causes(error: &dyn std::error::Error) -> String {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}
