//! Which architecture a model is whose configuration does not say: the one whose names its tensors have.

use std::collections::HashSet;
use std::path::Path;

use super::architectures::{self, Architecture};
use super::config::ConfigFiles;
use super::names::Names;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::{TensorStore, is_ignored};

/// The architecture with these tensors.
///
/// # Errors
/// None has, or several have, so that `model_type` must be given.
pub(super) fn recognize(
    files: &ConfigFiles<'_>,
    store: &dyn TensorStore,
    model: &Path,
) -> Result<&'static Architecture> {
    // Of each layer the same names: one of each form is enough to look at.
    let forms: HashSet<String> = store.names().map(without_numbers).collect();
    let mut found: Vec<(usize, &'static Architecture)> = Vec::new();
    for architecture in architectures::ALL {
        if let Some(marks) = fits(architecture, &forms, files, store, model)? {
            found.push((marks, architecture));
        }
    }
    // Of those that fit, the one that most speaks for: the names of LLaMA are those of many others too.
    let most = found.iter().map(|(marks, _)| *marks).max();
    found.retain(|(marks, _)| Some(*marks) == most);
    match found.as_slice() {
        [(_, only)] => Ok(only),
        [] => Err(wrong(files, "which is missing, and the tensors are those of none")),
        several => {
            let names: Vec<&str> = several.iter().map(|(_, architecture)| architecture.name()).collect();
            Err(wrong(
                files,
                &format!("which is missing; the tensors could be those of {}", names.join(", ")),
            ))
        }
    }
}

fn wrong(files: &ConfigFiles<'_>, found: &str) -> RuntimeError {
    files.wrong("model_type", format!("the name of the architecture ({})", architectures::supported()), found)
}

/// How many marks of `architecture` a model with names of these forms has; `None`: it is another one.
fn fits(
    architecture: &Architecture,
    forms: &HashSet<String>,
    files: &ConfigFiles<'_>,
    store: &dyn TensorStore,
    model: &Path,
) -> Result<Option<usize>> {
    if architecture.marks.by_name {
        return Ok(None);
    }
    let Ok(names) = Names::find(architecture, store, model) else { return Ok(None) };
    if !forms.contains(&format!("{}{}", names.prefix, architecture.embedding())) {
        return Ok(None);
    }
    let rules = architecture.table.rules.iter();
    let known: HashSet<String> = rules
        .map(|rule| {
            let head = names.heads.iter().find(|(name, _)| *name == rule.name);
            let prefix = head.map_or(&names.prefix, |(_, prefix)| prefix);
            format!(
                "{}{}",
                without_numbers(prefix),
                without_numbers(rule.name).replace("{}", "#").replace("{e}", "#")
            )
        })
        .collect();
    let ignored = |form: &str| is_ignored(architecture.table.ignored, form) || names.is_of_another_part(form);
    if forms.iter().any(|form| !known.contains(form) && !ignored(form)) {
        return Ok(None);
    }
    let marks = architecture.marks;
    for kind in marks.tensors {
        let mut of_kind = architecture.table.rules.iter().filter(|rule| rule.kinds == [*kind]);
        let there = of_kind.any(|rule| {
            forms.contains(&format!(
                "{}{}",
                without_numbers(&names.prefix),
                without_numbers(rule.name).replace("{}", "#")
            ))
        });
        if !there {
            return Ok(None);
        }
    }
    for (fields, expected) in [(marks.fields, true), (marks.without, false)] {
        for field in fields {
            if files.has(field)? != expected {
                return Ok(None);
            }
        }
    }
    Ok(Some(marks.tensors.len() + marks.fields.len()))
}

/// The name with `#` for each part that is a number.
fn without_numbers(name: &str) -> String {
    let parts: Vec<&str> = name
        .split('.')
        .map(|part| {
            let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            if is_number { "#" } else { part }
        })
        .collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_replaced_and_parts_that_only_hold_digits_too_are_not() {
        assert_eq!(without_numbers("h.12.attn.3.w1.weight"), "h.#.attn.#.w1.weight");
        assert_eq!(without_numbers("wte.weight"), "wte.weight");
        assert_eq!(without_numbers(""), "");
    }
}
