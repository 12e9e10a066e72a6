//! Rows of Parquet files, as data sets of the hub are stored
//! (<https://github.com/apache/parquet-format>, with its `parquet.thrift`).
//!
//! Rows come one at a time, as JSON. What is kept in memory is one page of each column that was asked for, and its dictionary.
//! Sizes that a file states are compared with the bytes that there are before they are believed.
//!
//! | File | Duty |
//! |---|---|
//! | `rows` | one row after another |
//! | `record` | a row's values as JSON |
//! | `column` | one column's values with their levels |
//! | `values`, `runs` | encodings of values; runs of levels and of indices |
//! | `pages` | pages, checked and decompressed |
//! | `footer`, `schema` | what columns there are, and where |
//! | `thrift` | the encoding of footer and page headers |
//! | `flaw` | what is wrong with a file |

mod column;
mod flaw;
mod footer;
mod pages;
mod record;
mod rows;
mod runs;
mod schema;
#[cfg(test)]
mod tests;
mod thrift;
mod values;

pub use rows::ParquetRows;

/// What a Parquet file begins and ends with.
pub const MAGIC: &[u8; 4] = b"PAR1";
