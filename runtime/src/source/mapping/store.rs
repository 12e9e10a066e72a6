//! Named tensors on disk.

use std::fmt::Debug;
use std::path::Path;

use qsf_format::printable::quote;

use crate::error::{Result, RuntimeError};
use crate::tensor::{StoredType, Tensor, TensorBytes};

/// Named tensors on disk. A store may wrap another one, to hand out tensors that are packed in several of its own.
pub trait TensorStore: Send + Sync + Debug {
    /// The file that holds a tensor, for messages.
    fn file_of(&self, name: &str) -> &Path;

    /// Dimensions, slowest first, and type of the tensor of this name, where there is one.
    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)>;

    /// The names of all tensors, in no order.
    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_>;

    /// The tensor as it is stored: the last dimension as columns, all others as rows; a vector as one row.
    ///
    /// # Errors
    /// When its bytes are damaged, of a type that is not read, or it is not there.
    fn load(&self, name: &str) -> Result<Tensor>;

    /// Checks that a tensor can be loaded, without the work of it where that is much.
    ///
    /// # Errors
    /// As loading it.
    fn check(&self, name: &str) -> Result<()> {
        self.load(name).map(drop)
    }

    /// The bytes of a tensor as they lie in the file, also of types that [`TensorStore::load`] does not read: codes that
    /// are packed in integers.
    ///
    /// # Errors
    /// When it is not there, or the store packs nothing in integers.
    fn raw(&self, name: &str) -> Result<TensorBytes> {
        let expected = "packed integers, which this kind of file does not have";
        Err(RuntimeError::bad_input(
            self.file_of(name),
            format!("tensor {}", quote(name)),
            expected,
            "others",
        ))
    }

    /// Whether the model computes the same without this tensor: a bias of zeros that a tool adds to every layer.
    fn adds_nothing(&self, name: &str) -> bool {
        let _ = name;
        false
    }

    /// Tells the store that these tensors are not needed soon, so that memory mapped from files can be given back.
    /// Tensors already handed out stay valid.
    fn release(&self, names: &[&str]) {
        let _ = names;
    }
}

/// An error about a tensor that a store does not have.
pub fn no_such_tensor(path: &Path, name: &str) -> RuntimeError {
    RuntimeError::bad_input(path, format!("tensor {}", quote(name)), "a tensor of that name", "none")
}
