//! `qsf-convert`: its command line, and what it does by it.
//!
//! | File | Duty |
//! |---|---|
//! | `args`, `help` | the flags, and how their help is arranged |
//! | `quant_arg` | the words for formats and recipes |
//! | `format` | which format is asked for, and in which types |
//! | `choose` | from flags to the options of a conversion |
//! | `model` | the model that MODEL names, and what OUT is called |
//! | `outputs` | what is written, and must not be what is read |
//! | `make` | the conversion |
//! | `named` | command lines whose options come by name, from another language |
//! | `embed` | adapters put into a file |
//! | `stats` | statistics files without a conversion |
//! | `ram` | the most memory that it may take |
//! | `report`, `stats_report` | what is printed of a conversion, and of statistics files |
//! | `demo` | `--demo` |
//! | `run` | everything that the program does and prints |

mod args;
mod choose;
mod demo;
mod embed;
mod format;
mod help;
mod make;
mod model;
mod named;
mod outputs;
mod quant_arg;
mod ram;
mod report;
mod run;
mod stats;
mod stats_report;

pub use args::ConvertArgs;
pub use demo::write_demo_model;
pub use named::{convert_json, parse_named};
pub use run::{command, job_process, main, program};
pub use stats::{StatisticsDemand, statistics_demand, statistics_json};
