//! Attention over cached keys and values.
//!
//! A query takes the positions that it sees in chunks of 256, counted from the start of the text. Of each chunk it gets the
//! largest score, the sum of `e^(score - largest)`, and the sum of the values with these weights; these are joined in
//! ascending order of chunks: the online softmax of Milakov and Gimelshein, arXiv 1805.02867, over blocks as in Dao et al.,
//! arXiv 2205.14135. A score is one chain of fused multiply-adds over the dimensions, each column of a sum one over the
//! positions. Keys in codes are multiplied with queries as whole numbers: exact sums over 32 dimensions, which one such chain
//! adds up. Values in codes are multiplied with weights alike: exact sums over 64 positions. So nothing depends on which queries
//! and chunks are computed together, or where.
//!
//! Queries that read the same keys and values (those of a group of heads, for one token or several) read them together.
//!
//! What is stored in fewer bits than a float, and not in codes, becomes floats just before queries read it: in registers, or 64
//! positions at a time in a room for all queries. While keys are read, the values of the chunk are fetched into the second-level
//! cache, and while values are, the keys of the next: without that, one token over a long text spends most of its time waiting for
//! memory.
//!
//! | File | Duty |
//! |---|---|
//! | `kv_type` | the types that keys and values are stored in |
//! | `codes` | 32 values as codes of a few bits |
//! | `stored`, `read`, `source` | keys or values of a head in their type; as floats; as they are stored |
//! | `layer` | those of a layer: pages, rings |
//! | `tile` | products of several queries with several vectors |
//! | `packed`, `key_codes` | queries as products take them; their products with keys in codes |
//! | `value_codes` | weighted sums of values in codes |
//! | `bytes` | both of them by a matrix unit, where codes have 8 bits |
//! | `own_unit` | that unit, for the thread |
//! | `fetch`, `lines_ahead` | what is fetched meanwhile |
//! | `chunk`, `score`, `add_values` | some queries over one chunk: softmax, scores, sums of values |
//! | `by_unit` | many queries by instructions that multiply many rows at once, where that is asked for |
//! | `tiles` | by a matrix unit in bfloat16 |
//! | `byte_tiles` | by products of bytes |
//! | `byte_columns`, `byte_queries` | keys and values of a chunk for these; queries |
//! | `byte_weights`, `byte_room` | weights of rows; buffers |
//! | `own_instructions` | whichever of both the processor has |
//! | `join` | chunks to the result of a query |
//! | `weigh`, `mass` | weights without values; how much attention positions get, and what each query gives |
//! | `queries`, `within` | what attention computes, and of which queries |
//! | `sizes` | positions of a step and of a chunk |
//! | `spread`, `scratch`, `room` | a layer's work, on all threads; what each of them keeps |
//! | `sequences` | a token of each of several sequences, at once |

mod add_values;
#[cfg(any(test, target_arch = "x86_64"))]
mod by_unit;
#[cfg(any(test, target_arch = "x86_64"))]
mod byte_columns;
#[cfg(any(test, target_arch = "x86_64"))]
mod byte_queries;
#[cfg(any(test, target_arch = "x86_64"))]
mod byte_room;
#[cfg(any(test, target_arch = "x86_64"))]
mod byte_tiles;
#[cfg(any(test, target_arch = "x86_64"))]
mod byte_weights;
mod bytes;
mod chunk;
mod codes;
mod fetch;
mod join;
mod key_codes;
mod kv_type;
mod layer;
mod lines_ahead;
mod mass;
#[cfg(target_arch = "x86_64")]
mod own_instructions;
mod own_unit;
mod packed;
mod queries;
mod read;
mod room;
mod score;
mod scratch;
mod sequences;
mod sizes;
mod source;
mod spread;
mod stored;
#[cfg(test)]
mod tests;
mod tile;
#[cfg(any(test, target_arch = "x86_64"))]
mod tiles;
mod value_codes;
mod weigh;
mod within;

pub use kv_type::{KvType, KvTypes};
pub use layer::{KvLayer, KvShape};
pub use queries::Attention;
pub use sequences::QueryOfOne;
pub use spread::AttentionBuffer;
