//! The programs `qsf-convert`, `qsf-inspect`, `qsf-eval` and `qsf-run`: their command lines, and what they print.
//!
//! | Module | Duty |
//! |---|---|
//! | [`convert`] | `qsf-convert` |
//! | [`batch`] | `qsf-convert --batch` |
//! | [`inspect`] | `qsf-inspect` |
//! | [`evaluate`] | `qsf-eval` |
//! | [`run`], [`mod@bench`] | `qsf-run`, and its measurements |
//! | [`compute`], [`model_args`], [`byte_size`] | flags that programs share |
//! | [`kept_model`] | a model that another language keeps, opened by options |
//! | [`command_line`] | from words to arguments, help, and what is wrong with them |
//! | [`console`], [`progress`], [`model_name`] | what a user sees |
//! | [`exit`], [`error_line`], [`interrupt`] | how a program ends |
//! | [`own_files`] | what is read is never written over |
//! | [`own_process`] | what this process is, and how it is started once more |
//! | [`template_process`] | where chat templates run |
//! | [`json_document`] | what is the same in all that `--json` prints |
//! | [`upload`] | files to the HuggingFace hub |
//! | [`documents`] | completions for shells, manual pages |
//!
//! Whoever has options of another kind than a command line, such as keyword arguments, gives them by name. They go through the
//! same parser:
//!
//! ```
//! use qsf_cli::batch::manifest::Given;
//! use qsf_cli::convert::{ConvertArgs, convert_json, parse_named, write_demo_model};
//! use qsf_cli::inspect::inspect_json;
//! use qsf_runtime::progress::{Cancel, Unwatched};
//!
//! # fn main() -> anyhow::Result<()> {
//! let folder = tempfile::tempdir()?;
//! let (model, small) = (folder.path().join("demo-1m"), folder.path().join("small.qsf"));
//! write_demo_model(&model)?;
//!
//! let options = [("quant".to_owned(), Given::Text("3bit".into()))];
//! let args: ConvertArgs = parse_named(&options, &[], &[], &[&model, &small])?;
//! let cpu = args.compute().start()?;
//! let made = convert_json(&args, &cpu, &Unwatched, &Cancel::default())?;
//! assert_eq!(made["weights"], 1_049_728);
//!
//! let (tensors, verify, allow_plain) = (false, true, false);
//! let found = inspect_json(&small, tensors, verify, allow_plain)?;
//! assert_eq!(found["type"], "3bit");
//! # Ok(())
//! # }
//! ```

pub mod batch;
pub mod bench;
pub mod byte_size;
pub mod command_line;
pub mod compute;
pub mod console;
pub mod convert;
pub mod documents;
pub mod error_line;
pub mod evaluate;
pub mod exit;
pub mod inspect;
pub mod interrupt;
pub mod json_document;
pub mod kept_model;
pub mod model_args;
pub mod model_name;
pub mod own_files;
pub mod own_process;
pub mod progress;
pub mod run;
pub mod template_process;
pub mod untrusted;
pub mod upload;
