//! How a model of the hub is named: `org/name`, with `@revision` and `:FILE.gguf` where needed.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use super::error::{HubError, Result};

/// A model of the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    repo: String,
    revision: Option<String>,
    file: Option<String>,
}

const SCHEME: &str = "hf://";
const DEFAULT_REVISION: &str = "main";

const REPO: &str = "a model of the hub, as in org/name, org/name@revision or org/name:FILE.gguf";
const REVISION: &str = "a branch, a tag or a commit after the @";
const FILE: &str = "the name of a .gguf file of the repository after the colon";

impl Reference {
    /// The model that a MODEL argument names. What exists as a path is a path, and so is what has the form of one;
    /// `None` then.
    ///
    /// # Errors
    /// When it names a model of the hub and the rest of it, revision or file, is malformed.
    pub fn of_argument(argument: &Path) -> Result<Option<Reference>> {
        let Some(text) = argument.to_str() else { return Ok(None) };
        if argument.symlink_metadata().is_ok() {
            return Ok(None);
        }
        let (repo, rest) = split_repo(text);
        let path_like =
            !is_repo(repo) || rest.is_empty() && [".gguf", ".qsf"].iter().any(|e| repo.ends_with(e));
        if path_like && !text.starts_with(SCHEME) {
            return Ok(None);
        }
        text.parse().map(Some)
    }

    /// This model at `revision`.
    ///
    /// # Errors
    /// When the reference has a revision already, or this is none.
    pub fn at_revision(self, revision: &str) -> Result<Reference> {
        if self.revision.is_some() {
            let expected = "one revision, by @ or by --revision";
            return Err(HubError::Reference { text: format!("{self} and {revision}"), expected });
        }
        if !is_revision(revision) {
            return Err(HubError::Reference { text: revision.to_owned(), expected: REVISION });
        }
        Ok(Reference { revision: Some(revision.to_owned()), ..self })
    }

    /// A repository that files go to, which has neither revision nor file.
    ///
    /// # Errors
    /// When `text` names no repository, or more than one.
    pub fn repository(text: &str) -> Result<Reference> {
        let wrong = || HubError::Reference {
            text: text.to_owned(),
            expected: "a repository of the hub, as in org/name",
        };
        let reference: Reference = text.parse().map_err(|_| wrong())?;
        if reference.revision.is_some() || reference.file.is_some() {
            return Err(wrong());
        }
        Ok(reference)
    }

    /// `org/name`.
    pub fn repo(&self) -> &str {
        &self.repo
    }

    /// Branch, tag or commit; `main` where none was given.
    pub fn revision(&self) -> &str {
        self.revision.as_deref().unwrap_or(DEFAULT_REVISION)
    }

    /// The chosen GGUF file.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// What to call the model in reports and outputs: the file's name, else the repository's, without the organisation.
    pub fn name(&self) -> &str {
        let full = self.file.as_deref().unwrap_or(&self.repo);
        full.rsplit_once('/').map_or(full, |(_, name)| name)
    }
}

impl FromStr for Reference {
    type Err = HubError;

    fn from_str(text: &str) -> Result<Reference> {
        let wrong = |expected| HubError::Reference { text: text.to_owned(), expected };
        let (repo, mut rest) = split_repo(text);
        if !is_repo(repo) {
            return Err(wrong(REPO));
        }
        let mut reference = Reference { repo: repo.to_owned(), revision: None, file: None };
        while let Some(sign) = rest.chars().next() {
            let part = &rest[1..];
            let end = part.find(if sign == '@' { ':' } else { '@' }).unwrap_or(part.len());
            let (part, next) = part.split_at(end);
            match sign {
                '@' if reference.revision.is_none() && is_revision(part) => {
                    reference.revision = Some(part.to_owned());
                }
                ':' if reference.file.is_none() && is_plain_path(part) && part.ends_with(".gguf") => {
                    reference.file = Some(part.to_owned());
                }
                '@' => return Err(wrong(REVISION)),
                _ => return Err(wrong(FILE)),
            }
            rest = next;
        }
        Ok(reference)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repo)?;
        if let Some(revision) = &self.revision {
            write!(f, "@{revision}")?;
        }
        if let Some(file) = &self.file {
            write!(f, ":{file}")?;
        }
        Ok(())
    }
}

/// The repository's part of a reference, and what follows, from its `@` or `:` on.
fn split_repo(text: &str) -> (&str, &str) {
    let text = text.strip_prefix(SCHEME).unwrap_or(text);
    text.split_at(text.find(['@', ':']).unwrap_or(text.len()))
}

/// The hub's rules for names (huggingface_hub, `validate_repo_id`), with an organisation.
fn is_repo(text: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && !part.starts_with(['-', '.'])
            && !part.ends_with(['-', '.'])
            && !part.contains("--")
            && !part.contains("..")
    };
    let parts = text.split_once('/');
    text.len() <= 96 && !text.ends_with(".git") && parts.is_some_and(|(org, name)| part(org) && part(name))
}

/// What git allows as a name of a branch or tag (git-check-ref-format), in ASCII; the cache has a file of this name.
fn is_revision(text: &str) -> bool {
    text.len() <= 200
        && is_plain_path(text)
        && text.bytes().all(|b| b.is_ascii_graphic() && !b"~^:?*[\\\"<>|".contains(&b))
        && !text.contains("..")
        && !text.starts_with('-')
        && text
            .split('/')
            .all(|part| !part.starts_with('.') && !part.ends_with(['.']) && !part.ends_with(".lock"))
}

/// Whether a name with `/` stays in the folder that it is joined to, on every system. The name comes from a server, and a file
/// is written under it: no `..`, no root, no drive or stream (`:`), no backslash, nothing that drives a terminal.
pub(super) fn is_plain_path(name: &str) -> bool {
    name.len() <= 1024
        && !name.contains(['\\', ':'])
        && !name.contains(char::is_control)
        && name.split('/').all(|part| !matches!(part, "" | "." | "..") && part.len() <= 255)
}

/// Whether this is a full commit; it becomes the name of a folder.
#[cfg(feature = "hub")]
pub(super) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Reference {
        text.parse().unwrap()
    }

    #[test]
    fn a_model_may_have_a_revision_and_a_file() {
        let plain = parse("org/na-me_1.5");
        assert_eq!((plain.repo(), plain.revision(), plain.file()), ("org/na-me_1.5", "main", None));
        assert_eq!(parse("hf://org/name"), parse("org/name"));
        assert_eq!(parse("org/name@refs/pr/7").revision(), "refs/pr/7");
        let both = parse("org/name:sub/m-Q4_K_M.gguf@v1.0");
        assert_eq!(both, parse("org/name@v1.0:sub/m-Q4_K_M.gguf"));
        assert_eq!((both.file(), both.revision()), (Some("sub/m-Q4_K_M.gguf"), "v1.0"));
        assert_eq!(both.to_string().parse::<Reference>().unwrap(), both);
        assert_eq!((plain.name(), both.name()), ("na-me_1.5", "m-Q4_K_M.gguf"));
    }

    #[test]
    fn a_name_that_could_leave_the_cache_is_none() {
        for text in [
            "",
            "name",
            "/name",
            "org/",
            "../name",
            "org/..",
            "org/.name",
            "a/b/c",
            "org/na me",
            "org/name.git",
            "org/a--b",
            "org\\name",
            "org/name@",
            "org/name@../x",
            "org/name@a/../b",
            "org/name@/x",
            "org/name@x\n",
            "org/name@a b",
            "org/name@.x",
            "org/name@x.lock",
            "org/name:",
            "org/name:x.bin",
            "org/name:../x.gguf",
            "org/name:/x.gguf",
            "org/name:a:b.gguf",
            "org/name:a\\b.gguf",
            "hf://name",
        ] {
            assert!(text.parse::<Reference>().is_err(), "{text:?}");
        }
        for name in
            ["", ".", "..", "a/..", "../a", "/a", "a//b", "a/", "a\\b", "C:a", "a\0", "a\u{1b}[2J", "a\n"]
        {
            assert!(!is_plain_path(name), "{name:?}");
        }
        assert!(is_plain_path("sub/model-00001-of-00002.safetensors"));
    }

    #[test]
    fn what_exists_or_looks_like_a_path_is_a_path() {
        let dir = tempfile::tempdir().unwrap();
        for path in
            [dir.path().to_str().unwrap(), "./a/b", "a/b/c", "model", "models/x.gguf", "out/x.qsf", "C:/a/b"]
        {
            assert_eq!(Reference::of_argument(Path::new(path)).unwrap(), None, "{path}");
        }
        // Tests run in the crate's folder.
        assert_eq!(Reference::of_argument(Path::new("src/hub")).unwrap(), None);
        assert_eq!(Reference::of_argument(Path::new("org/name")).unwrap(), Some(parse("org/name")));
        assert!(Reference::of_argument(Path::new("org/name@..")).is_err());
        assert!(Reference::of_argument(Path::new("hf://a/b/c")).is_err());
    }

    #[test]
    fn a_revision_is_given_once() {
        assert_eq!(parse("org/name").at_revision("v2").unwrap(), parse("org/name@v2"));
        assert!(parse("org/name@v1").at_revision("v2").is_err());
        assert!(parse("org/name").at_revision("../v2").is_err());
    }
}
