//! `--huge-pages`: whether weights of a mapped file get into large pages.

use clap::{Args, ValueEnum};
use qsf_runtime::{Model, source};

use super::OpenModel;

/// Flag of programs that make texts.
#[derive(Debug, Clone, Copy, Args)]
pub struct HugePageArgs {
    /// Copy the weights of a QSF file into pages of 2 MiB while a text is made, where the system has such pages and enough memory
    /// is free beside the file (auto, without --ram-budget; Linux), or leave them where the file is mapped (off)
    #[arg(long, value_enum, value_name = "WHEN", default_value = "auto", help_heading = "Memory")]
    huge_pages: HugePagesArg,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum HugePagesArg {
    /// Where there is memory
    Auto,
    /// Never
    Off,
}

impl HugePageArgs {
    /// Lets a model that was loaded from `open` do so. Other files than QSF files are what a model is converted from.
    pub fn apply(self, model: &mut Model, open: &OpenModel) {
        if self.huge_pages == HugePagesArg::Auto && open.is_whole() && source::is_qsf(open.source().path()) {
            model.use_huge_pages();
        }
    }
}
