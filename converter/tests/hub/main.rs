//! Downloads from and uploads to a hub that runs inside of the test: what ends up in the cache, what is asked of whom, and what happens when
//! something goes wrong.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fake_hub;
mod server;
mod upload_hub;
mod uploads;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use qsf_converter::hub::{HubError, Settings, Watch, download};
use qsf_format::Failure;
use qsf_runtime::progress::{Cancel, Progress, Unwatched};

use fake_hub::{FakeHub, MAIN, V2, git_blob, model_files, sha256, weights};
use server::{Answer, Server};

/// The unfinished files of the cache, and their sizes.
fn incomplete(hub: &FakeHub) -> Vec<u64> {
    let Ok(entries) = fs::read_dir(hub.repo().join("blobs")) else { return Vec::new() };
    let files =
        entries.map(|e| e.unwrap().path()).filter(|p| p.extension().is_some_and(|e| e == "incomplete"));
    files.map(|path| path.metadata().unwrap().len()).collect()
}

fn blobs(hub: &FakeHub) -> usize {
    fs::read_dir(hub.repo().join("blobs")).map_or(0, Iterator::count)
}

#[test]
fn a_download_is_laid_out_as_the_hub_s_own_tools_expect_it() {
    let hub = FakeHub::new(&model_files());
    let path = hub.download("org/name");
    assert_eq!(path, hub.repo().join("snapshots").join(MAIN));
    assert_eq!(fs::read_to_string(hub.repo().join("refs/main")).unwrap(), MAIN);
    let mut names: Vec<_> = fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(
        names,
        ["config.json", "model.safetensors", "tokenizer.json"],
        "and nothing that is not needed"
    );
    for (name, content) in &model_files()[1..] {
        assert_eq!(&fs::read(path.join(name)).unwrap(), content, "{name}");
        let hash = if content.len() > 4096 { sha256(content) } else { git_blob(content) };
        assert_eq!(&fs::read(hub.repo().join("blobs").join(&hash)).unwrap(), content, "{name}");
        #[cfg(unix)]
        assert_eq!(fs::read_link(path.join(name)).unwrap(), Path::new("../../blobs").join(hash), "{name}");
    }
    assert_eq!(blobs(&hub), 3);
}

#[test]
fn what_is_in_the_cache_is_not_downloaded_again() {
    let hub = FakeHub::new(&model_files());
    // As another tool leaves it: contents and links, here of one file.
    let content = weights(100_000);
    let blob = hub.repo().join("blobs").join(sha256(&content));
    let snapshot = hub.repo().join("snapshots").join(MAIN);
    fs::create_dir_all(blob.parent().unwrap()).unwrap();
    fs::create_dir_all(&snapshot).unwrap();
    fs::write(&blob, &content).unwrap();
    fs::write(snapshot.join("config.json"), "{}").unwrap();
    hub.download("org/name");
    assert_eq!(hub.ranges(), Vec::new(), "the content is there under its hash");
    let asked = |hub: &FakeHub| {
        hub.hub.asked().into_iter().filter(|r| r.method == "GET").map(|r| r.path).collect::<Vec<_>>()
    };
    assert!(!asked(&hub).iter().any(|path| path.ends_with("config.json")), "{:?}", asked(&hub));
    hub.hub.forget();
    hub.download("org/name");
    assert_eq!(asked(&hub), ["/api/models/org/name/revision/main"]);
}

#[test]
fn a_file_that_another_tool_left_half_is_noticed_by_its_size() {
    let hub = FakeHub::new(&model_files());
    let path = hub.download("org/name").join("model.safetensors");
    fs::write(&path, b"half").unwrap();
    let (result, notes) = hub.download_with("org/name", &hub.settings());
    assert!(notes[0].contains("4 bytes instead of 100000"), "{notes:?}");
    assert_eq!(fs::read(result.unwrap().join("model.safetensors")).unwrap(), weights(100_000));
}

#[test]
fn a_connection_that_breaks_is_taken_up_where_it_broke() {
    let hub = FakeHub::new(&model_files());
    hub.manners.lock().unwrap().cuts = [30_000, 20_000, 0].into();
    let (path, notes) = hub.download_with("org/name", &hub.settings());
    assert_eq!(fs::read(path.unwrap().join("model.safetensors")).unwrap(), weights(100_000));
    assert_eq!(hub.ranges(), [None, Some(30_000), Some(50_000), Some(50_000)]);
    assert_eq!(notes.len(), 3, "each further attempt is announced: {notes:?}");
    assert!(!notes.concat().contains("secret"), "signatures of addresses are not for logs: {notes:?}");
}

#[test]
fn a_download_that_fails_is_continued_by_the_next_one() {
    let hub = FakeHub::new(&model_files());
    hub.manners.lock().unwrap().cuts = [40_000, 0, 0, 0].into();
    let error = hub.refused();
    assert!(matches!(error, HubError::Network { .. }), "{error}");
    assert_eq!(error.failure(), Failure::BadInput);
    assert_eq!(incomplete(&hub), [40_000]);
    assert!(!hub.repo().join("refs/main").exists(), "offline, main must not lead to half a model");
    hub.storage.forget();
    hub.download("org/name");
    assert_eq!(hub.ranges(), [Some(40_000)]);
    assert_eq!(incomplete(&hub), Vec::<u64>::new());
}

#[test]
fn a_server_that_ignores_ranges_makes_it_start_over() {
    let hub = FakeHub::new(&model_files());
    {
        let mut manners = hub.manners.lock().unwrap();
        manners.cuts = [40_000].into();
        manners.no_ranges = true;
    }
    let (path, notes) = hub.download_with("org/name", &hub.settings());
    assert_eq!(fs::read(path.unwrap().join("model.safetensors")).unwrap(), weights(100_000));
    assert!(notes.concat().contains("starting over"), "{notes:?}");
    // Always cut at the same place, it never gets any further, and that must end.
    let hub = FakeHub::new(&model_files());
    {
        let mut manners = hub.manners.lock().unwrap();
        manners.cuts = vec![40_000; 100].into();
        manners.no_ranges = true;
    }
    assert!(matches!(hub.refused(), HubError::Network { .. }));
    assert_eq!(hub.ranges().len(), 4);
}

#[test]
fn a_wrong_hash_is_an_error_and_the_file_is_gone() {
    for files in
        [&model_files()[..], &[("config.json", b"{}".to_vec()), ("model.safetensors", b"small".to_vec())]]
    {
        let hub = FakeHub::new(files);
        hub.manners.lock().unwrap().damage = true;
        let error = hub.refused();
        assert!(matches!(error, HubError::Damaged { .. }), "{error}");
        assert_eq!(error.failure(), Failure::BadInput);
        assert_eq!((incomplete(&hub), blobs(&hub)), (vec![], 0), "{error}");
    }
    // Also where the beginning is what an earlier download left.
    let hub = FakeHub::new(&model_files());
    let blob = hub.repo().join("blobs").join(sha256(&weights(100_000)));
    fs::create_dir_all(blob.parent().unwrap()).unwrap();
    fs::write(blob.with_extension("incomplete"), [1; 50_000]).unwrap();
    let error = hub.refused();
    assert!(error.to_string().contains("expected SHA-256"), "{error}");
    assert_eq!(incomplete(&hub), Vec::<u64>::new());
    hub.download("org/name");
}

/// Several users may write to one cache.
#[cfg(unix)]
#[test]
fn a_link_in_the_place_of_a_download_or_a_lock_is_not_followed() {
    let hub = FakeHub::new(&model_files());
    let blob = hub.repo().join("blobs").join(sha256(&weights(100_000)));
    let lock = hub.settings().cache.join(".locks").join(hub.repo().file_name().unwrap());
    let lock = lock.join(format!("{}.lock", blob.file_name().unwrap().to_str().unwrap()));
    let own = hub.repo().join("own");
    for place in [blob.with_extension("incomplete"), lock] {
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(&own, "years of work").unwrap();
        // The lock of the attempt before.
        let _ = fs::remove_file(&place);
        std::os::unix::fs::symlink(&own, &place).unwrap();
        let error = hub.refused();
        assert!(error.to_string().contains("this is a link"), "{error}");
        assert_eq!(error.failure(), Failure::Usage);
        assert_eq!(fs::read_to_string(&own).unwrap(), "years of work");
        fs::remove_file(place).unwrap();
    }
    hub.download("org/name");
}

#[test]
fn a_file_that_changes_meanwhile_is_downloaded_anew() {
    let hub = FakeHub::new(&model_files());
    let new: Vec<u8> = weights(100_000).into_iter().rev().collect();
    {
        let mut manners = hub.manners.lock().unwrap();
        manners.cuts = [40_000].into();
        manners.change = Some(("model.safetensors", new.clone()));
    }
    let (path, notes) = hub.download_with("org/name", &hub.settings());
    assert!(notes.concat().contains("has changed"), "{notes:?}");
    assert_eq!(fs::read(path.unwrap().join("model.safetensors")).unwrap(), new);
    assert_eq!(incomplete(&hub), Vec::<u64>::new());
}

#[test]
fn refusals_say_what_to_do() {
    let hub = FakeHub::new(&model_files());
    hub.manners.lock().unwrap().files = Some(Answer::new(403, "").with("x-error-code", "GatedRepo"));
    let error = hub.refused();
    let message = error.to_string();
    let page = format!("{}/org/name", hub.hub.url);
    for part in ["HF_TOKEN", "accept its licence", &page] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(error.failure(), Failure::BadInput);

    for (status, code, part) in [
        (401, "RepoNotFound", "check the name"),
        (404, "", "check the name"),
        (401, "GatedRepo", "licence"),
        (418, "", "418"),
    ] {
        hub.manners.lock().unwrap().answers = [Answer::new(status, "").with("x-error-code", code)].into();
        let message = hub.refused().to_string();
        assert!(message.contains(part), "{status} {code}: {message}");
    }
    let (result, _) = hub.download_with("org/name@v9", &hub.settings());
    assert!(matches!(result.unwrap_err(), HubError::NotFound { status: 404, .. }));
    assert!(!hub.home().join("hub").exists(), "nothing was there to be cached");
}

#[test]
fn a_server_in_trouble_is_asked_again() {
    let hub = FakeHub::new(&model_files());
    let busy = Answer::new(503, "").with("retry-after", "0");
    hub.manners.lock().unwrap().answers = [busy.clone(), Answer::new(429, "")].into();
    let (result, notes) = hub.download_with("org/name", &hub.settings());
    result.unwrap();
    assert!(notes.len() == 2 && notes[0].contains("503") && notes[1].contains("429"), "{notes:?}");
    hub.manners.lock().unwrap().answers = vec![busy; 100].into();
    hub.hub.forget();
    assert!(matches!(hub.refused(), HubError::Network { .. }));
    assert_eq!(hub.hub.asked().len(), 4);
}

#[test]
fn without_a_network_it_ends_at_once() {
    let hub = FakeHub::new(&model_files());
    // A port that was free a moment ago.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let started = Instant::now();
    let settings = Settings { endpoint, first_wait: Duration::from_secs(10), ..hub.settings() };
    let error = hub.download_with("org/name", &settings).0.unwrap_err();
    assert!(matches!(&error, HubError::Network { .. }), "{error}");
    assert!(error.to_string().contains("HF_HUB_OFFLINE"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(5));
}

#[test]
fn a_silent_server_is_given_up_and_does_not_hold_up_an_interrupt() {
    let hub = FakeHub::new(&model_files());
    hub.manners.lock().unwrap().silent_after = Some(10_000);
    let settings = Settings { timeout: Duration::from_millis(500), ..hub.settings() };
    let (result, notes) = hub.download_with("org/name", &settings);
    assert!(matches!(result, Err(HubError::Network { .. })));
    assert!(notes[0].contains("timeout"), "{notes:?}");
    assert_eq!(incomplete(&hub), [10_000]);

    let cancel = Cancel::default();
    let watch = Watch { progress: &Unwatched, notice: &|_| (), cancel: &cancel };
    let told = thread::scope(|scope| {
        let stop = scope.spawn(|| {
            thread::sleep(Duration::from_millis(300));
            cancel.request();
            Instant::now()
        });
        let error = download(&"org/name".parse().unwrap(), &hub.settings(), &watch).unwrap_err();
        assert_eq!(error.failure(), Failure::Interrupted, "{error}");
        stop.join().unwrap()
    });
    assert!(told.elapsed() < Duration::from_secs(2));
    assert_eq!(incomplete(&hub), [10_000]);
}

#[test]
fn the_token_goes_to_the_hub_and_to_nobody_else() {
    let hub = FakeHub::new(&model_files());
    let settings = Settings { token: Some("hf_secret".into()), ..hub.settings() };
    let (result, notes) = hub.download_with("org/name", &settings);
    result.unwrap();
    assert_eq!(notes, Vec::<String>::new());
    assert!(hub.hub.asked().iter().all(|r| r.header("authorization") == Some("Bearer hf_secret")));
    let stored = hub.storage.asked();
    assert!(!stored.is_empty() && stored.iter().all(|r| r.header("authorization").is_none()), "{stored:?}");

    // A hub that redirects its first answer elsewhere does not make it go there either.
    let elsewhere = Server::start(|_| Answer::new(404, ""));
    let redirect = Answer::new(302, "").with("location", format!("{}/x", elsewhere.url));
    hub.manners.lock().unwrap().answers = [redirect].into();
    hub.download_with("org/name", &settings).0.unwrap_err();
    assert_eq!(elsewhere.asked().len(), 1);
    assert_eq!(elsewhere.asked()[0].header("authorization"), None);
}

#[test]
fn offline_the_cache_is_enough_or_what_is_missing_is_named() {
    let index = br#"{"weight_map": {"a": "m-1.safetensors", "b": "m-2.safetensors"}}"#.to_vec();
    let hub = FakeHub::new(&[
        ("config.json", b"{}".to_vec()),
        ("model.safetensors.index.json", index),
        ("m-1.safetensors", weights(5000)),
        ("m-2.safetensors", weights(6000)),
    ]);
    let offline = Settings { offline: true, ..hub.settings() };
    let missing = |name: &str| {
        let error = hub.download_with(name, &offline).0.unwrap_err();
        assert_eq!(error.failure(), Failure::BadInput);
        error.to_string()
    };
    let nothing = missing("org/name");
    assert!(
        nothing.contains("revision main is not in the cache") && nothing.contains("models--org--name"),
        "{nothing}"
    );
    let path = hub.download("org/name");
    hub.hub.forget();
    assert_eq!(hub.download_with("org/name", &offline).0.unwrap(), path);
    assert_eq!(hub.download_with(&format!("org/name@{MAIN}"), &offline).0.unwrap(), path);
    assert!(missing("org/name@v2").contains("revision v2 is not in the cache"));
    fs::remove_file(hub.repo().join("blobs").join(sha256(&weights(6000)))).unwrap();
    assert!(
        missing("org/name").contains("m-2.safetensors is not in the cache"),
        "a link to nowhere is no file"
    );
    fs::remove_file(path.join("config.json")).unwrap();
    assert!(missing("org/name").contains("config.json is not in the cache"));
    assert_eq!(hub.hub.asked().len(), 0, "nobody was asked");
}

#[test]
fn names_from_the_server_do_not_lead_out_of_the_cache() {
    let evil = |names: &[(&str, Vec<u8>)]| {
        let hub = FakeHub::new(names);
        let error = hub.refused();
        assert_eq!(error.failure(), Failure::BadInput, "{error}");
        assert_eq!(fs::read_dir(hub.home()).unwrap().count(), usize::from(hub.home().join("hub").exists()));
        error
    };
    for name in
        ["../../evil.gguf", "/tmp/evil.gguf", "..\\evil.gguf", "a/../../evil.gguf", "\u{1b}[2Jevil.gguf"]
    {
        let error = evil(&[(name, b"x".to_vec())]);
        assert!(matches!(error, HubError::FileName { .. }), "{name:?}: {error}");
        let index = serde_json::json!({"weight_map": {"a": name}}).to_string().into_bytes();
        let error = evil(&[
            ("config.json", b"{}".to_vec()),
            ("model.safetensors.index.json", index),
            (name, b"x".to_vec()),
        ]);
        assert!(matches!(error, HubError::FileName { .. }), "{name:?}: {error}");
    }
    // Commit and hash become names of files too.
    let hub = FakeHub::new(&model_files());
    for listing in [r#"{"sha": "../../evil", "siblings": []}"#, r#"{"sha": 1}"#, "[]", "", "{"] {
        hub.manners.lock().unwrap().answers = [Answer::new(200, listing)].into();
        let error = hub.refused();
        assert!(matches!(error, HubError::Response { .. }), "{listing}: {error}");
    }
    for etag in ["\"../../evil\"", "\"\"", "a/b"] {
        hub.manners.lock().unwrap().files = Some(Answer::new(200, "x").with("etag", etag));
        let error = hub.refused();
        assert!(matches!(error, HubError::Response { .. }), "{etag}: {error}");
    }
    assert!(!hub.home().join("hub").exists());
}

#[test]
fn a_server_that_sends_more_than_it_announced_is_cut_off() {
    let hub = FakeHub::new(&model_files());
    let file = Answer::new(200, weights(5000)).with("x-linked-etag", sha256(b"x")).with("x-linked-size", 10);
    hub.manners.lock().unwrap().files = Some(file);
    let error = hub.refused();
    assert!(error.to_string().contains("expected 10 bytes, found more"), "{error}");
    assert_eq!(incomplete(&hub), [0]);
}

#[test]
fn a_redirect_in_a_circle_ends() {
    let hub = FakeHub::new(&model_files());
    let circle = Answer::new(302, "").with("location", "/api/models/org/name/revision/main");
    hub.manners.lock().unwrap().answers = vec![circle; 100].into();
    assert!(hub.refused().to_string().contains("redirects"));
}

#[test]
fn two_revisions_share_what_is_the_same_in_both() {
    let hub = FakeHub::new(&model_files());
    let mut second = hub.files.lock().unwrap()[MAIN].clone();
    second.insert("config.json".into(), b"{\"new\":1}".to_vec());
    hub.files.lock().unwrap().insert(V2, second);
    let first = hub.download("org/name");
    let second = hub.download("org/name@v2");
    assert_ne!(first, second);
    assert_eq!(fs::read(first.join("config.json")).unwrap(), b"{}");
    assert_eq!(fs::read(second.join("config.json")).unwrap(), b"{\"new\":1}");
    assert_eq!(fs::read_to_string(hub.repo().join("refs/v2")).unwrap(), V2);
    assert_eq!((hub.ranges().len(), blobs(&hub)), (1, 4), "the weights were downloaded once");
    // A commit needs no note of where it is.
    assert_eq!(hub.download(&format!("org/name@{V2}")), second);
    assert_eq!(fs::read_dir(hub.repo().join("refs")).unwrap().count(), 2);
}

#[test]
fn two_downloads_at_once_do_the_work_of_one() {
    let hub = FakeHub::new(&model_files());
    let paths = thread::scope(|scope| {
        let both =
            [(); 2].map(|()| scope.spawn(|| hub.download_with("org/name", &hub.settings()).0.unwrap()));
        both.map(|one| one.join().unwrap())
    });
    assert_eq!(paths[0], paths[1]);
    assert_eq!(hub.ranges().len(), 1);
    assert_eq!(fs::read(paths[0].join("model.safetensors")).unwrap(), weights(100_000));
}

#[test]
fn a_download_waits_for_another_process_and_uses_what_that_one_brought() {
    let hub = FakeHub::new(&model_files());
    let content = weights(100_000);
    let blob = hub.repo().join("blobs").join(sha256(&content));
    // The lock of the hub's own tools.
    let lock = hub.home().join("hub/.locks/models--org--name").join(sha256(&content) + ".lock");
    fs::create_dir_all(lock.parent().unwrap()).unwrap();
    let lock = fs::File::create(lock).unwrap();
    lock.lock().unwrap();
    let (note, notes) = mpsc::channel();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let notice = |text: &str| note.send(text.to_owned()).unwrap();
            let watch = Watch { progress: &Unwatched, notice: &notice, cancel: &Cancel::default() };
            download(&"org/name".parse().unwrap(), &hub.settings(), &watch).unwrap()
        });
        let said = notes.recv_timeout(Duration::from_secs(30)).unwrap();
        assert!(said.contains("another process"), "{said}");
        fs::write(&blob, &content).unwrap();
        drop(lock);
        assert_eq!(fs::read(waiting.join().unwrap().join("model.safetensors")).unwrap(), content);
    });
    assert_eq!(hub.ranges(), Vec::new());
}

#[test]
fn where_links_are_unwanted_the_files_are_plain() {
    let hub = FakeHub::new(&model_files());
    let (path, _) = hub.download_with("org/name", &Settings { links: false, ..hub.settings() });
    let file = path.unwrap().join("model.safetensors");
    assert!(file.symlink_metadata().unwrap().is_file());
    assert_eq!(fs::read(file).unwrap(), weights(100_000));
}

#[test]
fn a_gguf_file_in_a_folder_is_fetched_alone() {
    let hub = FakeHub::new(&[
        ("q4/m-q4.gguf", weights(5000)),
        ("m-q8.gguf", weights(6000)),
        ("config.json", b"{}".to_vec()),
    ]);
    let path = hub.download("org/name:q4/m-q4.gguf");
    assert_eq!(path, hub.repo().join("snapshots").join(MAIN).join("q4/m-q4.gguf"));
    assert_eq!(fs::read(&path).unwrap(), weights(5000), "the link leads out of the folder too");
    assert_eq!(blobs(&hub), 1);
    let error = hub.refused();
    assert_eq!(error.failure(), Failure::Usage);
    assert!(error.to_string().contains("org/name:m-q8.gguf"), "{error}");
}

#[test]
fn progress_counts_each_byte_once() {
    struct Sum(AtomicUsize, AtomicUsize);
    impl Progress for Sum {
        fn begin(&self, _what: &str, total: u64) {
            self.0.fetch_add(total as usize, Ordering::Relaxed);
        }
        fn advance(&self, units: u64) {
            self.1.fetch_add(units as usize, Ordering::Relaxed);
        }
        fn end(&self) {}
    }
    let hub = FakeHub::new(&model_files());
    {
        let mut manners = hub.manners.lock().unwrap();
        manners.cuts = [40_000, 30_000].into();
        manners.no_ranges = true;
    }
    let sum = Sum(0.into(), 0.into());
    let watch = Watch { progress: &sum, notice: &|_| (), cancel: &Cancel::default() };
    download(&"org/name".parse().unwrap(), &hub.settings(), &watch).unwrap();
    assert_eq!((sum.0.into_inner(), sum.1.into_inner()), (100_009, 100_009));
}
