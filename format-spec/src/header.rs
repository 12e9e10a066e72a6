//! The 128-byte file header (SPEC.md section 3).

mod architecture;

use zerocopy::byteorder::little_endian::{F32, U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::block_size::BlockSize;
use crate::error::Damage;
use crate::model_config::{Activation, ModelConfig, NormConfig, NormKind, PositionConfig, Residual};
use crate::quant_type::QuantType;

pub use architecture::HeaderArchitecture;

/// Bytes of the header.
pub const HEADER_BYTES: usize = 128;
/// First four bytes of every file.
pub const MAGIC: [u8; 4] = *b"QSF1";
/// The version that this crate reads and writes.
pub const VERSION: u32 = 1;
/// Default type id of a file whose tensors have different types; legal in the file header only.
pub const MIXED: u8 = 5;
/// A token id that the model does not have.
pub const NO_TOKEN: u32 = u32::MAX;

const CORE_BYTES: usize = 96;
const EXTENSION_START: usize = 100;
const EXTENSION_CRC_AT: usize = 124;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 4],
    version: U32,
    header_bytes: U32,
    architecture: U32,
    layers: U32,
    hidden: U32,
    heads: U32,
    kv_heads: U32,
    vocab: U32,
    max_positions: U32,
    ffn: U32,
    head_dim: U32,
    quant: u8,
    activation: u8,
    norm: u8,
    position: u8,
    rope_theta: F32,
    index_offset: U64,
    embedding_offset: U64,
    final_offset: U64,
    bos: U32,
    eos: U32,
    pad: U32,
    file_bytes_low: U32,
    crc: U32,
    directory_offset: U64,
    block: U16,
    flags: U16,
    file_bytes: U64,
    zero: U32,
    extension_crc: U32,
}

impl RawHeader {
    /// Checks what every header has: magic, checksum, version, size.
    fn check_core(&self) -> Result<(), Damage> {
        if self.magic != MAGIC {
            let found = format!("bytes {:02X?}", self.magic);
            return Err(damage("magic", 0, "the text QSF1 (is this a QSF file?)", found));
        }
        check_crc("header bytes 0-95", 96, &self.as_bytes()[..CORE_BYTES], self.crc.get())?;
        if self.version != VERSION {
            return Err(damage("version", 4, VERSION, self.version));
        }
        if self.header_bytes != HEADER_BYTES as u32 {
            return Err(damage("header size", 8, HEADER_BYTES, self.header_bytes));
        }
        Ok(())
    }

    /// Checks what a file with a directory has besides: checksum, flags, whole size.
    fn check_extension(&self, file_bytes: u64) -> Result<(), Damage> {
        let covered = &self.as_bytes()[EXTENSION_START..EXTENSION_CRC_AT];
        check_crc("header bytes 100-123", 124, covered, self.extension_crc.get())?;
        if self.flags != 0 || self.zero != 0 {
            return Err(damage("flags", 110, 0, format!("{} and {}", self.flags, self.zero)));
        }
        if self.file_bytes != file_bytes {
            return Err(damage(
                "whole file size",
                112,
                format!("{} bytes", self.file_bytes),
                match file_bytes < u64::from(self.file_bytes) {
                    true => format!("{file_bytes}: it was cut short; download or copy it again"),
                    false => format!("{file_bytes}: something was appended to it"),
                },
            ));
        }
        Ok(())
    }

    /// Checks the codes of a byte each: default type, activation, position, norm.
    fn check_codes(&self) -> Result<(), Damage> {
        if self.quant != MIXED && QuantType::from_id(self.quant).is_none() {
            return Err(damage("default quantization type", 48, "a known type id", self.quant));
        }
        let up_to_two = [("activation", 49, self.activation), ("position encoding", 51, self.position)];
        for (place, at, code) in up_to_two {
            if code > 2 {
                return Err(damage(place, at, "0 to 2", code));
            }
        }
        if self.norm > 1 {
            return Err(damage("normalization", 50, "0 or 1", self.norm));
        }
        Ok(())
    }
}

/// A damage of a field of the header.
fn damage(place: &str, at: u64, expected: impl ToString, found: impl ToString) -> Damage {
    Damage::new(format!("file header, {place}"), at, expected, found)
}

/// A checked file header.
#[derive(Debug, Clone, PartialEq)]
pub struct FileHeader {
    /// Architecture family.
    pub architecture: HeaderArchitecture,
    /// Transformer layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads, never 0 here.
    pub kv_heads: u32,
    /// Rows of the token embedding.
    pub vocab: u32,
    /// Longest sequence.
    pub max_positions: u32,
    /// Inner width of the feed-forward.
    pub ffn: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Default type id: a [`QuantType`] id or [`MIXED`].
    pub quant: u8,
    /// 0 GELU, 1 SiLU, 2 ReLU.
    pub activation: u8,
    /// 0 LayerNorm, 1 RMSNorm.
    pub norm: u8,
    /// 0 learned, 1 rotary, 2 ALiBi.
    pub position: u8,
    /// Base of rotary frequencies; 0 without rotary positions.
    pub rope_theta: f32,
    /// Offset of the layer index.
    pub index_offset: u64,
    /// Offset of the embedding section.
    pub embedding_offset: u64,
    /// Offset of the final section.
    pub final_offset: u64,
    /// First token, where the model has one.
    pub bos: Option<u32>,
    /// Stop token, where the model has one (META lists all).
    pub eos: Option<u32>,
    /// Padding token, where the model has one.
    pub pad: Option<u32>,
    /// Size of the whole file.
    pub file_bytes: u64,
    /// What a plain file lacks: where the directory is. `None` makes the file plain.
    pub directory_offset: Option<u64>,
    /// Values per block of types 0-4 and 9.
    pub block: BlockSize,
}

impl FileHeader {
    /// A header for `config`, with all offsets still 0.
    pub fn new(config: &ModelConfig, quant: u8, block: BlockSize) -> FileHeader {
        let ModelConfig {
            architecture,
            layers,
            hidden,
            heads,
            kv_heads,
            head_dim,
            ffn,
            vocab,
            max_positions,
            norm,
            activation,
            position,
            bos,
            stop_tokens,
            pad,
            // The final section says whether the head is tied, the tensors of a layer whether there is a gate.
            tied_head: _,
            gated_ffn: _,
            // What follows is in META alone: no plain file can have it.
            latent: _,
            full_attention: _,
            shared_kv: _,
            value_norm: _,
            per_layer_embedding: _,
            layer_scale: _,
            streams: _,
            laurel: _,
            gate_sparsity: _,
            multipliers: _,
            residual: _,
            qk_norm: _,
            attention_scale: _,
            attention_softcap: _,
            logit_softcap: _,
            embedding_scale: _,
            residual_scale: _,
            logit_scale: _,
            qkv_clip: _,
            attention_sinks: _,
            window_sinks: _,
            value_heads: _,
            sub_norms: _,
            window_chunks: _,
            query_growth: _,
            gate_clip: _,
            embedding_norm: _,
            sliding_window: _,
            attention_gate: _,
            recurrent: _,
            half_layers: _,
            experts: _,
        } = config;
        let (position, rope_theta) = position_code(position);
        FileHeader {
            architecture: HeaderArchitecture::of_model_type(architecture),
            layers: *layers,
            hidden: *hidden,
            heads: *heads,
            kv_heads: *kv_heads,
            vocab: *vocab,
            max_positions: *max_positions,
            ffn: *ffn,
            head_dim: *head_dim,
            quant,
            activation: activation_code(*activation),
            norm: norm_code(norm.kind),
            position,
            rope_theta,
            index_offset: 0,
            embedding_offset: 0,
            final_offset: 0,
            bos: *bos,
            eos: stop_tokens.first().copied(),
            pad: *pad,
            file_bytes: 0,
            directory_offset: None,
            block,
        }
    }

    /// The 128 bytes, checksums included.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut raw = RawHeader::new_zeroed();
        raw.magic = MAGIC;
        raw.version = VERSION.into();
        raw.header_bytes = (HEADER_BYTES as u32).into();
        raw.architecture = (self.architecture as u32).into();
        raw.layers = self.layers.into();
        raw.hidden = self.hidden.into();
        raw.heads = self.heads.into();
        raw.kv_heads = self.kv_heads.into();
        raw.vocab = self.vocab.into();
        raw.max_positions = self.max_positions.into();
        raw.ffn = self.ffn.into();
        raw.head_dim = self.head_dim.into();
        raw.quant = self.quant;
        raw.activation = self.activation;
        raw.norm = self.norm;
        raw.position = self.position;
        raw.rope_theta = self.rope_theta.into();
        raw.index_offset = self.index_offset.into();
        raw.embedding_offset = self.embedding_offset.into();
        raw.final_offset = self.final_offset.into();
        raw.bos = self.bos.unwrap_or(NO_TOKEN).into();
        raw.eos = self.eos.unwrap_or(NO_TOKEN).into();
        raw.pad = self.pad.unwrap_or(NO_TOKEN).into();
        raw.file_bytes_low = (self.file_bytes as u32).into();
        raw.crc = crc32fast::hash(&raw.as_bytes()[..CORE_BYTES]).into();
        if let Some(directory_offset) = self.directory_offset {
            raw.directory_offset = directory_offset.into();
            raw.block = u16::from(self.block).into();
            raw.file_bytes = self.file_bytes.into();
            raw.extension_crc = crc32fast::hash(&raw.as_bytes()[EXTENSION_START..EXTENSION_CRC_AT]).into();
        }
        zerocopy::transmute!(raw)
    }

    /// Reads and checks a header. `bytes` is the start of a file of `file_bytes` bytes.
    ///
    /// # Errors
    /// The first contradiction: magic, version, checksums, sizes, unknown codes.
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<FileHeader, Damage> {
        let Ok((raw, _)) = RawHeader::ref_from_prefix(bytes) else {
            let found = format!("a file of {} bytes", bytes.len());
            return Err(damage("whole", 0, format!("at least {HEADER_BYTES} bytes"), found));
        };
        raw.check_core()?;
        let plain = raw.as_bytes()[EXTENSION_START..].iter().all(|&b| b == 0);
        if !plain {
            raw.check_extension(file_bytes)?;
        }
        if raw.file_bytes_low != file_bytes as u32 {
            return Err(damage(
                "file size, lower 32 bits",
                92,
                raw.file_bytes_low,
                format!("{}: it was cut short or appended to", file_bytes as u32),
            ));
        }
        let block = match raw.block.get() {
            0 => BlockSize::B64,
            n => BlockSize::new(n).ok_or_else(|| damage("block size", 108, "0, 32, 64, 128 or 256", n))?,
        };
        let architecture = HeaderArchitecture::from_id(raw.architecture.get())
            .ok_or_else(|| damage("architecture", 12, "0 to 4", raw.architecture))?;
        raw.check_codes()?;
        let token = |id: U32| (id != NO_TOKEN).then_some(id.get());
        let kv_heads = if raw.kv_heads == 0 { raw.heads } else { raw.kv_heads };
        Ok(FileHeader {
            architecture,
            layers: raw.layers.get(),
            hidden: raw.hidden.get(),
            heads: raw.heads.get(),
            kv_heads: kv_heads.get(),
            vocab: raw.vocab.get(),
            max_positions: raw.max_positions.get(),
            ffn: raw.ffn.get(),
            head_dim: raw.head_dim.get(),
            quant: raw.quant,
            activation: raw.activation,
            norm: raw.norm,
            position: raw.position,
            rope_theta: raw.rope_theta.get(),
            index_offset: raw.index_offset.get(),
            embedding_offset: raw.embedding_offset.get(),
            final_offset: raw.final_offset.get(),
            bos: token(raw.bos),
            eos: token(raw.eos),
            pad: token(raw.pad),
            file_bytes,
            directory_offset: (!plain).then_some(raw.directory_offset.get()),
            block,
        })
    }

    /// Name of the default type.
    pub fn quant_name(&self) -> &'static str {
        QuantType::from_id(self.quant).map_or("mixed", QuantType::name)
    }

    /// Checks that META describes the same model as this header.
    ///
    /// # Errors
    /// The first field that differs.
    pub fn check_against(&self, config: &ModelConfig) -> Result<(), Damage> {
        let of_config = FileHeader::new(config, self.quant, self.block);
        let differs = |field: &str, at: u64, header: &dyn ToString, meta: &dyn ToString| {
            Err(Damage::new(
                format!("META, model against header field {field}"),
                at,
                format!("{} as in the header", header.to_string()),
                meta.to_string(),
            ))
        };
        let pairs = [
            ("architecture", 12, self.architecture as u32, of_config.architecture as u32),
            ("layers", 16, self.layers, of_config.layers),
            ("hidden", 20, self.hidden, of_config.hidden),
            ("heads", 24, self.heads, of_config.heads),
            ("kv_heads", 28, self.kv_heads, of_config.kv_heads),
            ("vocab", 32, self.vocab, of_config.vocab),
            ("max_positions", 36, self.max_positions, of_config.max_positions),
            ("ffn", 40, self.ffn, of_config.ffn),
            ("head_dim", 44, self.head_dim, of_config.head_dim),
            ("activation", 49, self.activation.into(), of_config.activation.into()),
            ("norm", 50, self.norm.into(), of_config.norm.into()),
            ("position", 51, self.position.into(), of_config.position.into()),
            ("rope_theta", 52, self.rope_theta.to_bits(), of_config.rope_theta.to_bits()),
            ("bos", 80, self.bos.unwrap_or(NO_TOKEN), of_config.bos.unwrap_or(NO_TOKEN)),
            ("eos", 84, self.eos.unwrap_or(NO_TOKEN), of_config.eos.unwrap_or(NO_TOKEN)),
            ("pad", 88, self.pad.unwrap_or(NO_TOKEN), of_config.pad.unwrap_or(NO_TOKEN)),
        ];
        match pairs.into_iter().find(|(_, _, header, meta)| header != meta) {
            Some((field, at, header, meta)) => differs(field, at, &header, &meta),
            None => Ok(()),
        }
    }

    /// The model of a plain file, which has no META: what the header says, and the defaults that SPEC.md section 9 states.
    /// `gated_ffn` is whether the first layer has a gate tensor, `tied_head` what the final section says. `None` for
    /// architectures and encodings that need META.
    pub fn plain_model(&self, gated_ffn: bool, tied_head: bool) -> Option<ModelConfig> {
        // Field by field and without `..`: a new field needs a value for plain files, and a word in SPEC.md section 9.
        Some(ModelConfig {
            architecture: self.architecture.model_type()?.to_owned(),
            layers: self.layers,
            hidden: self.hidden,
            heads: self.heads,
            kv_heads: self.kv_heads,
            head_dim: self.head_dim,
            ffn: self.ffn,
            vocab: self.vocab,
            max_positions: self.max_positions,
            norm: NormConfig::new(if self.norm == 0 { NormKind::LayerNorm } else { NormKind::RmsNorm }, 1e-5),
            activation: match self.activation {
                0 => Activation::GeluTanh,
                1 => Activation::Silu,
                _ => Activation::Relu,
            },
            gated_ffn,
            position: match self.position {
                0 => PositionConfig::Learned {},
                1 => PositionConfig::rope(self.rope_theta, None),
                _ => return None,
            },
            tied_head,
            residual: Residual::Sequential,
            qk_norm: None,
            latent: None,
            full_attention: None,
            shared_kv: None,
            value_norm: false,
            per_layer_embedding: None,
            layer_scale: false,
            streams: None,
            laurel: None,
            gate_sparsity: Vec::new(),
            multipliers: None,
            attention_scale: None,
            attention_softcap: None,
            logit_softcap: None,
            embedding_scale: None,
            residual_scale: None,
            logit_scale: None,
            qkv_clip: None,
            attention_sinks: false,
            window_sinks: false,
            value_heads: None,
            sub_norms: false,
            window_chunks: false,
            query_growth: None,
            gate_clip: None,
            embedding_norm: false,
            sliding_window: None,
            attention_gate: false,
            recurrent: None,
            half_layers: None,
            experts: None,
            bos: self.bos,
            stop_tokens: self.eos.into_iter().collect(),
            pad: self.pad,
        })
    }
}

fn activation_code(activation: Activation) -> u8 {
    match activation {
        Activation::GeluErf | Activation::GeluTanh => 0,
        Activation::Silu => 1,
        Activation::Relu | Activation::Relu2 | Activation::Xielu => 2,
    }
}

fn norm_code(norm: NormKind) -> u8 {
    match norm {
        NormKind::LayerNorm => 0,
        NormKind::RmsNorm => 1,
    }
}

/// The code of the positions, and the base of their rotary frequencies.
fn position_code(position: &PositionConfig) -> (u8, f32) {
    match position {
        PositionConfig::Learned {} => (0, 0.0),
        PositionConfig::Rope { theta, .. } => (1, *theta),
        PositionConfig::Alibi { .. } => (2, 0.0),
    }
}

/// Compares a stored CRC32 with the one of `bytes`.
pub(crate) fn check_crc(place: &str, crc_at: u64, bytes: &[u8], stored: u32) -> Result<(), Damage> {
    let found = crc32fast::hash(bytes);
    if found == stored {
        return Ok(());
    }
    Err(Damage::new(place, crc_at, format!("CRC32 {stored:08x}"), format!("{found:08x}")))
}
