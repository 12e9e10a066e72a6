//! The bytes of a tensor, wherever they are.

use std::ops::Range;
use std::sync::Arc;

use qsf_format::FileMap;

use crate::arena::Region;

/// The bytes of a tensor: a range of a mapped file, or of memory of our own.
#[derive(Debug, Clone)]
pub enum TensorBytes {
    /// In place in a file.
    Mapped(Arc<FileMap>, Range<usize>),
    /// Decompressed, transposed or converted.
    Owned(Arc<Vec<u8>>, Range<usize>),
    /// In memory that was set aside for it.
    Region(Arc<Region>, Range<usize>),
}

impl TensorBytes {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.part(0..self.len())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            TensorBytes::Mapped(_, range) | TensorBytes::Owned(_, range) | TensorBytes::Region(_, range) => {
                range.len()
            }
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Some of the bytes, which are about to be used.
    ///
    /// # Panics
    /// When the part exceeds the bytes.
    pub fn part(&self, part: Range<usize>) -> &[u8] {
        let range = self.range_of(part);
        match self {
            TensorBytes::Mapped(map, _) => map.used(range),
            TensorBytes::Owned(vec, _) => &vec[range],
            TensorBytes::Region(region, _) => &region[range],
        }
    }

    /// Whether using them means checking them ([`FileMap::used`]).
    pub fn is_settled(&self) -> bool {
        match self {
            TensorBytes::Mapped(map, _) => map.is_settled(),
            TensorBytes::Owned(..) | TensorBytes::Region(..) => true,
        }
    }

    fn range_of(&self, part: Range<usize>) -> Range<usize> {
        assert!(part.start <= part.end && part.end <= self.len(), "bytes {part:?} of fewer");
        match self {
            TensorBytes::Mapped(_, all) | TensorBytes::Owned(_, all) | TensorBytes::Region(_, all) => {
                all.start + part.start..all.start + part.end
            }
        }
    }

    /// A part of the bytes, shared.
    ///
    /// # Panics
    /// When the part exceeds the bytes.
    pub fn slice(&self, part: Range<usize>) -> TensorBytes {
        let range = self.range_of(part);
        match self {
            TensorBytes::Mapped(map, _) => TensorBytes::Mapped(map.clone(), range),
            TensorBytes::Owned(vec, _) => TensorBytes::Owned(vec.clone(), range),
            TensorBytes::Region(region, _) => TensorBytes::Region(region.clone(), range),
        }
    }
}

impl From<Vec<u8>> for TensorBytes {
    fn from(bytes: Vec<u8>) -> Self {
        let range = 0..bytes.len();
        TensorBytes::Owned(Arc::new(bytes), range)
    }
}
