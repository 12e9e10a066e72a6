//! All files that a command line names, and what is known of their use: no output takes the place of what is read, nor of another
//! output, `--force` or not.

use std::path::{Path, PathBuf};

use qsf_converter::COMPANIONS;
use qsf_format::PartialFile;
use qsf_runtime::file_identity::FileIdentity;
use qsf_runtime::source::WeightSource;
use qsf_runtime::{Result, RuntimeError};

/// Files by the options that name them.
#[derive(Debug, Default)]
pub struct OwnFiles {
    read: Vec<Read>,
    written: Vec<Written>,
}

#[derive(Debug)]
struct Read {
    option: &'static str,
    file: FileIdentity,
    of_model: bool,
}

#[derive(Debug)]
struct Written {
    option: &'static str,
    path: PathBuf,
    file: FileIdentity,
    /// The name that it has until it is whole.
    partial: FileIdentity,
}

impl OwnFiles {
    /// `option` names files that are read; of a directory, all in it are.
    #[must_use]
    pub fn reads<'a>(
        mut self,
        option: &'static str,
        paths: impl IntoIterator<Item = &'a PathBuf>,
    ) -> OwnFiles {
        for path in paths {
            match std::fs::read_dir(path) {
                // What is unfinished is not read, but may be what a crash has left of this very call.
                Ok(entries) => entries
                    .flatten()
                    .map(|entry| entry.path())
                    .filter(|path| path.extension().is_none_or(|end| end != "partial"))
                    .for_each(|path| self.read(option, &path, false)),
                Err(_) => self.read(option, path, false),
            }
        }
        self
    }

    /// `option` names a model, which is open.
    #[must_use]
    pub fn reads_model(mut self, option: &'static str, source: &dyn WeightSource) -> OwnFiles {
        source.files().iter().for_each(|file| self.read(option, file, true));
        if source.path().is_dir() {
            let companions = COMPANIONS.iter().map(|name| source.path().join(name));
            companions.filter(|path| path.exists()).for_each(|path| self.read(option, &path, true));
        }
        self
    }

    /// `option` names files that are written.
    #[must_use]
    pub fn writes<'a>(
        mut self,
        option: &'static str,
        paths: impl IntoIterator<Item = &'a PathBuf>,
    ) -> OwnFiles {
        let written = |path: &PathBuf| {
            let partial = FileIdentity::of(&PartialFile::name_of_partial(path));
            Written { option, path: path.clone(), file: FileIdentity::of(path), partial }
        };
        self.written.extend(paths.into_iter().map(written));
        self
    }

    fn read(&mut self, option: &'static str, path: &Path, of_model: bool) {
        self.read.push(Read { option, file: FileIdentity::of(path), of_model });
    }

    /// To be asked before anything is written.
    ///
    /// # Errors
    /// When something would be lost.
    pub fn check(&self) -> Result<()> {
        for (i, written) in self.written.iter().enumerate() {
            let Written { option, path, file, partial } = written;
            let (others, name) = (&self.written[..i], path.display());
            // Each place that writing it takes, and what is lost there.
            let places =
                [(file, "this".to_owned()), (partial, format!("{name}.partial, as which it is written,"))];
            for (place, is) in places {
                let lost = self.read.iter().find(|read| read.file.is_lost_by(place));
                let why = match lost {
                    Some(Read { option, of_model: true, .. }) => {
                        format!("one of the model's own files ({option})")
                    }
                    Some(Read { option, .. }) => format!("what {option} reads"),
                    None => match others.iter().find(|other| other.file.is(place) || other.partial.is(place))
                    {
                        Some(other) => format!("what {} writes", other.option),
                        None => continue,
                    },
                };
                let problem =
                    format!("{option} {name}: {is} is {why}, and would be replaced; choose another name");
                return Err(RuntimeError::Request(problem));
            }
            PartialFile::check_name(path)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn an_output_is_refused_that_is_read_or_written_by_another_option() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("adapter")).unwrap();
        for name in ["text", "late.partial", "adapter/config.json", "adapter/left.partial"] {
            fs::write(path(name), "").unwrap();
        }
        let check = |out: &str| {
            let files = OwnFiles::default()
                .reads("--file", [&path("text"), &path("late.partial")])
                .reads("--lora", [&path("adapter")]);
            let files = files.writes("--plan", [&path("plan")]).writes("--out", [&path(out)]);
            files.check().err().map(|error| error.to_string())
        };
        let refused = |out: &str, why: &str| {
            let path = path(out).display().to_string();
            assert_eq!(
                check(out),
                Some(format!("--out {path}: this is {why}, and would be replaced; choose another name"))
            );
        };
        assert_eq!((check("new"), check("adapter/new"), check("adapter/left")), (None, None, None));
        refused("adapter/../text", "what --file reads");
        refused("adapter/config.json", "what --lora reads");
        refused("plan", "what --plan writes");
        refused("adapter", "what --lora reads");
        // The name that an output has until it is whole.
        let late = path("late").display().to_string();
        let expected = format!("--out {late}: {late}.partial, as which it is written, is what --file reads");
        assert_eq!(check("late"), Some(format!("{expected}, and would be replaced; choose another name")));
        refused("plan.partial", "what --plan writes");
    }
}
