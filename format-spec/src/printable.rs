//! Text from files in messages. Names in a downloaded file are chosen by a stranger, and a terminal obeys control
//! characters; those that turn the direction of reading make one name look like another; a name of a megabyte would push
//! everything else off the screen.

const MAX_QUOTED: usize = 80;
const MAX_MESSAGE: usize = 400;

/// `text` with control characters and marks of direction escaped, line breaks excepted: for whole outputs.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if is_unsafe(c) && c != '\n' { out.extend(c.escape_default()) } else { out.push(c) }
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
        if is_unsafe(c) { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

/// Whether a character changes how others are shown, and is not shown itself: control characters, and marks that turn the direction
/// of reading (Unicode Standard Annex 9, section 2).
fn is_unsafe(c: char) -> bool {
    let turns =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || c.is_control()
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
    fn a_name_cannot_pass_for_another_by_turning_the_direction_of_reading() {
        let marks = ['\u{61c}', '\u{200e}', '\u{200f}'];
        for mark in marks.into_iter().chain('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}') {
            let name = format!("model{mark}fsq.exe");
            let shown = format!("model\\u{{{:x}}}fsq.exe", u32::from(mark));
            assert_eq!((printable(&name), message(&name)), (shown.clone(), shown.clone()));
            assert_eq!(quote(&name), format!("\"{shown}\""));
        }
        let hebrew = "שלום, مرحبا";
        assert_eq!((printable(hebrew), message(hebrew)), (hebrew.into(), hebrew.into()));
    }

    #[test]
    fn a_name_of_a_megabyte_does_not_fill_the_screen() {
        let long = "é".repeat(1 << 20);
        assert_eq!(quote(&long).chars().count(), 80 + 5);
        assert_eq!(message(&long).chars().count(), 400 + 3);
    }
}
