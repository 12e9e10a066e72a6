use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

const PATH: &str = "tokenizer.json";

fn tokenizer(json: &Value) -> Result<Tokenizer> {
    Tokenizer::from_json(json.to_string().as_bytes(), Path::new(PATH))
}

/// One token per byte in the spelling of byte-level BPE, and `<s>`, `</s>` before and after every text.
fn byte_level(post_processor: Value) -> Value {
    let alphabet: std::collections::BTreeSet<char> =
        tokenizers::pre_tokenizers::byte_level::ByteLevel::alphabet().into_iter().collect();
    let mut vocab: serde_json::Map<String, Value> =
        alphabet.iter().enumerate().map(|(id, c)| (c.to_string(), json!(id))).collect();
    vocab.insert("<s>".into(), json!(256));
    vocab.insert("</s>".into(), json!(257));
    let special = |id: u32, content: &str| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let byte_level =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [special(256, "<s>"), special(257, "</s>")],
        "normalizer": null, "pre_tokenizer": byte_level, "post_processor": post_processor, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
                  "vocab": vocab, "merges": []}
    })
}

/// A post-processor that puts `tokens` around the text `A`.
fn template(tokens: &[&str]) -> Value {
    let item = |token: &&str| match *token {
        "A" => json!({"Sequence": {"id": "A", "type_id": 0}}),
        special => json!({"SpecialToken": {"id": special, "type_id": 0}}),
    };
    json!({
        "type": "TemplateProcessing",
        "single": tokens.iter().map(item).collect::<Vec<_>>(),
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<s>": {"id": "<s>", "ids": [256], "tokens": ["<s>"]},
            "</s>": {"id": "</s>", "ids": [257], "tokens": ["</s>"]}
        }
    })
}

fn streamed(tokenizer: &Tokenizer, ids: &[u32]) -> String {
    let mut stream = tokenizer.stream();
    let mut text = String::new();
    for &id in ids {
        text.extend(stream.push(id).unwrap());
    }
    text.extend(stream.finish().unwrap());
    text
}

#[test]
fn the_start_token_is_the_one_that_the_tokenizer_itself_adds() {
    let bos = |tokens: &[&str]| tokenizer(&byte_level(template(tokens))).unwrap().bos();
    assert_eq!(bos(&["<s>", "A"]), Some(256));
    assert_eq!(bos(&["<s>", "A", "</s>"]), Some(256));
    assert_eq!(bos(&["A", "</s>"]), None, "the end token stands first before an empty text only");
    assert_eq!(tokenizer(&byte_level(Value::Null)).unwrap().bos(), None);
}

#[test]
fn a_text_is_neither_cut_nor_padded_whatever_the_file_says() {
    let mut json = byte_level(Value::Null);
    json["truncation"] =
        json!({"direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0});
    json["padding"] = json!({"strategy": {"Fixed": 16}, "direction": "Right", "pad_to_multiple_of": null,
                             "pad_id": 0, "pad_type_id": 0, "pad_token": "!"});
    assert_eq!(tokenizer(&json).unwrap().encode("12345").unwrap().len(), 5);
}

#[test]
fn characters_of_several_bytes_come_out_whole() {
    let tokenizer = tokenizer(&byte_level(Value::Null)).unwrap();
    let text = "aé漢字🦀👩‍👩‍👧 e\u{301}!";
    let ids = tokenizer.encode(text).unwrap();
    assert_eq!(ids.len(), text.len(), "one token per byte");
    assert_eq!(streamed(&tokenizer, &ids), text);
    let mut stream = tokenizer.stream();
    for &id in &ids {
        if let Some(piece) = stream.push(id).unwrap() {
            assert!(!piece.contains('\u{fffd}'), "{piece:?}");
        }
    }
}

#[test]
fn bytes_that_are_no_text_are_shown_and_do_not_pile_up() {
    let tokenizer = tokenizer(&byte_level(Value::Null)).unwrap();
    let crab = tokenizer.encode("🦀").unwrap();
    let cut = [&crab[..3], &tokenizer.encode("ok").unwrap()[..]].concat();
    assert_eq!(streamed(&tokenizer, &cut), tokenizer.decode(&cut, true).unwrap());
    assert_eq!(streamed(&tokenizer, &crab[..2]), "\u{fffd}", "finish gives what was held back");

    let garbage = vec![crab[1]; 10_000];
    let start = Instant::now();
    let text = streamed(&tokenizer, &garbage);
    assert!(text.chars().all(|c| c == '\u{fffd}') && text.chars().count() > 9_000, "{}", text.len());
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[test]
fn special_tokens_are_left_out_of_a_stream_and_do_not_pile_up() {
    let tokenizer = tokenizer(&byte_level(Value::Null)).unwrap();
    let word = tokenizer.encode("ok").unwrap();
    let ids = [&word[..], &vec![257; 20_000], &word].concat();
    let start = Instant::now();
    assert_eq!(streamed(&tokenizer, &ids), "okok");
    assert!(start.elapsed() < Duration::from_secs(5));
    assert_eq!(tokenizer.decode(&[257, word[0]], false).unwrap(), "</s>o");
    assert_eq!(tokenizer.token_text(257).as_deref(), Some("</s>"));
    assert_eq!((tokenizer.token_text(9_999), tokenizer.vocab_size()), (None, 258));
}

#[test]
fn byte_fallback_tokens_stream_like_they_decode() {
    let mut vocab: serde_json::Map<String, Value> =
        (0..256).map(|b| (format!("<0x{b:02X}>"), json!(b))).collect();
    for (i, piece) in ["▁", "▁Hi", "x", "▁▁"].iter().enumerate() {
        vocab.insert((*piece).to_owned(), json!(256 + i));
    }
    let json = json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [], "normalizer": null,
        "pre_tokenizer": null, "post_processor": null,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                  "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
                  "vocab": vocab, "merges": []}
    });
    let tokenizer = tokenizer(&json).unwrap();
    let bytes = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
    let ids = [&[257, 256, 257][..], &bytes("漢é🦀字"), &[258, 259, 257], &bytes("é"), &[256]].concat();
    let text = tokenizer.decode(&ids, true).unwrap();
    assert_eq!(text, "Hi  Hi漢é🦀字x   Hié ");
    assert_eq!(streamed(&tokenizer, &ids), text);
}

#[test]
fn malformed_files_are_errors_and_not_crashes() {
    for text in ["", "{", "null", "[]", "{}", r#"{"model": {}}"#, "\u{0}"] {
        let error = Tokenizer::from_json(text.as_bytes(), Path::new(PATH)).unwrap_err();
        assert!(error.to_string().starts_with("tokenizer.json: the tokenizer: expected"), "{text}: {error}");
    }
    let nested = "[".repeat(1 << 20);
    assert!(Tokenizer::from_json(nested.as_bytes(), Path::new(PATH)).is_err());
}

#[test]
fn files_that_are_known_to_crash_the_library_are_errors_or_work() {
    let base = byte_level(Value::Null);
    let with = |field: &str, value: Value| {
        let mut json = base.clone();
        json[field] = value;
        json
    };
    let mut unknown = template(&["<s>", "A"]);
    unknown["special_tokens"] = json!({});
    let mut long_merge = base.clone();
    long_merge["model"]["vocab"]["ab"] = json!(300);
    long_merge["model"]["merges"] = json!(["a b", "ab ab"]);
    let files = [
        with("post_processor", unknown),
        with("pre_tokenizer", json!({"type": "FixedLength", "length": 0})),
        with("decoder", json!({"type": "Strip", "content": "a", "start": 9, "stop": 9})),
        with("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": "AAAA/w=="})),
        with(
            "truncation",
            json!({"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 5}),
        ),
        long_merge,
    ];
    for json in files {
        // Whether the library takes a file differs by its version; that the process goes on must not.
        if let Ok(tokenizer) = tokenizer(&json) {
            let _ = tokenizer.encode("ab ab").and_then(|ids| tokenizer.decode(&ids, false));
        }
    }
}

#[test]
fn a_long_text_gets_what_the_tokenizer_adds_once_and_a_beginning_only_what_stands_before() {
    let tokenizer = tokenizer(&byte_level(template(&["<s>", "A", "</s>"]))).unwrap();
    let text = "Words, and spaces.\n".repeat(20_000);
    let ids = tokenizer.encode(&text).unwrap();
    assert_eq!(ids.len(), text.len() + 2, "one token per byte");
    assert_eq!((ids[0], ids[ids.len() - 1]), (256, 257));
    assert_eq!(ids[1..ids.len() - 1], tokenizer.encode_plain(&text).unwrap());
    let first = |text: &str, most| {
        tokenizer.encode_first(&mut TextInMemory::new(text, Path::new("text")), most, true).unwrap()
    };
    assert_eq!(first(&text, 1000), ids[..1000]);
    assert_eq!(first("", 9), [256, 257]);
    assert_eq!(first("a", 2).len(), 2);
}

#[test]
fn an_added_token_of_which_the_normalizer_leaves_nothing_is_refused() {
    // The library would find it everywhere in every text, and never end.
    let mut json = byte_level(Value::Null);
    json["normalizer"] = json!({"type": "Replace", "pattern": {"String": "X"}, "content": ""});
    let added = |normalized: bool| {
        json!({"id": 258, "content": "X", "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": normalized, "special": false})
    };
    json["added_tokens"].as_array_mut().unwrap().push(added(true));
    let error = tokenizer(&json).unwrap_err().to_string();
    assert!(error.contains("leaves nothing of the added token \"X\""), "{error}");
    json["added_tokens"][2] = added(false);
    assert_eq!(tokenizer(&json).unwrap().encode("aXb").unwrap().len(), 3);
}

#[test]
fn the_tokens_of_a_text_do_not_change_from_run_to_run() {
    let mut json = byte_level(Value::Null);
    for (id, half) in ["a", "aa", "aaaa"].into_iter().enumerate() {
        json["model"]["vocab"][half.repeat(2)] = json!(258 + id);
    }
    json["model"]["merges"] = json!(["a a", "aa aa", "aaaa aaaa"]);
    json["model"]["dropout"] = json!(0.5);
    let tokenizer = tokenizer(&json).unwrap();
    for _ in 0..20 {
        assert_eq!(tokenizer.encode(&"a".repeat(80)).unwrap(), [260; 10]);
    }
}
