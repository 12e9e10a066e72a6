//! What a revision of a repository holds: `/api/models/REPO/revision/REVISION` (huggingface.co/docs/hub/api).

use qsf_format::{JsonLimits, from_json};
use serde::Deserialize;

use qsf_format::printable::{message, quote};

use super::client::{Client, encoded};
use super::error::{HubError, Result};
use super::reference::{Reference, is_commit};
use super::retry::{Patience, status_trouble};
use super::trouble::Trouble;

/// The largest listing: repositories of ten thousand files have one of about 1 MB.
const MAX_BYTES: usize = 32 << 20;

/// A revision.
#[derive(Debug)]
pub(super) struct Listing {
    /// Its commit: 40 hexadecimal digits.
    pub commit: String,
    /// Names of its files, as the server gives them: unchecked.
    pub names: Vec<String>,
}

#[derive(Deserialize)]
struct Answer {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
}

/// Asks for the commit and the files of the revision that `reference` names.
pub(super) fn list(
    client: &Client<'_>,
    reference: &Reference,
    page: &str,
    mut patience: Patience<'_>,
) -> Result<Listing> {
    let (repo, revision) = (encoded(reference.repo(), true), encoded(reference.revision(), false));
    let url = client.url(&format!("api/models/{repo}/revision/{revision}"));
    loop {
        match attempt(client, &url, page) {
            Ok(listing) => return Ok(listing),
            Err(trouble) => patience.after(trouble)?,
        }
    }
}

fn attempt(client: &Client<'_>, url: &str, page: &str) -> Result<Listing, Trouble> {
    let reply = client.get(url, 0)?;
    if reply.status != 200 {
        return Err(status_trouble(&reply, page, client.has_token()));
    }
    let url = reply.url.clone();
    let wrong = |expected: &str, found| HubError::Response { url, expected: expected.into(), found };
    let limits = JsonLimits { bytes: MAX_BYTES, ..JsonLimits::LIST };
    let answer: Answer = match from_json(&reply.body(MAX_BYTES)?, limits) {
        Ok(answer) => answer,
        Err(e) => return Err(wrong("a JSON object with `sha` and `siblings`", message(e)).into()),
    };
    if !is_commit(&answer.sha) {
        return Err(wrong("a commit of 40 hexadecimal digits in `sha`", quote(&answer.sha)).into());
    }
    let names = answer.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
    Ok(Listing { commit: answer.sha, names })
}
