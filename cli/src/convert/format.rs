//! Which format is asked for, and in which types: by `--to`, by the name of the output, or by the name of a recipe.

use std::path::Path;

use qsf_converter::SavedPlan;
use qsf_converter::plan::{GgufRecipe, GroupScheme, Recipe, nearest_type};
use qsf_format::{BlockSize, QuantType};
use qsf_runtime::RuntimeError;

use super::args::{CompressArg, ConvertArgs};
use super::quant_arg::{FormatArg, QuantArg};

/// What is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Qsf(Recipe),
    Gguf(GgufRecipe),
    /// A directory, with the values of this; without, those of the source.
    Hf(Option<QuantArg>),
    /// A directory for compressed-tensors or MLX.
    Groups(GroupScheme),
}

impl Wanted {
    /// What a command line asks for.
    ///
    /// # Errors
    /// When what it says of the format contradicts itself.
    pub fn of(args: &ConvertArgs) -> Result<Wanted, RuntimeError> {
        let by_name = args.out.as_deref().and_then(of_name);
        let by_quant = match args.quant {
            Some(QuantArg::Gguf(_)) => Some(FormatArg::Gguf),
            Some(QuantArg::Groups(scheme)) => Some(format_of(scheme)),
            Some(QuantArg::Qsf(recipe)) if float_of(recipe).is_none() => Some(FormatArg::Qsf),
            _ => None,
        };
        let format = args.to.or(by_name).or(by_quant).unwrap_or(FormatArg::Qsf);
        if !FormatArg::is_directory(format.extension()) {
            refuse_flags_of_directories(args)?;
        }
        match (format, args.quant) {
            (FormatArg::CompressedTensors | FormatArg::Mlx, quant) => {
                refuse_flags_of_qsf(args, &format!("a directory for {}", format.extension()))?;
                refuse_choices(args, format)?;
                refuse_name_of_file(args, format)?;
                Ok(Wanted::Groups(scheme_of(quant, format)?))
            }
            (_, Some(QuantArg::Groups(scheme))) => {
                let own = format_of(scheme).extension();
                Err(RuntimeError::Request(format!("--quant {scheme} is a scheme of {own}: give --to {own}")))
            }
            (FormatArg::Hf, quant) => {
                refuse_flags_of_qsf(args, "a HuggingFace directory")?;
                refuse_name_of_file(args, format)?;
                Ok(Wanted::Hf(quant))
            }
            (FormatArg::Qsf, Some(QuantArg::Gguf(recipe))) => {
                let nearest = nearest_type(recipe.name()).unwrap_or(Recipe::DEFAULT);
                Err(RuntimeError::Request(format!(
                    "--quant '{recipe}' is a recipe of GGUF files: give OUT.gguf or --to gguf; of the types of QSF files, the \
                     nearest is {nearest}"
                )))
            }
            (FormatArg::Qsf, Some(QuantArg::Qsf(recipe))) => Ok(Wanted::Qsf(recipe)),
            (FormatArg::Qsf, None) => Ok(Wanted::Qsf(Recipe::DEFAULT)),
            (FormatArg::Gguf, quant) => {
                refuse_flags_of_qsf(args, "a GGUF file")?;
                Self::gguf(quant)
            }
        }
    }

    fn gguf(quant: Option<QuantArg>) -> Result<Wanted, RuntimeError> {
        let recipe = match quant {
            None => GgufRecipe::DEFAULT,
            Some(QuantArg::Gguf(recipe)) => recipe,
            Some(QuantArg::Groups(_)) => GgufRecipe::DEFAULT,
            Some(QuantArg::Qsf(recipe)) => float_of(recipe).ok_or_else(|| {
                let names: Vec<&str> = GgufRecipe::all().map(|recipe| recipe.name()).collect();
                RuntimeError::Request(format!(
                    "--quant {recipe} is a type of QSF files; a GGUF file can have {}",
                    names.join(", ")
                ))
            })?,
        };
        Ok(Wanted::Gguf(recipe))
    }

    /// Name of the recipe.
    pub fn name(&self) -> &'static str {
        match self {
            Wanted::Qsf(recipe) => recipe.name(),
            Wanted::Gguf(recipe) => recipe.name(),
            Wanted::Hf(Some(QuantArg::Qsf(recipe))) => recipe.name(),
            Wanted::Hf(Some(QuantArg::Gguf(recipe))) => recipe.name(),
            Wanted::Groups(scheme) | Wanted::Hf(Some(QuantArg::Groups(scheme))) => scheme.name(),
            Wanted::Hf(None) => Recipe::Uniform(QuantType::F32).name(),
        }
    }

    /// How names of such files end.
    pub fn extension(&self) -> &'static str {
        match self {
            Wanted::Qsf(_) => FormatArg::Qsf.extension(),
            Wanted::Gguf(_) => FormatArg::Gguf.extension(),
            Wanted::Hf(_) => FormatArg::Hf.extension(),
            Wanted::Groups(scheme) => format_of(*scheme).extension(),
        }
    }
}

/// How the name of the file ends that is to be written: by the plan that is replayed, and else by the command line.
///
/// # Errors
/// When what is said of the format contradicts itself.
pub(super) fn extension<'a>(
    args: &ConvertArgs,
    plan: Option<&'a SavedPlan>,
) -> Result<&'a str, RuntimeError> {
    let found = extension_of(args, plan)?;
    if args.split_size.is_some() && found != FormatArg::Gguf.extension() {
        let problem = match found {
            "hf" => {
                "--split-size is for GGUF files: --shard-size says how large the files of a directory are"
            }
            _ => {
                "--split-size is for GGUF files, and a QSF file is one file: give OUT.gguf or --to gguf with it"
            }
        };
        return Err(RuntimeError::Request(problem.into()));
    }
    Ok(found)
}

fn extension_of<'a>(args: &ConvertArgs, plan: Option<&'a SavedPlan>) -> Result<&'a str, RuntimeError> {
    let Some(plan) = plan else { return Ok(Wanted::of(args)?.extension()) };
    let of_plan = plan.extension();
    match args.out.as_deref().map(|out| (out, of_name(out))) {
        Some((out, Some(named))) if named.extension() != of_plan => {
            let out = out.display();
            let problem = format!(
                "{out}: --plan is of a {} file: name it OUT.{of_plan}, or make another plan by --save-plan",
                of_plan.to_uppercase()
            );
            Err(RuntimeError::Request(problem))
        }
        _ => Ok(of_plan),
    }
}

/// The format that has a scheme.
fn format_of(scheme: GroupScheme) -> FormatArg {
    if scheme.is_mlx() { FormatArg::Mlx } else { FormatArg::CompressedTensors }
}

/// The scheme that `--quant` means in a format with groups: bits alone are known by the names of QSF's types, too.
fn scheme_of(quant: Option<QuantArg>, format: FormatArg) -> Result<GroupScheme, RuntimeError> {
    let of_mlx = format == FormatArg::Mlx;
    let of_bits = |bits| match of_mlx {
        true => Some(GroupScheme::affine(bits)),
        false => [4, 8].contains(&bits).then_some(GroupScheme { bits, ..GroupScheme::DEFAULT }),
    };
    let found = match quant {
        None => of_bits(4),
        Some(QuantArg::Groups(scheme)) => Some(scheme).filter(|scheme| scheme.is_mlx() == of_mlx),
        Some(QuantArg::Qsf(Recipe::Uniform(quant))) => match quant {
            QuantType::Q2 => of_bits(2),
            QuantType::Q3 => of_bits(3),
            QuantType::Q4 => of_bits(4),
            QuantType::Q6 => of_bits(6),
            QuantType::Q8 => of_bits(8),
            _ => None,
        },
        Some(_) => None,
    };
    found.ok_or_else(|| {
        let name = match quant {
            Some(QuantArg::Qsf(recipe)) => recipe.name(),
            Some(QuantArg::Gguf(recipe)) => recipe.name(),
            Some(QuantArg::Groups(scheme)) => scheme.name(),
            None => "",
        };
        let (format, known) = (format.extension(), GroupScheme::names(of_mlx));
        RuntimeError::Request(format!("--quant {name}: a directory for {format} can have {known}"))
    })
}

/// Flags that choose or change types where a directory cannot have several.
fn refuse_choices(args: &ConvertArgs, format: FormatArg) -> Result<(), RuntimeError> {
    let several = format == FormatArg::Mlx;
    let given = [
        (!several && args.target_size.is_some(), "--target-size"),
        (!several && args.target_bpw.is_some(), "--target-bpw"),
        (args.min_cosine.is_some(), "--min-cosine"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, flag)) if several => Err(RuntimeError::Request(format!(
            "{flag}: a directory for mlx has no place for that: give --quant"
        ))),
        Some((_, flag)) => {
            let problem = format!(
                "{flag}: all quantized matrices of a directory for compressed-tensors have one type: give --quant W4A16 or W8A16"
            );
            Err(RuntimeError::Request(problem))
        }
        None => Ok(()),
    }
}

/// The recipe of GGUF files that a float recipe is.
fn float_of(recipe: Recipe) -> Option<GgufRecipe> {
    recipe.name().parse::<GgufRecipe>().ok().filter(GgufRecipe::is_float)
}

fn of_name(out: &Path) -> Option<FormatArg> {
    let end = out.extension()?;
    [FormatArg::Qsf, FormatArg::Gguf].into_iter().find(|format| end.eq_ignore_ascii_case(format.extension()))
}

/// Flags that say how a QSF file is, and that a GGUF file has no place for.
fn refuse_flags_of_qsf(args: &ConvertArgs, format: &str) -> Result<(), RuntimeError> {
    // The values of a directory are those of a QSF file.
    let directory = matches!(args.to, Some(FormatArg::Hf)) && !matches!(args.quant, Some(QuantArg::Gguf(_)));
    let groups = matches!(args.to, Some(FormatArg::CompressedTensors | FormatArg::Mlx))
        || matches!(args.quant, Some(QuantArg::Groups(_)));
    let block = args.block_size.filter(|size| *size != BlockSize::B64);
    let given = [
        (!directory && args.outliers.is_some(), "--outliers"),
        (!directory && !groups && block.is_some(), "--block-size"),
        (groups && args.block_size.is_some_and(|size| size.get() == 256), "--block-size 256"),
        (!matches!(args.compress, CompressArg::None), "--compress"),
        (args.clusters.is_some(), "--clusters"),
        (args.early_exit, "--early-exit"),
    ];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, flag)) => Err(RuntimeError::Request(format!("{flag}: {format} has no place for that"))),
        None => Ok(()),
    }
}

/// Flags that say how a directory is.
fn refuse_flags_of_directories(args: &ConvertArgs) -> Result<(), RuntimeError> {
    let given = [(args.dtype.is_some(), "--dtype"), (args.shard_size.is_some(), "--shard-size")];
    match given.into_iter().find(|(given, _)| *given) {
        Some((_, flag)) => {
            let problem = format!(
                "{flag} is for HuggingFace directories: give --to hf, --to compressed-tensors or --to mlx with it"
            );
            Err(RuntimeError::Request(problem))
        }
        None => Ok(()),
    }
}

/// Who names a file means one.
fn refuse_name_of_file(args: &ConvertArgs, format: FormatArg) -> Result<(), RuntimeError> {
    match args.out.as_deref().filter(|out| of_name(out).is_some()) {
        Some(out) => {
            let problem =
                format!("{}: --to {} makes a directory: give its name", out.display(), format.extension());
            Err(RuntimeError::Request(problem))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn wanted(words: &[&str]) -> Result<Wanted, String> {
        let line = ["qsf-convert", "model"].iter().chain(words);
        let args = ConvertArgs::try_parse_from(line).map_err(|error| error.to_string())?;
        Wanted::of(&args).map_err(|error| error.to_string())
    }

    #[test]
    fn the_format_follows_from_the_flag_the_name_and_the_recipe_in_this_order() {
        for (words, expected) in [
            (vec![], "qsf n4"),
            (vec!["out.gguf"], "gguf Q4_K_M"),
            (vec!["OUT.GGUF", "--quant", "q8_0"], "gguf Q8_0"),
            (vec!["--quant", "Q3_K"], "gguf Q3_K_M"),
            (vec!["--to", "gguf", "--quant", "bf16"], "gguf BF16"),
            (vec!["out", "--quant", "f16"], "qsf f16"),
            (vec!["out.gguf", "--to", "qsf"], "qsf n4"),
            (vec!["out", "--to", "hf"], "hf f32"),
            (vec!["--to", "hf", "--quant", "n4", "--dtype", "bf16"], "hf n4"),
            (vec!["--to", "hf", "--quant", "Q4_K_M"], "hf Q4_K_M"),
            (vec!["--to", "compressed-tensors"], "compressed-tensors W4A16"),
            (vec!["--quant", "w8a16_asym"], "compressed-tensors W8A16_ASYM"),
            (vec!["--to", "compressed-tensors", "--quant", "8bit"], "compressed-tensors W8A16"),
            (vec!["--to", "mlx"], "mlx affine4"),
            (vec!["--to", "mlx", "--quant", "3bit"], "mlx affine3"),
            (vec!["out", "--quant", "affine6"], "mlx affine6"),
            (vec!["--to", "mlx", "--target-size", "9MB"], "mlx affine4"),
        ] {
            let found = wanted(&words).unwrap();
            assert_eq!(format!("{} {}", found.extension(), found.name()), expected, "{words:?}");
        }
        for (words, says) in [
            (vec!["out.qsf", "--quant", "Q4_K_M"], "recipe of GGUF files"),
            (vec!["out.gguf", "--quant", "n4"], "type of QSF files"),
            (vec!["--quant", "Q2_0"], "not write yet"),
            (vec!["--quant", "Q9_K"], "unknown recipe"),
            (vec!["out.gguf", "--outliers", "1%"], "--outliers"),
            (vec!["out.gguf", "--compress", "zstd"], "--compress"),
            (vec!["out.gguf", "--to", "hf"], "directory"),
            (vec!["out", "--dtype", "f16"], "--to hf"),
            (vec!["out", "--shard-size", "1GB"], "--to hf"),
            (vec!["out", "--to", "hf", "--early-exit"], "--early-exit"),
            (vec!["out.gguf", "--to", "compressed-tensors"], "directory"),
            (vec!["out", "--to", "hf", "--quant", "W4A16"], "--to compressed-tensors"),
            (vec!["out", "--to", "compressed-tensors", "--quant", "n4"], "W4A16_ASYM"),
            (vec!["out", "--to", "compressed-tensors", "--target-size", "9MB"], "--target-size"),
            (vec!["out", "--to", "compressed-tensors", "--block-size", "256"], "--block-size 256"),
            (vec!["out", "--quant", "W4A16", "--outliers", "1%"], "--outliers"),
            (vec!["out", "--to", "mlx", "--quant", "W4A16"], "affine4"),
            (vec!["out", "--to", "compressed-tensors", "--quant", "affine4"], "W4A16"),
            (vec!["out", "--to", "mlx", "--quant", "n4"], "affine2"),
            (vec!["out", "--to", "mlx", "--min-cosine", "0.99"], "--min-cosine"),
            (vec!["out", "--to", "mlx", "--outliers", "1%"], "--outliers"),
        ] {
            let error = wanted(&words).unwrap_err();
            assert!(error.contains(says), "{words:?}: {error}");
        }
    }
}
