//! A page about files, and a model card.
//!
//! | File | Duty |
//! |---|---|
//! | `reading.rs` | The files, each read once |
//! | `facts.rs` | What is said of a file |
//! | `gguf_facts.rs` | What a GGUF file says of itself |
//! | `page.rs` | The page as a whole, and the section of a file; `style.css` how it looks |
//! | `files_table.rs` | The table of files, and what keeps its lines from being compared |
//! | `models.rs` | Which files are of one model, what it is called, which files others beat |
//! | `figure.rs` | Numbers as people read them |
//! | `chart.rs`, `axis.rs`, `labels.rs` | Size against divergence, drawn; where values and ticks lie, and labels |
//! | `heat_map.rs` | Bits or errors of the matrices, layer by layer |
//! | `tensor_errors.rs` | Errors of all tensors |
//! | `importance.rs` | Importance of layers, beside the map of bits |
//! | `provenance.rs` | Sources, options, checksums |
//! | `card.rs` | The model card |
//! | `escape.rs` | Text of strangers in HTML, Markdown and YAML |

mod axis;
mod card;
mod chart;
mod escape;
mod facts;
mod figure;
mod files_table;
mod gguf_facts;
mod heat_map;
mod importance;
mod labels;
mod models;
mod page;
mod provenance;
mod reading;
mod tensor_errors;

pub use card::{CardFields, card};
pub use facts::FileFacts;
pub use page::page;
pub use reading::read_files;
