//! The tensors in which a matrix is packed, each checked for type and shape before it is used.

use qsf_format::printable::quote;

use super::rows::is_float;
use crate::error::{Result, RuntimeError};
use crate::source::mapping::TensorStore;
use crate::source::transpose::transpose;
use crate::tensor::{StoredType, Tensor, TensorBytes};

/// Names of the types of 32-bit words in safetensors. Their sign means nothing here.
const WORDS: [&str; 2] = ["I32", "U32"];

/// One tensor of several in which a matrix is packed.
#[derive(Clone, Copy)]
pub(super) struct PackedPart<'a> {
    store: &'a dyn TensorStore,
    name: &'a str,
    shape: &'a [usize],
    stored: StoredType,
}

impl<'a> PackedPart<'a> {
    /// The tensor `name` of `store`, without which `of` is not complete.
    pub fn new(store: &'a dyn TensorStore, name: &'a str, of: &str) -> Result<PackedPart<'a>> {
        let Some((shape, stored)) = store.describe(name) else {
            let expected = format!("a tensor of that name beside {}", quote(of));
            let place = format!("tensor {}", quote(name));
            return Err(RuntimeError::bad_input(store.file_of(of), place, expected, "none"));
        };
        Ok(PackedPart { store, name, shape, stored })
    }

    /// Dimensions, slowest first.
    pub fn shape(self) -> &'a [usize] {
        self.shape
    }

    /// An error about this tensor.
    pub fn wrong(self, expected: impl ToString, found: impl ToString) -> RuntimeError {
        let place = format!("tensor {}", quote(self.name));
        RuntimeError::bad_input(self.store.file_of(self.name), place, expected, found)
    }

    /// The two dimensions of a matrix with values in it.
    pub fn matrix_shape(self) -> Result<[usize; 2]> {
        match *self.shape {
            [rows, cols] if rows > 0 && cols > 0 => Ok([rows, cols]),
            _ => Err(self.wrong("two dimensions, none of them 0", format!("shape {:?}", self.shape))),
        }
    }

    /// An error unless the shape is this one, for the reason given.
    pub fn need_shape(self, expected: &[usize], why: &str) -> Result<()> {
        if self.shape == expected {
            return Ok(());
        }
        Err(self.wrong(format!("shape {expected:?} ({why})"), format!("shape {:?}", self.shape)))
    }

    /// An error unless this holds 32-bit words.
    pub fn need_words(self) -> Result<()> {
        if is_words(self.stored) {
            return Ok(());
        }
        Err(self.wrong("32-bit words (I32 or U32)", self.stored))
    }

    /// An error unless this holds floats of 16 or 32 bits.
    pub fn need_floats(self) -> Result<()> {
        if is_float(self.stored) {
            return Ok(());
        }
        Err(self.wrong("floats (F16, BF16 or F32)", self.stored))
    }

    /// An error unless this holds bytes.
    pub fn need_bytes(self) -> Result<()> {
        if self.stored.to_string() == "U8" {
            return Ok(());
        }
        Err(self.wrong("bytes (U8)", self.stored))
    }

    /// The 32-bit words, in place.
    pub fn words(self) -> Result<TensorBytes> {
        self.need_words()?;
        self.raw(size_of::<u32>())
    }

    /// The 32-bit words as numbers.
    pub fn numbers(self) -> Result<Vec<u32>> {
        let bytes = self.words()?;
        let (words, _) = bytes.as_slice().as_chunks();
        Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// An error unless the numbers of this tensor, one for each input, are groups of so many.
    pub fn need_below(self, numbers: &[u32], groups: usize) -> Result<()> {
        match numbers.iter().enumerate().find(|(_, group)| **group as usize >= groups) {
            None => Ok(()),
            Some((input, &group)) => {
                let found = format!("{} at input {input}", group as i32);
                Err(self.wrong(format!("groups below {groups}"), found))
            }
        }
    }

    /// The 64-bit integers, in place.
    pub fn integers(self) -> Result<TensorBytes> {
        if self.stored.to_string() != "I64" {
            return Err(self.wrong("64-bit integers (I64)", self.stored));
        }
        self.raw(size_of::<i64>())
    }

    /// The bytes, in place.
    pub fn bytes(self) -> Result<TensorBytes> {
        self.need_bytes()?;
        self.raw(1)
    }

    fn raw(self, width: usize) -> Result<TensorBytes> {
        let expected = self.shape.iter().try_fold(width, |all, &n| all.checked_mul(n));
        let bytes = self.store.raw(self.name)?;
        if Some(bytes.as_slice().len()) == expected {
            return Ok(bytes);
        }
        let expected = expected.map_or_else(|| "fewer values".to_owned(), |n| format!("{n} bytes"));
        Err(self.wrong(expected, format!("{} bytes", bytes.as_slice().len())))
    }

    /// The floats, in place.
    pub fn floats(self) -> Result<Tensor> {
        self.need_floats()?;
        self.store.load(self.name)
    }

    /// The floats with rows and columns exchanged, in the type they have.
    pub fn floats_transposed(self) -> Result<Tensor> {
        let stored = self.floats()?;
        let native = stored.native().ok_or_else(|| self.wrong("floats", self.stored))?;
        let [rows, cols] = self.matrix_shape()?;
        if (stored.rows(), stored.cols()) != (rows, cols) {
            return Err(
                self.wrong(format!("{rows} x {cols}"), format!("{} x {}", stored.rows(), stored.cols()))
            );
        }
        let bytes = transpose(native.bytes(), native.row_bytes() / cols, cols, 0..cols);
        Tensor::new(cols, rows, native.quant(), native.block(), bytes.into())
            .map_err(|_| self.wrong("whole values", format!("{} bytes", native.bytes().len())))
    }
}

/// Whether a tensor of this type holds 32-bit words.
pub(super) fn is_words(stored: StoredType) -> bool {
    matches!(stored, StoredType::Foreign(foreign) if WORDS.contains(&foreign.name))
}
