//! `--upload`: files into a repository of the HuggingFace hub, with a page about them and a card.

use std::path::{Path, PathBuf};

use clap::Args;
use qsf_runtime::RuntimeError;
use qsf_runtime::progress::{Cancel, Progress};
use serde_json::{Value, json};

use crate::model_name::model_name;
use crate::untrusted::refuse_if_untrusted;

/// Where files go.
#[derive(Debug, Clone, Default, Args)]
pub struct UploadArgs {
    /// Put QSF files, a page about them and a model card into this repository of the HuggingFace hub, which is made if there is
    /// none; the token is that of HF_TOKEN or `hf auth login`
    #[arg(long, value_name = "ORG/NAME")]
    pub upload: Option<String>,
    /// With --upload: a repository that is made is private
    #[arg(long, requires = "upload")]
    pub private: bool,
}

/// What goes there.
#[derive(Debug, Clone)]
pub struct Parcel {
    /// QSF files.
    pub files: Vec<PathBuf>,
    /// The page.
    pub page: String,
    /// The card.
    pub card: String,
}

/// What came of an upload.
#[derive(Debug, Clone)]
pub struct Sent {
    repository: String,
    page: String,
    commit: String,
    files: Vec<String>,
}

/// A repository that is known to take files of these names.
#[cfg_attr(not(feature = "hub"), allow(dead_code, reason = "only the hub reads it"))]
pub struct ReadyUpload {
    repo: String,
    /// Whether the repository has no card yet.
    wants_card: bool,
}

#[cfg(feature = "hub")]
const PAGE: &str = "report.html";
const CARD: &str = "README.md";

impl UploadArgs {
    /// Asks the repository whether it takes `files`, which `force` lets replace others of their names; makes it where there is
    /// none. Done before the work, so that a wrong name or token ends nothing that took hours. `None`: nobody asked for an upload.
    ///
    /// # Errors
    /// When it does not.
    pub fn prepare(
        &self,
        files: &[PathBuf],
        force: bool,
        progress: &dyn Progress,
        cancel: &Cancel,
    ) -> anyhow::Result<Option<ReadyUpload>> {
        let Some(repo) = &self.upload else { return Ok(None) };
        refuse_if_untrusted("--upload")?;
        let mut names: Vec<String> = files.iter().map(|file| model_name(file)).collect();
        if let Some(other) = names.iter().find(|name| !name.to_ascii_lowercase().ends_with(".qsf")) {
            let problem = format!("--upload: {other} is no QSF file by its name: name it .qsf");
            return Err(RuntimeError::Request(problem).into());
        }
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let problem = format!("--upload: two files are called {}: a repository has one", pair[0]);
            return Err(RuntimeError::Request(problem).into());
        }
        let there = hub::names_in(repo, self.private, progress, cancel)?;
        if let Some(name) = names.into_iter().find(|name| !force && there.contains(name)) {
            return Err(hub::exists(repo, name));
        }
        let wants_card = !there.iter().any(|name| name == CARD);
        if !wants_card {
            progress.note(&format!("{repo} has a {CARD}, which stays as it is"));
        }
        Ok(Some(ReadyUpload { repo: repo.clone(), wants_card }))
    }
}

impl ReadyUpload {
    /// Puts files, page and card there, in one commit.
    ///
    /// # Errors
    /// When the hub refuses or cannot be reached.
    pub fn send(self, parcel: &Parcel, progress: &dyn Progress, cancel: &Cancel) -> anyhow::Result<Sent> {
        hub::send(self, parcel, progress, cancel)
    }
}

impl Sent {
    /// A line for people.
    pub fn to_text(&self) -> String {
        format!("{}: {} uploaded\n", self.page, self.files.join(", "))
    }

    /// What `--json` says of it.
    pub fn to_json(&self) -> Value {
        json!({ "repository": self.repository, "page": self.page, "commit": self.commit, "files": self.files })
    }
}

/// What to do where an upload failed and the file is there.
pub fn how_to_send_again(file: &Path, repo: &str) -> String {
    format!(
        "{0} is written; `qsf-inspect report {0} -o report.html --upload {repo}` sends it again",
        file.display()
    )
}

#[cfg(feature = "hub")]
mod hub {
    use qsf_converter::ConvertError;
    use qsf_converter::hub::{Content, HubError, Settings, Upload, UploadFile, Watch};
    use qsf_runtime::progress::{Cancel, Progress};

    use super::{CARD, PAGE, Parcel, ReadyUpload, Sent};
    use crate::model_name::model_name;

    type Result<T> = anyhow::Result<T>;

    pub fn names_in(
        repo: &str,
        private: bool,
        progress: &dyn Progress,
        cancel: &Cancel,
    ) -> Result<Vec<String>> {
        let settings = Settings::from_env().map_err(ConvertError::from)?;
        let watch = Watch { progress, notice: &|text| progress.note(text), cancel };
        let upload = Upload::new(repo, &settings, &watch).map_err(ConvertError::from)?;
        Ok(upload.prepare(private).map_err(ConvertError::from)?)
    }

    pub fn exists(repo: &str, name: String) -> anyhow::Error {
        ConvertError::from(HubError::Exists { repo: repo.to_owned(), name }).into()
    }

    pub fn send(
        ready: ReadyUpload,
        parcel: &Parcel,
        progress: &dyn Progress,
        cancel: &Cancel,
    ) -> Result<Sent> {
        let settings = Settings::from_env().map_err(ConvertError::from)?;
        let watch = Watch { progress, notice: &|text| progress.note(text), cancel };
        let upload = Upload::new(&ready.repo, &settings, &watch).map_err(ConvertError::from)?;
        let text = |name: &str, text: &str| UploadFile {
            name: name.to_owned(),
            content: Content::Bytes(text.as_bytes().into()),
        };
        let mut files: Vec<UploadFile> = parcel
            .files
            .iter()
            .map(|path| UploadFile { name: model_name(path), content: Content::File(path.clone()) })
            .collect();
        files.push(text(PAGE, &parcel.page));
        if ready.wants_card {
            files.push(text(CARD, &parcel.card));
        }
        let names: Vec<String> = files.iter().map(|file| file.name.clone()).collect();
        let summary = format!("Upload {} with qsf", names.join(", "));
        let sent = upload.send(&files, &summary).map_err(ConvertError::from)?;
        Ok(Sent { repository: ready.repo, page: sent.page, commit: sent.commit, files: names })
    }
}

#[cfg(not(feature = "hub"))]
mod hub {
    use qsf_runtime::RuntimeError;
    use qsf_runtime::progress::{Cancel, Progress};

    use super::{Parcel, ReadyUpload, Sent};

    type Result<T> = anyhow::Result<T>;

    fn not_built() -> anyhow::Error {
        RuntimeError::Request("--upload: this build does not know the HuggingFace hub".into()).into()
    }

    pub fn names_in(_: &str, _: bool, _: &dyn Progress, _: &Cancel) -> Result<Vec<String>> {
        Err(not_built())
    }

    pub fn exists(_: &str, _: String) -> anyhow::Error {
        not_built()
    }

    pub fn send(_: ReadyUpload, _: &Parcel, _: &dyn Progress, _: &Cancel) -> Result<Sent> {
        Err(not_built())
    }
}
