//! Files that go to a hub.

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use qsf_converter::hub::{Content, HubError, Settings, Upload, UploadFile, Uploaded, Watch};
use qsf_runtime::progress::{Cancel, Unwatched};

use crate::fake_hub::{MAIN, weights};
use crate::upload_hub::{TOKEN, UploadHub};

fn settings(hub: &UploadHub) -> Settings {
    Settings {
        endpoint: hub.hub.url.clone(),
        cache: Path::new("unused").into(),
        token: Some(TOKEN.into()),
        authorities: None,
        offline: false,
        links: true,
        timeout: Duration::from_secs(20),
        first_wait: Duration::from_millis(1),
    }
}

fn files(dir: &Path) -> Vec<UploadFile> {
    let path = dir.join("a.qsf");
    fs::write(&path, weights(100_000)).unwrap();
    let card = Content::Bytes(b"# A card".as_slice().into());
    vec![
        UploadFile { name: "a.qsf".into(), content: Content::File(path) },
        UploadFile { name: "README.md".into(), content: card },
    ]
}

fn send(settings: &Settings, files: &[UploadFile]) -> (Result<Uploaded, HubError>, Vec<String>) {
    let notes = Mutex::new(Vec::new());
    let notice = |text: &str| notes.lock().unwrap().push(text.to_owned());
    let watch = Watch { progress: &Unwatched, notice: &notice, cancel: &Cancel::default() };
    let sent = Upload::new("org/name", settings, &watch).and_then(|upload| {
        upload.prepare(true)?;
        upload.send(files, "Files")
    });
    (sent, notes.into_inner().unwrap())
}

#[test]
fn files_are_in_the_repository_in_one_commit_whether_they_go_in_parts_or_not() {
    let dir = tempfile::tempdir().unwrap();
    for part_size in [None, Some(100_000), Some(30_000), Some(1 << 20)] {
        let hub = UploadHub::new();
        hub.state.lock().unwrap().part_size = part_size;
        let (sent, notes) = send(&settings(&hub), &files(dir.path()));
        assert_eq!(
            sent.unwrap(),
            Uploaded { page: format!("{}/org/name", hub.hub.url), commit: MAIN.into() }
        );
        assert_eq!(notes, Vec::<String>::new());
        let state = hub.state.lock().unwrap();
        assert_eq!((state.commits, state.private), (1, Some(true)));
        assert!(state.files["a.qsf"] == weights(100_000), "{part_size:?}");
        assert_eq!(state.files["README.md"], b"# A card");
        assert_eq!(hub.storage.asked().len(), part_size.map_or(1, |size| 100_000usize.div_ceil(size)));
    }
}

#[test]
fn what_the_storage_has_is_not_sent_again_and_what_fails_is() {
    let dir = tempfile::tempdir().unwrap();
    let hub = UploadHub::new();
    {
        let mut state = hub.state.lock().unwrap();
        (state.part_size, state.failures) = (Some(40_000), 2);
    }
    let (sent, notes) = send(&settings(&hub), &files(dir.path()));
    sent.unwrap();
    assert_eq!((notes.len(), hub.storage.asked().len()), (2, 5), "{notes:?}");
    assert!(notes.iter().all(|note| !note.contains("secret")), "{notes:?}");
    hub.storage.forget();
    send(&settings(&hub), &files(dir.path())).0.unwrap();
    assert_eq!(hub.storage.asked().len(), 0);
    // A storage that never recovers.
    hub.state.lock().unwrap().objects.clear();
    hub.state.lock().unwrap().failures = usize::MAX;
    let error = send(&settings(&hub), &files(dir.path())).0.unwrap_err().to_string();
    assert!(
        error.contains("status 500") && error.contains("sends the rest") && !error.contains("secret"),
        "{error}"
    );
}

#[test]
fn uploads_need_a_token_that_may_write_and_a_network() {
    let dir = tempfile::tempdir().unwrap();
    let hub = UploadHub::new();
    hub.state.lock().unwrap().read_only = true;
    let refused = |settings: &Settings| send(settings, &files(dir.path())).0.unwrap_err();
    let error = refused(&settings(&hub)).to_string();
    assert!(error.contains("rights to write") && error.contains("HF_TOKEN"), "{error}");
    assert!(!error.contains(TOKEN), "{error}");
    hub.hub.forget();
    let none = refused(&Settings { token: None, ..settings(&hub) });
    assert!(matches!(none, HubError::NoToken { .. }), "{none}");
    let offline = refused(&Settings { offline: true, ..settings(&hub) });
    assert!(matches!(offline, HubError::UploadOffline { .. }), "{offline}");
    let watch = Watch { progress: &Unwatched, notice: &|_| {}, cancel: &Cancel::default() };
    for name in ["name", "org/name@main", "org/name:a.gguf", "../x"] {
        let error = Upload::new(name, &settings(&hub), &watch).err().unwrap();
        assert!(matches!(error, HubError::Reference { .. }), "{name}: {error}");
    }
    assert_eq!(hub.hub.asked().len(), 0, "nobody is asked");
    let other = refused(&Settings { token: Some("hf_other".into()), ..settings(&hub) });
    assert!(matches!(other, HubError::UploadRefused { .. } | HubError::NotFound { .. }), "{other}");
}
