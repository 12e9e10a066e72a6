//! Text of strangers in HTML, Markdown and YAML. Names and values in a file are chosen by whoever made it: none may
//! become markup, close a cell or a quoted string, or hide what stands beside it.

use std::fmt::Write as _;

/// What of one text is shown at most, in characters.
const MAX_TEXT: usize = 1000;

/// `text` as it can stand in an element or in a quoted attribute.
pub(super) fn html(text: &str) -> String {
    let mut out = String::new();
    for c in visible(text).chars() {
        match c {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            c => out.push(c),
        }
    }
    out
}

/// `text` as code in a cell of a Markdown table: code spans hold no markup, and only a run of as many backticks as began
/// one ends it (CommonMark section 6.1). A bar would end the cell, and whether a backslash before it prevents that depends
/// on what stands before the backslash (GFM section 4.10), so bars are escaped like what cannot be seen.
pub(super) fn markdown_code(text: &str) -> String {
    let text = visible(text);
    if text.is_empty() {
        return String::new();
    }
    let longest = text.split(|c: char| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let space = if longest > 0 { " " } else { "" };
    format!("{fence}{space}{}{space}{fence}", text.replace('|', "\\u{7c}"))
}

/// `text` in a line of Markdown: all punctuation that means something is escaped (CommonMark section 2.4).
pub(super) fn markdown_text(text: &str) -> String {
    let mut out = String::new();
    for c in visible(text).chars() {
        if c.is_ascii_punctuation() && !"-.,:".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// `text` as a double-quoted scalar of YAML (YAML 1.2 section 5.7). All but letters, digits and printable ASCII is
/// escaped, so what is printable need not be known.
pub(super) fn yaml(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c if c.is_alphanumeric() => out.push(c),
            // Writing to a string cannot fail.
            c => _ = write!(out, "\\U{:08x}", u32::from(c)),
        }
    }
    out + "\""
}

/// `text` with escapes for what has no width or turns the order of reading round, cut to a bearable length.
fn visible(text: &str) -> String {
    let mut out = String::new();
    for (i, c) in text.chars().enumerate() {
        if i == MAX_TEXT {
            out += "...";
            break;
        }
        if c.is_control() || is_format(c) { out.extend(c.escape_unicode()) } else { out.push(c) }
    }
    out
}

/// Marks of Unicode that change how others are shown, and are not shown themselves.
fn is_format(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_an_element_or_end_an_attribute() {
        let escaped = html("</title><img src=x onerror='a(\"b\")'>&lt;");
        assert!(!escaped.contains(['<', '>', '"', '\'']), "{escaped}");
        assert!(escaped.ends_with("&amp;lt;"), "{escaped}");
    }

    #[test]
    fn text_cannot_turn_the_order_of_reading_round() {
        assert_eq!(html("a\u{202e}b\nc"), "a\\u{202e}b\\u{a}c");
    }

    #[test]
    fn a_text_of_a_megabyte_does_not_fill_the_page() {
        assert_eq!(html(&"é".repeat(1 << 20)).chars().count(), MAX_TEXT + 3);
    }

    #[test]
    fn text_cannot_leave_its_cell_or_its_code_span() {
        assert_eq!(markdown_code("model.qsf"), "`model.qsf`");
        assert_eq!(markdown_code("a\\|b"), "`a\\\\u{7c}b`");
        assert_eq!(markdown_code("a`<b>``c"), "``` a`<b>``c ```");
        assert_eq!(markdown_code("a\n# b"), "`a\\u{a}# b`");
    }

    #[test]
    fn text_cannot_end_its_scalar() {
        assert_eq!(yaml("é \"a\"\n\\: b"), "\"é \\\"a\\\"\\U0000000a\\\\: b\"");
    }
}
