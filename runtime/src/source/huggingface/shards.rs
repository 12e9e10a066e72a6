//! The weight files of a model directory, of safetensors or of torch: finds them, maps them, and hands out the tensors in
//! them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use qsf_format::{BlockSize, FileMap};
use safetensors::Dtype;

use super::pickle;
use super::plain::{self, PlainRows};
use super::safetensors_header::{FoundTensor, read_safetensors};
use crate::error::{Result, RuntimeError};
use crate::mapped::map_file;
use crate::model_dir::files::{self, FlatJson};
use crate::model_dir::{Fields, describe};
use crate::source::mapping::{TensorStore, no_such_tensor};
use crate::tensor::{StoredType, Tensor, TensorBytes};
use qsf_format::printable::quote;

/// Longest name of a tensor. Real ones take less than 100 bytes; what looks for prefixes looks at each of their parts.
const MAX_NAME_BYTES: usize = 1024;
/// Most tensors of an index; the largest in use have some 140 000.
const MAX_INDEXED: usize = 1 << 18;

/// What a form of weight files is called in a directory.
#[derive(Debug)]
struct Form {
    single: &'static str,
    index: &'static str,
    /// End of the names in the index.
    suffix: &'static str,
    read: fn(&Path, &[u8]) -> Result<Vec<FoundTensor>>,
}

const SAFETENSORS: Form = Form {
    single: "model.safetensors",
    index: "model.safetensors.index.json",
    suffix: ".safetensors",
    read: read_safetensors,
};
const TORCH: Form = Form {
    single: "pytorch_model.bin",
    index: "pytorch_model.bin.index.json",
    suffix: ".bin",
    read: read_torch,
};

/// Those of adapters, which are never in several files.
const ADAPTER: [Form; 2] = [
    Form { single: "adapter_model.safetensors", index: "", suffix: ".safetensors", read: read_safetensors },
    Form { single: "adapter_model.bin", index: "", suffix: ".bin", read: read_torch },
];

/// The mapped weight files of a model and the place of every tensor in them.
#[derive(Debug)]
pub(in crate::source) struct Shards {
    dir: PathBuf,
    files: Vec<Shard>,
    index: Option<PathBuf>,
    tensors: HashMap<String, Stored>,
}

#[derive(Debug)]
struct Shard {
    path: PathBuf,
    map: Arc<FileMap>,
}

/// A tensor as a file has it.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    /// Which file.
    pub shard: usize,
    /// Type of the values.
    pub dtype: Dtype,
    /// Dimensions, slowest first.
    pub shape: Vec<usize>,
    /// Bytes in the file; inside of its map.
    pub range: Range<usize>,
}

impl Shards {
    /// Maps the first that is there: `model.safetensors`, the files that its index names, `pytorch_model.bin`, the files
    /// that its index names. That is the order of transformers.
    pub fn open(dir: &Path) -> Result<Shards> {
        let mut shards = Shards::empty(dir);
        for form in [&SAFETENSORS, &TORCH] {
            if let Some(path) = files::find(dir, form.single)? {
                shards.add(form, path)?;
                return Ok(shards);
            }
            if let Some(index) = files::find(dir, form.index)? {
                shards.add_indexed(form, dir, &index)?;
                shards.index = Some(index);
                return Ok(shards);
            }
        }
        let names = [SAFETENSORS.single, SAFETENSORS.index, TORCH.single, TORCH.index];
        Err(RuntimeError::bad_input(dir, "weights", format!("one of {}", names.join(", ")), "none"))
    }

    /// Maps the file of an adapter.
    pub fn open_adapter(dir: &Path) -> Result<Shards> {
        let mut shards = Shards::empty(dir);
        for form in &ADAPTER {
            if let Some(path) = files::find(dir, form.single)? {
                shards.add(form, path)?;
                return Ok(shards);
            }
        }
        let names = ADAPTER.each_ref().map(|form| form.single).join(" or ");
        Err(RuntimeError::bad_input(dir, "the adapter", names, "none"))
    }

    fn empty(dir: &Path) -> Shards {
        Shards { dir: dir.to_owned(), files: Vec::new(), index: None, tensors: HashMap::new() }
    }

    /// The weight files, and the index where there is one.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.index.as_deref().into_iter().chain(self.files.iter().map(|shard| shard.path.as_path()))
    }

    fn get(&self, name: &str) -> Option<&Stored> {
        self.tensors.get(name)
    }

    /// The parts of files that tensors lie in, neighbours joined, so that pages that two of them share go back too.
    fn ranges(&self, names: &[&str]) -> Vec<(usize, Range<usize>)> {
        let stored = names.iter().filter_map(|name| self.get(name));
        let mut ranges: Vec<_> = stored.map(|stored| (stored.shard, stored.range.clone())).collect();
        ranges.sort_by_key(|(shard, range)| (*shard, range.start, range.end));
        let mut joined: Vec<(usize, Range<usize>)> = Vec::new();
        for (shard, range) in ranges {
            match joined.last_mut() {
                Some((s, last)) if *s == shard && range.start <= last.end => {
                    last.end = last.end.max(range.end);
                }
                _ => joined.push((shard, range)),
            }
        }
        joined
    }

    fn add_indexed(&mut self, form: &Form, dir: &Path, index: &Path) -> Result<()> {
        let map = files::read_flat(index, FlatJson { members: MAX_INDEXED, depth: 2 })?;
        let fields = Fields { path: index, within: "", map: &map };
        let Some(weight_map) = fields.object("weight_map", "weight_map of ")? else {
            return Err(fields.wrong("weight_map", "an object", "no such field"));
        };
        // Sorted, so that the order of files, and with it every message, is the same in each run.
        let mut by_shard: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (tensor, shard) in weight_map.map {
            let name = shard.as_str().ok_or_else(|| {
                let expected = format!("the name of a {} file", form.suffix);
                weight_map.wrong(&quote(tensor), expected, describe(shard))
            })?;
            if !is_plain_file_name(name, form.suffix) {
                let expected = format!("the plain name of a {} file in the same directory", form.suffix);
                return Err(weight_map.wrong(&quote(tensor), expected, quote(name)));
            }
            by_shard.entry(name).or_default().push(tensor);
        }
        for (name, tensors) in by_shard {
            let Some(path) = files::find(dir, name)? else {
                let of = tensors.len();
                let expected = format!("a file with {} ({of} tensors)", quote(tensors[0]));
                return Err(RuntimeError::bad_input(&dir.join(name), "the file", expected, "no such file"));
            };
            let shard = self.files.len();
            self.add(form, path.clone())?;
            for tensor in tensors {
                if self.get(tensor).is_none_or(|stored| stored.shard != shard) {
                    let place = format!("tensor {}", quote(tensor));
                    return Err(RuntimeError::bad_input(&path, place, "a tensor, as the index says", "none"));
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, form: &Form, path: PathBuf) -> Result<()> {
        let map = map_file(&path)?;
        let shard = self.files.len();
        for (name, dtype, shape, range) in (form.read)(&path, &map)? {
            if name.len() > MAX_NAME_BYTES {
                let expected = format!("names of at most {MAX_NAME_BYTES} bytes");
                return Err(RuntimeError::bad_input(
                    &path,
                    format!("tensor {}", quote(&name)),
                    expected,
                    name.len(),
                ));
            }
            if let Some(other) = self.get(&name) {
                let place = format!("tensor {}", quote(&name));
                let other = self.files.get(other.shard).map_or(&path, |shard| &shard.path).display();
                let found = format!("one here and one in {other}");
                return Err(RuntimeError::bad_input(&path, place, "one tensor of this name", found));
            }
            self.tensors.insert(name, Stored { shard, dtype, shape, range });
        }
        self.files.push(Shard { path, map: Arc::new(map) });
        Ok(())
    }
}

impl TensorStore for Shards {
    fn file_of(&self, name: &str) -> &Path {
        let shard = self.get(name).map_or(0, |stored| stored.shard);
        self.files.get(shard).map_or(self.dir.as_path(), |shard| &shard.path)
    }

    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
        let stored = self.get(name)?;
        Some((&stored.shape, plain::stored_type(stored.dtype)))
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.tensors.keys().map(String::as_str))
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        let stored = self.get(name).ok_or_else(|| no_such_tensor(&self.dir, name))?;
        let path = &self.files[stored.shard].path;
        let place = || format!("tensor {}", quote(name));
        let cols = stored.shape.last().copied().unwrap_or(1);
        let outer = &stored.shape[..stored.shape.len().saturating_sub(1)];
        let rows = outer.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
        let found = stored.range.len();
        let wrong = |expected: Option<u64>| {
            let expected =
                expected.map_or_else(|| "less than 2^64 bytes".to_owned(), |n| format!("{n} bytes"));
            RuntimeError::bad_input(path, place(), expected, format!("{found} bytes"))
        };
        let rows = rows.ok_or_else(|| wrong(None))?;
        let bytes = self.raw(name)?;
        match plain::stored_type(stored.dtype).native() {
            Some(quant) => Tensor::new(rows, cols, quant, BlockSize::default(), bytes).map_err(wrong),
            None => {
                let values =
                    PlainRows::new(stored.dtype, rows, cols, bytes).map_err(|unread| match unread {
                        plain::Unread::Length(expected) => wrong(expected),
                        plain::Unread::Type => RuntimeError::Unsupported {
                            path: path.clone(),
                            what: format!("type {:?} of tensor {}", stored.dtype, quote(name)),
                            supported: "supported: F16, BF16, F32, F64, F8_E4M3, F8_E5M2".into(),
                        },
                    })?;
                Ok(Tensor::foreign(rows, cols, Arc::new(values)))
            }
        }
    }

    fn raw(&self, name: &str) -> Result<TensorBytes> {
        let stored = self.get(name).ok_or_else(|| no_such_tensor(&self.dir, name))?;
        let Shard { path, map } = &self.files[stored.shard];
        if stored.range.start > stored.range.end || stored.range.end > map.len() {
            let place = format!("tensor {}", quote(name));
            let (expected, found) = (format!("bytes below {}", map.len()), format!("{:?}", stored.range));
            return Err(RuntimeError::bad_input(path, place, expected, found));
        }
        Ok(TensorBytes::Mapped(map.clone(), stored.range.clone()))
    }

    fn release(&self, names: &[&str]) {
        for (shard, range) in self.ranges(names) {
            self.files[shard].map.release(range);
        }
    }
}

/// By name.
fn read_torch(path: &Path, file: &[u8]) -> Result<Vec<FoundTensor>> {
    let tensors = pickle::read(path, file)?;
    Ok(tensors.into_iter().map(|tensor| (tensor.name, tensor.dtype, tensor.shape, tensor.range)).collect())
}

/// Whether a value of `weight_map` stays in the model's directory. The index comes with the download; a name such as
/// `../../key` must not make this program read, and a converter publish, another file of the user.
fn is_plain_file_name(name: &str, suffix: &str) -> bool {
    let mut components = Path::new(name).components();
    let single = matches!((components.next(), components.next()), (Some(Component::Normal(_)), None));
    single && !name.contains(['/', '\\', ':']) && !name.contains(char::is_control) && name.ends_with(suffix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_weight_files_in_the_same_directory_are_followed() {
        assert!(is_plain_file_name("model-00001-of-00002.safetensors", ".safetensors"));
        assert!(is_plain_file_name("pytorch_model-00001-of-00002.bin", ".bin"));
        assert!(!is_plain_file_name("model-00001-of-00002.safetensors", ".bin"));
        assert!(!is_plain_file_name("../pytorch_model-00001-of-00002.bin", ".bin"));
        for name in [
            "",
            ".",
            "..",
            "../x.safetensors",
            "/etc/x.safetensors",
            "a/b.safetensors",
            "a\\b.safetensors",
            "C:x.safetensors",
            "x\0.safetensors",
            "x\u{1b}[2J.safetensors",
            "./x.safetensors",
            "x.safetensors/",
            "pytorch_model.bin",
        ] {
            assert!(!is_plain_file_name(name, ".safetensors"), "{name:?}");
        }
    }
}
