//! Brings files of a commit into the cache: what is there already is used, the rest downloaded, checked and linked.

use std::fs;
use std::io;
use std::path::Path;

use qsf_runtime::progress::Progress;

use super::cache::{RepoCache, is_blob_name};
use super::client::{Client, Reply, encoded};
use super::error::{HubError, Result};
use super::partial::Partial;
use super::retry::{Patience, status_trouble};
use super::settings::Settings;
use super::trouble::Trouble;
use super::watch::Watch;
use qsf_format::printable::quote;

/// How often a file may turn out to be another one while it is downloaded.
const MAX_CHANGES: u32 = 3;

/// Everything that fetching a file takes.
pub(super) struct Fetcher<'a> {
    pub client: &'a Client<'a>,
    pub cache: &'a RepoCache,
    pub settings: &'a Settings,
    pub watch: &'a Watch<'a>,
    pub repo: &'a str,
    pub commit: &'a str,
    /// The model's page.
    pub page: &'a str,
}

/// A file as the hub describes it.
struct RemoteFile {
    name: String,
    url: String,
    etag: String,
    size: u64,
}

enum Outcome {
    Done,
    /// The server has another file by now.
    Changed,
}

impl Fetcher<'_> {
    /// Fetches the files of these names, unless they are there.
    pub fn fetch_all(&self, names: &[String]) -> Result<()> {
        let mut missing = Vec::new();
        for name in names {
            let file = self.look(name)?;
            if !self.is_usable(&self.cache.file(self.commit, name)?, file.size)? {
                missing.push(file);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let total = missing.iter().fold(0, |sum: u64, file| sum.saturating_add(file.size));
        self.watch.progress.begin("downloading", total);
        let result = missing.into_iter().try_for_each(|file| self.fetch(file));
        self.watch.progress.end();
        result
    }

    /// What the hub says the file is.
    fn look(&self, name: &str) -> Result<RemoteFile> {
        let path = format!("{}/resolve/{}/{}", encoded(self.repo, true), self.commit, encoded(name, true));
        let url = self.client.url(&path);
        let mut patience = self.patience();
        let reply = loop {
            match self.client.head(&url) {
                Ok(reply) if matches!(reply.status, 200 | 301..=308) => break reply,
                Ok(reply) => patience.after(self.refused(&reply))?,
                Err(trouble) => patience.after(trouble)?,
            }
        };
        let wrong = |expected: &str, found: String| HubError::Response {
            url: url.clone(),
            expected: expected.to_owned(),
            found,
        };
        let etag = reply.etag.ok_or_else(|| wrong("an ETag with the file's hash", "none".into()))?;
        if !is_blob_name(&etag) {
            return Err(wrong("an ETag with the file's hash", quote(&etag)));
        }
        let size = reply.size.ok_or_else(|| wrong("the file's size", "none".into()))?;
        Ok(RemoteFile { name: name.to_owned(), url, etag, size })
    }

    fn fetch(&self, mut file: RemoteFile) -> Result<()> {
        let mut meter = Meter { progress: self.watch.progress, shown: 0 };
        for _ in 0..MAX_CHANGES {
            match self.fetch_version(&file, &mut meter)? {
                Outcome::Done => return Ok(()),
                Outcome::Changed => {
                    (self.watch.notice)(&format!("{}: the file has changed; starting over", file.url));
                    file = self.look(&file.name)?;
                }
            }
        }
        let expected = "the same file with each request".to_owned();
        Err(HubError::Response { url: file.url, expected, found: "others".into() })
    }

    fn fetch_version(&self, file: &RemoteFile, meter: &mut Meter<'_>) -> Result<Outcome> {
        let blob = self.cache.blob(&file.etag);
        let lock = self.cache.lock(&file.etag, self.watch)?;
        // Looked at under the lock: another process may just have finished it.
        if !self.is_usable(&blob, file.size)? {
            let partial = Partial::open(&blob, &file.etag, file.size, self.watch.cancel)?;
            if let Outcome::Changed = self.download(file, partial, &blob, meter)? {
                return Ok(Outcome::Changed);
            }
        }
        meter.at(file.size);
        self.cache.link(&file.etag, self.commit, &file.name)?;
        drop(lock);
        Ok(Outcome::Done)
    }

    fn download(
        &self,
        file: &RemoteFile,
        mut partial: Partial,
        blob: &Path,
        meter: &mut Meter<'_>,
    ) -> Result<Outcome> {
        let mut patience = self.patience();
        // Starting over is no progress, however often it gets as far as before.
        let mut farthest = partial.len();
        meter.at(farthest);
        while !partial.is_complete() {
            let result = self.attempt(file, &mut partial, meter);
            if partial.len() > farthest {
                farthest = partial.len();
                patience.renew();
            }
            match result {
                Ok(Outcome::Done) => {}
                Ok(Outcome::Changed) => {
                    partial.discard()?;
                    return Ok(Outcome::Changed);
                }
                Err(trouble) => patience.after(trouble)?,
            }
        }
        partial.finish(blob, &file.url)?;
        Ok(Outcome::Done)
    }

    /// One request for what is missing.
    fn attempt(
        &self,
        file: &RemoteFile,
        partial: &mut Partial,
        meter: &mut Meter<'_>,
    ) -> Result<Outcome, Trouble> {
        let from = partial.len();
        let mut reply = self.client.get(&file.url, from)?;
        if !matches!(reply.status, 200 | 206 | 416) {
            return Err(self.refused(&reply));
        }
        if reply.etag.as_ref().is_some_and(|etag| *etag != file.etag) && reply.status != 416 {
            return Ok(Outcome::Changed);
        }
        let goes_on = reply.status == 206 && continues(reply.header("content-range"), from, file.size);
        if from > 0 && !goes_on {
            (self.watch.notice)(&format!(
                "{}: the server cannot continue a download; starting over",
                file.url
            ));
            partial.restart()?;
        }
        if reply.status != 200 && !goes_on {
            return Err(Trouble::passing(&reply.url, format!("status {} for another part", reply.status)));
        }
        while let Some(piece) = reply.piece()? {
            if !partial.append(&piece)? {
                // Nothing of it can be trusted: it may be another file from the start.
                partial.restart()?;
                let (expected, found) = (format!("{} bytes", file.size), "more".to_owned());
                return Err(HubError::Response { url: reply.url, expected, found }.into());
            }
            meter.at(partial.len());
        }
        if !partial.is_complete() {
            let problem = format!("the connection ended after {} of {} bytes", partial.len(), file.size);
            return Err(Trouble::passing(&reply.url, problem));
        }
        Ok(Outcome::Done)
    }

    /// Whether the file is there in its full size. Its hash was checked by whoever put it there.
    fn is_usable(&self, path: &Path, size: u64) -> Result<bool> {
        match fs::metadata(path) {
            Ok(found) if found.is_file() && found.len() == size => Ok(true),
            Ok(found) if found.is_file() => {
                let (path, len) = (path.display(), found.len());
                (self.watch.notice)(&format!("{path}: {len} bytes instead of {size}; downloading it again"));
                Ok(false)
            }
            Ok(_) => Err(HubError::io(path, "use", io::Error::other("it is no regular file"))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(e) => Err(HubError::io(path, "read", e)),
        }
    }

    fn patience(&self) -> Patience<'_> {
        Patience::new(self.watch, self.settings.first_wait)
    }

    fn refused(&self, reply: &Reply<'_>) -> Trouble {
        status_trouble(reply, self.page, self.client.has_token())
    }
}

/// Whether `Content-Range` (RFC 9110, section 14.4) says: from byte `from` to the end of a file of `size` bytes.
fn continues(header: Option<&str>, from: u64, size: u64) -> bool {
    let parse = |header: &str| {
        let (range, total) = header.strip_prefix("bytes ")?.split_once('/')?;
        let start = range.split_once('-')?.0.parse::<u64>().ok()?;
        Some(start == from && (total == "*" || total.parse() == Ok(size)))
    };
    header.and_then(parse) == Some(true)
}

/// Shows the bytes of one file. What comes a second time, after starting over, is not shown again.
struct Meter<'a> {
    progress: &'a dyn Progress,
    shown: u64,
}

impl Meter<'_> {
    fn at(&mut self, bytes: u64) {
        if bytes > self.shown {
            self.progress.advance(bytes - self.shown);
            self.shown = bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_taken_only_where_it_continues_this_file() {
        assert!(continues(Some("bytes 5-9/10"), 5, 10));
        assert!(continues(Some("bytes 5-9/*"), 5, 10));
        for other in
            [None, Some("bytes 0-9/10"), Some("bytes 5-9/11"), Some("bytes */10"), Some("5-9/10"), Some("")]
        {
            assert!(!continues(other, 5, 10), "{other:?}");
        }
    }
}
