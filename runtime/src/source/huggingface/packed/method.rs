//! Which tool packed the matrices, and how: `quantization` (MLX) or `quantization_config` in `config.json`.

use std::collections::HashMap;

use qsf_format::printable::quote;
use serde_json::Value;

use super::awq::Awq;
use super::bitnet::Bitnet;
use super::compressed::Compressed;
use super::gptq::{self, Gptq};
use super::group_size::GroupSize;
use super::matrix::PackedMatrix;
use super::mlx::{self, Mlx, Mode};
use super::mxfp4;
use super::packed_part::is_words;
use crate::error::{Result, RuntimeError};
use crate::model_dir::{Fields, describe};
use crate::source::mapping::TensorStore;

/// How the matrices of a model are packed.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Method {
    /// As MLX does, all in one way but for the layers in `layers`; `None` there: this one is not packed.
    Mlx {
        /// Of layers that are not named.
        general: Mlx,
        /// By name.
        layers: HashMap<String, Option<Mlx>>,
    },
    /// As AutoGPTQ and GPTQModel do.
    Gptq(Gptq),
    /// As AutoAWQ does.
    Awq(Awq),
    /// As compressed-tensors does.
    Compressed(Compressed),
    /// As transformers does in MXFP4.
    Mxfp4,
    /// As BitNet does.
    Bitnet(Bitnet),
}

impl Method {
    /// The layer and the matrix that the tensor `name` announces: its scales or its codes.
    pub(super) fn matrix(
        &self,
        name: &str,
        store: &dyn TensorStore,
    ) -> Result<Option<(String, Box<dyn PackedMatrix>)>> {
        let stem = match self {
            Method::Mlx { .. } => name.strip_suffix(".scales"),
            Method::Gptq(_) | Method::Awq(_) => name.strip_suffix(".qweight"),
            Method::Compressed(_) => name.strip_suffix(".weight_packed"),
            Method::Mxfp4 => name.strip_suffix("_blocks"),
            Method::Bitnet(_) => name.strip_suffix(".weight_scale"),
        };
        let Some(stem) = stem else { return Ok(None) };
        let matrix = match self {
            Method::Mlx { general, layers } => {
                let weight = store.describe(&format!("{stem}.weight"));
                let format = layers.get(stem).copied().unwrap_or(Some(*general));
                match format.filter(|_| weight.is_some_and(|(_, stored)| is_words(stored))) {
                    Some(format) => format.matrix(stem, store)?,
                    None => return Ok(None),
                }
            }
            Method::Gptq(format) => format.matrix(stem, store)?,
            Method::Awq(format) => format.matrix(stem, store)?,
            Method::Compressed(format) => format.matrix(stem, store)?,
            Method::Mxfp4 => mxfp4::matrix(name, store)?,
            Method::Bitnet(format) => format.matrix(stem, store)?,
        };
        Ok(Some((stem.to_owned(), matrix)))
    }
}

/// How the matrices are packed, by the configuration in `fields`; `None` when it says nothing of that, or names a method
/// that is not one of these.
///
/// # Errors
/// A field is wrong, or asks for a variant that is not read.
pub(in super::super) fn read_method(fields: Fields<'_>) -> Result<Option<Method>> {
    if let Some(found) = fields.object("quantization", "quantization.")? {
        return mlx(found).map(Some);
    }
    let Some(found) = fields.object("quantization_config", "quantization_config.")? else { return Ok(None) };
    match found.str("quant_method")? {
        Some("gptq") => gptq(found).map(Some),
        Some("awq") => awq(found).map(Some),
        Some("compressed-tensors") if found.str("format")? == Some(PACKED) => compressed(found).map(Some),
        Some("mxfp4") => Ok(Some(Method::Mxfp4)),
        Some("bitnet") => bitnet(found).map(Some),
        // mlx-lm writes what it has in `quantization` under this name too.
        None if found.get("group_size").is_some() && found.get("bits").is_some() => mlx(found).map(Some),
        _ => Ok(None),
    }
}

fn mlx(fields: Fields<'_>) -> Result<Method> {
    let general = mlx_format(fields)?;
    let mut layers = HashMap::new();
    for (name, value) in fields.map {
        let format = match value {
            Value::Object(map) => Some(mlx_format(Fields { path: fields.path, within: fields.within, map })?),
            Value::Bool(true) => Some(general),
            Value::Bool(false) => None,
            _ => continue,
        };
        layers.insert(name.clone(), format);
    }
    Ok(Method::Mlx { general, layers })
}

fn mlx_format(fields: Fields<'_>) -> Result<Mlx> {
    let mode = match fields.str("mode")?.unwrap_or("affine") {
        "affine" => Mode::Affine,
        "mxfp4" => Mode::Mxfp4,
        other => {
            let what = format!("{}mode {}", fields.within, quote(other));
            return Err(RuntimeError::unsupported(fields.path, what, "supported: affine, mxfp4"));
        }
    };
    // What MLX takes where a field is missing.
    let (default_bits, default_size) = if mode == Mode::Affine { (4, 64) } else { mlx::MXFP4 };
    let bits = fields.u32("bits")?.unwrap_or(default_bits);
    let group_size = fields.u32("group_size")?.map_or(default_size, |size| size as usize);
    let fits = match mode {
        Mode::Affine => mlx::BITS.contains(&bits) && mlx::GROUP_SIZES.contains(&group_size),
        Mode::Mxfp4 => (bits, group_size) == mlx::MXFP4,
    };
    if !fits {
        let what = format!("{}: {bits} bits in groups of {group_size}", fields.within.trim_end_matches('.'));
        let (bits, sizes) = (mlx::BITS, mlx::GROUP_SIZES);
        let supported = format!("supported: {bits:?} bits in groups of {sizes:?}; mxfp4 with 4 and 32");
        return Err(RuntimeError::unsupported(fields.path, what, &supported));
    }
    Ok(Mlx { bits, group_size, mode })
}

fn gptq(fields: Fields<'_>) -> Result<Method> {
    let mut zeros_less_one = true;
    for name in ["checkpoint_format", "format"] {
        match fields.str(name)? {
            None | Some("gptq") => {}
            Some("gptq_v2") => zeros_less_one = false,
            Some(other) => {
                return Err(RuntimeError::unsupported(
                    fields.path,
                    option(fields, name, other),
                    "supported: gptq, gptq_v2",
                ));
            }
        }
    }
    if fields.bool("is_marlin_format")? == Some(true) {
        return Err(RuntimeError::unsupported(
            fields.path,
            "GPTQ weights in the order of Marlin",
            "supported: gptq, gptq_v2",
        ));
    }
    need_int32(fields)?;
    let bits = fields.need_u32("bits")?;
    if !gptq::BITS.contains(&bits) {
        let supported = format!("supported: {:?} bits", gptq::BITS);
        return Err(RuntimeError::unsupported(fields.path, format!("GPTQ with {bits} bits"), &supported));
    }
    let size = group_size(fields, "group_size")?.unwrap_or(GroupSize::Inputs(128));
    // GPTQModel: patterns of layer names. Those that begin with "-:" say which layers are not packed.
    let dynamic = fields.object("dynamic", "quantization_config.dynamic.")?;
    let is_uniform = dynamic.is_none_or(|dynamic| dynamic.map.keys().all(|key| key.starts_with("-:")));
    Ok(Method::Gptq(Gptq {
        uniform: is_uniform.then_some((bits, size)),
        desc_act: is_uniform && fields.bool("desc_act")?.unwrap_or(false),
        symmetric: is_uniform && fields.bool("sym")?.unwrap_or(true),
        zeros_less_one,
    }))
}

fn awq(fields: Fields<'_>) -> Result<Method> {
    const ADVICE: &str = "supported: the version gemm, as AutoAWQ writes by default";
    for name in ["version", "format", "checkpoint_format"] {
        if let Some(other) = fields.str(name)?.filter(|version| !version.eq_ignore_ascii_case("gemm")) {
            return Err(RuntimeError::unsupported(fields.path, option(fields, name, other), ADVICE));
        }
    }
    if let Some(other) = fields.str("backend")?.filter(|backend| !backend.eq_ignore_ascii_case("autoawq")) {
        return Err(RuntimeError::unsupported(fields.path, option(fields, "backend", other), ADVICE));
    }
    need_int32(fields)?;
    let bits = fields.u32("bits")?.or(fields.u32("w_bit")?).unwrap_or(4);
    if bits != 4 {
        return Err(RuntimeError::unsupported(
            fields.path,
            format!("AWQ with {bits} bits"),
            "supported: 4 bits",
        ));
    }
    let size = match group_size(fields, "group_size")? {
        Some(size) => Some(size),
        None => group_size(fields, "q_group_size")?,
    };
    Ok(Method::Awq(Awq { group_size: size.unwrap_or(GroupSize::Inputs(128)) }))
}

/// The format of compressed-tensors that packs integers.
const PACKED: &str = "pack-quantized";

fn compressed(fields: Fields<'_>) -> Result<Method> {
    let unread = |what: String| {
        Err(RuntimeError::unsupported(fields.path, what, "supported: pack-quantized integers alone"))
    };
    if let Some(sparsity) = fields.object("sparsity_config", "quantization_config.sparsity_config.")?
        && let Some(format) = sparsity.str("format")?.filter(|format| *format != "dense")
    {
        return unread(option(sparsity, "format", format));
    }
    // Rotations of weights and activations, without which the weights mean nothing.
    if let Some(transform) = fields.object("transform_config", "quantization_config.transform_config.")?
        && !transform.map.is_empty()
    {
        return unread(format!("{}transform_config", fields.within));
    }
    let Some(groups) = fields.object("config_groups", "quantization_config.config_groups.")? else {
        return Err(fields.wrong("config_groups", "an object", "no such field"));
    };
    let mut zeros_needed = !groups.map.is_empty();
    for name in groups.map.keys() {
        let Some(group) = groups.object(name, "group of quantization_config.config_groups: ")? else {
            continue;
        };
        if let Some(format) = group.str("format")?.filter(|format| *format != PACKED) {
            return unread(option(group, "format", format));
        }
        let Some(weights) = group.object("weights", "weights of quantization_config.config_groups: ")? else {
            continue;
        };
        if let Some(kind) = weights.str("type")?.filter(|kind| *kind != "int") {
            return unread(option(weights, "type", kind));
        }
        zeros_needed &= !weights.bool("symmetric")?.unwrap_or(true);
    }
    Ok(Method::Compressed(Compressed { zeros_needed }))
}

fn bitnet(fields: Fields<'_>) -> Result<Method> {
    // Without, floats stand there that are rounded to ternary values at every step.
    if let Some(other) = fields.str("quantization_mode")?.filter(|mode| *mode != "offline") {
        let what = option(fields, "quantization_mode", other);
        return Err(RuntimeError::unsupported(
            fields.path,
            what,
            "supported: offline, that of packed weights",
        ));
    }
    if fields.bool("use_rms_norm")? == Some(true) {
        let what = format!("{}use_rms_norm", fields.within);
        return Err(RuntimeError::unsupported(fields.path, what, "only false is"));
    }
    let divides = match fields.str("linear_class")?.unwrap_or("bitlinear") {
        "bitlinear" => true,
        "autobitlinear" => false,
        other => {
            let what = option(fields, "linear_class", other);
            return Err(RuntimeError::unsupported(fields.path, what, "supported: bitlinear, autobitlinear"));
        }
    };
    Ok(Method::Bitnet(Bitnet { divides }))
}

/// A field and its value, for messages.
fn option(fields: Fields<'_>, name: &str, value: &str) -> String {
    format!("{}{name} {}", fields.within, quote(value))
}

fn need_int32(fields: Fields<'_>) -> Result<()> {
    match fields.str("pack_dtype")? {
        None | Some("int32") => Ok(()),
        Some(other) => Err(RuntimeError::unsupported(
            fields.path,
            option(fields, "pack_dtype", other),
            "supported: int32",
        )),
    }
}

fn group_size(fields: Fields<'_>, name: &str) -> Result<Option<GroupSize>> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    match value.as_i64() {
        Some(-1) => Ok(Some(GroupSize::All)),
        Some(size @ 1..=0xffff_ffff) => Ok(Some(GroupSize::Inputs(size as usize))),
        _ => Err(fields.wrong(name, "-1 or the number of inputs of a group", describe(value))),
    }
}
