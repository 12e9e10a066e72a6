//! What a chat template puts around the turns of a conversation, as tokens: what a model goes on from to write the turns itself,
//! those of the user as well (Magpie, arXiv 2406.08464).

use qsf_runtime::{ChatTemplate, Message, Result, Tokenizer};

/// Turns that a template is asked with: whatever it does to a text, these come out of it as they are.
const QUESTION: &str = "firstquestion7";
const ANSWER: &str = "firstanswer7";
const NEXT_QUESTION: &str = "secondquestion7";

/// The tokens around turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Turns {
    /// Before what the user says first.
    pub head: Vec<u32>,
    /// Between that and the answer.
    pub reply: Vec<u32>,
    /// Between an answer and what the user says next; `None` where a template shows answers in another way afterwards.
    pub next: Option<Vec<u32>>,
    /// Behind the last answer.
    pub end: Vec<u32>,
}

impl Turns {
    /// Those of a template; `None` where it puts nothing before the user's text, or does not show the text as it is.
    ///
    /// # Errors
    /// When the template fails.
    pub fn of(template: &ChatTemplate, tokenizer: &Tokenizer) -> Result<Option<Turns>> {
        let said = [("user", QUESTION), ("assistant", ANSWER), ("user", NEXT_QUESTION)]
            .map(|(role, text)| Message::new(role, text));
        let (asked, answered) = (template.render(&said[..1], true)?, template.render(&said[..2], false)?);
        // Some templates take one question only.
        let again = template.render(&said, true).ok();
        let Some(pieces) = Pieces::of(&asked, &answered, again.as_deref()) else {
            return Ok(None);
        };
        let tokens = |text: &str| tokenizer.encode_plain(text);
        let turns = Turns {
            head: tokens(pieces.head)?,
            reply: tokens(pieces.reply)?,
            next: pieces.next.map(tokens).transpose()?,
            end: tokens(pieces.end)?,
        };
        Ok((!turns.head.is_empty() && !turns.reply.is_empty()).then_some(turns))
    }
}

/// The same as text.
#[derive(Debug, PartialEq, Eq)]
struct Pieces<'a> {
    head: &'a str,
    reply: &'a str,
    next: Option<&'a str>,
    end: &'a str,
}

impl<'a> Pieces<'a> {
    /// From a question, from that with its answer, and from both with another question.
    fn of(asked: &'a str, answered: &'a str, asked_again: Option<&'a str>) -> Option<Pieces<'a>> {
        let (head, reply) = asked.split_once(QUESTION)?;
        let (_, end) = answered.split_once(ANSWER)?;
        let next = asked_again.and_then(|text| {
            let (before, after) = text.split_once(ANSWER)?;
            let (next, last) = after.split_once(NEXT_QUESTION)?;
            // The first exchange stands there as it was written, and the second as the first.
            let same = before.strip_prefix(head)?.strip_prefix(QUESTION)? == reply && last == reply;
            (same && !next.is_empty()).then_some(next)
        });
        Some(Pieces { head, reply, next, end })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}\
        {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

    fn render(template: &str, said: &[(&str, &str)], prompt: bool) -> String {
        let template = ChatTemplate::new(template.as_bytes(), Path::new("template"), None, None).unwrap();
        let said: Vec<Message> = said.iter().map(|(role, text)| Message::new(*role, *text)).collect();
        template.render(&said, prompt).unwrap()
    }

    fn texts(template: &str) -> [String; 3] {
        let said = [("user", QUESTION), ("assistant", ANSWER), ("user", NEXT_QUESTION)];
        [
            render(template, &said[..1], true),
            render(template, &said[..2], false),
            render(template, &said, true),
        ]
    }

    #[test]
    fn what_is_around_the_turns_of_a_template_makes_its_conversation() {
        let [asked, answered, again] = texts(CHATML);
        let found = Pieces::of(&asked, &answered, Some(&again)).unwrap();
        let Pieces { head, reply, next, end } = found;
        assert_eq!((head, end), ("<|im_start|>user\n", "<|im_end|>\n"));
        let whole = format!("{head}a{reply}b{}c{reply}d{end}", next.unwrap());
        let said = [("user", "a"), ("assistant", "b"), ("user", "c"), ("assistant", "d")];
        assert_eq!(whole, render(CHATML, &said, false));
    }

    #[test]
    fn a_template_that_shows_old_answers_otherwise_has_one_exchange() {
        let thinking = CHATML.replace("assistant\n{% endif", "assistant\n<think>\n{% endif");
        let [asked, answered, again] = texts(&thinking);
        let found = Pieces::of(&asked, &answered, Some(&again)).unwrap();
        assert_eq!((found.next, found.end), (None, "<|im_end|>\n"));
        assert!(found.reply.ends_with("<think>\n"));
    }

    #[test]
    fn a_template_that_changes_the_text_has_none() {
        let [asked, answered, again] = texts(&CHATML.replace("| trim", "| upper"));
        assert_eq!(Pieces::of(&asked, &answered, Some(&again)), None);
    }
}
