//! From the words of a command line to the arguments of a program, in the same way for all programs.
//!
//! | File | Duty |
//! |---|---|
//! | `habits` | names that other programs or earlier versions use |
//! | `help` | what `-h` and `--help` show |
//! | `mistake` | what is wrong with a command line, in one line |

mod habits;
mod help;
mod mistake;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal as _, stderr};

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command, Parser};

use self::habits::Habits;
use self::mistake::mistake;
use crate::console::{note, print, quiet};
use crate::documents;
use crate::error_line::report_errors_as_json;
use crate::exit::{code_of, report_error};
use crate::own_process::words as own_words;
use crate::untrusted::{obey, untrusted_flag};

pub use self::help::Help;

const QUIET: &str = "quiet";

/// A program with a command line.
pub trait Program: Parser {
    /// How its help is arranged.
    const HELP: Help;
}

/// The arguments of this process. Where they ask for help, completions or the manual page, these are printed and the process ends.
pub fn parse<A: Program>() -> A {
    let words = own_words();
    if asks_for_json(&words) {
        report_errors_as_json();
    }
    let mut command = command::<A>();
    let text =
        documents::asked(&words, &A::HELP.arrange(command.clone())).unwrap_or_else(|error| end(&error));
    if let Some(text) = text {
        print(&text).unwrap_or_else(|error| end(&error.into()));
        std::process::exit(0);
    }
    let Habits { words, notes } =
        Habits::of(&command, words).unwrap_or_else(|problem| end(&anyhow::Error::msg(problem)));
    let name = command.get_name().to_owned();
    if wants_short_help(&words, &command) {
        print(&A::HELP.short(command)).unwrap_or_else(|error| end(&error.into()));
        std::process::exit(0);
    }
    command = A::HELP.arrange(command);
    let line = std::iter::once(OsString::from(&name)).chain(words);
    let matches =
        command.try_get_matches_from_mut(line).unwrap_or_else(|error| help_or_end(&error, &command));
    obey(&matches);
    if matches.get_flag(QUIET) || matches.subcommand().is_some_and(|(_, matches)| matches.get_flag(QUIET)) {
        quiet();
    }
    for said in notes {
        // What an old name means has not changed: scripts need not hear of it each time.
        if !said.is_only_a_name || stderr().is_terminal() {
            note(&said.text);
        }
    }
    A::from_arg_matches(&matches).unwrap_or_else(|error| help_or_end(&error, &command))
}

/// The command line of a program, with the flags that all programs have.
pub fn command<A: Parser>() -> Command {
    let mut command = A::command();
    let known =
        |command: &Command, name: &str| command.get_arguments().any(|arg| arg.get_long() == Some(name));
    if !known(&command, QUIET) {
        command = command.arg(
            Arg::new(QUIET)
                .long(QUIET)
                .action(ArgAction::SetTrue)
                .global(true)
                .help("Print no notes and no progress"),
        );
    }
    command = command.mut_arg(QUIET, |arg| arg.short('q'));
    // A number below 0 is a value, and no option that there is not.
    command = command.mut_args(|arg| match arg.get_action().takes_values() && !arg.is_positional() {
        true => arg.allow_negative_numbers(true),
        false => arg,
    });
    command.arg(untrusted_flag()).args(documents::flags())
}

/// Prints help or the version and ends, if that is what was asked for; else says what is wrong, and ends.
fn help_or_end(error: &clap::Error, command: &Command) -> ! {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => error.exit(),
        _ => end(&anyhow::Error::msg(mistake(error, command))),
    }
}

fn end(error: &anyhow::Error) -> ! {
    report_error(error);
    std::process::exit(code_of(error).into())
}

/// The words that are options.
fn options(words: &[OsString]) -> impl Iterator<Item = &OsStr> {
    words.iter().map(OsString::as_os_str).take_while(|word| *word != "--")
}

/// Whether errors are to be JSON, too, even those of the command line itself.
fn asks_for_json(words: &[OsString]) -> bool {
    options(words).any(|word| word == "--json" || word == "--format=json")
        || words.windows(2).any(|pair| (pair[0] == "--format" || pair[0] == "-o") && pair[1] == "json")
}

/// Whether the help of the program itself is asked for; subcommands show their own.
fn wants_short_help(words: &[OsString], command: &Command) -> bool {
    let is_of_subcommand =
        words.first().is_some_and(|word| command.get_subcommands().any(|sub| word == sub.get_name()));
    !is_of_subcommand && options(words).any(|word| word == "-h")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_json_where_results_are() {
        let json = |line: &str| asks_for_json(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in ["m.qsf --json", "m.qsf --bench -o json", "--format json", "--format=json"] {
            assert!(json(line), "{line}");
        }
        for line in ["m.qsf", "m.qsf -- --json", "m.qsf -o csv"] {
            assert!(!json(line), "{line}");
        }
    }
}
