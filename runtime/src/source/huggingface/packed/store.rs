//! A store that shows packed matrices as one tensor each.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt::Debug;
use std::path::Path;

use qsf_format::printable::quote;

use super::matrix::PackedMatrix;
use super::method::Method;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::TensorStore;
use crate::tensor::{StoredType, Tensor, TensorBytes};

/// A store whose packed matrices are each one tensor.
#[derive(Debug)]
pub(in crate::source::huggingface) struct PackedStore {
    inner: Box<dyn TensorStore>,
    /// By the name of the matrix.
    packed: HashMap<String, Box<dyn PackedMatrix>>,
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
        let mut packed: BTreeMap<String, Box<dyn PackedMatrix>> = BTreeMap::new();
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
