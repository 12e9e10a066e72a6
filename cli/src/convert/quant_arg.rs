//! The words for formats and recipes on the command line.

use std::str::FromStr;

use clap::ValueEnum;
use qsf_converter::plan::{GgufRecipe, GroupScheme, Recipe};

/// A format that can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// One QSF file, for qsf-run
    Qsf,
    /// One GGUF file, for llama.cpp and programs that use it (Ollama, LM Studio, Jan)
    Gguf,
    /// A HuggingFace directory (safetensors), for transformers, vLLM and lm-eval: unquantized, or with the values of --quant
    Hf,
    /// A HuggingFace directory with whole numbers of 4 or 8 bits in groups, for vLLM and transformers
    CompressedTensors,
    /// A directory with whole numbers of 2 to 8 bits in groups, for mlx-lm on Apple's machines
    Mlx,
}

impl FormatArg {
    /// How names of such files end.
    pub const fn extension(self) -> &'static str {
        match self {
            FormatArg::Qsf => "qsf",
            FormatArg::Gguf => "gguf",
            FormatArg::Hf => "hf",
            FormatArg::CompressedTensors => "compressed-tensors",
            FormatArg::Mlx => "mlx",
        }
    }

    /// Whether what is written is a directory, by the end of its name.
    pub fn is_directory(extension: &str) -> bool {
        [FormatArg::Hf, FormatArg::CompressedTensors, FormatArg::Mlx]
            .iter()
            .any(|format| format.extension() == extension)
    }
}

/// `--quant`: a recipe of a format. Floats are one name in those that have them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuantArg {
    /// Of QSF files.
    Qsf(Recipe),
    /// Of GGUF files.
    Gguf(GgufRecipe),
    /// Of directories for compressed-tensors or MLX.
    Groups(GroupScheme),
}

impl FromStr for QuantArg {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        if let Ok(scheme) = s.parse::<GroupScheme>() {
            return Ok(QuantArg::Groups(scheme));
        }
        let of_gguf = s.parse::<GgufRecipe>();
        match s.parse::<Recipe>() {
            Ok(recipe) => Ok(QuantArg::Qsf(recipe)),
            Err(error) => of_gguf.map(QuantArg::Gguf).map_err(|of_gguf| {
                // Who writes a name of llama.cpp means its types.
                if s.contains('_') || GgufRecipe::is_foreign(s) {
                    of_gguf
                } else {
                    format!("{error}; --help has the recipes of GGUF files")
                }
            }),
        }
    }
}
