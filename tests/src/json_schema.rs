//! Whether JSON is as a JSON Schema says: as much of draft 2020-12 as `docs/schema/` uses. A keyword that is not known here is an
//! error, so that none is taken to hold that nobody looks at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::{Map, Value};

/// Keywords that say nothing of values.
const ANNOTATIONS: [&str; 4] = ["$schema", "$defs", "title", "description"];

/// The schema files of a folder.
pub struct JsonSchemas {
    files: BTreeMap<String, Value>,
}

impl JsonSchemas {
    /// Reads the files `*.schema.json` in `folder`.
    pub fn read(folder: &Path) -> JsonSchemas {
        let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let files = paths.map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            assert!(name.ends_with(".schema.json"), "{name}");
            (name, serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap())
        });
        JsonSchemas { files: files.collect() }
    }

    /// The definitions that a root asks for: the documents, each with the file that it is in.
    pub fn documents(&self) -> BTreeMap<String, String> {
        let mut found = BTreeMap::new();
        for (file, root) in &self.files {
            for choice in root.get("anyOf").and_then(Value::as_array).into_iter().flatten() {
                let name = choice["$ref"].as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                assert_eq!(found.insert(name.to_owned(), file.clone()), None, "{name} is in two files");
            }
        }
        found
    }

    /// Everything that is wrong with a document, by the definition of its name: places with reasons.
    pub fn problems(&self, document: &Value) -> Vec<String> {
        let name = document["document"].as_str().unwrap_or_default();
        match self.documents().get(name) {
            Some(file) => {
                let mut problems = Vec::new();
                self.check(file, &self.files[file]["$defs"][name], document, name, &mut problems);
                problems
            }
            None => vec![format!("there is no description of a document '{name}'")],
        }
    }

    fn check(&self, file: &str, schema: &Value, value: &Value, place: &str, problems: &mut Vec<String>) {
        for (keyword, wanted) in schema.as_object().unwrap() {
            match keyword.as_str() {
                "$ref" => {
                    let (file, schema) = self.resolve(file, wanted.as_str().unwrap());
                    self.check(file, schema, value, place, problems);
                }
                "anyOf" => {
                    let tried: Vec<Vec<String>> = wanted
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|choice| {
                            let mut problems = Vec::new();
                            self.check(file, choice, value, place, &mut problems);
                            problems
                        })
                        .collect();
                    if tried.iter().all(|problems| !problems.is_empty()) {
                        problems.extend(tried.into_iter().flatten());
                    }
                }
                "type" if !has_type(value, wanted) => {
                    problems.push(format!("{place}: expected {wanted}, found {value}"));
                }
                "const" if value != wanted => {
                    problems.push(format!("{place}: expected {wanted}, found {value}"));
                }
                "enum" if !wanted.as_array().unwrap().contains(value) => {
                    problems.push(format!("{place}: expected one of {wanted}, found {value}"));
                }
                "required" => {
                    let Some(object) = value.as_object() else { continue };
                    let missing = wanted.as_array().unwrap().iter().map(|name| name.as_str().unwrap());
                    let missing = missing.filter(|name| !object.contains_key(*name));
                    problems.extend(missing.map(|name| format!("{place}: '{name}' is missing")));
                }
                "properties" => {
                    let Some(object) = value.as_object() else { continue };
                    for (name, schema) in wanted.as_object().unwrap() {
                        if let Some(value) = object.get(name) {
                            self.check(file, schema, value, &format!("{place}.{name}"), problems);
                        }
                    }
                }
                "additionalProperties" => {
                    let Some(object) = value.as_object() else { continue };
                    let known = schema.get("properties").and_then(Value::as_object);
                    self.check_others(file, wanted, object, known, place, problems);
                }
                "items" => {
                    for (i, value) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(file, wanted, value, &format!("{place}[{i}]"), problems);
                    }
                }
                "type" | "const" | "enum" => {}
                known if ANNOTATIONS.contains(&known) => {}
                unknown => problems.push(format!("{place}: the schema has the unknown keyword '{unknown}'")),
            }
        }
    }

    /// The members of an object that `known` does not name.
    fn check_others(
        &self,
        file: &str,
        wanted: &Value,
        object: &Map<String, Value>,
        known: Option<&Map<String, Value>>,
        place: &str,
        problems: &mut Vec<String>,
    ) {
        let others = object.iter().filter(|(name, _)| known.is_none_or(|known| !known.contains_key(*name)));
        for (name, value) in others {
            match wanted {
                Value::Bool(false) => problems.push(format!("{place}: '{name}' is not described")),
                schema => self.check(file, schema, value, &format!("{place}.{name}"), problems),
            }
        }
    }

    /// The definition that a reference names, and the file that it is in.
    fn resolve<'a>(&'a self, file: &'a str, reference: &'a str) -> (&'a str, &'a Value) {
        let (other, pointer) = reference.split_once('#').unwrap();
        let file = if other.is_empty() { file } else { other };
        let root = self.files.get(file).unwrap_or_else(|| panic!("{reference}: no such file"));
        (file, root.pointer(pointer).unwrap_or_else(|| panic!("{reference}: no such definition")))
    }
}

fn has_type(value: &Value, wanted: &Value) -> bool {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("'{other}' is no type of JSON Schema"),
    };
    match wanted {
        Value::String(name) => is(name),
        names => names.as_array().unwrap().iter().any(|name| is(name.as_str().unwrap())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(schema: &Value, value: &Value) -> Vec<String> {
        let files = BTreeMap::from([("a.schema.json".into(), schema.clone())]);
        let mut problems = Vec::new();
        JsonSchemas { files }.check("a.schema.json", schema, value, "it", &mut problems);
        problems
    }

    #[test]
    fn what_a_schema_does_not_say_is_found_and_so_is_what_is_missing() {
        let schema = json!({
            "$defs": { "part": { "type": "object", "required": ["n"], "properties": { "n": { "type": ["integer", "null"] } },
                "additionalProperties": false } },
            "properties": { "parts": { "type": "array", "items": { "$ref": "#/$defs/part" } },
                "one": { "anyOf": [{ "$ref": "#/$defs/part" }, { "type": "null" }] },
                "sizes": { "additionalProperties": { "type": "integer" } }, "kind": { "enum": ["a", "b"] } },
        });
        let good =
            json!({ "parts": [{ "n": 1 }, { "n": null }], "one": null, "sizes": { "x": 1 }, "kind": "a" });
        assert_eq!(problems(&schema, &good), [""; 0]);
        for (wrong, says) in [
            (json!({ "parts": [{ "n": 1, "m": 2 }] }), "it.parts[0]: 'm' is not described"),
            (json!({ "parts": [{}] }), "it.parts[0]: 'n' is missing"),
            (json!({ "parts": [{ "n": 1.5 }] }), "it.parts[0].n: expected"),
            (json!({ "parts": 1 }), "it.parts: expected"),
            (json!({ "one": {} }), "it.one: 'n' is missing"),
            (json!({ "sizes": { "x": "1" } }), "it.sizes.x: expected"),
            (json!({ "kind": "c" }), "it.kind: expected one of"),
        ] {
            let found = problems(&schema, &wrong);
            assert!(found.iter().any(|problem| problem.starts_with(says)), "{wrong}: {found:?}");
        }
    }

    #[test]
    fn a_keyword_that_nobody_looks_at_is_a_problem() {
        assert!(problems(&json!({ "minimum": 3 }), &json!(1))[0].contains("unknown keyword 'minimum'"));
    }
}
