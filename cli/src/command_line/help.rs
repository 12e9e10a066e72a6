//! What `-h` and `--help` show: the first fits on a screen, the second has all options in groups, and examples.

use clap::Command;

/// How the help of a program is arranged.
#[derive(Debug, Clone, Copy)]
pub struct Help {
    /// What the program does, in a line.
    pub about: &'static str,
    /// How it is called most often.
    pub usage: &'static str,
    /// What `-h` shows, in this order: ids of arguments, and what is said of each in a line.
    pub short: &'static [(&'static str, &'static str)],
    /// The same of subcommands.
    pub commands: &'static [(&'static str, &'static str)],
    /// Examples for `-h`.
    pub examples: &'static str,
    /// The groups of `--help`: headings, and the ids below them.
    pub groups: &'static [(&'static str, &'static [&'static str])],
}

/// Columns of a terminal that nobody has made wider.
const COLUMNS: usize = 80;

impl Help {
    /// `command` with its options in groups.
    pub fn arrange(&self, command: Command) -> Command {
        self.groups.iter().fold(command, |command, (heading, ids)| {
            command.mut_args(|arg| match ids.iter().position(|id| arg.get_id() == id) {
                Some(place) => arg.help_heading(*heading).display_order(place),
                None => arg,
            })
        })
    }

    /// What fits on a screen.
    pub fn short(&self, command: Command) -> String {
        let name = command.get_name().to_owned();
        let command = command.about(self.about).override_usage(self.usage).term_width(COLUMNS);
        let command = command.mut_args(|arg| {
            let found = self.short.iter().enumerate().find(|(_, (id, _))| arg.get_id() == id);
            match found {
                Some((place, (_, text))) => {
                    let arg = arg.help(*text).help_heading(None).display_order(place).visible_alias(None);
                    arg.hide_default_value(true).hide_possible_values(true)
                }
                None => arg.hide(true),
            }
        });
        let command = self.commands.iter().fold(command, |command, (name, text)| {
            command.mut_subcommand(name, |subcommand| subcommand.about(*text))
        });
        let more = format!("{}\n\nAll options, and more examples: {name} --help", self.examples);
        let mut command = command.disable_version_flag(true).disable_help_flag(true).after_help(more);
        command.render_help().to_string()
    }
}
