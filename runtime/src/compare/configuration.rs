//! Differences of two configurations, field by field.

use std::collections::BTreeMap;

use qsf_format::ModelConfig;
use serde_json::Value;

use crate::error::{Result, RuntimeError};

/// A field of the configuration (MODEL.md section 1) that is not the same in both; null is one that is not there.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldDifference {
    /// Its name, with dots between the names of objects and their fields.
    pub field: String,
    /// In the first.
    pub a: Value,
    /// In the second.
    pub b: Value,
}

/// The fields that differ, by name.
///
/// # Errors
/// When a configuration cannot be written as JSON.
pub fn configuration_differences(a: &ModelConfig, b: &ModelConfig) -> Result<Vec<FieldDifference>> {
    let (a, b) = (fields(a)?, fields(b)?);
    let names = a.keys().chain(b.keys().filter(|name| !a.contains_key(*name)));
    let value =
        |fields: &BTreeMap<String, Value>, name: &String| fields.get(name).cloned().unwrap_or_default();
    let mut differences: Vec<FieldDifference> = names
        .map(|name| FieldDifference { field: name.clone(), a: value(&a, name), b: value(&b, name) })
        .filter(|difference| difference.a != difference.b)
        .collect();
    differences.sort_by(|a, b| a.field.cmp(&b.field));
    Ok(differences)
}

fn fields(config: &ModelConfig) -> Result<BTreeMap<String, Value>> {
    // By way of text, in which an f32 has the digits that it needs and no more.
    let text = serde_json::to_string(config);
    let value = text.and_then(|text| serde_json::from_str(&text));
    let value = value.map_err(|e| RuntimeError::Request(format!("a configuration that is no JSON: {e}")))?;
    let mut fields = BTreeMap::new();
    flatten("", value, &mut fields);
    Ok(fields)
}

fn flatten(name: &str, value: Value, fields: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                let name = if name.is_empty() { key } else { format!("{name}.{key}") };
                flatten(&name, value, fields);
            }
        }
        value => {
            fields.insert(name.to_owned(), value);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;
    use qsf_format::{NormConfig, NormKind, PositionConfig};
    use serde_json::json;

    #[test]
    fn fields_that_differ_are_named_inside_of_objects_too() {
        let a = ModelConfig { position: PositionConfig::rope(10_000.0, None), ..ModelConfig::default() };
        assert_eq!(configuration_differences(&a, &a).unwrap(), []);
        let b = ModelConfig {
            norm: NormConfig::new(NormKind::RmsNorm, 1e-5),
            bos: Some(1),
            position: PositionConfig::rope(500_000.0, None),
            ..a.clone()
        };
        let found = configuration_differences(&a, &b).unwrap();
        let names: Vec<&str> = found.iter().map(|difference| difference.field.as_str()).collect();
        assert_eq!(names[..2], ["bos", "norm.epsilon"]);
        assert!(names[2].starts_with("position."), "{names:?}");
        assert_eq!((&found[0].a, &found[0].b), (&Value::Null, &json!(1)));
        // Not the digits of the nearest f32.
        assert_eq!(found[1].b, json!(1e-5));
    }
}
