//! Text from files in messages. Names in a downloaded file are chosen by a stranger, and a terminal obeys control
//! characters; a name of a megabyte would push everything else off the screen.

const MAX_QUOTED: usize = 80;
const MAX_MESSAGE: usize = 400;

/// `text` with control characters escaped, line breaks excepted: for whole outputs.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() && c != '\n' { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// A name or value: in quotes, control characters escaped, cut after 80 characters.
pub fn quote(text: &str) -> String {
    match text.char_indices().nth(MAX_QUOTED) {
        Some((cut, _)) => format!("{:?}...", &text[..cut]),
        None => format!("{text:?}"),
    }
}

/// A message of a library, which may repeat parts of a file: control characters escaped, cut after 400 characters.
pub fn message(message: impl ToString) -> String {
    let message = message.to_string();
    let mut out = String::new();
    for (i, c) in message.chars().enumerate() {
        if i == MAX_MESSAGE {
            out.push_str("...");
            break;
        }
        if c.is_control() { out.extend(c.escape_debug()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_stranger_cannot_drive_the_terminal() {
        assert_eq!(quote("a\u{1b}[2Jb"), r#""a\u{1b}[2Jb""#);
        assert_eq!(message("unknown 'é\u{1b}[2J\n'"), r"unknown 'é\u{1b}[2J\n'");
    }

    #[test]
    fn a_table_keeps_its_lines() {
        assert_eq!(printable("a\tb\nc\u{1b}"), "a\\tb\nc\\u{1b}");
    }

    #[test]
    fn a_name_of_a_megabyte_does_not_fill_the_screen() {
        let long = "é".repeat(1 << 20);
        assert_eq!(quote(&long).chars().count(), 80 + 5);
        assert_eq!(message(&long).chars().count(), 400 + 3);
    }
}
