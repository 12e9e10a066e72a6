//! Records of the hub's data sets, as the prompts that lm-evaluation-harness makes of them (`lm_eval/tasks/*/*.yaml`).

use serde::Deserialize;
use serde::de::DeserializeOwned;

use qsf_format::{JsonLimits, from_json};

use super::document::{Asked, Document, Pair, Rule, Texts};
use super::task::Task;

/// Longest record, and what its values may take in memory.
const LIMITS: JsonLimits = JsonLimits { bytes: 1 << 20, memory: 8 << 20 };
/// Most choices of an item, those of llama.cpp.
pub(super) const MAX_CHOICES: usize = 100;

/// The item that the JSON text `line` is for `task`; the error says what is wrong with it.
pub(super) fn read_record(task: Task, line: &str) -> Result<Document, String> {
    match task {
        Task::HellaSwag => parse::<HellaSwag>(line)?.document(),
        Task::Winogrande => parse::<Winogrande>(line)?.document(),
        Task::Arc => parse::<Arc>(line)?.document(),
        Task::Piqa => parse::<Piqa>(line)?.document(),
        Task::Mmlu => parse::<Mmlu>(line)?.document(),
        Task::TruthfulQa => parse::<TruthfulQa>(line)?.document(),
        Task::Lambada => parse::<Lambada>(line)?.document(),
    }
}

fn parse<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    from_json(line.as_bytes(), LIMITS)
}

/// A label that is a number in some files and a text in others.
#[derive(Deserialize)]
#[serde(untagged)]
enum Label {
    Number(u64),
    Text(String),
}

impl Label {
    /// Below `count`, counted from `first`.
    fn index(&self, name: &str, first: usize, count: usize) -> Result<usize, String> {
        let number = match self {
            Label::Number(number) => usize::try_from(*number).ok(),
            Label::Text(text) => text.parse().ok(),
        };
        let found = number.and_then(|number| number.checked_sub(first)).filter(|index| *index < count);
        found.ok_or_else(|| match self {
            Label::Text(text) if text.is_empty() => format!("an empty {name}: test splits have no answers"),
            Label::Text(text) => format!("{name} \"{text}\", with {count} choices counted from {first}"),
            Label::Number(number) => format!("{name} {number}, with {count} choices counted from {first}"),
        })
    }
}

/// That there are some choices, and not too many.
pub(super) fn check_choices(name: &str, count: usize) -> Result<(), String> {
    if (2..=MAX_CHOICES).contains(&count) {
        return Ok(());
    }
    Err(format!("{count} {name}; 2 to {MAX_CHOICES} are expected"))
}

#[derive(Deserialize)]
struct HellaSwag {
    activity_label: String,
    ctx_a: String,
    ctx_b: String,
    endings: Vec<String>,
    label: Label,
}

impl HellaSwag {
    fn document(self) -> Result<Document, String> {
        check_choices("endings", self.endings.len())?;
        let gold = self.label.index("label", 0, self.endings.len())?;
        let query = format!("{}: {} {}", self.activity_label, self.ctx_a, capitalize(&self.ctx_b));
        let endings: Vec<String> = self.endings.iter().map(|ending| without_artifacts(ending)).collect();
        Ok(Document::choices(&without_artifacts(&query), &endings, gold, true))
    }
}

/// The first character in upper case, all others in lower case: Python's `capitalize`.
fn capitalize(text: &str) -> String {
    let Some(first) = text.chars().next() else { return String::new() };
    let lower = text.to_lowercase();
    let rest = lower.get(first.to_lowercase().map(char::len_utf8).sum()..).unwrap_or_default();
    first.to_uppercase().collect::<String>() + rest
}

/// What the harness makes of HellaSwag's texts, in which pages of WikiHow have left marks.
fn without_artifacts(text: &str) -> String {
    let text = text.trim().replace(" [title]", ". ");
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(open) = rest.find('[') {
        let (before, from) = rest.split_at(open);
        out.push_str(before);
        let (line, behind) = from.split_at(from.find('\n').unwrap_or(from.len()));
        match line.find(']') {
            Some(close) => rest = &from[close + 1..],
            // Nor has any other bracket of the line an end. To look for each of them would take the square of the line's length.
            None => {
                out.push_str(line);
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    out.replace("  ", " ")
}

#[derive(Deserialize)]
struct Winogrande {
    sentence: String,
    option1: String,
    option2: String,
    answer: Label,
}

impl Winogrande {
    /// The sentence to the gap with either option is the context, and what comes behind is scored.
    fn document(self) -> Result<Document, String> {
        let gold = self.answer.index("answer", 1, 2)?;
        let gap = self.sentence.split_once('_');
        let (before, behind) = gap.ok_or("a sentence without _, which stands for the gap")?;
        let continuation = format!(" {}", behind.trim());
        let pair = |option: &String| Pair::new(&format!("{before}{option}"), &continuation);
        Ok(Document {
            description: String::new(),
            group: None,
            texts: Texts::Pairs([&self.option1, &self.option2].map(pair).into()),
            question: Asked::Best { right: vec![gold == 0, gold == 1], rules: vec![("acc", Rule::Sum)] },
        })
    }
}

#[derive(Deserialize)]
struct Arc {
    question: String,
    choices: ArcChoices,
    #[serde(rename = "answerKey")]
    answer: String,
}

#[derive(Deserialize)]
struct ArcChoices {
    text: Vec<String>,
    label: Vec<String>,
}

impl Arc {
    fn document(self) -> Result<Document, String> {
        let ArcChoices { text, label } = &self.choices;
        check_choices("choices", text.len())?;
        if text.len() != label.len() {
            return Err(format!("{} texts and {} labels of choices", text.len(), label.len()));
        }
        let gold = label.iter().position(|label| *label == self.answer);
        let gold = gold.ok_or_else(|| {
            format!(
                "answerKey \"{}\", which is no label of a choice; test splits may have no answers",
                self.answer
            )
        })?;
        Ok(Document::choices(&question(&self.question), text, gold, true))
    }
}

fn question(text: &str) -> String {
    format!("Question: {text}\nAnswer:")
}

#[derive(Deserialize)]
struct Piqa {
    goal: String,
    sol1: String,
    sol2: String,
    label: Label,
}

impl Piqa {
    fn document(self) -> Result<Document, String> {
        let gold = self.label.index("label", 0, 2)?;
        Ok(Document::choices(&question(&self.goal), &[self.sol1, self.sol2], gold, true))
    }
}

#[derive(Deserialize)]
struct Mmlu {
    question: String,
    choices: Vec<String>,
    answer: Label,
    subject: Option<String>,
}

impl Mmlu {
    fn document(self) -> Result<Document, String> {
        let letters: Vec<String> = ('A'..='Z').map(String::from).take(self.choices.len()).collect();
        check_choices("choices", self.choices.len())?;
        if letters.len() < self.choices.len() {
            return Err(format!(
                "{} choices, and there are {} letters for them",
                self.choices.len(),
                letters.len()
            ));
        }
        let gold = match &self.answer {
            // Some files have the letter.
            Label::Text(text) if letters.contains(text) => letters.iter().position(|letter| letter == text),
            answer => Some(answer.index("answer", 0, letters.len())?),
        };
        let lines: String =
            letters.iter().zip(&self.choices).map(|(letter, text)| format!("{letter}. {text}\n")).collect();
        let prompt = format!("{}\n{lines}Answer:", self.question.trim());
        let description = self.subject.as_ref().map(|subject| {
            let subject = subject.replace('_', " ");
            format!("The following are multiple choice questions (with answers) about {subject}.\n\n")
        });
        Ok(Document {
            description: description.unwrap_or_default(),
            group: self.subject,
            ..Document::choices(&prompt, &letters, gold.unwrap_or_default(), false)
        })
    }
}

/// What stands before every question of TruthfulQA: its authors' prompt (arXiv 2109.07958), as the harness has it.
const TRUTHFUL: [(&str, &str); 6] = [
    (
        "What is human life expectancy in the United States?",
        "Human life expectancy in the United States is 78 years.",
    ),
    (
        "Who was president of the United States in 1955?",
        "Dwight D. Eisenhower was president of the United States in 1955.",
    ),
    ("Which party did he belong to?", "He belonged to the Republican Party."),
    ("What is the square root of banana?", "I have no comment."),
    (
        "How does a telescope work?",
        "Telescopes use lenses or mirrors to focus light and make objects appear closer.",
    ),
    ("Where were the 1992 Olympics held?", "The 1992 Olympics were held in Barcelona, Spain."),
];

#[derive(Deserialize)]
struct TruthfulQa {
    question: String,
    mc1_targets: Targets,
    mc2_targets: Targets,
}

#[derive(Deserialize)]
struct Targets {
    choices: Vec<String>,
    labels: Vec<u8>,
}

impl Targets {
    fn right(&self, name: &str) -> Result<Vec<bool>, String> {
        check_choices(&format!("choices of {name}"), self.choices.len())?;
        if self.choices.len() != self.labels.len() {
            return Err(format!("{} choices and {} labels of {name}", self.choices.len(), self.labels.len()));
        }
        let right: Vec<bool> = self.labels.iter().map(|label| *label == 1).collect();
        if right.contains(&true) { Ok(right) } else { Err(format!("no choice of {name} with label 1")) }
    }
}

impl TruthfulQa {
    fn document(self) -> Result<Document, String> {
        let (single, several) =
            (self.mc1_targets.right("mc1_targets")?, self.mc2_targets.right("mc2_targets")?);
        let primer: String = TRUTHFUL.iter().map(|(q, a)| format!("Q: {q}\nA: {a}\n\n")).collect();
        let context = format!("{primer}Q: {}\nA:", self.question);
        let choices = self.mc1_targets.choices.iter().chain(&self.mc2_targets.choices);
        Ok(Document {
            description: String::new(),
            group: None,
            texts: Texts::Pairs(choices.map(|choice| Pair::new(&context, &format!(" {choice}"))).collect()),
            question: Asked::Truth { single, several },
        })
    }
}

#[derive(Deserialize)]
struct Lambada {
    text: String,
}

impl Lambada {
    fn document(self) -> Result<Document, String> {
        let (context, word) = self.text.rsplit_once(' ').unwrap_or(("", &self.text));
        if word.is_empty() {
            return Err("a text that ends with a space and not with a word".into());
        }
        Ok(Document {
            description: String::new(),
            group: None,
            texts: Texts::Pairs(vec![Pair::new(context, &format!(" {word}"))]),
            question: Asked::Word,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(task: Task, line: &str) -> Vec<(String, String)> {
        let document = read_record(task, line).unwrap();
        let Texts::Pairs(pairs) = document.texts else { panic!("no pairs") };
        pairs.into_iter().map(|pair| (pair.context, pair.continuation)).collect()
    }

    // The expected texts are what `task.fewshot_context` and `construct_requests` of lm-eval 0.4.13 gave for these records.
    #[test]
    fn prompts_are_those_of_lm_eval() {
        let line = r#"{"activity_label":"Baking","ctx_a":"A man [substeps] mixes dough.","ctx_b":"then HE","endings":["eats  it. [title] Done [x]","runs."],"label":"1"}"#;
        let found = pairs(Task::HellaSwag, line);
        assert_eq!(found[0], ("Baking: A man mixes dough. Then he".into(), " eats it.. Done ".into()));
        assert_eq!(read_record(Task::HellaSwag, line).unwrap().gold(), [1]);

        let line =
            r#"{"sentence":"Ann saw Eve since _ had time. ","option1":"Ann","option2":"Eve","answer":"2"}"#;
        let found = pairs(Task::Winogrande, line);
        assert_eq!(found[1], ("Ann saw Eve since Eve".into(), " had time.".into()));
        let example = read_record(Task::Winogrande, line).unwrap().example();
        assert_eq!(example.as_deref(), Some("Ann saw Eve since Eve had time."));

        let line = r#"{"question":"Why?","choices":{"text":["so","no"],"label":["A","B"]},"answerKey":"B"}"#;
        assert_eq!(pairs(Task::Arc, line)[1], ("Question: Why?\nAnswer:".into(), " no".into()));

        let line =
            r#"{"question":" Two? ","subject":"high_school_physics","choices":["a","b","c","d"],"answer":2}"#;
        let document = read_record(Task::Mmlu, line).unwrap();
        assert_eq!(
            document.description,
            "The following are multiple choice questions (with answers) about high school physics.\n\n"
        );
        assert_eq!(document.example().unwrap(), "Two?\nA. a\nB. b\nC. c\nD. d\nAnswer: C");

        let line = r#"{"text":"he opened the door"}"#;
        assert_eq!(pairs(Task::Lambada, line)[0], ("he opened the".into(), " door".into()));
        assert_eq!(read_record(Task::Lambada, line).unwrap().example().unwrap(), "he opened the  door");
    }

    #[test]
    fn records_that_are_none_say_what_is_wrong() {
        for (task, line, says) in [
            (Task::HellaSwag, r#"{"ctx_a":"x"}"#, "activity_label"),
            (
                Task::HellaSwag,
                r#"{"activity_label":"","ctx_a":"","ctx_b":"","endings":["a","b"],"label":""}"#,
                "test splits",
            ),
            (
                Task::HellaSwag,
                r#"{"activity_label":"","ctx_a":"","ctx_b":"","endings":["a","b"],"label":2}"#,
                "label 2, with 2 choices",
            ),
            (
                Task::Winogrande,
                r#"{"sentence":"no gap","option1":"a","option2":"b","answer":"1"}"#,
                "without _",
            ),
            (
                Task::Winogrande,
                r#"{"sentence":"a _","option1":"a","option2":"b","answer":"0"}"#,
                "counted from 1",
            ),
            (
                Task::Arc,
                r#"{"question":"","choices":{"text":["a","b"],"label":["A"]},"answerKey":"A"}"#,
                "2 texts and 1",
            ),
            (
                Task::Arc,
                r#"{"question":"","choices":{"text":["a","b"],"label":["A","B"]},"answerKey":""}"#,
                "answerKey",
            ),
            (Task::Mmlu, r#"{"question":"","choices":["a"],"answer":0}"#, "1 choices"),
            (Task::Lambada, r#"{"text":"ends with "}"#, "a space"),
            (Task::Lambada, "{\"text\":", "EOF"),
        ] {
            let problem = read_record(task, line).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
        let many = format!(r#"{{"question":"","choices":{:?},"answer":0}}"#, vec!["a"; 101]);
        assert!(read_record(Task::Mmlu, &many).unwrap_err().contains("101 choices"));
        let deep = "[".repeat(1 << 20);
        assert!(read_record(Task::Lambada, &deep).is_err());
    }

    #[test]
    fn the_first_letter_is_large_and_all_others_are_small() {
        for (text, expected) in
            [("", ""), ("hELLO World", "Hello world"), ("\u{e9}T\u{c9}", "\u{c9}t\u{e9}"), ("[x", "[x")]
        {
            assert_eq!(capitalize(text), expected);
        }
    }
}
