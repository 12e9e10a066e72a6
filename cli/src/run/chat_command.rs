//! What a line that begins with a slash asks for, where a person types.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use qsf_format::{FormatError, PartialFile};
use qsf_runtime::{Message, Result};
use serde_json::json;

/// What is said of the commands.
pub(super) const HELP: &str = "\
/regen      another answer to the same question
/clear      forget the conversation
/save FILE  write the conversation: FILE.jsonl for --calibration, else plain text
/exit       end (also Ctrl-D)
/help       show this
A line that ends with \\ goes on. Ctrl-C stops an answer. //text says /text.";

/// What a typed line is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// Something to say.
    Text(String),
    Help,
    Exit,
    Clear,
    Regenerate,
    Save(PathBuf),
    /// No command, and what to write.
    Mistake(String),
}

impl Typed {
    pub fn of(line: String) -> Typed {
        let Some(command) = line.trim().strip_prefix('/') else { return Typed::Text(line) };
        if command.starts_with('/') {
            return Typed::Text(command.to_owned());
        }
        let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        match (name, rest.trim()) {
            ("help" | "?", "") => Typed::Help,
            ("exit" | "quit" | "bye", "") => Typed::Exit,
            ("clear" | "reset", "") => Typed::Clear,
            ("regen" | "retry", "") => Typed::Regenerate,
            ("save", "") => Typed::Mistake("/save: name a file, as in /save chat.txt".into()),
            ("save", path) => Typed::Save(path.into()),
            ("help" | "exit" | "quit" | "clear" | "regen", rest) => {
                Typed::Mistake(format!("/{name} takes nothing behind it, found '{rest}'"))
            }
            _ => Typed::Mistake(format!(
                "there is no command /{name}: /help shows all; //{name} says it as text"
            )),
        }
    }
}

/// Writes what was said to a new file.
pub(super) fn save(path: &Path, messages: &[Message]) -> Result<()> {
    let text = if path.extension().is_some_and(|end| end == "jsonl" || end == "json") {
        format!("{}\n", json!({ "messages": messages }))
    } else {
        messages.iter().map(|message| format!("{}: {}\n\n", message.role, message.content.trim())).collect()
    };
    let (mut target, mut file) = PartialFile::create(path, false)?;
    file.write_all(text.as_bytes()).map_err(|e| FormatError::io(target.partial(), "write", e))?;
    target.publish(&file)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slash_makes_a_command_and_two_make_a_text() {
        let typed = |line: &str| Typed::of(line.to_owned());
        assert_eq!(typed("hello /exit"), Typed::Text("hello /exit".into()));
        assert_eq!(typed("//etc"), Typed::Text("/etc".into()));
        assert_eq!(typed(" /exit "), Typed::Exit);
        assert_eq!(typed("/save my chat.txt"), Typed::Save("my chat.txt".into()));
        for (line, says) in [("/save", "name a file"), ("/sing", "/help shows all"), ("/clear all", "'all'")]
        {
            let Typed::Mistake(text) = typed(line) else { panic!("{line}") };
            assert!(text.contains(says), "{text}");
        }
    }
}
