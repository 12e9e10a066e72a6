//! Typed access to the fields of a JSON object, with errors that name the field, what it should hold and what it holds.

use std::path::Path;

use serde_json::{Map, Value};

use crate::error::{Result, RuntimeError};
use qsf_format::printable::quote;

/// The fields of one JSON object in the file `path`. A field that is `null` counts as absent, as everywhere in the
/// configurations of transformers.
#[derive(Clone, Copy)]
pub struct Fields<'a> {
    /// The file, for messages.
    pub path: &'a Path,
    /// Where the object is in the file, as `rope_scaling.`; empty for the whole file.
    pub within: &'a str,
    /// The object.
    pub map: &'a Map<String, Value>,
}

impl<'a> Fields<'a> {
    /// The value of a field that is present and not null.
    pub fn get(&self, name: &str) -> Option<&'a Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    /// An error about a field.
    pub fn wrong(&self, name: &str, expected: impl ToString, found: impl ToString) -> RuntimeError {
        RuntimeError::bad_input(self.path, format!("{}{name}", self.within), expected, found)
    }

    fn typed<T>(
        &self,
        name: &str,
        expected: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        read(value).map(Some).ok_or_else(|| self.wrong(name, expected, describe(value)))
    }

    fn required<T>(&self, name: &str, expected: &str, value: Option<T>) -> Result<T> {
        value.ok_or_else(|| self.wrong(name, expected, "no such field"))
    }

    /// An integer, where present.
    pub fn u32(&self, name: &str) -> Result<Option<u32>> {
        self.typed(name, "an integer from 0 to 4294967295", as_u32)
    }

    /// An integer that must be there.
    pub fn need_u32(&self, name: &str) -> Result<u32> {
        self.required(name, "an integer", self.u32(name)?)
    }

    /// A number, where present.
    pub fn f32(&self, name: &str) -> Result<Option<f32>> {
        self.typed(name, "a number", |value| value.as_f64().map(|number| number as f32))
    }

    /// A number that must be there.
    pub fn need_f32(&self, name: &str) -> Result<f32> {
        self.required(name, "a number", self.f32(name)?)
    }

    /// A number in full precision, where present.
    pub fn f64(&self, name: &str) -> Result<Option<f64>> {
        self.typed(name, "a number", Value::as_f64)
    }

    /// A list of numbers that must be there.
    pub fn need_f32s(&self, name: &str) -> Result<Vec<f32>> {
        let numbers = self.typed(name, "a list of numbers", |value| {
            value.as_array()?.iter().map(|number| number.as_f64().map(|number| number as f32)).collect()
        })?;
        self.required(name, "a list of numbers", numbers)
    }

    /// A list of integers, where present.
    pub fn u32s(&self, name: &str) -> Result<Option<Vec<u32>>> {
        self.typed(name, "a list of integers", |value| value.as_array()?.iter().map(as_u32).collect())
    }

    /// A list of strings, where present.
    pub fn strs(&self, name: &str) -> Result<Option<Vec<&'a str>>> {
        self.typed(name, "a list of strings", |value| value.as_array()?.iter().map(Value::as_str).collect())
    }

    /// A truth value, where present.
    pub fn bool(&self, name: &str) -> Result<Option<bool>> {
        self.typed(name, "true or false", Value::as_bool)
    }

    /// A string, where present.
    pub fn str(&self, name: &str) -> Result<Option<&'a str>> {
        self.typed(name, "a string", Value::as_str)
    }

    /// An object, where present.
    pub fn object(&self, name: &str, within: &'a str) -> Result<Option<Fields<'a>>> {
        let map = self.typed(name, "an object", Value::as_object)?;
        Ok(map.map(|map| Fields { path: self.path, within, map }))
    }

    /// Token ids given as one integer or as a list; none when the field is absent.
    pub fn token_ids(&self, name: &str) -> Result<Vec<u32>> {
        let ids = self.typed(name, "a token id or a list of token ids", |value| match value {
            Value::Array(ids) => ids.iter().map(as_u32).collect(),
            one => as_u32(one).map(|id| vec![id]),
        })?;
        Ok(ids.unwrap_or_default())
    }
}

fn as_u32(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|number| u32::try_from(number).ok())
}

/// A value as it appears in messages: short, and with control characters escaped, for it may come from a stranger.
pub fn describe(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => format!("the string {}", quote(text)),
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with<T>(json: Value, test: impl FnOnce(Fields<'_>) -> T) -> T {
        let map = json.as_object().unwrap();
        test(Fields { path: Path::new("config.json"), within: "", map })
    }

    #[test]
    fn a_field_of_the_wrong_type_is_named_with_what_was_expected_and_found() {
        with(serde_json::json!({"a": "12", "b": -1, "c": 4294967296u64, "d": 1.5}), |fields| {
            let message = fields.u32("a").unwrap_err().to_string();
            assert_eq!(
                message,
                "config.json: a: expected an integer from 0 to 4294967295, found the string \"12\""
            );
            for name in ["b", "c", "d"] {
                assert!(fields.u32(name).is_err(), "{name}");
            }
            assert_eq!(fields.f32("d").unwrap(), Some(1.5));
            assert!(fields.need_u32("e").unwrap_err().to_string().contains("no such field"));
        });
    }

    #[test]
    fn null_counts_as_absent() {
        with(serde_json::json!({"a": null}), |fields| {
            assert_eq!(fields.u32("a").unwrap(), None);
            assert_eq!(fields.token_ids("a").unwrap(), Vec::<u32>::new());
        });
    }
}
