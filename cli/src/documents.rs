//! What a program says of itself to others: completions for shells, and its manual page. Both come from the definition of its
//! command line, so that they cannot fall behind it.

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::{Arg, ArgAction, Command, value_parser};
use clap_complete::Shell;
use clap_mangen::Man;

const COMPLETIONS: &str = "completions";
const MAN: &str = "man";
const HEADING: &str = "Setup";

/// The flags that ask for them.
pub fn flags() -> [Arg; 2] {
    let completions = Arg::new(COMPLETIONS)
        .long(COMPLETIONS)
        .value_name("SHELL")
        .value_parser(value_parser!(Shell))
        .hide_possible_values(true)
        .help("Print completions: bash, elvish, fish, powershell or zsh");
    let man = Arg::new(MAN).long(MAN).action(ArgAction::SetTrue).help("Print the manual page, for man -l -");
    [completions, man].map(|arg| arg.exclusive(true).help_heading(HEADING))
}

/// The document of `command` that the words behind its name ask for, if they ask for one.
///
/// # Errors
/// When it cannot be made.
pub fn asked(words: &[OsString], command: &Command) -> anyhow::Result<Option<String>> {
    let document = Document::asked(words.iter().cloned());
    Ok(document.map(|document| document.text(command.clone())).transpose()?)
}

/// What a program can print of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Document {
    Completions(Shell),
    Man,
}

impl Document {
    /// What the words after the program's name ask for, if they ask for one of these and nothing else. Everything else is for
    /// the parser, which says what is wrong with it; it alone would want what every other call needs, such as a model.
    fn asked(words: impl Iterator<Item = OsString>) -> Option<Document> {
        let words: Vec<OsString> = words.take(3).collect();
        let words: Vec<&str> = words.iter().map(|word| word.to_str()).collect::<Option<_>>()?;
        match words[..] {
            ["--man"] => Some(Document::Man),
            ["--completions", shell] => shell.parse().ok().map(Document::Completions),
            [word] => word.strip_prefix("--completions=")?.parse().ok().map(Document::Completions),
            _ => None,
        }
    }

    fn text(self, mut command: Command) -> io::Result<String> {
        let mut out = Vec::new();
        match self {
            Document::Completions(shell) => {
                let name = command.get_name().to_owned();
                clap_complete::generate(shell, &mut command, name, &mut out);
            }
            Document::Man => manual_page(command, &mut out)?,
        }
        String::from_utf8(out).map_err(io::Error::other)
    }
}

/// One page for all of a program: [`Man::render`] would refer to pages of their own for subcommands.
fn manual_page(mut command: Command, out: &mut Vec<u8>) -> io::Result<()> {
    command.build();
    let subcommands: Vec<Command> = command.get_subcommands().cloned().collect();
    let page = Man::new(command).manual("QSF");
    page.render_title(out)?;
    page.render_name_section(out)?;
    page.render_synopsis_section(out)?;
    page.render_description_section(out)?;
    page.render_options_section(out)?;
    for subcommand in subcommands {
        let name = subcommand.get_bin_name().unwrap_or_else(|| subcommand.get_name()).to_uppercase();
        writeln!(out, ".SH \"{}\"", name.replace('-', "\\-"))?;
        let part = Man::new(subcommand);
        let mut sections = Vec::new();
        part.render_synopsis_section(&mut sections)?;
        part.render_description_section(&mut sections)?;
        part.render_options_section(&mut sections)?;
        let sections = String::from_utf8(sections).map_err(io::Error::other)?;
        out.extend(sections.replace("\n.SH ", "\n.SS ").bytes());
    }
    page.render_extra_section(out)?;
    page.render_version_section(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_call_for_a_document_and_nothing_else_is_one() {
        let asked = |line: &str| Document::asked(line.split_whitespace().map(OsString::from));
        assert_eq!(asked("--completions bash"), Some(Document::Completions(Shell::Bash)));
        assert_eq!(asked("--completions=zsh"), Some(Document::Completions(Shell::Zsh)));
        assert_eq!(asked("--man"), Some(Document::Man));
        for other in
            ["", "--completions", "--completions tcsh", "--man model.qsf", "model.qsf --man", "--mann"]
        {
            assert_eq!(asked(other), None, "{other}");
        }
    }
}
