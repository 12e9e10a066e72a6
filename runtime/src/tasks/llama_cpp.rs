//! Records of the text files that `llama-perplexity` reads: `--hellaswag` and `--winogrande`.

use super::document::{Asked, Document, Rule, Texts};

/// Lines of an item of HellaSwag: the context, the number of the right ending, and four endings.
pub(super) const HELLASWAG_LINES: usize = 6;

/// An item of these lines.
pub(super) fn hellaswag(lines: &[String]) -> Result<Document, String> {
    let [context, label, endings @ ..] = lines else {
        return Err(format!("{} lines of an item that has {HELLASWAG_LINES}", lines.len()));
    };
    let gold = label.trim().parse().ok().filter(|gold: &usize| *gold < endings.len());
    let gold =
        gold.ok_or_else(|| format!("'{label}' where the number of the right ending stands, 0 to 3"))?;
    let right = (0..endings.len()).map(|i| i == gold).collect();
    Ok(whole(context, endings, right))
}

/// Answers behind a question, of which the tokens that differ are scored.
pub(super) fn whole(question: &str, answers: &[String], right: Vec<bool>) -> Document {
    Document {
        description: String::new(),
        group: None,
        texts: Texts::Whole(answers.iter().map(|answer| format!("{question} {answer}")).collect()),
        question: Asked::Best { right, rules: vec![("acc", Rule::Sum), ("acc_norm", Rule::PerToken)] },
    }
}

/// A line `index,sentence,option 1,option 2,answer`. A sentence with commas stands in quotes, which are no part of it.
pub(super) fn winogrande(line: &str) -> Result<Document, String> {
    let mut quoted = false;
    let is_end = |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    };
    let fields: Vec<&str> = line.splitn(5, is_end).collect();
    let [_, sentence, first, second, answer] = fields[..] else {
        return Err(format!("{} fields; index,sentence,option 1,option 2,answer are expected", fields.len()));
    };
    let sentence = sentence.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(sentence);
    let (before, behind) =
        sentence.split_once('_').ok_or("a sentence without _, which stands for the gap")?;
    let gold = match answer.trim() {
        "1" => 0,
        "2" => 1,
        other => return Err(format!("the answer '{other}', which should be 1 or 2")),
    };
    Ok(Document {
        description: String::new(),
        group: None,
        texts: Texts::Gap {
            before: before.into(),
            options: [first.into(), second.into()],
            behind: behind.into(),
        },
        question: Asked::Best { right: vec![gold == 0, gold == 1], rules: vec![("acc", Rule::PerToken)] },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_with_commas_stands_in_quotes() {
        let document = winogrande("7,\"Ann, my aunt, saw _ there.\",Eve,Bo,2").unwrap();
        assert_eq!(
            document.texts,
            Texts::Gap {
                before: "Ann, my aunt, saw ".into(),
                options: ["Eve".into(), "Bo".into()],
                behind: " there.".into()
            }
        );
        assert_eq!(document.gold(), [1]);
        for (line, says) in [
            ("7,Ann saw _.,Eve,Bo", "4 fields"),
            ("7,Ann saw her.,Eve,Bo,1", "without _"),
            ("7,Ann saw _.,Eve,Bo,3", "'3'"),
            ("7,Ann saw _.,Eve,Bo,", "''"),
        ] {
            let problem = winogrande(line).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }

    #[test]
    fn the_right_ending_of_hellaswag_is_numbered_from_zero() {
        let lines = ["Baking: A man", "3", "a.", "b.", "c.", "d."].map(String::from);
        let document = hellaswag(&lines).unwrap();
        assert_eq!(document.gold(), [3]);
        let Texts::Whole(texts) = document.texts else { panic!("no texts") };
        assert_eq!(texts[3], "Baking: A man d.");
        assert!(hellaswag(&lines[..3]).unwrap_err().contains("'3'"));
        let wrong = ["Baking: A man", "4", "a.", "b.", "c.", "d."].map(String::from);
        assert!(hellaswag(&wrong).unwrap_err().contains("'4'"));
    }
}
