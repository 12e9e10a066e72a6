//! A repository that files go to: how it is asked, and what its answers mean.

use qsf_format::printable::message;
use qsf_format::{JsonLimits, from_json};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::client::{Client, Reply};
use super::error::{HubError, Result};
use super::outgoing::{Content, Outgoing};
use super::retry::{Patience, status_trouble};
use super::settings::Settings;
use super::trouble::Trouble;
use super::watch::Watch;

/// The largest answer.
const MAX_ANSWER: usize = 4 << 20;
/// What the hub says of a refusal is short.
const MAX_REASON: usize = 1 << 16;

/// A repository that files go to.
pub struct Upload<'a> {
    pub(super) client: Client<'a>,
    pub(super) repo: String,
    pub(super) settings: &'a Settings,
    pub(super) watch: &'a Watch<'a>,
}

/// A file to upload.
#[derive(Debug, Clone)]
pub struct UploadFile {
    /// Its name there.
    pub name: String,
    /// What is in it.
    pub content: Content,
}

#[derive(Deserialize)]
struct Reason {
    error: String,
}

impl Upload<'_> {
    pub(super) fn page(&self) -> String {
        self.client.url(&self.repo)
    }

    pub(super) fn patience(&self) -> Patience<'_> {
        Patience::new(self.watch, self.settings.first_wait)
    }

    /// Posts until there is an answer of these statuses; its address and body.
    pub(super) fn post(&self, url: &str, body: &Outgoing, expected: &[u16]) -> Result<(String, Vec<u8>)> {
        let mut patience = self.patience();
        loop {
            let answer = self.client.send(url, body, &|| {}).and_then(|reply| {
                let url = reply.url.clone();
                if expected.contains(&reply.status) {
                    Ok((url, reply.body(MAX_ANSWER)?))
                } else {
                    Err(self.refusal(reply))
                }
            });
            match answer {
                Ok(answer) => return Ok(answer),
                Err(trouble) => patience.after(trouble)?,
            }
        }
    }

    /// What a status means that was not expected.
    pub(super) fn refusal(&self, reply: Reply<'_>) -> Trouble {
        let trouble = status_trouble(&reply, &self.page(), true);
        if let Trouble::Passing { .. } = trouble {
            return trouble;
        }
        let (url, status) = (reply.url.clone(), reply.status);
        let said = reply.body(MAX_REASON).ok().and_then(|body| {
            from_json::<Reason>(&body, JsonLimits { bytes: MAX_REASON, ..JsonLimits::DESCRIPTION }).ok()
        });
        let said = said.map_or_else(String::new, |reason| message(reason.error));
        let hint = if matches!(status, 401 | 403) {
            format!("HF_TOKEN must be a token that may write to {}", self.repo)
        } else {
            String::new()
        };
        let parts: Vec<String> = [said, hint].into_iter().filter(|part| !part.is_empty()).collect();
        let said = if parts.is_empty() { "it says no more".into() } else { parts.join("; ") };
        HubError::UploadRefused { url, status, said }.into()
    }
}

/// A JSON text as a body.
pub(super) fn text(value: &Value, kind: &'static str) -> Outgoing {
    Outgoing::Text(value.to_string().into_bytes(), kind)
}

/// What an answer says.
pub(super) fn parse<T: DeserializeOwned>(url: &str, answer: &[u8]) -> Result<T> {
    let limits = JsonLimits { bytes: MAX_ANSWER, ..JsonLimits::LIST };
    from_json(answer, limits).map_err(|error| HubError::Response {
        url: url.to_owned(),
        expected: "an answer of the hub".into(),
        found: message(error),
    })
}

pub(super) fn size_of(file: &UploadFile) -> Result<u64> {
    file.content.size().map_err(|e| HubError::io(file.name.as_ref(), "read", e))
}
