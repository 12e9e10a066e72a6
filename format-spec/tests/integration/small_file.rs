//! A small file with every kind of part: several layers, compressed and not, learned positions, a separate head; tensors in
//! rows and in panels.
#![allow(dead_code, reason = "each test binary uses its part")]

use std::path::Path;

use qsf_format::*;

pub const VOCAB: u32 = 300;
pub const HIDDEN: u32 = 64;

pub fn model() -> ModelConfig {
    ModelConfig {
        architecture: "gpt2".into(),
        layers: 2,
        hidden: HIDDEN,
        heads: 4,
        kv_heads: 4,
        head_dim: 16,
        ffn: 256,
        vocab: VOCAB,
        max_positions: 32,
        norm: NormConfig::new(NormKind::LayerNorm, 1e-5),
        activation: Activation::GeluTanh,
        gated_ffn: false,
        position: PositionConfig::Learned {},
        tied_head: false,
        bos: Some(1),
        stop_tokens: vec![2, 3],
        pad: None,
        ..ModelConfig::default()
    }
}

/// Bytes that neither repeat (LZ4 must fail on some) nor are random throughout (it must succeed on others).
pub fn pattern(bytes: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761) | 1;
    (0..bytes)
        .map(|i| {
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            if seed.is_multiple_of(2) { (i / 50) as u8 } else { state as u8 }
        })
        .collect()
}

/// In panels where it has blocks and is large enough for one.
pub fn tensor(kind: TensorKind, rows: u32, cols: u32, quant: QuantType, seed: u32) -> EncodedTensor {
    let bytes = quant.tensor_bytes(BlockSize::B64, rows.into(), cols.into()).unwrap() as usize;
    let layout = if quant.is_float() || rows < 16 { Layout::Rows } else { Layout::Panels16 };
    EncodedTensor { kind, part: 0, rows, cols, quant, layout, data: pattern(bytes, seed) }
}

pub fn layer(seed: u32) -> Vec<EncodedTensor> {
    vec![
        tensor(TensorKind::AttnQ, 64, 64, QuantType::Q2, seed),
        tensor(TensorKind::AttnNorm, 1, 64, QuantType::F16, seed + 1),
        tensor(TensorKind::FfnUp, 256, 64, QuantType::Q4, seed),
        tensor(TensorKind::FfnUpBias, 1, 256, QuantType::F16, seed),
    ]
}

/// One in every fifth of so many rows.
pub fn outliers(rows: u32) -> Outliers {
    let mut outliers = Outliers::default();
    for row in 0..rows {
        let entry = [((row * 7 % HIDDEN) as u16, row as f32 - 100.0)];
        outliers.push_row(if row % 5 == 0 { &entry } else { &[] });
    }
    outliers
}

pub fn embedding() -> Vec<u8> {
    pattern(QuantType::Q4.tensor_bytes(BlockSize::B64, VOCAB.into(), HIDDEN.into()).unwrap() as usize, 4)
}

pub fn meta() -> Meta {
    Meta {
        version: META_VERSION,
        model: model(),
        provenance: Provenance {
            tool: "test".into(),
            sources: Vec::new(),
            requantized_from: Vec::new(),
            options: serde_json::Map::new(),
        },
        tensors: Vec::new(),
    }
}

pub fn options(compression: Compression) -> WriterOptions {
    WriterOptions { force: false, block: BlockSize::B64, compression, tables: CodeTables::default() }
}

pub fn write(path: &Path, compression: Compression) -> Result<u64, FormatError> {
    write_with(path, options(compression), &meta())
}

/// The model with this META.
pub fn write_with(path: &Path, options: WriterOptions, meta: &Meta) -> Result<u64, FormatError> {
    let mut writer = without_positions(path, options)?;
    writer.begin_positions()?;
    let t = tensor(TensorKind::Positions, 32, HIDDEN, QuantType::N3, 13);
    writer.begin_tensor(t.kind, t.rows, t.cols, t.quant, t.layout)?;
    writer.tensor_rows(&t.data)?;
    writer.end_positions();
    writer.finish(meta, MIXED, Some(b"{\"tokenizer\": true}"), Some(b"{{ messages }}"))
}

/// A writer that has everything but positions, index and sections.
pub fn without_positions(path: &Path, options: WriterOptions) -> Result<QsfWriter, FormatError> {
    let mut writer = before_final(path, options)?;
    writer.begin_final(false)?;
    for t in [
        tensor(TensorKind::FinalNorm, 1, HIDDEN, QuantType::F16, 7),
        tensor(TensorKind::FinalNormBias, 1, HIDDEN, QuantType::F16, 9),
        tensor(TensorKind::Head, VOCAB, HIDDEN, QuantType::Q4, 11),
    ] {
        writer.begin_tensor(t.kind, t.rows, t.cols, t.quant, t.layout)?;
        writer.tensor_rows(&t.data)?;
    }
    writer.end_final();
    Ok(writer)
}

/// A writer that has embedding and layers.
pub fn before_final(path: &Path, options: WriterOptions) -> Result<QsfWriter, FormatError> {
    let mut writer = QsfWriter::create(path, 2, options)?;
    writer.begin_embedding(QuantType::Q4, Layout::Panels16, VOCAB, HIDDEN)?;
    let embedding = embedding();
    let (first, second) = embedding.split_at(36 * 100);
    writer.embedding_rows(first)?;
    writer.embedding_rows(second)?;
    writer.layer(layer(1), None)?;
    writer.layer(layer(2), Some(0.5))?;
    writer.outliers(TensorId::of_layer(1, TensorKind::FfnUp), &outliers(256))?;
    writer.outliers(TensorId::of_model(TensorKind::TokenEmbedding), &outliers(VOCAB))?;
    Ok(writer)
}

/// Repairs the checksums of the header, as an attacker would.
pub fn seal_header(bytes: &mut [u8]) {
    seal(bytes, 0..96, 96);
    seal(bytes, 100..124, 124);
}

/// Repairs the checksums that guard a layer but not its chunks: table, index entry, LIDX, directory.
pub fn seal_layer(bytes: &mut [u8], layer: usize) {
    let index = 128 + 32 * layer;
    let offset = u64_at(bytes, index) as usize;
    let stored = u32_at(bytes, index + 8) as usize;
    // The count may be forged, too.
    let entries = (u32_at(bytes, offset) as usize).min(1000);
    let table = offset + 16..offset + 16 + entries * 16;
    if table.end <= bytes.len() {
        seal(bytes, table, offset + 4);
    }
    seal(bytes, offset..offset + stored, index + 20);
    seal_section(bytes, b"LIDX");
}

/// As [`seal_layer`], and the only chunk of an uncompressed layer.
pub fn seal_layer_and_chunk(bytes: &mut [u8], layer: usize) {
    let offset = u64_at(bytes, 128 + 32 * layer) as usize;
    let stored = u32_at(bytes, offset + 16) as usize;
    assert_eq!((u32_at(bytes, offset), u32_at(bytes, offset + 28)), (1, 0), "one uncompressed chunk");
    seal(bytes, offset + 64..offset + 64 + stored, offset + 24);
    seal_layer(bytes, layer);
}

/// Repairs the checksums of a section in the directory and that of the directory.
pub fn seal_section(bytes: &mut [u8], tag: &[u8; 4]) {
    let entry = section_entry(bytes, tag);
    let offset = u64_at(bytes, entry + 8) as usize;
    let stored = u64_at(bytes, entry + 16) as usize;
    seal(bytes, offset..offset + stored, entry + 24);
    let directory = u64_at(bytes, 100) as usize;
    let mut sealed = bytes[directory..directory + 12].to_vec();
    sealed.extend_from_slice(&bytes[directory + 16..]);
    bytes[directory + 12..directory + 16].copy_from_slice(&crc32fast::hash(&sealed).to_le_bytes());
}

/// Where the directory's entry for a section stands.
pub fn section_entry(bytes: &[u8], tag: &[u8; 4]) -> usize {
    let directory = u64_at(bytes, 100) as usize;
    (directory + 16..bytes.len()).step_by(32).find(|&e| &bytes[e..e + 4] == tag).unwrap()
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn seal(bytes: &mut [u8], covered: std::ops::Range<usize>, crc_at: usize) {
    let crc = crc32fast::hash(&bytes[covered]);
    bytes[crc_at..crc_at + 4].copy_from_slice(&crc.to_le_bytes());
}
