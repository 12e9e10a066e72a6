//! Large files to where the hub keeps them, by Git-LFS with the hub's own way for parts
//! (github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md; huggingface_hub, `lfs.py`).

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use qsf_format::printable::message;
use qsf_runtime::file_hash::hex;
use qsf_runtime::progress::Cancel;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::client::encoded;
use super::error::{HubError, Result};
use super::outgoing::{Content, FilePart, Outgoing};
use super::repository::{Upload, UploadFile, parse, size_of, text};

const LFS: &str = "application/vnd.git-lfs+json";
/// Most parts of a file; storages of the kind that the hub uses allow as many.
const MAX_PARTS: u64 = 10_000;
/// Bytes that are hashed at once.
const PIECE: usize = 1 << 20;

/// A large file with its name in the storage.
pub(super) struct LargeFile {
    content: Content,
    name: String,
    pub size: u64,
    pub sha256: String,
}

/// Sends large files.
pub(super) struct Large<'a, 'b> {
    pub upload: &'a Upload<'b>,
}

#[derive(Deserialize)]
struct Batch {
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    /// Missing where the storage has the object.
    actions: Option<Actions>,
    error: Option<ObjectError>,
}

#[derive(Deserialize)]
struct ObjectError {
    message: String,
}

#[derive(Deserialize)]
struct Actions {
    upload: Option<Action>,
    verify: Option<Action>,
}

#[derive(Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: BTreeMap<String, Value>,
}

impl LargeFile {
    /// Hashes a file.
    pub fn of(file: &UploadFile, cancel: &Cancel) -> Result<LargeFile> {
        let failed = |e| HubError::io(file.name.as_ref(), "read", e);
        let size = size_of(file)?;
        let mut from = file.content.open_at(0).map_err(failed)?;
        let (mut hash, mut piece) = (Sha256::new(), vec![0; PIECE]);
        loop {
            if cancel.is_requested() {
                return Err(HubError::UploadInterrupted);
            }
            match from.read(&mut piece).map_err(failed)? {
                0 => break,
                n => hash.update(&piece[..n]),
            }
        }
        let (content, name) = (file.content.clone(), file.name.clone());
        Ok(LargeFile { content, name, size, sha256: hex(&hash.finalize()) })
    }
}

impl Large<'_, '_> {
    /// Sends the files that the storage does not have.
    pub fn send(&self, files: &[LargeFile]) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let total = files.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        self.upload.watch.progress.begin("uploading", total);
        let sent = self.actions(files).and_then(|objects| {
            files.iter().try_for_each(|file| {
                let object = objects.iter().find(|object| object.oid == file.sha256);
                self.send_file(file, object)
            })
        });
        self.upload.watch.progress.end();
        sent
    }

    fn actions(&self, files: &[LargeFile]) -> Result<Vec<Object>> {
        let objects: Vec<Value> =
            files.iter().map(|file| json!({ "oid": file.sha256, "size": file.size })).collect();
        let body = json!({
            "operation": "upload", "transfers": ["basic", "multipart"], "objects": objects, "hash_algo": "sha256",
            "ref": { "name": "main" },
        });
        let repo = encoded(&self.upload.repo, true);
        let url = self.upload.client.url(&format!("{repo}.git/info/lfs/objects/batch"));
        let (url, answer) = self.upload.post(&url, &text(&body, LFS), &[200])?;
        Ok(parse::<Batch>(&url, &answer)?.objects)
    }

    fn send_file(&self, file: &LargeFile, object: Option<&Object>) -> Result<()> {
        let wrong = |found: String| HubError::Response {
            url: self.upload.client.url(&self.upload.repo),
            expected: format!("where to put {}", file.name),
            found,
        };
        let object = object.ok_or_else(|| wrong("nothing of it".into()))?;
        if let Some(error) = &object.error {
            return Err(wrong(message(&error.message)));
        }
        let Some(Actions { upload, verify }) = &object.actions else {
            self.upload.watch.progress.advance(file.size);
            return Ok(());
        };
        if let Some(upload) = upload {
            match upload.header.get("chunk_size") {
                None => drop(self.put(file, &upload.href, 0, file.size)?),
                Some(size) => {
                    let size =
                        number(size).filter(|size| *size > 0 && file.size.div_ceil(*size) <= MAX_PARTS);
                    let size = size.ok_or_else(|| wrong("parts of a size that cannot be".into()))?;
                    self.put_parts(file, upload, size)?;
                }
            }
        }
        if let Some(verify) = verify {
            let body = json!({ "oid": file.sha256, "size": file.size });
            self.upload.post(&verify.href, &text(&body, LFS), &[200, 201])?;
        }
        Ok(())
    }

    /// Sends parts of `size` bytes to addresses that are numbered from 1, and says that they are all.
    fn put_parts(&self, file: &LargeFile, upload: &Action, size: u64) -> Result<()> {
        let mut places: Vec<(u64, &str)> = Vec::new();
        for (name, place) in &upload.header {
            if let (Ok(number), Some(place)) = (name.parse(), place.as_str()) {
                places.push((number, place));
            }
        }
        places.sort_unstable();
        let wanted = file.size.div_ceil(size);
        if !places.iter().map(|(number, _)| *number).eq(1..=wanted) {
            return Err(HubError::Response {
                url: self.upload.client.url(&self.upload.repo),
                expected: format!("places for {wanted} parts of {}", file.name),
                found: format!("{}", places.len()),
            });
        }
        let mut parts = Vec::new();
        for (number, place) in places {
            let from = (number - 1) * size;
            let etag = self.put(file, place, from, size.min(file.size - from))?;
            parts.push(json!({ "partNumber": number, "etag": etag }));
        }
        let body = json!({ "oid": file.sha256, "parts": parts });
        self.upload.post(&upload.href, &text(&body, LFS), &[200, 201]).map(|_| ())
    }

    /// Sends a part; the entity tag that the storage gives it.
    fn put(&self, file: &LargeFile, url: &str, from: u64, bytes: u64) -> Result<String> {
        let (mut patience, shown) = (self.upload.patience(), Cell::new(0));
        let show = |now: u64| {
            // What is sent a second time is not shown again.
            if now > shown.get() {
                self.upload.watch.progress.advance(now - shown.get());
                shown.set(now);
            }
        };
        loop {
            let sent = Arc::new(AtomicU64::new(0));
            let part = FilePart { content: file.content.clone(), from, bytes, sent: sent.clone() };
            match self.upload.client.send(url, &Outgoing::Part(part), &|| show(sent.load(Ordering::Relaxed)))
            {
                Ok(reply) if matches!(reply.status, 200 | 201) => {
                    show(bytes);
                    return Ok(reply.header("etag").unwrap_or_default().to_owned());
                }
                Ok(reply) => patience.after(self.upload.refusal(reply))?,
                Err(trouble) => patience.after(trouble)?,
            }
        }
    }
}

/// A number, which some servers write as text.
fn number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}
