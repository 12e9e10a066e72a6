//! Metadata of GGUF files that contradicts itself, and what is left open by the specification.

use std::fs;

use super::*;
use crate::gguf::GgufFile;
use crate::source::gguf::tests::{Value, Writer};
use crate::tokenizer::{GgufTokenizer, read_gguf_tokenizer};

fn read(writer: &Writer) -> Result<GgufTokenizer> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("vocab.gguf");
    fs::write(&path, writer.bytes()).unwrap();
    read_gguf_tokenizer(&GgufFile::open(&path)?.metadata).map(Option::unwrap)
}

fn i32s(values: &[i32]) -> Value {
    Value::List(values.iter().map(|&v| Value::I32(v)).collect())
}

/// `<unk>`, `<s>`, `</s>`, then a few pieces.
fn pieces() -> Writer {
    Writer::new()
        .set("tokenizer.ggml.model", Value::Str("llama"))
        .set("tokenizer.ggml.tokens", Value::strs(&["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "▁ab"]))
        .set("tokenizer.ggml.scores", Value::f32s(&[0.0, 0.0, 0.0, -3.0, -4.0, -5.0, -1.0, -2.0]))
        .set("tokenizer.ggml.token_type", i32s(&[2, 3, 3, 1, 1, 1, 1, 1]))
}

fn words() -> Writer {
    Writer::new()
        .set("tokenizer.ggml.model", Value::Str("gpt2"))
        .set("tokenizer.ggml.pre", Value::Str("gpt-2"))
        .set("tokenizer.ggml.tokens", Value::strs(&["<|endoftext|>", "a", "b", "ab", "Ġ"]))
        .set("tokenizer.ggml.token_type", i32s(&[3, 1, 1, 1, 1]))
        .set("tokenizer.ggml.merges", Value::strs(&["a b"]))
}

fn ids(writer: &Writer, text: &str) -> Vec<u32> {
    let found = read(writer).unwrap();
    let json = found.definition.to_json().unwrap();
    Tokenizer::from_json(&json, Path::new("vocab.gguf")).unwrap().encode(text).unwrap()
}

#[test]
fn the_tokens_around_a_text_are_those_of_llama_cpp() {
    assert_eq!(ids(&pieces(), "ab"), [1, 7], "start token by default");
    let key = |key: &str, value: bool| pieces().set(key, Value::Bool(value));
    assert_eq!(ids(&key("tokenizer.ggml.add_bos_token", false), "ab"), [7]);
    assert_eq!(ids(&key("tokenizer.ggml.add_eos_token", true), "ab"), [1, 7, 2]);
    assert_eq!(ids(&key("tokenizer.ggml.add_space_prefix", false), "ab"), [1, 6]);
    assert_eq!(ids(&pieces(), "ab</s>ab"), [1, 7, 2, 7], "a space after each special token");
    assert_eq!(ids(&pieces(), "axxb"), [1, 3, 4, 0, 5], "a run of unknown characters is one token");

    assert_eq!(ids(&words(), "ab a"), [3, 4, 1]);
    let with_bos = words().set("tokenizer.ggml.bos_token_id", Value::U32(0));
    assert_eq!(ids(&with_bos, "ab"), [3]);
    let llama3 = with_bos.clone().set("tokenizer.ggml.pre", Value::Str("llama-bpe"));
    assert_eq!(ids(&llama3, "ab"), [0, 3]);
    let told = with_bos.set("tokenizer.ggml.add_bos_token", Value::Bool(true));
    assert_eq!(ids(&told, "ab"), [0, 3]);
}

#[test]
fn files_without_types_or_with_empty_tokens_are_read() {
    assert_eq!(ids(&pieces().without("tokenizer.ggml.token_type"), "ab"), [1, 7]);
    let empty = words().set("tokenizer.ggml.tokens", Value::strs(&["<|endoftext|>", "a", "b", "ab", ""]));
    assert_eq!(ids(&empty, "ab"), [3]);
    let none = pieces().set("tokenizer.ggml.padding_token_id", Value::U32(u32::MAX));
    assert_eq!(ids(&none.set("tokenizer.ggml.eos_token_id", Value::U32(u32::MAX)), "a"), [1, 3, 4]);
    assert_eq!(ids(&words().without("tokenizer.ggml.pre"), "ab"), [3]);
    let unnamed = Writer::new().set("general.name", Value::Str("x"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("none.gguf");
    fs::write(&path, unnamed.bytes()).unwrap();
    assert!(read_gguf_tokenizer(&GgufFile::open(&path).unwrap().metadata).unwrap().is_none());
}

#[test]
fn every_kind_of_pre_tokenizer_splits_words_and_keeps_all_of_the_text() {
    let names = super::super::pre_tokenizers::names();
    assert!(names.len() > 60, "{}", names.len());
    let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
    let tokens: Vec<&'static str> = alphabet.iter().map(|c| &*c.to_string().leak()).collect();
    let ordinary = words()
        .set("tokenizer.ggml.tokens", Value::strs(&tokens))
        .set("tokenizer.ggml.token_type", i32s(&vec![1; tokens.len()]))
        .set("tokenizer.ggml.merges", Value::strs(&[]));
    let text = "It's 12345 Wörter,\r\n\n  「日本語」 १२३ foo_bar(x); 🦀\t ";
    for name in names {
        let found = read(&ordinary.clone().set("tokenizer.ggml.pre", Value::Str(name))).unwrap();
        let tokenizer = tokenizer_of(&found.definition);
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!((ids.len(), &*tokenizer.decode(&ids, false).unwrap()), (text.len(), text), "{name}");
        let super::super::Model::ByteLevel(model) = found.definition.model() else { panic!("{name}") };
        let split = pieces_of(model, "don't 123");
        assert!(split.len() > 1, "{name}: {split:?}");
    }
}

/// The words that a text is split into, bytes written as characters.
fn pieces_of(model: &super::super::ByteLevelBpe, text: &str) -> Vec<String> {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};
    let steps: tokenizers::PreTokenizerWrapper = serde_json::from_value(model.pre_tokenizer()).unwrap();
    let mut words = PreTokenizedString::from(text);
    steps.pre_tokenize(&mut words).unwrap();
    let splits = words.get_splits(OffsetReferential::Normalized, OffsetType::Byte);
    splits.into_iter().map(|(word, ..)| word.to_owned()).collect()
}

#[test]
fn kimi_k2_keeps_han_characters_apart_from_other_letters() {
    let alphabet = tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet();
    let tokens: Vec<&'static str> = alphabet.iter().map(|c| &*c.to_string().leak()).collect();
    let file = words()
        .set("tokenizer.ggml.tokens", Value::strs(&tokens))
        .set("tokenizer.ggml.token_type", i32s(&vec![1; tokens.len()]))
        .set("tokenizer.ggml.merges", Value::strs(&[]))
        .set("tokenizer.ggml.pre", Value::Str("kimi-k2"));
    let found = read(&file).unwrap();
    let super::super::Model::ByteLevel(model) = found.definition.model() else { panic!() };
    let steps: tokenizers::PreTokenizerWrapper = serde_json::from_value(model.pre_tokenizer()).unwrap();
    // Python's regex module with the expression of tokenization_kimi.py, which has intersections of classes.
    for (text, expected) in [
        ("abc漢字def", &["abc", "漢字", "def"][..]),
        ("日本語かな don't HELLOworld", &["日本語", "かな", " don't", " HELLOworld"]),
        ("x=12345;\n\n  y", &["x", "=", "123", "45", ";\n\n", " ", " y"]),
        ("漢's é́a", &["漢", "'s", " é́a"]),
    ] {
        assert_eq!(words_of(&steps, text), expected, "{text}");
    }
}

/// The words that a text is split into.
fn words_of(steps: &tokenizers::PreTokenizerWrapper, text: &str) -> Vec<String> {
    use tokenizers::{OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer};
    let mut words = PreTokenizedString::from(text);
    steps.pre_tokenize(&mut words).unwrap();
    let splits = words.get_splits(OffsetReferential::Original, OffsetType::Byte);
    splits.into_iter().map(|(_, (from, to), _)| text[from..to].to_owned()).collect()
}

#[test]
fn unknown_kinds_are_refused_by_their_names() {
    let model = |name| pieces().set("tokenizer.ggml.model", Value::Str(name));
    refused(|| read(&model("bert")), "the tokenizer \"bert\" is not supported");
    refused(|| read(&model("rwkv")), "the tokenizer \"rwkv\" is not supported");
    let pre = |name| words().set("tokenizer.ggml.pre", Value::Str(name));
    refused(|| read(&pre("afmoe")), "the pre-tokenizer \"afmoe\" is not supported");
    refused(|| read(&pre("\u{1b}[2J")), "the pre-tokenizer \"\\u{1b}[2J\"");
}

#[test]
fn metadata_that_contradicts_itself_is_refused() {
    let tokens =
        |writer: Writer, texts: &[&'static str]| writer.set("tokenizer.ggml.tokens", Value::strs(texts));
    let types = |list: &[i32]| pieces().set("tokenizer.ggml.token_type", i32s(list));
    let scores = |list: &[f32]| pieces().set("tokenizer.ggml.scores", Value::f32s(list));
    let bytes = |text: &'static str| {
        tokens(pieces(), &["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", text])
            .set("tokenizer.ggml.token_type", i32s(&[2, 3, 3, 1, 1, 1, 1, 6]))
    };
    let id =
        |writer: Writer, role: &str, id: Value| writer.set(&format!("tokenizer.ggml.{role}_token_id"), id);
    let merges = |texts: &[&'static str]| words().set("tokenizer.ggml.merges", Value::strs(texts));
    let cases = [
        (tokens(pieces(), &[]), "1 to 1048576 tokens, found 0"),
        (pieces().without("tokenizer.ggml.tokens"), "1 to 1048576 tokens, found 0"),
        (pieces().set("tokenizer.ggml.tokens", i32s(&[1, 2])), "an array of strings"),
        (tokens(pieces(), &["<unk>", "<s>", "</s>", "▁", "a", "b", "ab", "a"]), "\"a\" as 4 and 7"),
        (tokens(words(), &["<|endoftext|>", "a", "b", "ab", "a"]), "\"a\" as 1 and 4"),
        (types(&[2, 3, 3]), "8 types, found 3"),
        (types(&[2, 3, 3, 1, 1, 1, 1, 9]), "types from 0 to 6, found 9"),
        (types(&[2, 3, 3, 1, 1, 1, 1, -1]), "types from 0 to 6, found -1"),
        (pieces().set("tokenizer.ggml.token_type", Value::f32s(&[0.0; 8])), "32-bit integers"),
        (scores(&[0.0; 7]), "8 scores, found 7"),
        (scores(&[0.0; 9]), "8 scores, found 9"),
        (pieces().without("tokenizer.ggml.scores"), "8 scores, found 0"),
        (scores(&[0.0, 0.0, 0.0, f32::NAN, 0.0, 0.0, 0.0, 0.0]), "token 3: expected a finite score"),
        (scores(&[0.0, 0.0, 0.0, 0.0, f32::INFINITY, 0.0, 0.0, 0.0]), "token 4: expected a finite score"),
        // One byte for each token, where four are needed.
        (pieces().set("tokenizer.ggml.scores", Value::List(vec![Value::U8(0); 8])), "numbers with fractions"),
        (bytes("<0xZZ>"), "a byte spelled <0x00> to <0xFF>, found \"<0xZZ>\""),
        (bytes("<0x-1>"), "a byte spelled <0x00> to <0xFF>"),
        (bytes("<0x+A>"), "a byte spelled <0x00> to <0xFF>"),
        (bytes("<0xFFF>"), "a byte spelled <0x00> to <0xFF>"),
        (bytes("<0x0A>"), "256 byte pieces, found 1"),
        (id(pieces(), "bos", Value::U32(8)), "a token id below 8, found 8"),
        (id(pieces(), "eos", Value::I32(-7)), "an integer from 0 to 4294967295"),
        (id(words(), "eos", Value::U32(1 << 30)), "a token id below 5"),
        (id(pieces(), "unknown", Value::Str("0")), "an integer"),
        (merges(&["a c"]), "merge 0: expected tokens of the vocabulary, found \"c\""),
        (merges(&["b a"]), "a merge that makes a token of the vocabulary"),
        (merges(&["ab"]), "two tokens with a space between, found merge 0: \"ab\""),
        (merges(&[""]), "two tokens with a space between"),
        (merges(&[" "]), "two tokens with a space between"),
        (merges(&["a "]), "expected tokens of the vocabulary, found \"\""),
        (words().without("tokenizer.ggml.merges"), "an array of merges, found no such key"),
        (words().set("tokenizer.ggml.merges", Value::f32s(&[1.0])), "an array of strings"),
        (pieces().set("tokenizer.ggml.add_bos_token", Value::U32(1)), "true or false"),
    ];
    for (writer, expected) in &cases {
        refused(|| read(writer), expected);
    }
}

#[test]
fn a_table_of_replacements_that_leads_out_of_its_array_is_refused() {
    let t5 = pieces()
        .set("tokenizer.ggml.model", Value::Str("t5"))
        .set("tokenizer.ggml.unknown_token_id", Value::U32(0))
        .set("tokenizer.ggml.eos_token_id", Value::U32(2));
    assert_eq!(ids(&t5, "ab"), [6, 2]);
    let table = |bytes: &[u8]| {
        let list = bytes.iter().map(|&byte| Value::U8(byte)).collect();
        t5.clone().set("tokenizer.ggml.precompiled_charsmap", Value::List(list))
    };
    for bytes in
        [&[1][..], &[4, 0, 0, 0], &[255; 8], &[4, 0, 0, 0, 255, 255, 255, 255], &[3, 0, 0, 0, 1, 2, 3, 0]]
    {
        refused(|| read(&table(bytes)), "a table of replacements");
    }
    let long = table(&[0; 4]).set("tokenizer.ggml.precompiled_charsmap", i32s(&[300, 0, 0, 0]));
    refused(|| read(&long), "bytes, found 300");
}

#[test]
fn pieces_of_gemma_4_are_merged_in_the_order_of_the_merges_and_not_by_their_scores() {
    let gemma = Writer::new()
        .set("tokenizer.ggml.model", Value::Str("gemma4"))
        .set(
            "tokenizer.ggml.tokens",
            Value::strs(&["<pad>", "<eos>", "<bos>", "<unk>", "▁", "a", "b", "ab", "▁a", "\n", "\n\n"]),
        )
        .set("tokenizer.ggml.scores", Value::f32s(&[-1000.0; 11]))
        .set("tokenizer.ggml.token_type", i32s(&[3, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1]))
        .set("tokenizer.ggml.bos_token_id", Value::U32(2))
        .set("tokenizer.ggml.eos_token_id", Value::U32(1))
        .set("tokenizer.ggml.unknown_token_id", Value::U32(3))
        .set("tokenizer.ggml.add_space_prefix", Value::Bool(false));
    let merged = |merges: &[&'static str]| {
        ids(&gemma.clone().set("tokenizer.ggml.merges", Value::strs(merges)), "ab ab\n\n")
    };
    assert_eq!(merged(&["▁ a", "a b"]), [2, 7, 8, 6, 10], "a space and a letter first");
    assert_eq!(merged(&["a b", "▁ a"]), [2, 7, 4, 7, 10], "two letters first");
}
