//! What the environment says about the hub, in the variables of the hub's own tools
//! (huggingface.co/docs/huggingface_hub/package_reference/environment_variables).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ureq::http::Uri;

use super::error::{HubError, Result};

/// Where models come from, where they go, and who asks.
#[derive(Clone)]
pub struct Settings {
    /// Address of the hub, without a slash at the end.
    pub endpoint: String,
    /// The folder with `models--org--name`.
    pub cache: PathBuf,
    /// The user's token; sent to the endpoint's own host only.
    pub token: Option<String>,
    /// A file (PEM) with the authorities to trust instead of those that are built in (Mozilla's).
    pub authorities: Option<PathBuf>,
    /// Use what the cache has, and ask nobody.
    pub offline: bool,
    /// Snapshots are links into the folder of blobs; off where links are unwanted.
    pub links: bool,
    /// How long a server may be silent.
    pub timeout: Duration,
    /// Wait before the second attempt; it doubles with every further one.
    pub first_wait: Duration,
}

/// Prints everything but the token.
impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings { endpoint, cache, token, offline, .. } = self;
        let token = token.as_ref().map(|_| "...");
        write!(f, "Settings {{ {endpoint:?}, {cache:?}, token: {token:?}, offline: {offline} }}")
    }
}

const ENDPOINT: &str = "https://huggingface.co";
const TIMEOUT: Duration = Duration::from_secs(30);
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// A file of one line; what is larger is no token.
const MAX_TOKEN_BYTES: u64 = 4096;

impl Settings {
    /// The settings of this process: `HF_ENDPOINT`, `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`,
    /// `HF_HUB_DISABLE_SYMLINKS`, `HF_HUB_DISABLE_IMPLICIT_TOKEN`, `HF_HUB_DOWNLOAD_TIMEOUT` and `SSL_CERT_FILE`.
    ///
    /// # Errors
    /// When one of them cannot be used, or the file with the token cannot be read.
    pub fn from_env() -> Result<Settings> {
        Settings::from_variables(|name| std::env::var_os(name), std::env::home_dir())
    }

    fn from_variables(get: impl Fn(&str) -> Option<OsString>, user: Option<PathBuf>) -> Result<Settings> {
        // An empty variable counts as none, as for the hub's own tools.
        let get = |name: &str| get(name).filter(|value| !value.is_empty());
        let text = |name: &'static str| match get(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(_)) => {
                Err(HubError::Setting { name, expected: "UTF-8 text", found: "other bytes".into() })
            }
        };
        let flag = |name| {
            let set =
                text(name)?.is_some_and(|v| ["1", "ON", "YES", "TRUE"].contains(&v.to_uppercase().as_str()));
            Ok::<_, HubError>(set)
        };
        let path = |name: &str| get(name).map(|value| expand_home(value.into(), user.as_deref()));

        let home = match (path("HF_HOME"), path("XDG_CACHE_HOME"), &user) {
            (Some(home), _, _) => home,
            (None, Some(caches), _) => caches.join("huggingface"),
            (None, None, Some(user)) => user.join(".cache/huggingface"),
            (None, None, None) => {
                let expected = "a folder for the models, because there is no home folder";
                return Err(HubError::Setting { name: "HF_HOME", expected, found: String::new() });
            }
        };
        let cache = path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE"));
        let endpoint = text("HF_ENDPOINT")?.unwrap_or_else(|| ENDPOINT.to_owned());
        let endpoint = endpoint.trim_end_matches('/').to_owned();
        check_endpoint(&endpoint)?;
        let token_path = path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let token = if flag("HF_HUB_DISABLE_IMPLICIT_TOKEN")? {
            None
        } else {
            match text("HF_TOKEN")?.or(text("HUGGING_FACE_HUB_TOKEN")?) {
                Some(token) => Some(token),
                None => read_token(&token_path)?,
            }
        };
        let timeout = match text("HF_HUB_DOWNLOAD_TIMEOUT")? {
            None => TIMEOUT,
            Some(text) => match text.parse::<u32>() {
                Ok(seconds @ 1..) => Duration::from_secs(seconds.into()),
                _ => {
                    let expected = "a whole number of seconds";
                    return Err(HubError::Setting { name: "HF_HUB_DOWNLOAD_TIMEOUT", expected, found: text });
                }
            },
        };
        Ok(Settings {
            endpoint,
            cache: cache.unwrap_or_else(|| home.join("hub")),
            token: token.map(|token| check_token(&token)).transpose()?.filter(|token| !token.is_empty()),
            authorities: path("SSL_CERT_FILE"),
            offline: flag("HF_HUB_OFFLINE")? || flag("TRANSFORMERS_OFFLINE")?,
            links: !flag("HF_HUB_DISABLE_SYMLINKS")?,
            timeout,
            first_wait: FIRST_WAIT,
        })
    }
}

fn expand_home(path: PathBuf, user: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), user) {
        (Ok(rest), Some(user)) => user.join(rest),
        _ => path,
    }
}

fn check_endpoint(endpoint: &str) -> Result<()> {
    let usable = endpoint.parse::<Uri>().is_ok_and(|uri| {
        // A password in it would end up in messages.
        let plain = uri.authority().is_some_and(|a| !a.as_str().contains('@')) && uri.query().is_none();
        plain && uri.scheme_str().is_some_and(|scheme| ["http", "https"].contains(&scheme))
    });
    if usable {
        return Ok(());
    }
    let expected = "an address such as https://huggingface.co, without user and password";
    Err(HubError::Setting { name: "HF_ENDPOINT", expected, found: without_user(endpoint) })
}

fn without_user(endpoint: &str) -> String {
    endpoint.rsplit_once('@').map_or_else(|| endpoint.to_owned(), |(_, rest)| format!("...@{rest}"))
}

fn read_token(path: &Path) -> Result<Option<String>> {
    use io::Read;
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(e) if matches!(e.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(e) => return Err(HubError::io(path, "read the token from", e)),
    };
    let mut text = String::new();
    file.take(MAX_TOKEN_BYTES)
        .read_to_string(&mut text)
        .map_err(|e| HubError::io(path, "read the token from", e))?;
    Ok(Some(text))
}

/// A token goes into a header, where a line break would begin another one.
fn check_token(token: &str) -> Result<String> {
    let token = token.trim();
    if token.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(token.to_owned());
    }
    let expected = "a token in printable ASCII";
    Err(HubError::Setting { name: "HF_TOKEN", expected, found: "other characters".into() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings> {
        let get =
            |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| OsString::from(value));
        Settings::from_variables(get, Some("/home/user".into()))
    }

    #[test]
    fn the_cache_is_where_the_hub_s_own_tools_look() {
        let cache = |variables| settings(variables).unwrap().cache;
        assert_eq!(cache(&[]), Path::new("/home/user/.cache/huggingface/hub"));
        assert_eq!(cache(&[("XDG_CACHE_HOME", "/x")]), Path::new("/x/huggingface/hub"));
        assert_eq!(cache(&[("HF_HOME", "~/hf"), ("XDG_CACHE_HOME", "/x")]), Path::new("/home/user/hf/hub"));
        assert_eq!(cache(&[("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/c")]), Path::new("/c"));
        assert_eq!(cache(&[("HF_HOME", "")]), Path::new("/home/user/.cache/huggingface/hub"));
    }

    #[test]
    fn the_token_comes_from_the_variable_or_the_file_and_is_never_printed() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path().to_str().unwrap();
        assert_eq!(settings(&[("HF_HOME", home)]).unwrap().token, None);
        fs::write(dir.path().join("token"), "hf_file\n").unwrap();
        assert_eq!(settings(&[("HF_HOME", home)]).unwrap().token.as_deref(), Some("hf_file"));
        let both = settings(&[("HF_HOME", home), ("HF_TOKEN", " hf_secret ")]).unwrap();
        assert_eq!(both.token.as_deref(), Some("hf_secret"));
        assert!(!format!("{both:?}").contains("secret"));
        let broken = settings(&[("HF_TOKEN", "hf_secret\nHost: x")]).unwrap_err();
        assert!(!broken.to_string().contains("secret"), "{broken}");
        let none = settings(&[("HF_TOKEN", "hf_secret"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]).unwrap();
        assert_eq!(none.token, None);
    }

    #[test]
    fn an_endpoint_that_cannot_be_used_is_refused_without_printing_its_password() {
        assert_eq!(settings(&[]).unwrap().endpoint, "https://huggingface.co");
        let own = settings(&[("HF_ENDPOINT", "http://127.0.0.1:8000/hub/")]).unwrap();
        assert_eq!(own.endpoint, "http://127.0.0.1:8000/hub");
        for endpoint in ["huggingface.co", "ftp://x", "https://", "https://user:secret@x", "https://x/?q"] {
            let error = settings(&[("HF_ENDPOINT", endpoint)]).unwrap_err().to_string();
            assert!(error.contains("HF_ENDPOINT") && !error.contains("secret"), "{endpoint}: {error}");
        }
    }

    #[test]
    fn switches_are_read_as_the_hub_s_own_tools_read_them() {
        assert!(!settings(&[("HF_HUB_OFFLINE", "0")]).unwrap().offline);
        assert!(settings(&[("HF_HUB_OFFLINE", "true")]).unwrap().offline);
        assert!(!settings(&[("HF_HUB_DISABLE_SYMLINKS", "1")]).unwrap().links);
        assert!(settings(&[("HF_HUB_DOWNLOAD_TIMEOUT", "0")]).is_err());
        assert_eq!(settings(&[("HF_HUB_DOWNLOAD_TIMEOUT", "7")]).unwrap().timeout, Duration::from_secs(7));
    }
}
