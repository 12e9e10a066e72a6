//! GGUF files to read: a LLaMA whose weights are all zero and take no room on the disk, however large it is.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use crate::Size;

const U32: u32 = 4;
const F32: u32 = 6;
const STRING: u32 = 8;
/// ggml's number for Q4_0: blocks of 32 values in 18 bytes.
const Q4_0: u32 = 2;
const ALIGNMENT: u64 = 32;

/// Writes a LLaMA with matrices in Q4_0 and a tied head to `path`. It has no tokenizer.
pub fn write_sparse_gguf(path: &Path, size: Size) {
    let Size { layers, hidden, ffn, vocab } = size;
    let heads = size.heads();
    let mut tensors = vec![
        ("token_embd.weight".to_owned(), vec![hidden, vocab]),
        ("output_norm.weight".to_owned(), vec![hidden]),
    ];
    for layer in 0..layers {
        for (name, shape) in [
            ("attn_norm", vec![hidden]),
            ("ffn_norm", vec![hidden]),
            ("attn_q", vec![hidden, hidden]),
            ("attn_k", vec![hidden, hidden / 2]),
            ("attn_v", vec![hidden, hidden / 2]),
            ("attn_output", vec![hidden, hidden]),
            ("ffn_gate", vec![hidden, ffn]),
            ("ffn_up", vec![hidden, ffn]),
            ("ffn_down", vec![ffn, hidden]),
        ] {
            tensors.push((format!("blk.{layer}.{name}.weight"), shape));
        }
    }
    let numbers = [
        ("llama.block_count", layers),
        ("llama.context_length", 64),
        ("llama.embedding_length", hidden),
        ("llama.feed_forward_length", ffn),
        ("llama.attention.head_count", heads),
        ("llama.attention.head_count_kv", heads / 2),
        ("llama.rope.dimension_count", hidden / heads),
    ];
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((numbers.len() as u64 + 2).to_le_bytes());
    put_string(&mut bytes, "general.architecture");
    bytes.extend(STRING.to_le_bytes());
    put_string(&mut bytes, "llama");
    put_string(&mut bytes, "llama.attention.layer_norm_rms_epsilon");
    bytes.extend(F32.to_le_bytes());
    bytes.extend(1e-5f32.to_le_bytes());
    for (key, value) in numbers {
        put_string(&mut bytes, key);
        bytes.extend(U32.to_le_bytes());
        bytes.extend((value as u32).to_le_bytes());
    }
    let mut end = 0u64;
    for (name, shape) in &tensors {
        put_string(&mut bytes, name);
        bytes.extend((shape.len() as u32).to_le_bytes());
        for &dim in shape {
            bytes.extend((dim as u64).to_le_bytes());
        }
        let values = shape.iter().product::<usize>() as u64;
        let (id, size) = if shape.len() == 1 { (0, 4 * values) } else { (Q4_0, values / 32 * 18) };
        bytes.extend(id.to_le_bytes());
        bytes.extend(end.to_le_bytes());
        end = (end + size).next_multiple_of(ALIGNMENT);
    }
    let data = (bytes.len() as u64).next_multiple_of(ALIGNMENT);
    let mut file = File::create(path).unwrap();
    file.write_all(&bytes).unwrap();
    file.set_len(data + end).unwrap();
}

fn put_string(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u64).to_le_bytes());
    bytes.extend(text.as_bytes());
}
