//! Types of ggml whose codes are points of a grid for 4 or 8 values: `IQ3`, `IQ2`, `IQ1`.
//!
//! | File | Duty |
//! |---|---|
//! | `shape` | what the types are: width of points, signs, shifts, scales |
//! | `codebook` | the point nearest to weighted values, by looking at all of them |
//! | `signed` | the same with signs and shifts: the values of eight columns |
//! | `search` | the scale of one group of columns |
//! | `coder` | a type under feedback and descent |
//! | `units` | the scale over the scales of a block |
//! | `pack` | scales and points as bytes |
//! | `rows` | whole rows |

mod codebook;
mod coder;
mod pack;
mod rows;
mod search;
mod shape;
mod signed;
mod units;

pub(super) use rows::PointRows;
pub(super) use shape::point_shape_of;
