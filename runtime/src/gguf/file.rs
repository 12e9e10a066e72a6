//! Opens GGUF files: header, metadata and tensor descriptions are read and checked, tensors stay where they are.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::FileMap;
use qsf_format::printable::quote;

use super::cursor::Cursor;
use super::descriptor::{self, GgufTensor};
use super::metadata::Metadata;
use super::split::Split;
use crate::error::{Result, RuntimeError};
use crate::mapped::map_file;

const MAGIC: [u8; 4] = *b"GGUF";

/// A model in one GGUF file or in several.
#[derive(Debug)]
pub struct GgufFile {
    /// What the file, or the first one, says of the model.
    pub metadata: Metadata,
    /// All tensors, in the order of the files.
    pub tensors: Vec<GgufTensor>,
    /// The files.
    pub shards: Vec<GgufShard>,
}

/// One file of a model.
#[derive(Debug)]
pub struct GgufShard {
    /// The file.
    pub path: PathBuf,
    /// All of it.
    pub map: Arc<FileMap>,
}

/// Whether `path` is a file that begins as GGUF files do.
pub fn is_gguf(path: &Path) -> bool {
    let mut magic = [0; 4];
    // Nothing but a regular file: opening a pipe would wait for its writer.
    fs::metadata(path).is_ok_and(|found| found.is_file())
        && File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok()
        && magic == MAGIC
}

impl GgufFile {
    /// Opens a file and, where it is the first of several, those beside it.
    ///
    /// # Errors
    /// When one is missing, no GGUF file of version 2 or 3, damaged or cut short.
    pub fn open(path: &Path) -> Result<GgufFile> {
        let (shard, metadata, tensors) = open_shard(path, 0)?;
        let split = Split::read(path, &metadata)?;
        let mut file = GgufFile { metadata, tensors, shards: vec![shard] };
        if let Some(split) = split {
            for number in 1..split.count {
                let (shard, metadata, tensors) = open_shard(&split.path(path, number)?, number as usize)?;
                split.check(&metadata, number)?;
                file.shards.push(shard);
                file.tensors.extend(tensors);
            }
            split.check_tensors(&file.metadata, file.tensors.len())?;
            file.refuse_doubled()?;
        }
        Ok(file)
    }

    /// The file that was opened.
    pub fn path(&self) -> &Path {
        self.metadata.path()
    }

    /// The bytes of a tensor of this file.
    pub fn bytes(&self, tensor: &GgufTensor) -> &[u8] {
        &self.shards[tensor.shard].map[tensor.range.clone()]
    }

    fn refuse_doubled(&self) -> Result<()> {
        let mut seen = HashMap::new();
        for tensor in &self.tensors {
            if let Some(other) = seen.insert(tensor.name.as_str(), tensor.shard) {
                let found = format!("one here and one in {}", self.shards[other].path.display());
                let place = format!("tensor {}", quote(&tensor.name));
                let path = &self.shards[tensor.shard].path;
                return Err(RuntimeError::bad_input(path, place, "one tensor of this name", found));
            }
        }
        Ok(())
    }
}

fn open_shard(path: &Path, shard: usize) -> Result<(GgufShard, Metadata, Vec<GgufTensor>)> {
    let map = map_file(path)?;
    let mut cursor = Cursor::new(path, &map);
    check_start(path, &mut cursor)?;
    let tensor_count = descriptor::read_count(&mut cursor)?;
    let key_count = Metadata::read_count(&mut cursor)?;
    let metadata = Metadata::read(path, &mut cursor, &map, key_count)?;
    let tensors = descriptor::read(path, &mut cursor, &metadata, tensor_count, shard, map.len())?;
    Ok((GgufShard { path: path.to_owned(), map: Arc::new(map) }, metadata, tensors))
}

/// Magic and version.
fn check_start(path: &Path, cursor: &mut Cursor<'_>) -> Result<()> {
    let magic = cursor.take(MAGIC.len() as u64, "the start")?;
    if magic != MAGIC {
        let found = format!("{magic:?}");
        return Err(RuntimeError::bad_input(path, "the start", format!("{MAGIC:?} (GGUF)"), found));
    }
    let unsupported = |what: &str, supported: &str| RuntimeError::Unsupported {
        path: path.to_owned(),
        what: what.to_owned(),
        supported: supported.to_owned(),
    };
    match cursor.u32("the version")? {
        2 | 3 => Ok(()),
        1 => Err(unsupported("GGUF version 1", "write the file anew with a current converter (2 or 3)")),
        // No version comes near 65536: this is a small number with its bytes the other way round.
        other if other & 0xffff == 0 => {
            Err(unsupported("a big-endian GGUF file", "write it anew in little-endian order"))
        }
        other => Err(unsupported(&format!("GGUF version {other}"), "versions 2 and 3 are")),
    }
}
