//! Checkpoints that other tools have quantized: a store that shows the tensors in which they pack a matrix (codes, scales,
//! zeros) as the one matrix that they stand for. No matrix is expanded: rows are decoded as they are needed.

mod awq;
mod compressed;
mod gptq;
mod method;
mod mlx;
mod part;
mod rows;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::path::Path;

use qsf_format::printable::quote;

use crate::error::{Result, RuntimeError};
use crate::source::mapping::TensorStore;
use crate::tensor::{StoredType, Tensor, TensorBytes};

pub(super) use method::{Method, read_method};

/// A matrix packed in several tensors, whose types and shapes have been checked against one another.
pub(super) trait Packed: Debug + Send + Sync {
    /// Dimensions, slowest first: outputs x inputs, before them experts.
    fn shape(&self) -> &[usize];

    /// How its values are stored.
    fn stored_type(&self) -> StoredType;

    /// The names of the tensors that it is packed in, that of its codes first.
    fn parts(&self) -> Vec<&str>;

    /// Checks what decides whether it can be loaded, beyond types and shapes.
    fn check(&self, store: &dyn TensorStore) -> Result<()> {
        let _ = store;
        Ok(())
    }

    /// The matrix, of rows that are decoded one at a time.
    fn load(&self, store: &dyn TensorStore) -> Result<Tensor>;
}

/// A store whose packed matrices are each one tensor.
#[derive(Debug)]
pub(super) struct PackedStore {
    inner: Box<dyn TensorStore>,
    /// By the name of the matrix.
    packed: HashMap<String, Box<dyn Packed>>,
    /// Tensors that are parts of those.
    hidden: HashSet<String>,
}

impl PackedStore {
    /// `inner` with its matrices as `method` packs them; `inner` itself when it has none.
    ///
    /// # Errors
    /// A part is missing, of another type, or of a shape that contradicts the others or the configuration.
    pub fn wrap(inner: Box<dyn TensorStore>, method: &Method) -> Result<Box<dyn TensorStore>> {
        // Sorted, so that the tensor that a message names is the same in each run.
        let names: BTreeSet<&str> = inner.names().collect();
        let mut packed: BTreeMap<String, Box<dyn Packed>> = BTreeMap::new();
        for name in names {
            if let Some((stem, matrix)) = method.matrix(name, &*inner)? {
                packed.insert(format!("{stem}.weight"), matrix);
            }
        }
        let mut hidden = HashSet::new();
        for (name, matrix) in &packed {
            let parts = matrix.parts();
            if !parts.contains(&name.as_str()) && inner.describe(name).is_some() {
                let expected = format!("this tensor or {}, not both", quote(parts[0]));
                let place = format!("tensor {}", quote(name));
                return Err(RuntimeError::bad_input(inner.file_of(name), place, expected, "both"));
            }
            hidden.extend(parts.into_iter().map(str::to_owned));
        }
        if packed.is_empty() {
            return Ok(inner);
        }
        Ok(Box::new(PackedStore { inner, packed: packed.into_iter().collect(), hidden }))
    }
}

impl TensorStore for PackedStore {
    fn file_of(&self, name: &str) -> &Path {
        let part = self.packed.get(name).and_then(|matrix| matrix.parts().first().copied());
        self.inner.file_of(part.unwrap_or(name))
    }

    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
        match self.packed.get(name) {
            Some(matrix) => Some((matrix.shape(), matrix.stored_type())),
            None if self.hidden.contains(name) => None,
            None => self.inner.describe(name),
        }
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        let plain = self.inner.names().filter(|&name| !self.hidden.contains(name));
        Box::new(plain.chain(self.packed.keys().map(String::as_str)))
    }

    fn check(&self, name: &str) -> Result<()> {
        match self.packed.get(name) {
            Some(matrix) => matrix.check(&*self.inner),
            None => self.inner.check(name),
        }
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        match self.packed.get(name) {
            Some(matrix) => matrix.load(&*self.inner),
            None => self.inner.load(name),
        }
    }

    fn raw(&self, name: &str) -> Result<TensorBytes> {
        self.inner.raw(name)
    }

    fn adds_nothing(&self, name: &str) -> bool {
        let beside = |stem: &str| self.packed.contains_key(&format!("{stem}.weight"));
        let zeros = || self.load(name).is_ok_and(|bias| bias.to_f32().iter().all(|&value| value == 0.0));
        name.strip_suffix(".bias").is_some_and(beside) && zeros()
    }

    fn release(&self, names: &[&str]) {
        let parts = |&name: &&'_ str| match self.packed.get(name) {
            Some(matrix) => matrix.parts().into_iter().map(str::to_owned).collect(),
            None => vec![name.to_owned()],
        };
        let parts: Vec<String> = names.iter().flat_map(parts).collect();
        self.inner.release(&parts.iter().map(String::as_str).collect::<Vec<_>>());
    }
}
