//! The tasks by name.

use std::str::FromStr;

/// A task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    /// How a scene goes on (Zellers et al. 2019).
    HellaSwag,
    /// Whom a pronoun stands for (Sakaguchi et al. 2019).
    Winogrande,
    /// Science questions of schools (Clark et al. 2018), of both parts.
    Arc,
    /// How to reach a goal (Bisk et al. 2020).
    Piqa,
    /// Questions of 57 subjects (Hendrycks et al. 2021).
    Mmlu,
    /// Questions that people answer wrongly (Lin et al. 2022).
    TruthfulQa,
    /// The last word of a passage (Paperno et al. 2016).
    Lambada,
}

impl Task {
    /// All of them.
    pub const ALL: [Task; 7] = [
        Task::HellaSwag,
        Task::Winogrande,
        Task::Arc,
        Task::Piqa,
        Task::Mmlu,
        Task::TruthfulQa,
        Task::Lambada,
    ];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Task::HellaSwag => "hellaswag",
            Task::Winogrande => "winogrande",
            Task::Arc => "arc",
            Task::Piqa => "piqa",
            Task::Mmlu => "mmlu",
            Task::TruthfulQa => "truthfulqa_mc",
            Task::Lambada => "lambada",
        }
    }

    /// Members that a record has in the hub's data set.
    pub const fn members(self) -> &'static str {
        match self {
            Task::HellaSwag => "activity_label, ctx_a, ctx_b, endings, label",
            Task::Winogrande => "sentence, option1, option2, answer",
            Task::Arc => "question, choices {text, label}, answerKey",
            Task::Piqa => "goal, sol1, sol2, label",
            Task::Mmlu => "question, choices, answer, and subject where there is one",
            Task::TruthfulQa => "question, mc1_targets and mc2_targets {choices, labels}",
            Task::Lambada => "text",
        }
    }

    /// The columns of [`members`](Self::members) in a table.
    pub(super) const fn columns(self) -> &'static [&'static str] {
        match self {
            Task::HellaSwag => &["activity_label", "ctx_a", "ctx_b", "endings", "label"],
            Task::Winogrande => &["sentence", "option1", "option2", "answer"],
            Task::Arc => &["question", "choices", "answerKey"],
            Task::Piqa => &["goal", "sol1", "sol2", "label"],
            Task::Mmlu => &["question", "choices", "answer", "subject"],
            Task::TruthfulQa => &["question", "mc1_targets", "mc2_targets"],
            Task::Lambada => &["text"],
        }
    }

    /// How examples are taken from those that there are.
    pub(super) const fn sampling(self) -> Sampling {
        match self {
            // What lm-evaluation-harness takes for the split that is evaluated gives one more, of which the item itself goes. It
            // does so for tasks without a test split.
            Task::HellaSwag | Task::Winogrande | Task::Piqa => Sampling::Random { one_more: true },
            Task::Arc | Task::Lambada => Sampling::Random { one_more: false },
            Task::Mmlu => Sampling::First,
            Task::TruthfulQa => Sampling::None,
        }
    }
}

/// How few-shot examples are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sampling {
    /// By chance; with `one_more`, one more than asked for, of which the item itself or the last goes.
    Random { one_more: bool },
    /// The first of the item's subject.
    First,
    /// None: the prompt has its own.
    None,
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Task, String> {
        // The two of TruthfulQA, and parts of others, have names of their own elsewhere.
        let name = match text {
            "arc_easy" | "arc_challenge" => "arc",
            "truthfulqa" | "truthfulqa_mc1" | "truthfulqa_mc2" => "truthfulqa_mc",
            "lambada_openai" | "lambada_standard" => "lambada",
            other => other,
        };
        Task::ALL.into_iter().find(|task| task.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Task::ALL.iter().map(|task| task.name()).collect();
            format!("'{text}' is none of: {}", names.join(", "))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_known_by_their_names_here_and_in_lm_eval() {
        for task in Task::ALL {
            assert_eq!(task.name().parse(), Ok(task));
        }
        assert_eq!("arc_challenge".parse(), Ok(Task::Arc));
        assert_eq!("truthfulqa_mc2".parse(), Ok(Task::TruthfulQa));
        assert!("gsm8k".parse::<Task>().unwrap_err().contains("winogrande"));
    }
}
