//! From a name to a model on disk.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::cache::RepoCache;
use super::client::Client;
use super::error::{HubError, Result};
use super::fetch::Fetcher;
use super::listing;
use super::reference::Reference;
use super::retry::Patience;
use super::select::{Selection, indexed_files, select};
use super::settings::Settings;
use super::watch::Watch;

/// The largest index of weights; the same limit as where models are opened.
const MAX_INDEX_BYTES: u64 = 64 << 20;

/// Makes the model be in the cache, and gives its path there: the folder of the revision, or the GGUF file. Downloads what
/// the cache does not have; asks nobody where the settings say offline.
///
/// # Errors
/// When the model is not there or may not be read, the server fails again and again, what comes is not what the hub announced,
/// or the cache cannot be written. What was downloaded by then is kept, if it is not known to be wrong.
pub fn download(reference: &Reference, settings: &Settings, watch: &Watch<'_>) -> Result<PathBuf> {
    let cache = RepoCache::new(settings, reference.repo());
    if settings.offline {
        return find_offline(reference, &cache);
    }
    let client = Client::new(settings, watch.cancel)?;
    let repo = reference.repo();
    let page = client.url(repo);
    let listing = listing::list(&client, reference, &page, Patience::new(watch, settings.first_wait))?;
    let selection = select(repo, &listing.names, reference.file())?;
    let commit = &listing.commit;
    let fetcher = Fetcher { client: &client, cache: &cache, settings, watch, repo, commit, page: &page };
    fetcher.fetch_all(&selection.files)?;
    if let Some(index) = &selection.index {
        let content = read_index(&cache.file(commit, index)?)?;
        fetcher.fetch_all(&indexed_files(repo, index, &content, Some(&listing.names))?)?;
    }
    // Last, so that offline, a branch never leads to a snapshot that was not completed.
    cache.set_commit(reference.revision(), commit)?;
    model_path(&cache, commit, &selection)
}

/// Finds the model among what was downloaded before, without the network.
fn find_offline(reference: &Reference, cache: &RepoCache) -> Result<PathBuf> {
    let repo = reference.repo();
    let offline =
        |missing| HubError::Offline { repo: repo.to_owned(), missing, cache: cache.dir().to_owned() };
    let commit = cache.commit(reference.revision())?.filter(|commit| cache.snapshot(commit).is_dir());
    let Some(commit) = commit else {
        return Err(offline(format!("revision {} is", reference.revision())));
    };
    let names = cache.names(&commit)?;
    let selection = select(repo, &names, reference.file()).map_err(|error| match error {
        HubError::NoModel { expected, .. } => offline(format!("{expected} is")),
        other => other,
    })?;
    if let Some(index) = &selection.index {
        let content = read_index(&cache.file(&commit, index)?)?;
        let files = indexed_files(repo, index, &content, None)?;
        let missing: Vec<&str> = files.iter().filter(|f| !names.contains(f)).map(String::as_str).collect();
        if let Some(first) = missing.first() {
            let others = match missing.len() - 1 {
                0 => " is".to_owned(),
                n => format!(" and {n} more files are"),
            };
            return Err(offline(format!("{first}{others}")));
        }
    }
    model_path(cache, &commit, &selection)
}

fn model_path(cache: &RepoCache, commit: &str, selection: &Selection) -> Result<PathBuf> {
    match &selection.gguf {
        Some(file) => cache.file(commit, file),
        None => Ok(cache.snapshot(commit)),
    }
}

fn read_index(path: &Path) -> Result<Vec<u8>> {
    let file = File::open(path).map_err(|e| HubError::io(path, "open", e))?;
    let mut content = Vec::new();
    file.take(MAX_INDEX_BYTES + 1).read_to_end(&mut content).map_err(|e| HubError::io(path, "read", e))?;
    if content.len() as u64 > MAX_INDEX_BYTES {
        let source = std::io::Error::new(std::io::ErrorKind::InvalidData, "it is larger than 64 MiB");
        return Err(HubError::io(path, "use", source));
    }
    Ok(content)
}
