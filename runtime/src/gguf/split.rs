//! Models in several files, `NAME-00001-of-0000N.gguf`: each says which one it is, only the first says what the model is.

use std::path::{Path, PathBuf};

use super::metadata::Metadata;
use crate::error::{Result, RuntimeError};

/// Which file it is, from 0 on.
pub const NUMBER: &str = "split.no";
/// How many files there are.
pub const COUNT: &str = "split.count";
/// Tensors in all of them.
pub const TENSORS: &str = "split.tensors.count";

/// What the first file says of the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    /// Files.
    pub count: u32,
    /// Tensors in all of them, where it is said.
    tensors: Option<u32>,
}

impl Split {
    /// `None`: the model is one file.
    ///
    /// # Errors
    /// When `path` is another file than the first.
    pub fn read(path: &Path, metadata: &Metadata) -> Result<Option<Split>> {
        let count = metadata.u32(COUNT)?.unwrap_or(1);
        let number = metadata.u32(NUMBER)?.unwrap_or(0);
        if count <= 1 && number == 0 {
            return Ok(None);
        }
        if number != 0 {
            let first = sibling(path, number, 0, count);
            let advice = first.map_or_else(
                || "open the first file of the model".to_owned(),
                |first| format!("open {}", first.display()),
            );
            let what = format!("part {} of {count} on its own", u64::from(number) + 1);
            return Err(RuntimeError::Unsupported { path: path.to_owned(), what, supported: advice });
        }
        Ok(Some(Split { count, tensors: metadata.u32(TENSORS)? }))
    }

    /// The path of file `number`, by the name of the first, `first`.
    pub fn path(&self, first: &Path, number: u32) -> Result<PathBuf> {
        sibling(first, 0, number, self.count).ok_or_else(|| {
            let expected = format!("a name that ends in -00001-of-{:05}.gguf", self.count);
            let found = format!("the first of {} files under another name", self.count);
            RuntimeError::bad_input(first, "the file's name", expected, found)
        })
    }

    /// Checks that a file is the one that its name says.
    pub fn check(&self, metadata: &Metadata, number: u32) -> Result<()> {
        for (key, expected) in [(NUMBER, number), (COUNT, self.count)] {
            let found = metadata.need_u32(key)?;
            if found != expected {
                let expected = format!("{expected}, as the file's name and the first file say");
                return Err(metadata.wrong(key, expected, found));
            }
        }
        Ok(())
    }

    /// Checks that all tensors are there.
    pub fn check_tensors(&self, first: &Metadata, found: usize) -> Result<()> {
        match self.tensors {
            Some(expected) if expected as usize != found => {
                let found = format!("{found} in the {} files", self.count);
                Err(first.wrong(TENSORS, format!("{expected} tensors, as it says"), found))
            }
            _ => Ok(()),
        }
    }
}

/// The name of file `number` of `count`, where the first is 0.
pub fn part_name(stem: &str, number: u32, count: u32) -> String {
    format!("{stem}{}", name_end(number, count))
}

/// The stem of a name that a file of several has.
pub fn stem_of_part(name: &str) -> Option<&str> {
    let (rest, count) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    let is_number = |text: &str| text.len() >= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(number) && is_number(count)).then_some(stem)
}

/// The first file of the model that a file is a later part of, by its name; `None` for all others.
pub fn first_of_part(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let stem = stem_of_part(name)?;
    let (number, count) =
        name.strip_prefix(stem)?.strip_prefix('-')?.strip_suffix(".gguf")?.split_once("-of-")?;
    let first = part_name(stem, 0, count.parse().ok()?);
    (number.parse() != Ok(1u32) && first != name).then(|| path.with_file_name(first))
}

/// Numbers in names count from 1.
fn name_end(number: u32, count: u32) -> String {
    format!("-{:05}-of-{count:05}.gguf", u64::from(number) + 1)
}

/// The path of file `number` of `count`, next to `path`, which is file `own`; `None` when its name says otherwise.
fn sibling(path: &Path, own: u32, number: u32, count: u32) -> Option<PathBuf> {
    let stem = path.file_name()?.to_str()?.strip_suffix(&name_end(own, count))?;
    Some(path.with_file_name(part_name(stem, number, count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_parts_know_their_first_and_no_other_file_does() {
        let of = |name: &str| first_of_part(Path::new(name));
        assert_eq!(of("a/m-00002-of-00003.gguf"), Some("a/m-00001-of-00003.gguf".into()));
        for name in ["m-00001-of-00003.gguf", "m.gguf", "m-2-of-3.gguf", "m-00002-of-00003.qsf", "-of-.gguf"]
        {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
