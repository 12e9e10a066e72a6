//! Finds the chat template of a model directory in the places where transformers keeps one.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::error::Result;
use crate::model_dir::files;
use crate::model_dir::{Fields, describe};

/// The Jinja text of the chat template and the file that it was found in, where the model has one.
///
/// A file `chat_template.jinja` of its own (newer versions) goes before the field in `tokenizer_config.json`.
pub(super) fn find_chat_template(dir: &Path) -> Result<Option<(Vec<u8>, PathBuf)>> {
    if let Some(path) = files::find(dir, "chat_template.jinja")? {
        return Ok(Some((files::read(&path, files::MAX_CONFIG_BYTES)?, path)));
    }
    let Some(path) = files::find(dir, "tokenizer_config.json")? else { return Ok(None) };
    let map = files::read_object(&path)?;
    let fields = Fields { path: &path, within: "", map: &map };
    let text = match fields.get("chat_template") {
        None => return Ok(None),
        Some(Value::String(text)) => Some(text.as_str()),
        Some(Value::Array(named)) => named_default(named),
        Some(other) => {
            let expected = "a template or a list of named templates";
            return Err(fields.wrong("chat_template", expected, describe(other)));
        }
    };
    // A list without a `default` holds templates for special purposes only, such as tool use.
    Ok(text.map(|text| (text.as_bytes().to_vec(), path.clone())))
}

/// The template named `default` in a list of `{name, template}`.
fn named_default(named: &[Value]) -> Option<&str> {
    let entry = named.iter().find(|entry| entry["name"] == "default")?;
    entry["template"].as_str()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn template_of(files: &[(&str, &str)]) -> Result<Option<String>> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        Ok(find_chat_template(dir.path())?.map(|(text, _)| String::from_utf8(text).unwrap()))
    }

    #[test]
    fn a_template_is_found_in_each_of_its_places() {
        let in_config = ("tokenizer_config.json", r#"{"chat_template": "config"}"#);
        let in_list = (
            "tokenizer_config.json",
            r#"{"chat_template": [{"name": "tool_use", "template": "no"}, {"name": "default", "template": "list"}]}"#,
        );
        assert_eq!(template_of(&[]).unwrap(), None);
        assert_eq!(template_of(&[("tokenizer_config.json", "{}")]).unwrap(), None);
        assert_eq!(template_of(&[in_config]).unwrap().as_deref(), Some("config"));
        assert_eq!(template_of(&[in_list]).unwrap().as_deref(), Some("list"));
        let both = template_of(&[in_config, ("chat_template.jinja", "own file")]).unwrap();
        assert_eq!(both.as_deref(), Some("own file"));
    }

    #[test]
    fn a_template_of_the_wrong_type_is_an_error_that_names_the_field() {
        let message = template_of(&[("tokenizer_config.json", r#"{"chat_template": 5}"#)]).unwrap_err();
        assert!(message.to_string().contains("chat_template: expected a template"), "{message}");
    }
}
