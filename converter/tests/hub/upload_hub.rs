//! A hub that takes uploads to `org/name`, in the manner of huggingface.co: what to do with each file (`preupload`), the storage
//! of large ones (Git-LFS, in one piece or in parts), and a commit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use crate::fake_hub::{MAIN, sha256};
use crate::server::{Answer, Request, Server};

pub const TOKEN: &str = "hf_secret";

/// What the hub has, and how it behaves.
#[derive(Debug, Default)]
pub struct State {
    pub repo_exists: bool,
    /// Whether the repository was made as a private one.
    pub private: Option<bool>,
    /// Files of the branch.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Large files of the storage, by SHA-256.
    pub objects: BTreeMap<String, Vec<u8>>,
    parts: BTreeMap<String, BTreeMap<usize, Vec<u8>>>,
    pub commits: usize,
    /// Large files come in parts of so many bytes.
    pub part_size: Option<usize>,
    /// The storage fails so many times.
    pub failures: usize,
    /// The token may only read.
    pub read_only: bool,
}

pub struct UploadHub {
    pub hub: Server,
    pub storage: Server,
    pub state: Arc<Mutex<State>>,
}

impl UploadHub {
    pub fn new() -> UploadHub {
        let state = Arc::new(Mutex::new(State::default()));
        let of_storage = state.clone();
        let storage = Server::start(move |request| stored(request, &mut of_storage.lock().unwrap()));
        let (of_hub, place) = (state.clone(), storage.url.clone());
        // Known to its own answers once it runs.
        let own = Arc::new(Mutex::new(String::new()));
        let url = own.clone();
        let hub = Server::start(move |request| {
            answer(request, &mut of_hub.lock().unwrap(), &place, &url.lock().unwrap())
        });
        *own.lock().unwrap() = hub.url.clone();
        UploadHub { hub, storage, state }
    }
}

fn answer(request: &Request, state: &mut State, storage: &str, own: &str) -> Answer {
    let says = |status, error: &str| Answer::new(status, json!({ "error": error }).to_string());
    if request.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
        return says(401, "Invalid credentials").with("x-error-code", "RepoNotFound");
    }
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let path = request.path.as_str();
    if request.method == "GET" && path == "/api/models/org/name/revision/main" {
        if !state.repo_exists {
            return says(404, "Repository not found").with("x-error-code", "RepoNotFound");
        }
        let siblings: Vec<_> = state.files.keys().map(|name| json!({ "rfilename": name })).collect();
        return Answer::new(200, json!({ "sha": MAIN, "siblings": siblings }).to_string());
    }
    if state.read_only {
        return says(403, "You don't have the rights to write");
    }
    match path {
        "/api/repos/create" => {
            assert_eq!((&body["name"], &body["organization"]), (&"name".into(), &"org".into()));
            state.repo_exists = true;
            state.private = body["private"].as_bool();
            Answer::new(200, "{}")
        }
        "/api/models/org/name/preupload/main" => {
            let modes = body["files"].as_array().unwrap().iter().map(|file| {
                let name = file["path"].as_str().unwrap();
                assert!(!file["sample"].as_str().unwrap().is_empty() && file["size"].as_u64().is_some());
                let mode = if name.ends_with(".qsf") { "lfs" } else { "regular" };
                json!({ "path": name, "uploadMode": mode, "shouldIgnore": false })
            });
            Answer::new(200, json!({ "files": modes.collect::<Vec<_>>() }).to_string())
        }
        "/org/name.git/info/lfs/objects/batch" => {
            assert_eq!(request.header("accept"), Some("application/vnd.git-lfs+json"));
            let objects = body["objects"].as_array().unwrap();
            let objects: Vec<Value> =
                objects.iter().map(|object| instructions(object, state, storage, own)).collect();
            Answer::new(200, json!({ "objects": objects }).to_string())
        }
        "/verify" => {
            let found = state.objects.get(body["oid"].as_str().unwrap()).map(Vec::len);
            let right = found == body["size"].as_u64().map(|size| size as usize);
            if right { Answer::new(200, "{}") } else { says(400, "no such object") }
        }
        "/api/models/org/name/commit/main" => commit(request, state),
        _ => match path.strip_prefix("/complete/") {
            Some(oid) => complete(oid, &body, state),
            None => says(404, "no such address"),
        },
    }
}

/// Where a large file goes.
fn instructions(object: &Value, state: &State, storage: &str, own: &str) -> Value {
    let (oid, size) = (object["oid"].as_str().unwrap(), object["size"].as_u64().unwrap());
    if state.objects.contains_key(oid) {
        return json!({ "oid": oid, "size": size });
    }
    let upload = match state.part_size {
        None => json!({ "href": format!("{storage}/put/{oid}?signature=secret") }),
        Some(part) => {
            let mut header = json!({ "chunk_size": part.to_string() });
            for number in 1..=(size as usize).div_ceil(part) {
                header[format!("{number:05}")] =
                    format!("{storage}/part/{oid}/{number}?signature=secret").into();
            }
            json!({ "href": format!("{own}/complete/{oid}"), "header": header })
        }
    };
    json!({ "oid": oid, "size": size, "actions": { "upload": upload, "verify": { "href": format!("{own}/verify") } } })
}

/// The parts of a large file are all there.
fn complete(oid: &str, body: &Value, state: &mut State) -> Answer {
    let parts = state.parts.remove(oid).unwrap_or_default();
    let named: Vec<(usize, String)> = body["parts"].as_array().unwrap().iter().map(named_part).collect();
    let expected: Vec<(usize, String)> =
        parts.iter().map(|(number, part)| (*number, format!("\"{}\"", sha256(part)))).collect();
    assert_eq!(named, expected);
    keep(oid, parts.into_values().flatten().collect(), state)
}

fn named_part(part: &Value) -> (usize, String) {
    (part["partNumber"].as_u64().unwrap() as usize, part["etag"].as_str().unwrap().to_owned())
}

fn keep(oid: &str, content: Vec<u8>, state: &mut State) -> Answer {
    if sha256(&content) != oid {
        return Answer::new(400, "other bytes");
    }
    let etag = format!("\"{oid}\"");
    state.objects.insert(oid.to_owned(), content);
    Answer::new(200, "").with("etag", etag)
}

fn commit(request: &Request, state: &mut State) -> Answer {
    assert_eq!(request.header("content-type"), Some("application/x-ndjson"));
    let lines = std::str::from_utf8(&request.body).unwrap().lines();
    let lines: Vec<Value> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines[0]["key"] == "header" && !lines[0]["value"]["summary"].as_str().unwrap().is_empty());
    for line in &lines[1..] {
        let value = &line["value"];
        let name = value["path"].as_str().unwrap().to_owned();
        let content = match line["key"].as_str().unwrap() {
            "file" => base64::decode(value["content"].as_str().unwrap()).unwrap(),
            "lfsFile" => match state.objects.get(value["oid"].as_str().unwrap()) {
                Some(content) => content.clone(),
                None => return Answer::new(400, json!({ "error": "no such object" }).to_string()),
            },
            other => panic!("{other}"),
        };
        state.files.insert(name, content);
    }
    state.commits += 1;
    Answer::new(200, json!({ "commitUrl": "x", "commitOid": MAIN }).to_string())
}

/// What the storage answers.
fn stored(request: &Request, state: &mut State) -> Answer {
    assert_eq!((request.method.as_str(), request.header("authorization")), ("PUT", None));
    let path = request.path.strip_suffix("?signature=secret").unwrap();
    if state.failures > 0 {
        state.failures -= 1;
        return Answer::new(500, "");
    }
    if let Some(oid) = path.strip_prefix("/put/") {
        return keep(oid, request.body.clone(), state);
    }
    let (oid, number) = path.strip_prefix("/part/").unwrap().split_once('/').unwrap();
    let parts = state.parts.entry(oid.to_owned()).or_default();
    parts.insert(number.parse().unwrap(), request.body.clone());
    Answer::new(200, "").with("etag", format!("\"{}\"", sha256(&request.body)))
}
