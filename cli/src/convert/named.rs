//! Command lines whose options come by name, from another language: they go through the parser of the program, as those of
//! batches do, so that an option means the same everywhere.

use std::ffi::OsString;
use std::path::Path;

use clap::Parser;
use qsf_runtime::RuntimeError;
use qsf_runtime::cpu::Cpu;
use qsf_runtime::progress::{Cancel, Progress};
use serde_json::Value;

use super::args::ConvertArgs;
use super::embed::Embedded;
use super::make::make_and_upload;
use crate::batch::manifest::Given;
use crate::batch::words_by_name;
use crate::compute::ComputeArgs;

/// The command line with `options`, which are named as there with `-` or `_`, flags that are `switches`, `files`, which are options
/// as well and need be no text, and `operands`.
///
/// # Errors
/// [`RuntimeError::Request`] with the name of the option that there is not, or whose value is not right.
pub fn parse_named<A: Parser>(
    options: &[(String, Given)],
    switches: &[&str],
    files: &[(&str, &Path)],
    operands: &[&Path],
) -> Result<A, RuntimeError> {
    let command = A::command();
    let mut line = vec![OsString::from(command.get_name())];
    line.extend(words_by_name(&command, options).map_err(RuntimeError::Request)?);
    line.extend(switches.iter().map(|name| OsString::from(format!("--{name}"))));
    for (name, path) in files {
        let mut word = OsString::from(format!("--{name}="));
        word.push(path);
        line.push(word);
    }
    line.push("--".into());
    line.extend(operands.iter().map(OsString::from));
    A::try_parse_from(line)
        .map_err(|error| RuntimeError::Request(first_paragraph(&error.render().to_string())))
}

impl ConvertArgs {
    /// Threads and so on.
    pub fn compute(&self) -> &ComputeArgs {
        &self.compute
    }
}

/// Converts as the program does, but for what it prints, and gives what `--json` would print.
///
/// # Errors
/// As the program's; a file that misses its limits is there nonetheless, by another name.
pub fn convert_json(
    args: &ConvertArgs,
    cpu: &Cpu,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Value> {
    if let Some(embedded) = Embedded::of(args)? {
        return Ok(embedded.to_json());
    }
    let (made, sent) = make_and_upload(args, cpu, progress, cancel, &|_| Ok(()))?;
    let value = made.to_json(sent.as_ref());
    made.check_limits()?;
    Ok(value)
}

/// What a parser says, without how the program is to be called.
fn first_paragraph(text: &str) -> String {
    let lines = text.lines().map(str::trim).take_while(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_prefix("error: ").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use qsf_format::BlockSize;

    use super::super::choose::type_name;
    use super::*;

    fn parse(options: &[(&str, Given)]) -> Result<ConvertArgs, String> {
        let options: Vec<_> =
            options.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        parse_named(&options, &[], &[], &["in".as_ref(), "-out.qsf".as_ref()])
            .map_err(|error| error.to_string())
    }

    #[test]
    fn options_by_name_are_those_of_the_command_line() {
        let text = |text: &str| Given::Text(text.into());
        let patterns = Given::List(vec![text("attn_v=8bit"), text("ffn_down=f16")]);
        let args = parse(&[
            ("quant", text("3bit")),
            ("tensor_type", patterns),
            ("block-size", Given::Number("32".into())),
        ]);
        let args = args.unwrap();
        assert_eq!(
            (
                type_name(&args, None).unwrap().as_str(),
                args.tensor_type.len(),
                args.block_size.map(BlockSize::get)
            ),
            ("3bit", 2, Some(32))
        );
        assert_eq!(args.out.as_deref(), Some(Path::new("-out.qsf")), "a name that begins like an option");
        assert!(parse(&[("force", Given::Flag(true))]).unwrap().force);
        assert!(!parse(&[("force", Given::Flag(false))]).unwrap().force);
    }

    #[test]
    fn a_wrong_name_or_value_is_an_error_that_says_which() {
        let error = |name: &str, value: Given| parse(&[(name, value)]).unwrap_err();
        assert!(error("qant", Given::Text("3bit".into())).contains("did you mean \"quant\"?"));
        assert!(error("quant", Given::Text("7bit".into())).contains("7bit"));
        assert!(error("dry_run", Given::Flag(true)).contains("dry_run"));
        assert!(error("force", Given::Text("yes".into())).contains("expected true or false, found a text"));
    }
}
