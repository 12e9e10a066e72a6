//! Values per block, which the header of a file says.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Values per block: 32, 64, 128 or 256 (header bytes 108-109; 0 there means 64).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "u16", into = "u16")]
pub struct BlockSize(u16);

impl BlockSize {
    /// The size of learned types.
    pub const B32: BlockSize = BlockSize(32);
    /// The default of the format.
    pub const B64: BlockSize = BlockSize(64);
    /// Every legal size.
    pub const ALL: [BlockSize; 4] = [BlockSize(32), BlockSize(64), BlockSize(128), BlockSize(256)];

    /// The block size of `n` values, if legal.
    pub fn new(n: u16) -> Option<BlockSize> {
        Self::ALL.into_iter().find(|b| b.0 == n)
    }

    /// Values per block.
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for BlockSize {
    fn default() -> Self {
        Self::B64
    }
}

impl fmt::Display for BlockSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<BlockSize> for u16 {
    fn from(block: BlockSize) -> u16 {
        block.0
    }
}

impl TryFrom<u16> for BlockSize {
    type Error = String;

    fn try_from(n: u16) -> Result<Self, Self::Error> {
        Self::new(n).ok_or_else(|| format!("block size {n} is not one of 32, 64, 128, 256"))
    }
}

impl FromStr for BlockSize {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse::<u16>().map_err(|e| format!("block size '{s}': {e}")).and_then(Self::try_from)
    }
}
