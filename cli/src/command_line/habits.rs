//! Names of options that people know from other programs or from earlier versions. Words are translated before they are parsed;
//! what has no meaning here is answered with what to write.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::Command;
use qsf_converter::plan::{Recipe, nearest_type};

/// A command line in the names of this version.
#[derive(Debug, Default, PartialEq)]
pub struct Habits {
    /// Its words.
    pub words: Vec<OsString>,
    /// What the user is told.
    pub notes: Vec<Note>,
}

/// What a user is told of a translation.
#[derive(Debug, PartialEq)]
pub struct Note {
    /// The text.
    pub text: String,
    /// Whether nothing but a name was translated.
    pub is_only_a_name: bool,
}

/// What a word stands for.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    /// An option of this version.
    Option(&'static str),
    /// The same, and the old name has another meaning in the other programs.
    Old(&'static str, &'static str),
    /// The first file.
    Model,
    /// The second file.
    Output,
    /// `-ngl`: how many layers a graphics processor has.
    GpuLayers,
    /// Nothing: it is so anyway.
    Nothing(&'static str),
    /// Nothing, and this is what to write.
    Answer(&'static str),
}

use Meaning::{Answer, GpuLayers, Model, Nothing, Old, Output};

const IN_ALL: &[(&str, Meaning)] = &[("-m", Model), ("--model", Model)];

const IN_CONVERT: &[(&str, Meaning)] = &[
    ("-f", Old("--force", "-f is a text file in the other programs")),
    ("-o", Output),
    ("--output", Output),
    ("--out", Output),
    ("--outfile", Output),
    ("--mlx-path", Output),
    ("--hf-path", Model),
    ("--outtype", Meaning::Option("--quant")),
    ("--q-bits", Meaning::Option("--quant")),
    ("--remote", Nothing("a model of the hub is named as org/name")),
];

const IN_RUN: &[(&str, Meaning)] = &[
    ("-o", Old("--format", "-o is a file in the other programs")),
    ("--output", Old("--format", "--output is a file in the other programs")),
    ("--predict", Meaning::Option("--max-tokens")),
    ("-sys", Meaning::Option("--system-prompt")),
    ("-cnv", Meaning::Option("--interactive")),
    ("--conversation", Meaning::Option("--interactive")),
    ("-no-cnv", Nothing("without -i a prompt is continued once")),
    ("--no-conversation", Nothing("without -i a prompt is continued once")),
    ("--list-devices", Meaning::Option("--system")),
    ("--reverse-prompt", Meaning::Option("--stop")),
    ("-hf", Answer("a model of the hub is converted first: qsf-convert org/name")),
    ("--hf-repo", Answer("a model of the hub is converted first: qsf-convert org/name")),
];

const IN_PROGRAMS_THAT_RUN: &[(&str, Meaning)] = &[
    ("-ngl", GpuLayers),
    ("--n-gpu-layers", GpuLayers),
    ("--gpu-layers", GpuLayers),
    ("-ctk", Answer("write --kv-type KEYS,VALUES, such as --kv-type 8bit,4bit")),
    ("-ctv", Answer("write --kv-type KEYS,VALUES, such as --kv-type 8bit,4bit")),
    ("--cache-type-k", Answer("write --kv-type KEYS,VALUES, such as --kv-type 8bit,4bit")),
    ("--cache-type-v", Answer("write --kv-type KEYS,VALUES, such as --kv-type 8bit,4bit")),
    ("-fa", Answer("leave it out: keys and values are always read once, block by block")),
    ("--flash-attn", Answer("leave it out: keys and values are always read once, block by block")),
    ("-b", Answer("leave it out: the length of a step is chosen by the memory that there is")),
    ("--batch-size", Answer("leave it out: the length of a step is chosen by the memory that there is")),
    ("-ub", Answer("leave it out: the length of a step is chosen by the memory that there is")),
    ("--no-mmap", Answer("write --ram-budget SIZE to read weights instead of mapping the file")),
    ("--mlock", Answer("leave it out; without --ram-budget the system decides what stays in memory")),
    ("--jinja", Nothing("the model's chat template is always used, with --chat or -i")),
];

const IN_EVAL: &[(&str, Meaning)] = &[
    ("--hellaswag", Answer("write --task hellaswag --task-file FILE in place of --hellaswag -f FILE")),
    ("--winogrande", Answer("write --task winogrande --task-file FILE in place of --winogrande -f FILE")),
    ("--multiple-choice", Answer("write --task arc --task-file FILE, or mmlu or truthfulqa_mc")),
    ("--tasks", Answer("write --task NAME --task-file FILE; one task at a time, of a file that is here")),
    ("--num_fewshot", Meaning::Option("--few-shot")),
];

const IN_INSPECT: &[(&str, Meaning)] = &[
    ("-f", Old("--force", "-f is a text file in the other programs")),
    ("--out", Meaning::Option("--output")),
];

fn tables(program: &str) -> Vec<&'static [(&'static str, Meaning)]> {
    match program {
        "qsf-convert" => vec![IN_ALL, IN_CONVERT],
        "qsf-run" => vec![IN_ALL, IN_RUN, IN_PROGRAMS_THAT_RUN],
        "qsf-eval" => vec![IN_ALL, IN_EVAL, IN_PROGRAMS_THAT_RUN],
        _ => vec![IN_ALL, IN_INSPECT],
    }
}

impl Habits {
    /// Translates the words behind the name of the program of `command`.
    ///
    /// # Errors
    /// What to write, where a word has no meaning here or lacks its value.
    pub fn of(command: &Command, given: Vec<OsString>) -> Result<Habits, String> {
        let mut translation = Translation::new(command);
        let mut words = given.into_iter();
        while let Some(word) = words.next() {
            if word == "--" {
                translation.words.push(word);
                translation.words.extend(words);
                translation.ended = true;
                break;
            }
            translation.word(word, &mut words)?;
        }
        Ok(translation.done())
    }
}

struct Translation {
    program: String,
    tables: Vec<&'static [(&'static str, Meaning)]>,
    /// Long names that there are, of subcommands too.
    long: Vec<String>,
    subcommands: Vec<String>,
    words: Vec<OsString>,
    notes: Vec<Note>,
    model: Option<OsString>,
    output: Option<OsString>,
    /// Whether there was a `--`.
    ended: bool,
}

impl Translation {
    fn new(command: &Command) -> Translation {
        let of = |command: &Command| -> Vec<String> {
            let names = command.get_arguments().filter_map(|arg| arg.get_long_and_visible_aliases());
            names.flatten().map(str::to_owned).collect()
        };
        let long = command.get_subcommands().chain([command]).flat_map(of).collect();
        let subcommands = command.get_subcommands().map(|sub| sub.get_name().to_owned()).collect();
        let program = command.get_name().to_owned();
        let tables = tables(&program);
        Translation {
            program,
            tables,
            long,
            subcommands,
            words: Vec::new(),
            notes: Vec::new(),
            model: None,
            output: None,
            ended: false,
        }
    }

    fn meaning(&self, name: &str) -> Option<Meaning> {
        let mut all = self.tables.iter().flat_map(|table| table.iter());
        all.find(|(known, _)| *known == name).map(|(_, meaning)| *meaning)
    }

    fn note(&mut self, text: String, is_only_a_name: bool) {
        self.notes.push(Note { text, is_only_a_name });
    }

    /// Translates a word, and the value behind it.
    fn word(&mut self, word: OsString, rest: &mut impl Iterator<Item = OsString>) -> Result<(), String> {
        let Some(text) = word.to_str().filter(|text| text.starts_with('-') && text.len() > 1) else {
            self.words.push(word);
            return Ok(());
        };
        let (name, attached) = match text.split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (text.to_owned(), None),
        };
        if self.program == "qsf-convert" && name.starts_with("-q") && !name.starts_with("--") {
            return self.quiet_or_type(&name, attached, rest);
        }
        let Some(meaning) = self.meaning(&name) else {
            let name = self.spelled_as_here(&name).unwrap_or(name);
            self.words.push(attached.map_or(name.clone(), |value| format!("{name}={value}")).into());
            return Ok(());
        };
        let mut value = |what: &str| match attached.clone() {
            Some(value) => Ok(OsString::from(value)),
            None => rest.next().ok_or_else(|| format!("{name}: {what} is missing behind it")),
        };
        match meaning {
            Model => self.model = Some(value("the model")?),
            Output => self.output = Some(value("the name of the file")?),
            GpuLayers => {
                let layers = value("a number of layers")?;
                let device = if layers == "0" { "cpu" } else { "auto" };
                self.words.push(format!("--device={device}").into());
                let layers = layers.to_string_lossy().into_owned();
                self.note(
                    format!("{name} {layers}: all layers run on one device; taken as --device {device}"),
                    false,
                );
            }
            Nothing(why) => self.note(format!("{name}: without effect; {why}"), false),
            Answer(what) => return Err(format!("{name}: no such option; {what}")),
            Meaning::Option(new) => self.renamed(new, attached),
            Old(new, why) => {
                self.note(format!("{name} is {new} now: {why}"), true);
                self.renamed(new, attached);
            }
        }
        Ok(())
    }

    fn renamed(&mut self, new: &str, attached: Option<String>) {
        self.words.push(attached.map_or(new.to_owned(), |value| format!("{new}={value}")).into());
    }

    /// `-q` was the type of the matrices; in all programs it is to be quiet.
    fn quiet_or_type(
        &mut self,
        name: &str,
        attached: Option<String>,
        rest: &mut impl Iterator<Item = OsString>,
    ) -> Result<(), String> {
        let note = "-q is --quant now: -q is to be quiet in the other programs";
        let joined = Some(name["-q".len()..].to_owned()).filter(|value| !value.is_empty());
        if let Some(value) = attached.or(joined) {
            self.note(note.into(), true);
            self.words.push(format!("--quant={value}").into());
            return Ok(());
        }
        let Some(next) = rest.next() else {
            self.words.push(name.into());
            return Ok(());
        };
        if is_type(&next) {
            self.note(note.into(), true);
            self.words.extend(["--quant".into(), next]);
            return Ok(());
        }
        self.words.push(name.into());
        if next == "--" {
            self.ended = true;
            self.words.push(next);
            self.words.extend(rest);
            return Ok(());
        }
        self.word(next, rest)
    }

    /// The option of this version that is meant by `-temp` or `--top_k`.
    fn spelled_as_here(&self, name: &str) -> Option<String> {
        let bare = name.trim_start_matches('-');
        let usual = bare.replace('_', "-");
        // `-t1` and `-n5` are short options with their values.
        let is_long = name.starts_with("--") || bare.len() > 2;
        (is_long && self.long.contains(&usual)).then(|| format!("--{usual}"))
    }

    fn done(mut self) -> Habits {
        if let Some(model) = self.model {
            let first = usize::from(
                self.words
                    .first()
                    .is_some_and(|word| self.subcommands.iter().any(|sub| word == sub.as_str())),
            );
            self.words.insert(first, model);
        }
        if let Some(output) = self.output {
            // Behind the end of options, so that none takes it for a value.
            if !self.ended {
                self.words.push("--".into());
            }
            self.words.push(output);
        }
        Habits { words: self.words, notes: self.notes }
    }
}

/// Whether a word can only be meant as a type.
fn is_type(word: &OsStr) -> bool {
    let Some(text) = word.to_str() else { return false };
    text.parse::<Recipe>().is_ok() || (nearest_type(text).is_some() && !Path::new(word).exists())
}

#[cfg(test)]
mod tests {
    use clap::Arg;

    use super::*;

    fn command(name: &'static str) -> Command {
        let flags = ["temperature", "top-k", "quant", "force", "prompt"];
        Command::new(name)
            .args(flags.map(|flag| Arg::new(flag).long(flag)))
            .subcommand(Command::new("report"))
    }

    fn translated(program: &'static str, line: &str) -> String {
        let words = line.split_whitespace().map(OsString::from).collect();
        let habits = Habits::of(&command(program), words).unwrap();
        habits.words.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn names_of_other_programs_and_versions_mean_what_they_meant() {
        for (program, given, meant) in [
            ("qsf-convert", "-m in -o out.qsf --force", "in --force -- out.qsf"),
            ("qsf-convert", "in -f -q 3bit", "in --force --quant 3bit"),
            ("qsf-convert", "in -q -f", "in -q --force"),
            ("qsf-convert", "in -q4 --outtype f16", "in --quant=4 --quant f16"),
            ("qsf-convert", "-q in", "-q in"),
            ("qsf-convert", "in -q Q4_K_M", "in --quant Q4_K_M"),
            ("qsf-run", "-m a.qsf -prompt hi --top_k 3 -t1", "a.qsf --prompt hi --top-k 3 -t1"),
            ("qsf-run", "a.qsf -ngl 99 --gpu-layers=0", "a.qsf --device=auto --device=cpu"),
            ("qsf-run", "a.qsf -o csv", "a.qsf --format csv"),
            ("qsf-run", "a.qsf -- -m b", "a.qsf -- -m b"),
            ("qsf-inspect", "report -m a.qsf --out b.html", "report a.qsf --output b.html"),
            ("qsf-run", "a.qsf -s -1", "a.qsf -s -1"),
        ] {
            assert_eq!(translated(program, given), meant, "{program} {given}");
        }
    }

    #[test]
    fn what_has_no_meaning_is_answered() {
        for (line, says) in
            [("a.qsf -ctk q8_0", "--kv-type"), ("a.qsf -hf a/b", "qsf-convert"), ("-m", "missing")]
        {
            let words = line.split_whitespace().map(OsString::from).collect();
            let problem = Habits::of(&command("qsf-run"), words).unwrap_err();
            assert!(problem.contains(says), "{problem}");
        }
    }
}
