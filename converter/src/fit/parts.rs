//! What each part of a calibration text gave, for people.

use std::collections::BTreeSet;

use qsf_calibration::TextPart;
use qsf_runtime::progress::Progress;

use crate::options::Calibration;

/// Says how many tokens each part of the text gave, and what was left out of it. Of one plain text that is no news.
pub fn tell_parts(calibration: &Calibration, progress: &dyn Progress) {
    let line = line_of(calibration);
    match &calibration.parts[..] {
        [TextPart { texts: 1, conversations: 0, .. }] if !calibration.files.is_empty() => {
            progress.detail(&line);
        }
        _ => progress.note(&line),
    }
    if let Some(line) = left_out(calibration) {
        progress.note(&line);
    }
}

/// What conversations have that the text has not.
fn left_out(calibration: &Calibration) -> Option<String> {
    let names: BTreeSet<&str> = calibration.parts.iter().flat_map(|part| &part.left_out).copied().collect();
    if names.is_empty() {
        return None;
    }
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    let why =
        if calibration.chat_template { "" } else { "; --chat-template has the model's template write it" };
    Some(format!("left out of conversations: {names}{why}"))
}

fn line_of(calibration: &Calibration) -> String {
    let tokens = calibration.tokens.len();
    let Calibration { files, parts, .. } = calibration;
    if files.is_empty() {
        return format!(
            "fitted to {tokens} tokens of a built-in text: --calibration TEXT takes text like what the model will see, and \
             --calibration self what the model writes itself"
        );
    }
    let of_part = |(file, part): (&std::path::PathBuf, &TextPart)| {
        let name = if Calibration::is_written(file) {
            "text that the model writes".to_owned()
        } else {
            file.display().to_string()
        };
        format!("{} of {name}{}", part.tokens.len(), kinds(part))
    };
    let found: Vec<String> = files.iter().zip(parts).map(of_part).collect();
    format!("calibration tokens: {}", found.join(", "))
}

/// Of which kinds of documents a part is, where these are not one plain text.
fn kinds(part: &TextPart) -> String {
    let several = |count: usize, what: &str| {
        if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
    };
    match (part.texts, part.conversations) {
        (0 | 1, 0) => String::new(),
        (texts, 0) => format!(" ({})", several(texts, "text")),
        (0, conversations) => format!(" ({})", several(conversations, "conversation")),
        (texts, conversations) => format!(
            " ({} of {}, {} of {})",
            part.tokens.len() - part.conversation_tokens,
            several(texts, "text"),
            part.conversation_tokens,
            several(conversations, "conversation")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_named_with_its_tokens_and_kinds() {
        let part = |texts, conversations, conversation_tokens| TextPart {
            tokens: 0..100,
            texts,
            conversations,
            conversation_tokens,
            left_out: BTreeSet::new(),
        };
        let mut calibration = Calibration {
            files: ["a.txt", "b.jsonl", "c.jsonl", "self"].map(Into::into).into(),
            most_tokens: 400,
            tokens: vec![0; 400],
            text_sha256: String::new(),
            chat_template: false,
            parts: vec![part(1, 0, 0), part(3, 1, 40), part(0, 2, 100), part(16, 0, 0)],
            written: None,
        };
        assert_eq!(
            line_of(&calibration),
            "calibration tokens: 100 of a.txt, 100 of b.jsonl (60 of 3 texts, 40 of 1 conversation), 100 of c.jsonl (2 \
             conversations), 100 of text that the model writes (16 texts)"
        );
        assert_eq!(left_out(&calibration), None);
        calibration.parts[1].left_out.insert("tools");
        calibration.parts[2].left_out.insert("tool_calls");
        let line = left_out(&calibration).unwrap();
        assert!(line.contains("tool_calls, tools") && line.contains("--chat-template"), "{line}");
        calibration.chat_template = true;
        let line = left_out(&calibration).unwrap();
        assert!(!line.contains("--chat-template"), "{line}");
        calibration.files.clear();
        let line = line_of(&calibration);
        assert!(
            line.contains("400 tokens of a built-in text") && line.contains("--calibration self"),
            "{line}"
        );
    }
}
