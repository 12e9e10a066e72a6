//! Small checkpoints that ask for much: none may take a second, or 64 MB more memory than the file has bytes.

use std::fs;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use qsf_runtime::source::open_huggingface;

use super::{HELD, PEAK, alone};

/// No checkpoint of tens of megabytes takes as long as this.
const LONG: Duration = Duration::from_secs(1);

const CONFIG: &str = r#"{"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1,
    "intermediate_size": 12, "vocab_size": 10, "max_position_embeddings": 16, "rms_norm_eps": 1e-5,
    "hidden_act": "silu", "tie_word_embeddings": true}"#;

/// A zip file of these stored entries.
fn zip(entries: &[(String, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let offset = (file.len() as u32).to_le_bytes();
        let size = (data.len() as u32).to_le_bytes();
        // No checksum, as torch can write it.
        let middle = [&[0; 12][..], &size, &size, &[name.len() as u8, 0, 0, 0]].concat();
        file.extend([b"PK\x03\x04\x14\0", &middle[..], name.as_bytes(), data].concat());
        directory
            .extend([b"PK\x01\x02\x14\0\x14\0", &middle[..], &[0; 10], &offset, name.as_bytes()].concat());
    }
    let [count, bytes, at] = [entries.len(), directory.len(), file.len()].map(|n| (n as u32).to_le_bytes());
    file.extend(directory);
    file.extend([b"PK\x05\x06\0\0\0\0", &count[..2], &count[..2], &bytes, &at, &[0, 0]].concat());
    file
}

fn pickle_of(parts: &[&[u8]]) -> Vec<u8> {
    zip(&[("a/data.pkl".to_owned(), &[b"\x80\x02", &parts.concat()[..]].concat())])
}

/// Tensors without values in 16 dimensions, as many as fit in memory: all are the same but for their names.
fn many_tensors() -> Vec<u8> {
    let text = |text: &str| [&[0x8c, text.len() as u8][..], text.as_bytes()].concat();
    let id = [b"(", &text("storage")[..], b"ctorch\nByteStorage\n", &text("0"), b"NK\0tQ"].concat();
    let sizes = [b"(", &b"K\0".repeat(16)[..], b"t"].concat();
    let call =
        [b"ctorch._utils\n_rebuild_tensor_v2\n(", &id[..], b"K\0", &sizes, &sizes, b"\x89}tRq\0"].concat();
    let mut pickle = [b"\x80\x02}", &text("first")[..], &call, b"s"].concat();
    for i in 0..80_000 {
        pickle.extend([&text(&i.to_string())[..], b"h\0s"].concat());
    }
    pickle.push(b'.');
    zip(&[("a/data.pkl".to_owned(), &pickle), ("a/data/0".to_owned(), b"")])
}

fn many_entries() -> Vec<u8> {
    let entries: Vec<_> = (0..65_535).map(|i| (format!("a/{i}"), &b""[..])).collect();
    zip(&entries)
}

#[test]
fn no_checkpoint_takes_a_second_or_memory_without_bound() {
    if !alone("memory::pickle_limits::no_checkpoint_takes_a_second_or_memory_without_bound") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), CONFIG).unwrap();
    let bomb = |operations: &[u8]| pickle_of(&[b"}q\0", &operations.repeat((24 << 20) / operations.len())]);
    for (name, says, file) in [
        ("lists", "values, found more", bomb(b"]")),
        (
            "lists in lists",
            "values, found more",
            pickle_of(&[&b"]".repeat(1_000_000), &b"a".repeat(999_999), b"."]),
        ),
        ("tuples in tuples", "values, found more", pickle_of(&[b"N", &b"\x85".repeat(24 << 20), b"."])),
        ("marks", "values, found more", bomb(b"(")),
        ("memo", "values, found more", bomb(b"\x94")),
        ("numbers", "values, found more", bomb(b"K\0")),
        ("pairs", "values, found more", bomb(b"NNs")),
        ("texts", "values, found more", bomb(b"\x8c\x01x")),
        ("dictionaries", "values, found more", bomb(b"}")),
        ("states", "no state but _metadata", bomb(b"h\0b")),
        ("self", "values, found more", bomb(b"h\0h\0\x86")),
        ("memo number", "number 0 or less", pickle_of(&[b"Nr\xff\xff\xff\xff."])),
        ("text of 2^62 bytes", "the end of the pickle", pickle_of(&[b"\x8d\0\0\0\0\0\0\0\x40"])),
        ("bytes of 2^64 - 1", "the end of the pickle", pickle_of(&[b"\x8e\xff\xff\xff\xff\xff\xff\xff\xff"])),
        ("one long text", "found the text", pickle_of(&[b"X\0\0\0\x02", &b"x".repeat(2 << 24), b"."])),
        ("one long name", "is not supported", pickle_of(&[b"c", &b"x".repeat(2 << 24), b"\nx\n."])),
        ("pickle of 65 MiB", "at most 67108864 bytes", pickle_of(&[&b"N".repeat(65 << 20)])),
        ("tensors", "model.embed_tokens.weight", many_tensors()),
        ("entries", "one entry NAME/data.pkl", many_entries()),
    ] {
        fs::write(dir.path().join("pytorch_model.bin"), &file).unwrap();
        let size = file.len();
        drop(file);
        // The shortest of some times: other tests want the processor, too.
        let mut took = Duration::MAX;
        let (mut message, mut taken) = (String::new(), 0);
        for _ in 0..3 {
            drop(std::mem::take(&mut message));
            let before = HELD.load(Relaxed);
            PEAK.store(before, Relaxed);
            let started = Instant::now();
            message = open_huggingface(dir.path()).unwrap_err().to_string();
            took = took.min(started.elapsed());
            taken = taken.max(PEAK.load(Relaxed) - before);
            if took < LONG {
                break;
            }
        }
        println!("{name}: {size} bytes, {taken} taken, {took:?}: {message:.200}");
        assert!(message.contains(says), "{name}: {message:.1000}");
        assert!(message.len() < 1000, "{name}: {} bytes of message", message.len());
        assert!(took < LONG, "{name}: {took:?}");
        assert!(taken < size + (64 << 20), "{name}: {taken} bytes for {size}");
    }
}
