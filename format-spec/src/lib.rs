//! The QSF file format. `SPEC.md` beside this crate says it byte by byte; these types are the same in Rust.
//!
//! - [`QsfFile`] opens a file and hands out checked parts; [`verify`] checks all of it.
//! - [`QsfWriter`] writes a file from front to back.
//! - [`QuantType`], [`CodeTables`], [`Layout`], [`TensorKind`], [`ModelConfig`] and [`Meta`] are the vocabulary that the other crates share.
//!
//! A file of one layer, written and read back:
//!
//! ```
//! use qsf_format::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let path = folder.path().join("tiny.qsf");
//! let model = ModelConfig {
//!     architecture: "llama".into(),
//!     layers: 1,
//!     hidden: 4,
//!     heads: 1,
//!     kv_heads: 1,
//!     head_dim: 4,
//!     ffn: 8,
//!     vocab: 3,
//!     max_positions: 16,
//!     position: PositionConfig::rope(10_000.0, None),
//!     tied_head: true,
//!     ..ModelConfig::default()
//! };
//! let (block, compression) = (BlockSize::B64, Compression::None);
//! let options = WriterOptions { force: false, block, compression, tables: CodeTables::default() };
//! let floats = |count: u32| (0..count).flat_map(|i| (i as f32).to_le_bytes()).collect::<Vec<u8>>();
//!
//! // The parts come in the order in which they stand in the file.
//! let mut writer = QsfWriter::create(&path, model.layers, options)?;
//! writer.begin_embedding(QuantType::F32, Layout::Rows, model.vocab, model.hidden)?;
//! writer.embedding_rows(&floats(model.vocab * model.hidden))?;
//! let (quant, layout, cols) = (QuantType::F32, Layout::Rows, model.hidden);
//! writer.layer(vec![EncodedTensor { kind: TensorKind::AttnNorm, part: 0, rows: 1, cols, quant, layout, data: floats(4) }], None)?;
//! writer.begin_final(model.tied_head)?;
//! writer.begin_tensor(TensorKind::FinalNorm, 1, cols, quant, layout)?;
//! writer.tensor_rows(&floats(4))?;
//! writer.end_final();
//! let (tool, options) = ("an example".into(), serde_json::Map::new());
//! let provenance = Provenance { tool, sources: Vec::new(), requantized_from: Vec::new(), options };
//! let meta = Meta { version: META_VERSION, model, provenance, tensors: Vec::new() };
//! writer.finish(&meta, quant.id(), None, None)?;
//!
//! // What is read was checked on the way; `verify` checks the rest.
//! let file = QsfFile::open(&path)?;
//! assert_eq!(file.meta()?, Some(meta));
//! assert_eq!(file.embedding(&file.embedding_info()?)?.as_slice(), floats(12));
//! assert_eq!(file.layer(0)?.tensors[0].kind, Some(TensorKind::AttnNorm));
//! assert_eq!(verify(&path)?.layers, 1);
//! # Ok(())
//! # }
//! ```

mod adapters;
mod alignment;
mod arriving;
mod block_size;
mod bounded_json;
mod built_in;
mod chunk;
mod chunk_span;
mod clusters;
mod code_tables;
mod codes;
mod decode;
mod decode_learned;
mod deferred_checks;
mod directory;
mod encoding;
mod error;
mod exits;
mod failure;
mod file_bytes;
mod file_map;
mod file_part;
mod file_size;
mod header;
#[cfg(target_os = "linux")]
mod huge_pages;
mod human_bytes;
mod layer_index;
mod layout;
mod meta;
mod model_config;
mod outliers;
mod outline;
#[cfg(test)]
mod page_examples;
mod page_size;
pub mod panels;
mod partial_dir;
mod partial_file;
mod partial_files;
pub mod printable;
mod quant_type;
mod reader;
mod row_parts;
mod side_file;
mod sum_tables;
mod tensor_header;
mod tensor_kind;
mod tensor_number;
mod trust;
mod type_table;
mod unknown_kind;
mod verify;
mod writer;
mod zstd_frame;

pub use adapters::{StoredAdapter, StoredUpdate};
pub use alignment::{ALIGN, CHUNK_BYTES, LAYER_ALIGN};
pub use arriving::{ArrivingFile, Wanted};
pub use block_size::BlockSize;
pub use bounded_json::{JsonLimits, check_json, from_json};
pub use chunk::{Chunk, ChunkDecoder, Compression, MAX_EXPANSION};
pub use clusters::{Containment, MAX_CLUSTERS, VocabClusters};
pub use code_tables::{BUILT_IN, CodeTables, Grid};
pub use codes::CodedRows;
pub use decode::{decode_block, decode_panel_row, decode_row};
pub use decode_learned::{GRID_UNIT, TRELLIS_UNIT, TrellisStream, step_of_column};
pub use directory::{Section, SectionTag};
pub use encoding::{Encoding, FloatFormat, GridLevels, PanelPlane, Planes, RowCodes, TrellisState};
pub use error::{Damage, FormatError};
pub use exits::{EarlyExits, LayerExit};
pub use failure::Failure;
pub use file_bytes::{FileBytes, RawBytes};
pub use file_map::{FileMap, copied_file_bytes};
pub use file_size::FileParts;
pub use header::{FileHeader, HEADER_BYTES, HeaderArchitecture, MIXED, NO_TOKEN, VERSION};
pub use human_bytes::human_bytes;
pub use layer_index::{INDEX_ENTRY_BYTES, LayerEntry};
pub use layout::Layout;
pub use meta::{META_VERSION, Meta, Provenance, SourceFile, TensorRecord};
pub use model_config::{
    Activation, AttentionShape, ExpertGroups, Experts, FullAttention, GateClip, HalfLayers, LatentAttention,
    ModelConfig, Multipliers, NormConfig, NormKind, NormPlacement, PerLayerEmbedding, PositionConfig, QkNorm,
    QueryGrowth, Recurrent, RecurrentMixer, Residual, RopeScaling, RouterScore, SharedExperts, SharedKv,
    SlidingWindow, ValueHeads,
};
pub use outliers::{MAX_OUTLIER_COLS, OutlierTable, Outliers};
pub use outline::Outline;
pub use page_size::HUGE_PAGE;
pub use partial_dir::PartialDir;
pub use partial_file::{PartialFile, abandon_partial_files};
pub use partial_files::PartialFiles;
pub use quant_type::QuantType;
pub use reader::{EmbeddingInfo, MAX_SECTION_BYTES, QsfFile, TensorGroup};
pub use row_parts::{RowPartTable, RowParts, RowRun, SplitMatrix};
pub use side_file::{Links, open_side_file, read_side_file};
pub use sum_tables::SumTables;
pub use tensor_header::{MOST_PARTS, TensorEntry, part_name};
pub use tensor_kind::{TensorId, TensorKind};
pub use trust::{distrust, in_force, is_untrusted};
pub use unknown_kind::UnknownKind;
pub use verify::{Verification, verify, verify_file};
pub use writer::{
    CompleteFile, EncodedTensor, QsfWriter, WriterOptions, store_adapters, store_evaluation,
    stored_section_bytes,
};
