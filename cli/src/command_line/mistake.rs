//! What is wrong with a command line, in one line: what was given, and what to write.

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use qsf_converter::plan::nearest_type;

/// What numbers say of a text that is none, and what a user is told.
const NUMBERS: [(&str, &str); 6] = [
    ("invalid digit found in string", "expected a whole number of 0 or more"),
    ("invalid float literal", "expected a number such as 0.8"),
    ("cannot parse integer from empty string", "expected a whole number, found nothing"),
    ("cannot parse float from empty string", "expected a number, found nothing"),
    ("number too large to fit in target type", "the number is too large"),
    ("number too small to fit in target type", "the number is too small"),
];

/// The message for an error of the parser of `command`.
pub fn mistake(error: &clap::Error, command: &Command) -> String {
    let name = command.get_name();
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let lines = text
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more"));
    let mut said: Vec<String> = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        match line.strip_prefix("tip: ") {
            Some(tip) => said.push(format!("; {tip}")),
            None if said.is_empty() => said.push(line.to_owned()),
            None => said.push(format!(" {line}")),
        }
    }
    let mut said = said.concat();
    for (library, plain) in NUMBERS {
        said = said.replace(library, plain);
    }
    // A message that names the value need not be told with it.
    if error.kind() == ErrorKind::ValueValidation
        && let Some((value, rest)) =
            said.strip_prefix("invalid value '").and_then(|rest| rest.split_once("' for '"))
        && let Some((flag, why)) = rest.split_once("': ")
        && why.contains(value)
    {
        return format!("{}: {why}", flag.split(' ').next().unwrap_or(flag));
    }
    let given = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    match error.kind() {
        ErrorKind::UnknownArgument => match tip(given(ContextKind::InvalidArg), name) {
            Some(tip) => said + &tip,
            None => format!("{said}; {name} --help shows all options"),
        },
        ErrorKind::MissingRequiredArgument => format!("{said}; {name} --help shows examples"),
        _ => said,
    }
}

/// What a word is likely meant as that is in the place of a file.
fn tip(word: &str, program: &str) -> Option<String> {
    match program {
        _ if word.starts_with('-') => None,
        // llama-quantize takes the type behind the files.
        "qsf-convert" => {
            nearest_type(word).map(|found| format!("; a type is given as --quant {}", found.name()))
        }
        "qsf-run" => Some("; text is given as -p TEXT or -f FILE".into()),
        "qsf-eval" => Some("; the text is given as -f FILE, and a second model as --base MODEL".into()),
        _ => None,
    }
}
