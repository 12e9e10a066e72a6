//! Errors of downloads and uploads.

use std::io;
use std::path::{Path, PathBuf};

use qsf_format::printable::quote;
use qsf_format::{Failure, FormatError};

/// Why a model of the hub could not be had, or a file not be put there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HubError {
    /// What should name a model of the hub does not.
    #[error("{}: expected {expected}", quote(text))]
    Reference {
        /// What was given.
        text: String,
        /// The form of the wrong part.
        expected: &'static str,
    },
    /// A model of the hub is asked for, and this program was built without the feature.
    #[error(
        "{text}: there is no such file or directory, and this build cannot download from the HuggingFace hub: build it with \
         the feature hub, or run `hf download {repo} --local-dir DIR` and convert DIR"
    )]
    NotBuilt {
        /// What was given.
        text: String,
        /// The repository's part of it.
        repo: String,
    },
    /// An environment variable has a value that cannot be used.
    #[error("{name}: expected {expected}, found {}", quote(found))]
    Setting {
        /// The variable.
        name: &'static str,
        /// What it should hold.
        expected: &'static str,
        /// What it holds; never a token.
        found: String,
    },
    /// The hub wants to know who asks, or refuses who asked (401, 403).
    #[error(
        "{url}: access refused (status {status}): if the model is gated, accept its licence at {page}; then set HF_TOKEN \
         to a token of your account, or run `hf auth login`{}",
        if *with_token { " (the token that was sent does not suffice)" } else { "" }
    )]
    Refused {
        /// What was asked for.
        url: String,
        /// HTTP status.
        status: u16,
        /// The model's page.
        page: String,
        /// Whether a token was sent.
        with_token: bool,
    },
    /// The hub has no such repository, revision or file, or does not show it (404; 401 for repositories).
    #[error(
        "{url}: not found (status {status}): check the name and the revision, or the path where a local model is meant; a \
         private model needs HF_TOKEN"
    )]
    NotFound {
        /// What was asked for.
        url: String,
        /// HTTP status.
        status: u16,
    },
    /// The server cannot be reached or does not deliver.
    #[error(
        "{url}: {problem}; what was downloaded is kept, and the same command goes on from there. HF_HUB_OFFLINE=1 uses \
         what the cache has"
    )]
    Network {
        /// What was asked for.
        url: String,
        /// What happened.
        problem: String,
    },
    /// The server answers with something that makes no sense.
    #[error("{url}: expected {expected}, found {found}")]
    Response {
        /// What was asked for.
        url: String,
        /// What should come.
        expected: String,
        /// What came.
        found: String,
    },
    /// A file name of the repository that could lead out of its folder.
    #[error(
        "{repo}: the repository names a file {}: refused, because that could lead out of its folder",
        quote(name)
    )]
    FileName {
        /// The repository.
        repo: String,
        /// The name.
        name: String,
    },
    /// The repository does not hold a model that could be converted.
    #[error("{repo}: expected {expected}, found {found}")]
    NoModel {
        /// The repository.
        repo: String,
        /// What a model consists of.
        expected: String,
        /// What is there.
        found: String,
    },
    /// The repository holds several models, and none was chosen.
    #[error("{repo}: {count} GGUF models: choose one, as in {repo}:{example} (there are {found})")]
    Ambiguous {
        /// The repository.
        repo: String,
        /// How many models.
        count: usize,
        /// The file of one of them.
        example: String,
        /// Names of their files, cut where there are many.
        found: String,
    },
    /// Downloads are switched off, and the cache does not have everything.
    #[error("{repo}: {missing} not in the cache {}, and HF_HUB_OFFLINE forbids to download it", cache.display())]
    Offline {
        /// The repository.
        repo: String,
        /// What is missing.
        missing: String,
        /// The folder of the cache that was searched.
        cache: PathBuf,
    },
    /// What came is not what the hub says the file is.
    #[error(
        "{url}: the file is damaged: expected {kind} {expected}, found {found}; it was removed, run again to download it anew"
    )]
    Damaged {
        /// What was downloaded.
        url: String,
        /// Which hash.
        kind: &'static str,
        /// The hub's.
        expected: String,
        /// The one of what came.
        found: String,
    },
    /// The operating system refused an operation.
    #[error("{}: cannot {action}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// What is in the place of a file of the cache.
    #[error(transparent)]
    Cache(#[from] FormatError),
    /// An upload needs to say who sends it.
    #[error("{repo}: an upload needs a token that may write there: set HF_TOKEN, or run `hf auth login`")]
    NoToken {
        /// The repository.
        repo: String,
    },
    /// Uploads are switched off.
    #[error("{repo}: HF_HUB_OFFLINE forbids to upload")]
    UploadOffline {
        /// The repository.
        repo: String,
    },
    /// The repository has a file of this name.
    #[error("{repo}: the repository has a file {} already; pass --force to replace it", quote(name))]
    Exists {
        /// The repository.
        repo: String,
        /// The name.
        name: String,
    },
    /// The hub does not take an upload.
    #[error("{url}: the hub refused (status {status}): {said}")]
    UploadRefused {
        /// What was asked for.
        url: String,
        /// HTTP status.
        status: u16,
        /// What the hub says, or what to do.
        said: String,
    },
    /// The server cannot be reached or does not take what is sent.
    #[error("{url}: {problem}; what has arrived is kept there, and another upload sends the rest")]
    NotSent {
        /// Where it was sent to.
        url: String,
        /// What happened.
        problem: String,
    },
    /// The caller asked to stop an upload.
    #[error("interrupted; what has arrived is kept there, and another upload sends the rest")]
    UploadInterrupted,
    /// The caller asked to stop.
    #[error("interrupted; what was downloaded is kept, and the same command goes on from there")]
    Interrupted,
}

impl HubError {
    /// An error of the operating system at `path`.
    pub fn io(path: &Path, action: &'static str, source: io::Error) -> HubError {
        HubError::Io { path: path.to_owned(), action, source }
    }

    /// The class, which decides the exit code.
    pub fn failure(&self) -> Failure {
        match self {
            HubError::Reference { .. }
            | HubError::Setting { .. }
            | HubError::Ambiguous { .. }
            | HubError::NoToken { .. }
            | HubError::UploadOffline { .. }
            | HubError::Exists { .. } => Failure::Usage,
            HubError::Io { source, .. } => Failure::of_io(source),
            HubError::Cache(error) => error.failure(),
            HubError::Interrupted | HubError::UploadInterrupted => Failure::Interrupted,
            HubError::NoModel { .. }
            | HubError::NotBuilt { .. }
            | HubError::Refused { .. }
            | HubError::NotFound { .. }
            | HubError::UploadRefused { .. }
            | HubError::NotSent { .. }
            | HubError::Network { .. }
            | HubError::Response { .. }
            | HubError::FileName { .. }
            | HubError::Offline { .. }
            | HubError::Damaged { .. } => Failure::BadInput,
        }
    }
}

/// Result with [`HubError`].
pub type Result<T, E = HubError> = std::result::Result<T, E>;
