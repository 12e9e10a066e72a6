//! What an entry of a list of jobs means: a command line, checked by the parser of the command line itself. Only what holds
//! between jobs is decided here.

use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use clap::error::{ContextKind, ContextValue};
use clap::{Arg, ArgAction, ArgMatches, Command};
use qsf_converter::hub::Reference;
use qsf_converter::{Calibration, rejected_path};

use super::error::Problem;
use super::job::BatchJob;
use super::manifest::{Entry, Given, Pair};

/// The key of the first word of the command line, which is no option.
const MODEL: &str = "model";
/// The key of the second.
pub(super) const OUTPUT: &str = "output";
/// An option of conversions that other callers have, and jobs cannot.
const SPLIT: &str = "split-size";
/// Options that a job cannot have, by their ids, with the reason.
const NOT_FOR_JOBS: [(&str, &str); 16] = [
    ("help", "is not for jobs"),
    ("version", "is not for jobs"),
    ("demo", "is not for jobs: give a model"),
    ("demo_dir", "is not for jobs: give a model"),
    ("show_stats", "makes no file"),
    ("stats_only", "makes no file"),
    ("merge_stats", "makes no file"),
    ("embed_lora", "converts nothing"),
    ("dry_run", "makes no file"),
    ("upload", "is of one conversion: `qsf-inspect report FILE... --upload ORG/NAME` takes all"),
    ("private", "goes with --upload"),
    ("json", "belongs on the command line of the batch"),
    ("quiet", "belongs on the command line of the batch"),
    ("verbose", "belongs on the command line of the batch"),
    ("no_table", "belongs on the command line of the batch"),
    ("pin", "would put all jobs on the same cores"),
];
/// Options that name files beside the output which a job writes.
const ALSO_WRITTEN: [&str; 2] = ["stats_out", "save_plan"];
/// Options by which the machine is used, not what is made.
const NOT_OF_THE_RESULT: [&str; 3] = ["model", "force", "threads"];
/// The option that takes texts, and what the model writes.
const CALIBRATION: &str = "calibration";
/// The name that a missing limit gives a file.
const REJECTED: &str = ".rejected.qsf";

/// Checks entries, and collects what is wrong with them.
pub(super) struct Checker<'a> {
    file: &'a Path,
    folder: &'a Path,
    command: Command,
    pub problems: Vec<Problem>,
}

impl<'a> Checker<'a> {
    pub fn new(file: &'a Path, folder: &'a Path, command: &Command) -> Checker<'a> {
        let mut command = command.clone();
        command.build();
        Checker { file, folder, command, problems: Vec::new() }
    }

    pub fn problem(&mut self, line: usize, key: Option<&str>, what: impl Into<String>) {
        let (file, key) = (self.file.to_owned(), key.map(str::to_owned));
        self.problems.push(Problem { file, line, key, what: what.into() });
    }

    /// The job that an entry is, if nothing is wrong with it.
    pub fn job(&mut self, entry: &Entry) -> Option<BatchJob> {
        let before = self.problems.len();
        let (mut model, mut output, mut options) = (None, None, Vec::new());
        let mut seen: HashMap<String, &Pair> = HashMap::new();
        for pair in &entry.pairs {
            let name = pair.key.replace('_', "-");
            let canonical = self.option(&name).map_or(name.clone(), |arg| arg.get_id().to_string());
            if let Some(first) = seen.insert(canonical, pair) {
                let what = format!("says the same as \"{}\" on line {}", first.key, first.line);
                self.problem(pair.line, Some(&pair.key), what);
                continue;
            }
            match name.as_str() {
                MODEL => model = self.text(pair),
                OUTPUT => output = self.output(pair),
                SPLIT => self.problem(pair.line, Some(&pair.key), "makes several files, and a job makes one"),
                _ => options.extend(self.words(pair, &name)),
            }
        }
        for (key, place) in [(MODEL, seen.contains_key(MODEL)), (OUTPUT, seen.contains_key(OUTPUT))] {
            if !place {
                self.problem(entry.line, Some(key), "every job needs this key");
            }
        }
        let mut missing = Vec::new();
        let model_path = model.as_deref().and_then(|model| self.model(entry, model, &mut missing));
        if self.problems.len() > before {
            return None;
        }
        let (model, output) = (model?, output?);
        let matches = self.parse(entry, &model, &output, &options)?;
        let inputs = self.inputs(&matches, &mut missing);
        (self.problems.len() == before).then(|| BatchJob {
            line: entry.line,
            also_written: ALSO_WRITTEN
                .into_iter()
                .filter_map(|id| one_path(&matches, id))
                .map(|path| self.folder.join(path))
                .collect(),
            force: matches.get_flag("force"),
            threads: matches.get_one("threads").copied(),
            settings: self.settings(&matches),
            model,
            model_path,
            output,
            options,
            inputs,
            missing,
        })
    }

    /// The option of the command line that a key names, in its long form or another that is shown.
    fn option(&self, name: &str) -> Option<&Arg> {
        let names =
            |arg: &&Arg| arg.get_long_and_visible_aliases().is_some_and(|names| names.contains(&name));
        self.command.get_arguments().find(names)
    }

    /// The pair of an entry that is the option of this id.
    fn pair_of<'e>(&self, entry: &'e Entry, id: &str) -> Option<&'e Pair> {
        let names =
            |pair: &&Pair| self.option(&pair.key.replace('_', "-")).is_some_and(|arg| arg.get_id() == id);
        entry.pairs.iter().find(names)
    }

    fn is_of_batches(arg: &Arg) -> bool {
        arg.get_help_heading() == Some("Batch") || arg.is_hide_set()
    }

    fn text(&mut self, pair: &Pair) -> Option<String> {
        match &pair.value {
            Given::Text(text) if !text.is_empty() => Some(text.clone()),
            Given::Text(_) => {
                self.problem(pair.line, Some(&pair.key), "is empty");
                None
            }
            other => {
                self.problem(pair.line, Some(&pair.key), format!("expected a text, found {}", other.kind()));
                None
            }
        }
    }

    /// The output below the folder for all, without detours, so that one file has one name.
    fn output(&mut self, pair: &Pair) -> Option<PathBuf> {
        let text = self.text(pair)?;
        let mut path = PathBuf::new();
        let mut inside = true;
        for component in Path::new(&text).components() {
            match component {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                _ => inside = false,
            }
        }
        let (lower, key) = (text.to_ascii_lowercase(), Some(pair.key.as_str()));
        if !inside {
            self.problem(pair.line, key, format!("'{text}' leads out of --out-dir: name a file in it"));
        } else if !lower.ends_with(".qsf") || path.file_stem().is_none() {
            self.problem(pair.line, key, format!("'{text}' does not end in .qsf"));
        } else if lower.ends_with(REJECTED) {
            self.problem(pair.line, key, format!("'{text}' is a name for files that miss their limits"));
        } else {
            return Some(path);
        }
        None
    }

    /// What a key is on the command line.
    pub fn words(&mut self, pair: &Pair, name: &str) -> Vec<OsString> {
        let Some(arg) = self.option(name).filter(|arg| !Self::is_of_batches(arg)) else {
            let what = if self.option(name).is_some() {
                "is an option of the batch, not of a job".to_owned()
            } else {
                format!("is no option of a conversion{}", self.suggestion(name))
            };
            self.problem(pair.line, Some(&pair.key), what);
            return Vec::new();
        };
        if let Some((_, why)) = NOT_FOR_JOBS.iter().find(|(id, _)| arg.get_id() == id) {
            self.problem(pair.line, Some(&pair.key), *why);
            return Vec::new();
        }
        match words_of(arg, name, &pair.value) {
            Ok(words) => words,
            Err(expected) => {
                let what = format!("expected {expected}, found {}", pair.value.kind());
                self.problem(pair.line, Some(&pair.key), what);
                Vec::new()
            }
        }
    }

    /// The nearest name that a job may have.
    fn suggestion(&self, name: &str) -> String {
        let options = self.command.get_arguments().filter(|arg| {
            !Self::is_of_batches(arg) && !NOT_FOR_JOBS.iter().any(|(id, _)| arg.get_id() == id)
        });
        let names = options.filter_map(Arg::get_long_and_visible_aliases).flatten().chain([MODEL, OUTPUT]);
        // As near as the parser of command lines wants it.
        let near = names.map(|known| (strsim::jaro(name, known), known)).filter(|(near, _)| *near > 0.7);
        let best = near.max_by(|a, b| a.0.total_cmp(&b.0));
        best.map_or(String::new(), |(_, known)| format!("; did you mean \"{}\"?", known.replace('-', "_")))
    }

    /// The place of the model. One that is not there is no mistake of the list: it may be on its way.
    fn model(&mut self, entry: &Entry, model: &str, missing: &mut Vec<String>) -> Option<PathBuf> {
        let path = self.folder.join(model);
        if path.exists() {
            return Some(path);
        }
        let line = entry.pairs.iter().find(|pair| pair.key == MODEL).map_or(entry.line, |pair| pair.line);
        match Reference::of_argument(Path::new(model)) {
            Ok(Some(_)) if cfg!(feature = "hub") => {}
            Err(error) => self.problem(line, Some(MODEL), error.to_string()),
            Ok(_) => {
                missing.push(format!("there is no file or folder '{model}' (in {})", self.folder.display()));
                return Some(path);
            }
        }
        None
    }

    /// Has the command line of the job parsed.
    fn parse(
        &mut self,
        entry: &Entry,
        model: &str,
        output: &Path,
        options: &[OsString],
    ) -> Option<ArgMatches> {
        let program = OsString::from(self.command.get_name());
        let words = [OsString::from("--"), model.into(), output.into()];
        let line = std::iter::once(program).chain(options.iter().cloned()).chain(words);
        let error = match self.command.try_get_matches_from_mut(line) {
            Ok(matches) => return Some(matches),
            Err(error) => error,
        };
        let named = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(arg)) => Some(arg.clone()),
            Some(ContextValue::Strings(args)) => args.first().cloned(),
            _ => None,
        };
        let long = named.and_then(|arg| {
            arg.split([' ', '=', '[']).next().and_then(|word| word.strip_prefix("--")).map(str::to_owned)
        });
        // What a job leaves out has no key of its own.
        let id = long.as_deref().and_then(|long| self.option(long)).map(|arg| arg.get_id().clone());
        let pair = id.and_then(|id| self.pair_of(entry, id.as_str()));
        let rendered = error.render().to_string();
        let lines = rendered.lines().map(str::trim).take_while(|line| !line.is_empty());
        let what = lines.collect::<Vec<_>>().join(" ");
        let what = what.strip_prefix("error: ").unwrap_or(&what).to_owned();
        match pair {
            Some(pair) => self.problem(pair.line, Some(&pair.key), what),
            None => self.problem(entry.line, long.as_deref(), what),
        }
        None
    }

    /// The files that the options name.
    fn inputs(&self, matches: &ArgMatches, missing: &mut Vec<String>) -> Vec<(String, PathBuf)> {
        let ids: Vec<(String, String)> = self
            .command
            .get_arguments()
            .filter(|arg| is_path(arg) && !Self::is_of_batches(arg) && arg.get_long().is_some())
            .filter(|arg| !ALSO_WRITTEN.contains(&arg.get_id().as_str()))
            .filter(|arg| !NOT_FOR_JOBS.iter().any(|(id, _)| arg.get_id() == id))
            .map(|arg| (arg.get_id().to_string(), arg.get_long().unwrap_or_default().to_owned()))
            .collect();
        let mut inputs = Vec::new();
        for (id, long) in ids {
            for path in matches.get_many::<PathBuf>(&id).into_iter().flatten() {
                if is_written(&id, path) {
                    continue;
                }
                let full = self.folder.join(path);
                if !full.is_file() {
                    let what = match id.as_str() {
                        "plan" => {
                            "there is no such file: jobs replay plans; qsf-convert --dry-run --save-plan writes one"
                        }
                        _ => "there is no such file",
                    };
                    let (path, folder) = (path.display(), self.folder.display());
                    missing.push(format!("--{long} '{path}': {what} (in {folder})"));
                }
                inputs.push((long.clone(), full));
            }
        }
        inputs
    }

    /// All options with their values as text, but for the names of files.
    fn settings(&self, matches: &ArgMatches) -> BTreeMap<String, Vec<String>> {
        let counts = |arg: &&Arg| {
            let id = arg.get_id().as_str();
            let reads = is_path(arg) && !ALSO_WRITTEN.contains(&id);
            !reads && !Self::is_of_batches(arg) && !NOT_OF_THE_RESULT.contains(&id)
        };
        let mut settings = BTreeMap::new();
        for arg in self.command.get_arguments().filter(counts) {
            let id = arg.get_id().as_str();
            // Help and version end a program, and have no value.
            let values = matches.try_get_raw(id).ok().flatten();
            let values =
                values.map(|values| values.map(|value| value.to_string_lossy().into_owned()).collect());
            settings.insert(id.to_owned(), values.unwrap_or_default());
        }
        // What the model writes is no file, whose contents would be compared.
        let texts = matches.get_many::<PathBuf>(CALIBRATION).into_iter().flatten();
        if let Some(at) = texts.clone().position(|text| is_written(CALIBRATION, text)) {
            settings.insert(CALIBRATION.to_owned(), vec![Calibration::SELF.to_owned(), at.to_string()]);
        }
        settings
    }

    /// No file may be written by two jobs, nor read by one and written by another.
    pub fn names_are_taken_once(&mut self, jobs: &[BatchJob]) {
        let mut taken: HashMap<PathBuf, usize> = HashMap::new();
        for job in jobs {
            for name in [job.output.clone(), rejected_path(&job.output)] {
                if let Some(first) = taken.insert(name, job.line) {
                    let what = format!("'{}' is the output of line {first} already", job.output.display());
                    self.problem(job.line, Some(OUTPUT), what);
                    break;
                }
            }
        }
        let mut written: HashMap<&Path, usize> = HashMap::new();
        for (job, path) in jobs.iter().flat_map(|job| job.also_written.iter().map(move |path| (job, path))) {
            if let Some(first) = written.insert(path, job.line) {
                let what = format!("'{}' is written by line {first} already", path.display());
                self.problem(job.line, Some(ALSO_WRITTEN[0]), what);
            }
        }
    }
}

/// The words by which `value` is given to an option, or what it takes instead.
fn words_of(arg: &Arg, name: &str, value: &Given) -> Result<Vec<OsString>, &'static str> {
    let word = |value: &Given| match value {
        Given::Text(text) => Ok(OsString::from(format!("--{name}={text}"))),
        Given::Number(number) if !is_path(arg) => Ok(OsString::from(format!("--{name}={number}"))),
        _ if is_path(arg) => Err("the name of a file"),
        _ => Err("a text or a number"),
    };
    let bare_is_enough = arg.get_num_args().is_some_and(|count| count.min_values() == 0);
    match (arg.get_action(), value) {
        (ArgAction::SetTrue, Given::Flag(true)) => Ok(vec![format!("--{name}").into()]),
        (ArgAction::SetTrue, Given::Flag(false)) => Ok(Vec::new()),
        (ArgAction::SetTrue, _) => Err("true or false"),
        (_, Given::Flag(true)) if bare_is_enough => Ok(vec![format!("--{name}").into()]),
        (ArgAction::Append, Given::List(values)) if arg.get_value_delimiter().is_none() => {
            values.iter().map(word).collect()
        }
        (_, value) => word(value).map(|word| vec![word]),
    }
}

/// Whether the value of an option stands for text that the model writes.
fn is_written(id: &str, value: &Path) -> bool {
    id == CALIBRATION && Calibration::is_written(value)
}

fn is_path(arg: &Arg) -> bool {
    arg.get_value_parser().type_id() == TypeId::of::<PathBuf>()
}

fn one_path(matches: &ArgMatches, id: &str) -> Option<PathBuf> {
    matches.get_one::<PathBuf>(id).cloned()
}
