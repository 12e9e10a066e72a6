//! Where the turns of a conversation come from: lines of a pipe, or what is typed, with line editing and history.

use std::io::{self, BufRead, IsTerminal as _, Read as _, StdinLock};
use std::path::Path;

use qsf_runtime::progress::Cancel;
use qsf_runtime::{Result, RuntimeError};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor};

use crate::interrupt::end_now;

/// Bytes of a turn: far more than any context holds, and less than would fill the memory.
const MAX_TURN_BYTES: u64 = 16 << 20;

/// Where turns come from.
pub(super) enum TurnInput {
    /// A pipe or a file, or someone who types and reads nothing.
    Lines(StdinLock<'static>),
    /// A terminal.
    Editor(Box<DefaultEditor>),
}

impl TurnInput {
    /// Of this process. At a terminal someone waits for a sign that it is their turn, unless `quietly`.
    pub fn of_process(quietly: bool) -> Result<TurnInput> {
        if quietly || !io::stdin().is_terminal() || !io::stdout().is_terminal() {
            return Ok(TurnInput::Lines(io::stdin().lock()));
        }
        let config = Config::builder().auto_add_history(true).build();
        let editor = DefaultEditor::with_config(config).map_err(terminal_error)?;
        Ok(TurnInput::Editor(Box::new(editor)))
    }

    /// Whether a person types it.
    pub fn is_typed(&self) -> bool {
        matches!(self, TurnInput::Editor(_))
    }

    /// The next lines up to one that does not end with a backslash; `None`: the input has ended.
    pub fn next_turn(&mut self, cancel: &Cancel) -> Result<Option<String>> {
        match self {
            TurnInput::Lines(input) => {
                // A second request ends the process, so at the prompt the next one does.
                cancel.request();
                let line = read_turn(input)?;
                cancel.withdraw();
                Ok(line)
            }
            TurnInput::Editor(editor) => typed_turn(editor),
        }
    }
}

fn typed_turn(editor: &mut DefaultEditor) -> Result<Option<String>> {
    let mut text = String::new();
    loop {
        match editor.readline(if text.is_empty() { "> " } else { ". " }) {
            Ok(line) => {
                text += &line;
                let Some(begun) = text.strip_suffix('\\') else { return Ok(Some(text)) };
                text = format!("{begun}\n");
            }
            Err(ReadlineError::Eof) => return Ok((!text.is_empty()).then_some(text)),
            Err(ReadlineError::Interrupted) => end_now(),
            Err(error) => return Err(terminal_error(error)),
        }
    }
}

fn terminal_error(error: ReadlineError) -> RuntimeError {
    RuntimeError::io(Path::new("the terminal"), "read", io::Error::other(error))
}

fn read_turn(input: &mut impl BufRead) -> Result<Option<String>> {
    let (path, mut text) = (Path::new("stdin"), String::new());
    loop {
        let left = MAX_TURN_BYTES - text.len() as u64;
        let read = input.by_ref().take(left).read_line(&mut text);
        let read = read.map_err(|e| match e.kind() {
            io::ErrorKind::InvalidData => RuntimeError::bad_input(path, "a line", "UTF-8", "other bytes"),
            _ => RuntimeError::io(path, "read", e),
        })?;
        if read == 0 && text.len() as u64 >= MAX_TURN_BYTES {
            let expected = format!("at most {MAX_TURN_BYTES} bytes");
            return Err(RuntimeError::bad_input(path, "a turn", expected, "more"));
        }
        if read == 0 {
            return Ok((!text.is_empty()).then_some(text));
        }
        let Some(line) = text.strip_suffix('\n') else { continue };
        let line = line.strip_suffix('\r').unwrap_or(line);
        let Some(begun) = line.strip_suffix('\\') else { return Ok(Some(line.to_owned())) };
        text = format!("{begun}\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(input: &str) -> Vec<String> {
        let mut input = input.as_bytes();
        std::iter::from_fn(|| read_turn(&mut input).unwrap()).collect()
    }

    #[test]
    fn a_turn_is_a_line_and_a_backslash_at_its_end_goes_on() {
        assert_eq!(turns("one\ntwo\r\n\nthree"), ["one", "two", "", "three"]);
        assert_eq!(turns("one\\\ntwo\nthree\n"), ["one\ntwo", "three"]);
        assert_eq!(turns("one\\\n"), ["one\n"]);
        assert_eq!(turns(""), [""; 0]);
    }

    #[test]
    fn what_is_no_text_or_has_no_end_is_an_error() {
        let error = read_turn(&mut &b"a\xff\n"[..]).unwrap_err().to_string();
        assert!(error.contains("stdin") && error.contains("UTF-8"), "{error}");
        let mut endless = io::BufReader::new(io::repeat(b'a'));
        let error = read_turn(&mut endless).unwrap_err().to_string();
        assert!(error.contains("at most 16777216 bytes"), "{error}");
    }
}
