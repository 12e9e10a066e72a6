//! The QSF file format. `SPEC.md` beside this crate says it byte by byte; these types are the same in Rust.
//!
//! - [`QsfFile`] opens a file and hands out checked parts; [`verify`] checks all of it.
//! - [`QsfWriter`] writes a file from front to back.
//! - [`QuantType`], [`CodeTables`], [`Layout`], [`TensorKind`], [`ModelConfig`] and [`Meta`] are the vocabulary that the other crates share.

mod alignment;
mod chunk;
mod clusters;
mod code_tables;
mod codes;
mod decode;
mod decode_learned;
mod directory;
mod error;
mod exits;
mod failure;
mod file_bytes;
mod file_part;
mod file_size;
mod header;
mod human_bytes;
mod layer_index;
mod layout;
mod meta;
mod model_config;
mod outliers;
mod outline;
pub mod panels;
mod partial_file;
pub mod printable;
mod quant_type;
mod reader;
mod tensor_header;
mod tensor_kind;
mod verify;
mod writer;

pub use alignment::{ALIGN, CHUNK_BYTES, LAYER_ALIGN};
pub use chunk::{Chunk, ChunkDecoder, Compression, MAX_EXPANSION};
pub use clusters::{Containment, MAX_CLUSTERS, VocabClusters};
pub use code_tables::{BUILT_IN, CodeTables, Grid, SumTables};
pub use codes::CodedRows;
pub use decode::{decode_block, decode_panel_row, decode_row};
pub use decode_learned::step_of_column;
pub use directory::{Section, SectionTag};
pub use error::{Damage, FormatError};
pub use exits::{EarlyExits, LayerExit};
pub use failure::Failure;
pub use file_bytes::{FileBytes, RawBytes};
pub use file_size::FileParts;
pub use header::{FileHeader, HEADER_BYTES, HeaderArchitecture, MIXED, NO_TOKEN, VERSION};
pub use human_bytes::human_bytes;
pub use layer_index::{INDEX_ENTRY_BYTES, LayerEntry};
pub use layout::Layout;
pub use meta::{META_VERSION, Meta, Provenance, SourceFile, TensorRecord};
pub use model_config::{
    Activation, Experts, ModelConfig, NormConfig, NormKind, NormPlacement, PositionConfig, QkNorm, Residual,
    RopeScaling, SlidingWindow,
};
pub use outliers::{MAX_OUTLIER_COLS, OutlierTable, Outliers};
pub use outline::Outline;
pub use partial_file::PartialFile;
pub use quant_type::{BlockSize, QuantType};
pub use reader::{EmbeddingInfo, MAX_SECTION_BYTES, QsfFile, TensorGroup};
pub use tensor_header::TensorEntry;
pub use tensor_kind::{TensorId, TensorKind};
pub use verify::{Verification, verify, verify_file};
pub use writer::{CompleteFile, EncodedTensor, QsfWriter, WriterOptions, stored_section_bytes};
