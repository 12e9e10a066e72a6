//! A small file with every kind of part: several layers, compressed and not, learned positions, a separate head.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

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
        norm: NormConfig { kind: NormKind::LayerNorm, epsilon: 1e-5 },
        activation: Activation::GeluTanh,
        gated_ffn: false,
        position: PositionConfig::Learned {},
        tied_head: false,
        bos: Some(1),
        stop_tokens: vec![2, 3],
        pad: None,
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

pub fn tensor(kind: TensorKind, rows: u32, cols: u32, quant: QuantType, seed: u32) -> EncodedTensor {
    let bytes = quant.tensor_bytes(BlockSize::B64, rows.into(), cols.into()).unwrap() as usize;
    EncodedTensor { kind, rows, cols, quant, data: pattern(bytes, seed) }
}

pub fn layer(seed: u32) -> Vec<EncodedTensor> {
    vec![
        tensor(TensorKind::AttnQ, 64, 64, QuantType::Q2, seed),
        tensor(TensorKind::AttnNorm, 1, 64, QuantType::F16, seed + 1),
        tensor(TensorKind::FfnUp, 256, 64, QuantType::Q4, seed),
        tensor(TensorKind::FfnUpBias, 1, 256, QuantType::F16, seed),
    ]
}

pub fn embedding() -> Vec<u8> {
    pattern(QuantType::Q4.tensor_bytes(BlockSize::B64, VOCAB.into(), HIDDEN.into()).unwrap() as usize, 4)
}

pub fn meta() -> Meta {
    Meta {
        version: META_VERSION,
        model: model(),
        provenance: Provenance { tool: "test".into(), sources: Vec::new(), options: serde_json::Map::new() },
        tensors: Vec::new(),
    }
}

pub fn write(path: &Path, compression: Compression) -> Result<u64, FormatError> {
    let options = WriterOptions { force: false, block: BlockSize::B64, compression };
    let mut writer = QsfWriter::create(path, 2, options)?;
    writer.begin_embedding(QuantType::Q4, VOCAB, HIDDEN)?;
    let embedding = embedding();
    let (first, second) = embedding.split_at(36 * 100);
    writer.embedding_rows(first)?;
    writer.embedding_rows(second)?;
    writer.layer(layer(1), None)?;
    writer.layer(layer(2), Some(0.5))?;
    writer.begin_final(false)?;
    for t in [
        tensor(TensorKind::FinalNorm, 1, HIDDEN, QuantType::F16, 7),
        tensor(TensorKind::FinalNormBias, 1, HIDDEN, QuantType::F16, 9),
        tensor(TensorKind::Head, VOCAB, HIDDEN, QuantType::Q4, 11),
    ] {
        writer.begin_tensor(t.kind, t.rows, t.cols, t.quant)?;
        writer.tensor_rows(&t.data)?;
    }
    writer.end_final();
    writer.begin_positions()?;
    let t = tensor(TensorKind::Positions, 32, HIDDEN, QuantType::Q8, 13);
    writer.begin_tensor(t.kind, t.rows, t.cols, t.quant)?;
    writer.tensor_rows(&t.data)?;
    writer.end_positions();
    writer.finish(&meta(), MIXED, Some(b"{\"tokenizer\": true}"), Some(b"{{ messages }}"))
}
