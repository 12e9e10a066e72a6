//! Writes the committed seeds into `corpus/`, from the project's own code: `cargo +nightly run --example make_seeds`.
//! Checks that every seed is what it is meant to be, so that a fuzzer starts from files that open.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use qsf_calibration::{Detail, StatsHeader, StatsWriter, TextMark, collect};
use qsf_converter::plan::TypeOverride;
use qsf_converter::{ConvertOptions, convert};
use qsf_format::{BlockSize, Compression, Layout, QsfFile, verify_file};
use qsf_fuzz::models::{gpt2_config, gpt2_shapes, llama_config, llama_shapes, safetensors_file};
use qsf_fuzz::reseal::reseal;
use qsf_fuzz::seal_parts::reseal_statistics;
use qsf_fuzz::torch::{checkpoint, state_dict};
use qsf_fuzz::{dir_of, open_and_load};
use qsf_runtime::Tokenizer;
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::fingerprint::{model_fingerprint, text_fingerprint};
use qsf_runtime::progress::{Cancel, Unwatched};
use qsf_runtime::source::{QsfSource, open_huggingface};
use serde_json::{Value, json};

fn main() {
    qsf_files();
    directories();
    tokenizers();
    statistics();
    seed("options", "recipes.txt", "4bit\n2\nmixed\nBF16\n2bit-sym\n64\n256\nternary".as_bytes());
    seed("options", "overrides.txt", "layer 0 *=4bit\nffn_*=f16\n*_*_*=8\nattn_q=8bit\na=b=f32".as_bytes());
}

/// Statistics of four tokens, with and without products, of a layer and the head; and texts.
fn statistics() {
    let lines =
        "{\"text\": \"a\"}\n{\"messages\": [{\"role\": \"user\", \"content\": [{\"text\": \"b\"}]}]}\n";
    seed("statistics", "texts.jsonl", lines.as_bytes());
    let files = llama_files();
    let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, bytes.as_slice())).collect();
    let dir = dir_of(&files);
    let source = open_huggingface(dir.path()).expect("a model");
    for (name, detail) in [("diagonal.stats", Detail::Diagonal), ("full.stats", Detail::Full)] {
        let (tokens, cpu) = ([1, 2, 3, 1], Cpu::new(Isa::best()));
        let text = TextMark { hash: text_fingerprint(&tokens), tokens: tokens.len() as u64 };
        let model = model_fingerprint(&source).expect("a fingerprint");
        let header = StatsHeader { model, texts: vec![text] };
        let out = dir.path().join(name);
        let mut writer = StatsWriter::create(&out, false, &header).expect("a file");
        let stats = collect(&source, &cpu, &tokens, detail, &Unwatched, &Cancel::default());
        for layer in stats.expect("statistics").layers() {
            writer.layer(layer).expect("a layer");
        }
        writer.finish().expect("a whole file");
        let bytes = fs::read(&out).expect("the file");
        let mut resealed = bytes.clone();
        reseal_statistics(&mut resealed);
        assert_eq!(resealed, bytes, "{name} has the checksums that it should");
        seed("statistics", name, &bytes);
    }
}

fn llama_files() -> [(&'static str, Vec<u8>); 2] {
    let config = llama_config().to_string().into_bytes();
    [("config.json", config), ("model.safetensors", safetensors_file(&llama_shapes()))]
}

fn seed(target: &str, name: &str, bytes: &[u8]) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    fs::create_dir_all(&dir).expect("the corpus folder");
    fs::write(dir.join(name), bytes).expect("a seed");
    println!("{target}/{name}: {} bytes", bytes.len());
}

fn qsf_files() {
    let llama = (llama_config(), safetensors_file(&llama_shapes()));
    let llama3 = (llama3_config(), safetensors_file(&llama_shapes()));
    let gpt2 = (gpt2_config(), safetensors_file(&gpt2_shapes()));
    let types = ["ffn_*=f32", "attn_q=8bit", "attn_k=2bit-sym", "attn_v=ternary"];
    for (name, compression, bytes) in [
        (
            "llama-4bit.qsf",
            Compression::None,
            converted(&llama, "4bit", &[], Compression::None, Layout::Rows),
        ),
        // Panels, and rows that fill none, in the embedding and in the layer.
        (
            "llama-3bit-panels.qsf",
            Compression::None,
            converted(&wide_llama(), "3bit", &["attn_q=8bit"], Compression::None, Layout::Panels16),
        ),
        (
            "llama3-mixed-zstd.qsf",
            Compression::Zstd,
            converted(&llama3, "mixed", &["ffn_*=f32"], Compression::Zstd, Layout::Panels16),
        ),
        (
            "gpt2-3bit-lz4.qsf",
            Compression::Lz4,
            converted(&gpt2, "3bit", &types, Compression::Lz4, Layout::Rows),
        ),
        (
            "llama-plain.qsf",
            Compression::None,
            plain(converted(&llama, "f16", &[], Compression::None, Layout::Rows)),
        ),
    ] {
        let mut resealed = bytes.clone();
        reseal(&mut resealed);
        assert!(resealed == bytes, "{name}: sealed again, a sound file stays as it is");
        let file = QsfFile::from_memory(Path::new(name), Arc::new(bytes.clone())).expect(name);
        assert_eq!(file.layers()[0].compression, compression, "{name}");
        verify_file(&file).expect(name);
        QsfSource::from_file(file).expect(name);
        seed("qsf_file", name, &bytes);
    }
}

/// The smallest tokenizer that a converter takes.
const TOKENIZER: &[u8] = br#"{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,
"post_processor":null,"decoder":null,"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}"#;

fn converted(
    model: &(Value, Vec<u8>),
    recipe: &str,
    overrides: &[&str],
    compression: Compression,
    layout: Layout,
) -> Vec<u8> {
    let (config, weights) = model;
    let dir = dir_of(&[
        ("config.json", config.to_string().as_bytes()),
        ("model.safetensors", weights),
        ("tokenizer.json", TOKENIZER),
    ]);
    let source = open_huggingface(dir.path()).expect("a sound model");
    let out = dir.path().join("model.qsf");
    let options = ConvertOptions {
        recipe: recipe.parse().expect("a recipe"),
        overrides: overrides.iter().map(|rule| rule.parse::<TypeOverride>().expect("an override")).collect(),
        block: BlockSize::new(32).expect("a block size"),
        compression,
        layout,
        ..ConvertOptions::default()
    };
    convert(&source, &out, &options, &Cpu::new(Isa::SCALAR), &Unwatched, &Cancel::default())
        .expect("a conversion");
    fs::read(out).expect("the file")
}

/// Without header extension a file has no directory, and readers believe the header alone.
fn plain(mut file: Vec<u8>) -> Vec<u8> {
    file[100..128].fill(0);
    reseal(&mut file);
    file
}

/// A LLaMA with a vocabulary and a feed-forward of more rows than a panel has.
fn wide_llama() -> (Value, Vec<u8>) {
    let (mut config, mut shapes) = (llama_config(), llama_shapes());
    config["vocab_size"] = json!(18);
    config["intermediate_size"] = json!(33);
    for (_, shape) in &mut shapes {
        let replaced = shape.iter().map(|&width| match width {
            10 => 18,
            12 => 33,
            width => width,
        });
        *shape = replaced.collect();
    }
    (config, safetensors_file(&shapes))
}

fn llama3_config() -> Value {
    let mut llama3 = llama_config();
    llama3["rope_parameters"] = json!({
        "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 8,
    });
    llama3["head_dim"] = json!(4);
    llama3["eos_token_id"] = json!([2, 3]);
    llama3["attention_bias"] = json!(false);
    llama3
}

fn directories() {
    let (llama_weights, gpt2_weights) = (safetensors_file(&llama_shapes()), safetensors_file(&gpt2_shapes()));
    let (llama, gpt2) = (llama_config(), gpt2_config());
    let llama3 = llama3_config();
    for (name, config, weights) in [
        ("llama.json", &llama, &llama_weights),
        ("llama3.json", &llama3, &llama_weights),
        ("gpt2.json", &gpt2, &gpt2_weights),
    ] {
        let config = config.to_string();
        open_and_load(&[("config.json", config.as_bytes()), ("model.safetensors", weights)]).expect(name);
        seed("model_config", name, config.as_bytes());
    }
    seed("safetensors_model", "llama.safetensors", &llama_weights);
    seed("safetensors_model", "gpt2.safetensors", &gpt2_weights);
    let pickle = state_dict(&llama_shapes());
    let file = checkpoint(&pickle);
    open_and_load(&[("config.json", llama.to_string().as_bytes()), ("pytorch_model.bin", &file)])
        .expect("a model of torch");
    seed("pickle", "llama.bin", &file);
    seed("pickle", "llama.pkl", &pickle);
    let shapes = llama_shapes();
    let shard = |i: usize| if i == 0 { "a.safetensors" } else { "b.safetensors" };
    let weight_map: serde_json::Map<String, Value> =
        shapes.iter().enumerate().map(|(i, (name, _))| ((*name).to_owned(), json!(shard(i)))).collect();
    let index = json!({"metadata": {"total_size": 1}, "weight_map": weight_map}).to_string();
    let (first, second) = shapes.split_at(1);
    open_and_load(&[
        ("config.json", llama.to_string().as_bytes()),
        ("a.safetensors", &safetensors_file(first)),
        ("b.safetensors", &safetensors_file(second)),
        ("model.safetensors.index.json", index.as_bytes()),
    ])
    .expect("a sharded model");
    seed("shard_index", "llama.json", index.as_bytes());
}

/// One tokenizer of each model, with every kind of step in one of them.
fn tokenizers() {
    let special = json!({"id": 0, "content": "<s>", "single_word": false, "lstrip": false, "rstrip": false,
                         "normalized": false, "special": true});
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let bpe = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [special],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"Regex": " +"}, "content": "▁"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}|(?!\\S)\\s+"}, "behavior": "Isolated", "invert": false},
            byte_level]},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": "<s>", "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": {"<s>": 0, "a": 1, "aa": 2, "H": 3, "e": 4, "He": 5, "<0x0A>": 6, "Ġ": 7, "1": 8},
            "merges": [["a", "a"], ["H", "e"]]},
    });
    let word_piece = json!({
        "version": "1.0", "truncation": {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0},
        "padding": null, "added_tokens": [],
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": true},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 1], "cls": ["[CLS]", 2]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {"[UNK]": 0, "[SEP]": 1, "[CLS]": 2, "hello": 3, "w": 4, "##o": 5, "##rld": 6}},
    });
    let unigram = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKD"}, {"type": "Lowercase"},
            {"type": "StripAccents"}, {"type": "Strip", "strip_left": true, "strip_right": false}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "post_processor": null,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true},
        "model": {"type": "Unigram", "unk_id": 0, "byte_fallback": false,
            "vocab": [["<unk>", 0.0], ["▁", -1.0], ["he", -2.5], ["l", -3.0], ["o", -3.5], ["▁w", -4.0]]},
    });
    let word_level = json!({
        "version": "1.0", "truncation": null,
        "padding": {"strategy": {"Fixed": 16}, "direction": "Left", "pad_to_multiple_of": 8, "pad_id": 0,
            "pad_type_id": 0, "pad_token": "!"},
        "added_tokens": [], "normalizer": null,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
            {"type": "Punctuation", "behavior": "Removed"}, {"type": "WhitespaceSplit"}, {"type": "UnicodeScripts"}]},
        "post_processor": {"type": "RobertaProcessing", "sep": ["!", 0], "cls": ["!", 0], "trim_offsets": true,
            "add_prefix_space": true},
        "decoder": {"type": "CTC", "pad_token": "!", "word_delimiter_token": "|", "cleanup": true},
        "model": {"type": "WordLevel", "unk_token": "!", "vocab": {"!": 0, "Hello": 1, "1": 2}},
    });
    for (name, json) in
        [("bpe", bpe), ("word-piece", word_piece), ("unigram", unigram), ("word-level", word_level)]
    {
        let text = json.to_string();
        let name = format!("{name}.json");
        let tokenizer = Tokenizer::from_json(text.as_bytes(), Path::new(&name)).expect(&name);
        let ids = tokenizer.encode("Hello world 12").expect(&name);
        tokenizer.decode(&ids, true).expect(&name);
        seed("tokenizer", &name, text.as_bytes());
    }
}
