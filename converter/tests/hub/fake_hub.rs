//! A hub of one repository, `org/name`, in the manner of huggingface.co: small files come from the hub itself and are named by
//! git's hash; large ones from a storage host that it redirects to, and are named by SHA-256.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use qsf_converter::hub::{HubError, Reference, Settings, Watch, download};
use qsf_runtime::progress::{Cancel, Unwatched};
use serde_json::json;
use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::server::{Answer, Request, Server};

/// The commit of branch `main`.
pub const MAIN: &str = "1111111111111111111111111111111111111111";
/// The commit of branch `v2`.
pub const V2: &str = "2222222222222222222222222222222222222222";
/// Files of at least this size are large ones.
const LARGE: usize = 4096;

/// How the hub misbehaves.
#[derive(Debug, Default)]
pub struct Manners {
    /// The next answers of the storage end after so many bytes.
    pub cuts: VecDeque<usize>,
    /// The storage is silent after so many bytes of a file, for a minute.
    pub silent_after: Option<usize>,
    /// After the first answer that is cut, this is what the file at `main` holds.
    pub change: Option<(&'static str, Vec<u8>)>,
    /// The storage knows no ranges.
    pub no_ranges: bool,
    /// Contents have another last byte.
    pub damage: bool,
    /// The hub answers the next requests so.
    pub answers: VecDeque<Answer>,
    /// The hub answers all requests for files so.
    pub files: Option<Answer>,
}

pub struct FakeHub {
    pub hub: Server,
    pub storage: Server,
    pub manners: Arc<Mutex<Manners>>,
    pub files: Arc<Mutex<Revisions>>,
    home: tempfile::TempDir,
}

/// Files of each commit.
type Revisions = BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>;

impl FakeHub {
    /// A hub with these files at `main`.
    pub fn new(files: &[(&str, Vec<u8>)]) -> FakeHub {
        let manners = Arc::new(Mutex::new(Manners::default()));
        let files: BTreeMap<String, Vec<u8>> =
            files.iter().map(|(n, c)| (n.to_string(), c.clone())).collect();
        let files: Arc<Mutex<Revisions>> = Arc::new(Mutex::new([(MAIN, files)].into()));
        let (m, f) = (manners.clone(), files.clone());
        let storage = Server::start(move |request| {
            let (mut files, mut manners) = (f.lock().unwrap(), m.lock().unwrap());
            let answer = stored(request, &files, &mut manners);
            if let Some((name, content)) = manners.change.take_if(|_| answer.cut.is_some()) {
                files.get_mut(MAIN).unwrap().insert(name.into(), content);
            }
            answer
        });
        let (m, f, s) = (manners.clone(), files.clone(), storage.url.clone());
        let hub =
            Server::start(move |request| answer(request, &f.lock().unwrap(), &mut m.lock().unwrap(), &s));
        FakeHub { hub, storage, manners, files, home: tempfile::tempdir().unwrap() }
    }

    /// HF_HOME.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The repository's folder in the cache.
    pub fn repo(&self) -> PathBuf {
        self.home().join("hub/models--org--name")
    }

    pub fn settings(&self) -> Settings {
        Settings {
            endpoint: self.hub.url.clone(),
            cache: self.home().join("hub"),
            token: None,
            authorities: None,
            offline: false,
            links: true,
            timeout: Duration::from_secs(20),
            first_wait: Duration::from_millis(1),
        }
    }

    /// Downloads `name` with `settings`; gives the result and the notes on the way.
    pub fn download_with(&self, name: &str, settings: &Settings) -> (Result<PathBuf, HubError>, Vec<String>) {
        let notes = Mutex::new(Vec::new());
        let notice = |text: &str| notes.lock().unwrap().push(text.to_owned());
        let reference: Reference = name.parse().unwrap();
        let watch = Watch { progress: &Unwatched, notice: &notice, cancel: &Cancel::default() };
        let result = download(&reference, settings, &watch);
        (result, notes.into_inner().unwrap())
    }

    /// Downloads `name`, which must succeed without a note.
    #[track_caller]
    pub fn download(&self, name: &str) -> PathBuf {
        let (path, notes) = self.download_with(name, &self.settings());
        assert_eq!(notes, Vec::<String>::new());
        path.unwrap_or_else(|e| panic!("{e}"))
    }

    /// Downloads `org/name`, which must fail.
    #[track_caller]
    pub fn refused(&self) -> HubError {
        self.download_with("org/name", &self.settings()).0.unwrap_err()
    }

    /// The contents that the storage was asked for, from which byte on.
    pub fn ranges(&self) -> Vec<Option<usize>> {
        self.storage.asked().iter().filter(|r| r.method == "GET").map(Request::from).collect()
    }
}

/// A model of several files; nothing in it makes sense but their names.
pub fn model_files() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("README.md", b"not needed".to_vec()),
        ("config.json", b"{}".to_vec()),
        ("tokenizer.json", b"{\"a\":1}".to_vec()),
        ("model.safetensors", weights(100_000)),
    ]
}

/// Bytes that differ from place to place.
pub fn weights(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 % 251) as u8).collect()
}

pub fn sha256(content: &[u8]) -> String {
    hex(&Sha256::digest(content))
}

pub fn git_blob(content: &[u8]) -> String {
    let mut hash = Sha1::new_with_prefix(format!("blob {}\0", content.len()));
    hash.update(content);
    hex(&hash.finalize())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn commit_of(revision: &str) -> Option<&'static str> {
    match revision {
        "main" | MAIN => Some(MAIN),
        "v2" | V2 => Some(V2),
        _ => None,
    }
}

/// What the hub itself answers.
fn answer(request: &Request, revisions: &Revisions, manners: &mut Manners, storage: &str) -> Answer {
    if let Some(answer) = manners.answers.pop_front() {
        return answer;
    }
    let not_found = |code: &str| Answer::new(404, "").with("x-error-code", code);
    if let Some(revision) = request.path.strip_prefix("/api/models/org/name/revision/") {
        let commit = commit_of(revision).and_then(|commit| Some((commit, revisions.get(commit)?)));
        let Some((commit, files)) = commit else { return not_found("RevisionNotFound") };
        let siblings: Vec<_> = files.keys().map(|name| json!({"rfilename": name})).collect();
        let listing = json!({"id": "org/name", "sha": commit, "private": false, "siblings": siblings});
        return Answer::new(200, listing.to_string());
    }
    // Small files are redirected to a cache on the same host.
    let (path, redirected) = match request.path.strip_prefix("/api/resolve-cache") {
        Some(path) => (path, true),
        None => (request.path.as_str(), false),
    };
    let Some((revision, name)) = path.strip_prefix("/org/name/resolve/").and_then(|p| p.split_once('/'))
    else {
        return not_found("RepoNotFound");
    };
    if let Some(answer) = &manners.files {
        return answer.clone();
    }
    let file = commit_of(revision).and_then(|commit| revisions.get(commit)?.get(name));
    let Some(content) = file else { return not_found("EntryNotFound") };
    if content.len() >= LARGE {
        let hash = sha256(content);
        return Answer::new(302, "Found")
            .with("location", format!("{storage}/store/{hash}?signature=secret"))
            .with("x-linked-etag", format!("\"{hash}\""))
            .with("x-linked-size", content.len());
    }
    if !redirected {
        let answer = Answer::new(307, "moved").with("location", format!("/api/resolve-cache{path}"));
        // Some answers say what they lead to, without its size.
        let says = name == "config.json";
        return if says {
            answer.with("x-linked-etag", format!("\"{}\"", git_blob(content)))
        } else {
            answer
        };
    }
    let mut sent = content.clone();
    if manners.damage {
        *sent.last_mut().unwrap() ^= 1;
    }
    Answer::new(200, sent).with("etag", format!("W/\"{}\"", git_blob(content)))
}

/// What the storage answers.
fn stored(request: &Request, revisions: &Revisions, manners: &mut Manners) -> Answer {
    let hash = request.path.strip_prefix("/store/").and_then(|p| p.strip_suffix("?signature=secret"));
    let content = revisions.values().flat_map(BTreeMap::values).find(|c| hash == Some(&sha256(c)));
    let Some(content) = content else { return Answer::new(404, "") };
    let mut sent = content.clone();
    if manners.damage {
        *sent.last_mut().unwrap() ^= 1;
    }
    let mut answer = match request.from() {
        Some(from) if !manners.no_ranges => {
            let range = format!("bytes {from}-{}/{}", sent.len() - 1, sent.len());
            Answer::new(206, &sent[from..]).with("content-range", range)
        }
        _ => Answer::new(200, sent),
    };
    answer.cut = manners.cuts.pop_front();
    if let Some(bytes) = manners.silent_after {
        answer.cut = Some(bytes.saturating_sub(request.from().unwrap_or(0)));
        answer.silence = Duration::from_secs(60);
    }
    answer
}
