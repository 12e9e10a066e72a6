//! Files into a repository of the hub: what each is to be kept as (`preupload`), large ones to the storage (`large`), and then
//! one commit (huggingface.co/docs/hub/api; requests as those of huggingface_hub).

use std::io::Read;

use qsf_format::printable::message;
use serde::Deserialize;
use serde_json::json;

use super::client::{Client, encoded};
use super::error::{HubError, Result};
use super::large::{Large, LargeFile};
use super::listing;
use super::outgoing::Outgoing;
use super::reference::Reference;
use super::repository::{Upload, UploadFile, parse, size_of, text};
use super::settings::Settings;
use super::watch::Watch;

/// Bytes of a file by which the hub tells text from other content.
const SAMPLE: u64 = 512;
/// The largest file that goes into the commit itself; the hub wants none above 10 MB there.
const MAX_IN_COMMIT: u64 = 16 << 20;
const JSON: &str = "application/json";

/// What came of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Uploaded {
    /// The repository's page.
    pub page: String,
    /// The commit; empty where the hub does not say.
    pub commit: String,
}

#[derive(Deserialize)]
struct Modes {
    files: Vec<Mode>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mode {
    path: String,
    upload_mode: String,
    #[serde(default)]
    should_ignore: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Committed {
    #[serde(default)]
    commit_oid: String,
}

impl<'a> Upload<'a> {
    /// Uploads to `repo`, by what `settings` say.
    ///
    /// # Errors
    /// When they forbid it or have no token, or `repo` is no name of a repository.
    pub fn new(repo: &str, settings: &'a Settings, watch: &'a Watch<'a>) -> Result<Upload<'a>> {
        let repo = Reference::repository(repo)?.repo().to_owned();
        if settings.offline {
            return Err(HubError::UploadOffline { repo });
        }
        if settings.token.is_none() {
            return Err(HubError::NoToken { repo });
        }
        let client = Client::new(settings, watch.cancel)?;
        Ok(Upload { client, repo, settings, watch })
    }

    /// The names of the files in the repository, which is made, `private` or not, where there is none.
    ///
    /// # Errors
    /// When the hub refuses or cannot be reached.
    pub fn prepare(&self, private: bool) -> Result<Vec<String>> {
        let found = Reference::repository(&self.repo)
            .and_then(|reference| listing::list(&self.client, &reference, &self.page(), self.patience()));
        match found {
            Ok(listing) => Ok(listing.names),
            Err(HubError::NotFound { .. }) => self.create(private).map(|()| Vec::new()),
            Err(error) => Err(of_upload(error)),
        }
    }

    fn create(&self, private: bool) -> Result<()> {
        let (organization, name) = self.repo.split_once('/').unwrap_or_default();
        let body = json!({ "type": "model", "name": name, "organization": organization, "private": private });
        let url = self.client.url("api/repos/create");
        // 409: it has come into being, or has no branch yet.
        self.post(&url, &text(&body, JSON), &[200, 201, 409]).map(|_| ())
    }

    /// Puts the files there, in one commit.
    ///
    /// # Errors
    /// When the hub refuses or cannot be reached, or a file cannot be read.
    pub fn send(&self, files: &[UploadFile], summary: &str) -> Result<Uploaded> {
        self.send_all(files, summary).map_err(of_upload)
    }

    fn send_all(&self, files: &[UploadFile], summary: &str) -> Result<Uploaded> {
        let mut large = Vec::new();
        let mut lines = vec![json!({ "key": "header", "value": { "summary": summary, "description": "" } })];
        for (file, is_large) in files.iter().zip(self.modes(files)?) {
            if is_large {
                let found = LargeFile::of(file, self.watch.cancel)?;
                let (oid, size) = (&found.sha256, found.size);
                let value = json!({ "path": file.name, "algo": "sha256", "oid": oid, "size": size });
                lines.push(json!({ "key": "lfsFile", "value": value }));
                large.push(found);
            } else {
                let content = base64::encode(read(file, MAX_IN_COMMIT)?);
                let value = json!({ "content": content, "path": file.name, "encoding": "base64" });
                lines.push(json!({ "key": "file", "value": value }));
            }
        }
        Large { upload: self }.send(&large)?;
        let commit: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let url = self.client.url(&format!("api/models/{}/commit/main", encoded(&self.repo, true)));
        let body = Outgoing::Text(commit.into_bytes(), "application/x-ndjson");
        let (url, answer) = self.post(&url, &body, &[200, 201])?;
        let committed: Committed = parse(&url, &answer)?;
        Ok(Uploaded { page: self.page(), commit: committed.commit_oid })
    }

    /// Whether each file is kept as a large one.
    fn modes(&self, files: &[UploadFile]) -> Result<Vec<bool>> {
        let mut asked = Vec::new();
        for file in files {
            let size = size_of(file)?;
            asked.push(json!({ "path": file.name, "size": size, "sample": base64::encode(sample(file)?) }));
        }
        let url = self.client.url(&format!("api/models/{}/preupload/main", encoded(&self.repo, true)));
        let (url, answer) = self.post(&url, &text(&json!({ "files": asked }), JSON), &[200])?;
        let modes: Modes = parse(&url, &answer)?;
        let mode = |file: &UploadFile| {
            let wrong = |found: String| HubError::Response {
                url: url.clone(),
                expected: format!("to take {} as \"lfs\" or \"regular\"", file.name),
                found,
            };
            let mode = modes.files.iter().find(|mode| mode.path == file.name);
            let mode = mode.ok_or_else(|| wrong("nothing of it".into()))?;
            if mode.should_ignore {
                return Err(wrong("a .gitignore that leaves it out".into()));
            }
            match mode.upload_mode.as_str() {
                "lfs" => Ok(true),
                "regular" => Ok(false),
                other => Err(wrong(message(other))),
            }
        };
        files.iter().map(mode).collect()
    }
}

/// Errors that speak of downloads speak of an upload.
fn of_upload(error: HubError) -> HubError {
    match error {
        HubError::Network { url, problem } => HubError::NotSent { url, problem },
        HubError::Interrupted => HubError::UploadInterrupted,
        HubError::Refused { url, status, .. } => {
            let said = "HF_TOKEN must be a token that may write there".into();
            HubError::UploadRefused { url, status, said }
        }
        other => other,
    }
}

fn sample(file: &UploadFile) -> Result<Vec<u8>> {
    let mut sample = Vec::new();
    let read = file.content.open_at(0).and_then(|from| from.take(SAMPLE).read_to_end(&mut sample));
    read.map_err(|e| HubError::io(file.name.as_ref(), "read", e))?;
    Ok(sample)
}

/// All of a file that is small.
fn read(file: &UploadFile, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.content.open_at(0).and_then(|from| from.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|e| HubError::io(file.name.as_ref(), "read", e))?;
    if bytes.len() as u64 > most {
        let source = std::io::Error::other("the hub wants it as text, and it is too large for that");
        return Err(HubError::io(file.name.as_ref(), "upload", source));
    }
    Ok(bytes)
}
