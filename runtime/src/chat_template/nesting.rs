//! How deeply a template is nested, found before it is parsed: the library's parser, its compiler and what drops its trees call
//! themselves for each operator, attribute and filter of an expression, and for each `elif`.
//!
//! What is counted is simple, and never less than the depth: the words and signs of a tag, and the blocks that are open.

use super::refusal::{JINJA, Refusal};

/// Words and signs of one tag outside of texts: tags of models have up to some hundred.
const MAX_SIGNS: usize = 2000;
/// Blocks within blocks, each `elif` counting as one: those of models have up to some ten.
const MAX_BLOCKS: usize = 400;

/// Refuses a template that is nested so deeply that reading it takes the whole stack.
pub(super) fn check_nesting(template: &str) -> Result<(), Refusal> {
    let (mut blocks, mut before) = (Vec::<usize>::new(), 0);
    let mut rest = template;
    while let Some(at) = rest.find('{') {
        let line = |at: usize| 1 + template[..at].matches('\n').count();
        let place = before + at;
        let tag = &rest[at..];
        let (end, name, signs) = match tag.as_bytes().get(1) {
            Some(b'#') => (tag[2..].find("#}").map_or(tag.len(), |end| end + 4), "", 0),
            Some(b'{') => read_tag(tag, "}}"),
            Some(b'%') => read_tag(tag, "%}"),
            _ => (1, "", 0),
        };
        let refuse = |found: String| Err(Refusal { line: Some(line(place)), ..Refusal::new(JINJA, found) });
        if signs > MAX_SIGNS {
            return refuse(format!("an expression nested too deeply: a tag of more than {MAX_SIGNS} words"));
        }
        count_block(&mut blocks, name);
        if blocks.iter().sum::<usize>() > MAX_BLOCKS {
            return refuse(format!("blocks nested too deeply: more than {MAX_BLOCKS} within each other"));
        }
        let skipped = if name == "raw" && signs == 1 { raw_length(&tag[end..]) } else { 0 };
        before = place + end + skipped;
        rest = &template[before..];
    }
    Ok(())
}

/// How long a raw block is, in which nothing is a tag but its end.
fn raw_length(text: &str) -> usize {
    let mark = |text: &str| usize::from(text.starts_with(['-', '+']));
    let ends = text.match_indices("{%").find(|(at, _)| {
        let tag = &text[at + 2..];
        let name = tag[mark(tag)..].trim_ascii_start();
        let end = name.strip_prefix("endraw").map(str::trim_ascii_start);
        end.is_some_and(|end| end[mark(end)..].starts_with("%}"))
    });
    ends.map_or(text.len(), |(at, _)| at)
}

/// Opens or closes the block that a tag of this name begins or ends.
fn count_block(blocks: &mut Vec<usize>, name: &str) {
    match name {
        "if" | "for" | "macro" | "call" | "filter" | "block" | "with" | "autoescape" | "set" => {
            blocks.push(1);
        }
        "elif" => {
            if let Some(last) = blocks.last_mut() {
                *last += 1;
            }
        }
        _ if name.starts_with("end") => drop(blocks.pop()),
        _ => {}
    }
}

/// Where a tag ends, the word that it begins with, and how many words and signs it has. A `set` that needs no end has no name.
fn read_tag<'a>(tag: &'a str, close: &str) -> (usize, &'a str, usize) {
    let bytes = tag.as_bytes();
    let (mut at, mut signs, mut name, mut assigns) = (2, 0, "", false);
    // Brackets that are open: as long as there are any, `}}` is the end of two maps.
    let mut open = 0i32;
    while at < bytes.len() {
        match bytes[at] {
            b'\'' | b'"' => {
                at = text_end(bytes, at);
                signs += 1;
            }
            _ if open == 0 && bytes[at..].starts_with(close.as_bytes()) => {
                at += close.len();
                break;
            }
            // The mark of trimming before the end is none of its signs.
            b'-' | b'+' if open == 0 && bytes[at + 1..].starts_with(close.as_bytes()) => at += 1,
            c if c.is_ascii_alphanumeric() || c == b'_' || c >= 0x80 => {
                let start = at;
                while bytes.get(at).is_some_and(|c| c.is_ascii_alphanumeric() || *c == b'_' || *c >= 0x80) {
                    at += 1;
                }
                if signs == 0 {
                    name = &tag[start..at];
                }
                signs += 1;
            }
            c => {
                // The marks of trimming come first in a tag, and are none of its signs.
                let mark = signs == 0 && matches!(c, b'-' | b'+') && at == 2;
                if !c.is_ascii_whitespace() && !mark {
                    signs += 1;
                }
                assigns |= c == b'=';
                open +=
                    i32::from(matches!(c, b'(' | b'[' | b'{')) - i32::from(matches!(c, b')' | b']' | b'}'));
                at += 1;
            }
        }
    }
    let name = if close == "}}" || (name == "set" && assigns) { "" } else { name };
    (at, name, signs)
}

/// Where the text in quotes that begins at `start` ends.
fn text_end(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            c if c == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(template: &str) -> String {
        check_nesting(template).map_or_else(|refusal| refusal.found, |()| String::new())
    }

    #[test]
    fn what_is_nested_is_counted_and_what_stands_side_by_side_is_not() {
        for (part, count) in
            [("{{ a }}", 9000), ("{% if a %}{% elif b %}{% endif %}", 9000), ("{% set a = 1 %}", 9000)]
        {
            assert_eq!(found(&part.repeat(count)), "", "{part}");
        }
        assert_eq!(found(&format!("{{{{ '{}' }}}}", "- ".repeat(9000))), "");
        assert_eq!(found(&format!("{{# {} #}}{{{{ 'é' }}}} {{", "{{- ".repeat(9000))), "");
        assert_eq!(found(&format!("{{% raw %}}{}{{% endraw %}}", "{% if a %}".repeat(900))), "");
        assert_eq!(found(&format!("{{% raw %}}{}", "{%".repeat(400_000))), "");
        for operator in ["-", "not ", "(", "[", "{1:", ".a", "|upper", "~'a'", "+1", "[0]", " if a else "] {
            let template = format!("a\n{{{{ a{} }}}}", operator.repeat(9000));
            assert!(found(&template).contains("too deeply"), "{operator}");
            assert_eq!(check_nesting(&template).unwrap_err().line, Some(2));
        }
        for block in ["{% if a %}", "{%- for a in b -%}", "{% set a %}", "{% filter upper %}"] {
            assert!(found(&block.repeat(500)).contains("blocks nested too deeply"), "{block}");
        }
        assert!(found(&format!("{{% if a %}}{}", "{% elif a %}".repeat(500))).contains("too deeply"));
    }

    #[test]
    fn a_template_that_breaks_off_anywhere_is_scanned_to_its_end() {
        let template = "{%- set é = 'a\\'b' -%}{{ é[\"x\"] }}{# c #}{% raw %}{{{% endraw %}é{";
        for end in (0..=template.len()).filter(|end| template.is_char_boundary(*end)) {
            assert_eq!(found(&template[..end]), "", "{end}");
        }
    }
}
