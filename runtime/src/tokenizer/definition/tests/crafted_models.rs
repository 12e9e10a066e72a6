//! SentencePiece files that are damaged or crafted, and tables in a `tokenizer.json` that the library would follow blindly.

use super::*;

const PATH: &str = "tokenizer.model";

fn read(bytes: &[u8]) -> Result<Definition> {
    Definition::from_sentencepiece(Path::new(PATH), bytes)
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

/// A field of wire type 2.
fn field(number: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(number << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

fn piece(text: &[u8], score: f32, kind: u64) -> Vec<u8> {
    let score = [&[2 << 3 | 5][..], &score.to_le_bytes()].concat();
    field(1, &[field(1, text), score, number(3, kind)].concat())
}

/// `<unk>`, `<s>`, `</s>` and a few pieces of a BPE model.
fn model(further: &[&[u8]]) -> Vec<u8> {
    let pieces = [
        piece(b"<unk>", 0.0, 2),
        piece(b"<s>", 0.0, 3),
        piece(b"</s>", 0.0, 3),
        piece("▁".as_bytes(), -3.0, 1),
        piece(b"a", -4.0, 1),
        piece(b"b", -5.0, 1),
        piece(b"ab", -1.0, 1),
    ];
    [&pieces.concat(), &field(2, &number(3, 2))[..], &further.concat()].concat()
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_an_error_or_a_smaller_model() {
    let whole = model(&[]);
    read(&whole).unwrap();
    for len in 0..whole.len() {
        // At the end of a field the rest is a message, too: without its unknown piece, or of the other type.
        if let Err(error) = read(&whole[..len]) {
            assert!(error.to_string().starts_with("tokenizer.model: "), "{error}");
        }
    }
}

#[test]
fn fields_that_lie_about_their_length_or_kind_are_refused() {
    let with = |bytes: &[u8]| read(&model(&[bytes])).map(|_| ());
    let cases: [(&[u8], &str); 9] = [
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01], "18446744073709551615 bytes"),
        (&[0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02], "at most 64 bits"),
        (&[0xff; 12], "at most 64 bits"),
        (&[0x0a, 0x05, 0x0a], "expected 5 bytes, found 1"),
        (&[0x0b], "wire type"),
        (&[0x08, 0x01], "field 1: expected a run of bytes, found an integer"),
        (&[0x0d, 1, 2, 3, 4], "expected a run of bytes, found 4 bytes"),
        (&[0x0a, 0x03, 0x0a, 0x01, 0xff], "UTF-8 text"),
        (&[0x0a, 0x02, 0x18, 0x07], "a type of piece from 1 to 6, found 7"),
    ];
    for (bytes, expected) in cases {
        refused(|| with(bytes), expected);
    }
}

#[test]
fn vocabularies_that_make_no_sense_are_refused() {
    let with = |bytes: &[u8]| read(&model(&[bytes])).map(|_| ());
    let normalizer = |table: &[u8]| field(3, &field(2, table));
    let cases = [
        (Vec::new(), Some("one of type UNKNOWN, found none")),
        (piece(b"<u>", 0.0, 2), None),
        (piece(b"a", 0.0, 1), None),
        (piece(b"", 0.0, 1), None),
        (piece(b"c", f32::NAN, 1), None),
        (piece(b"<0xZZ>", 0.0, 6), None),
        (field(2, &number(35, 1)), None),
        (field(2, &number(3, 3)), None),
        (field(2, &number(3, 77)), None),
        (field(2, &number(24, 1)), None),
        (normalizer(&[1, 2, 3]), None),
        (normalizer(&[0, 0, 0, 0, 0]), None),
        (normalizer(&[4, 0, 0, 0, 0, 0, 0, 0]), None),
        (normalizer(&[0xff; 64]), None),
        (piece("x".repeat(2000).as_bytes(), 0.0, 1), None),
    ];
    let expected = [
        "",
        "0 and 7",
        "\"a\" as 4 and 7",
        "an empty one",
        "a finite score",
        "a byte spelled",
        "256 byte pieces, found 0",
        "a SentencePiece model of words",
        "type 77",
        "treat_whitespace_as_suffix",
        "less than 4 bytes",
        "0 bytes in 1",
        "a unit that leads to",
        "a double array of 4294967295",
        "at most 1024 bytes",
    ];
    refused(|| read(&[]), "one of type UNKNOWN, found none");
    for ((bytes, _), expected) in cases.iter().zip(expected).skip(1) {
        refused(|| with(bytes).and_then(|()| read(&model(&[bytes]))?.to_json().map(|_| ())), expected);
    }
}

#[test]
fn pieces_that_form_each_other_in_too_many_ways_do_not_fill_the_memory() {
    // Every run of one letter up to the longest: half a million merges of half a kilobyte each.
    let runs: Vec<Vec<u8>> = (2..=1024).map(|n| piece("a".repeat(n).as_bytes(), -(n as f32), 1)).collect();
    let runs: Vec<&[u8]> = runs.iter().map(Vec::as_slice).collect();
    refused(|| read(&model(&runs))?.to_json(), "pieces that form each other in at most");
}

#[test]
fn a_zero_byte_in_a_piece_is_a_character_like_others() {
    let zero = piece(b"a\0b", -0.5, 1);
    let parts = [&zero[..], &piece(b"\0", -6.0, 1), &piece(b"a\0", -0.7, 1)];
    assert_eq!(tokenizer_of(&read(&model(&parts)).unwrap()).encode_plain("a\0b").unwrap(), [3, 7]);
}

#[test]
fn equal_scores_are_merged_from_the_left_as_in_sentencepiece() {
    let runs = ["▁▁", "▁▁▁", "▁▁▁▁", "▁▁▁▁▁"].map(|run| piece(run.as_bytes(), -9.0, 1));
    let keep_spaces = field(3, &number(4, 0));
    let runs: Vec<&[u8]> = runs.iter().map(Vec::as_slice).chain([&keep_spaces[..]]).collect();
    // One space in front, seven in the text: five, then three.
    assert_eq!(tokenizer_of(&read(&model(&runs)).unwrap()).encode_plain("       a").unwrap(), [10, 8, 4]);
}

#[test]
fn a_tokenizer_json_with_a_junk_table_is_refused_before_the_library_believes_its_size() {
    for table in ["/////w==", "AAAA/w==", "BAAAAP////8AAA==", "?", ""] {
        let json = serde_json::json!({
            "normalizer": {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": table}]},
            "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []},
        });
        refused(
            || Tokenizer::from_json(json.to_string().as_bytes(), Path::new("tokenizer.json")),
            "precompiled_charsmap",
        );
    }
}

#[test]
fn the_self_check_finds_a_tokenizer_that_splits_a_text_differently() {
    let definition = read(&model(&[])).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&definition.to_json().unwrap()).unwrap();
    json["model"]["merges"] = serde_json::json!([]);
    let other = Tokenizer::from_json(json.to_string().as_bytes(), Path::new("tokenizer.json")).unwrap();
    let difference = self_check(&definition, &other, false).unwrap().unwrap();
    assert_eq!((difference.expected[0], difference.found[..2].to_vec()), (6, vec![4, 5]));
}

#[test]
fn a_model_with_changed_bytes_is_an_error_or_a_model_and_never_a_crash() {
    let whole = std::fs::read(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tokenizer/definition/fixtures/unigram_rules.model"),
    )
    .unwrap();
    // A generator of one's own: the same bytes in every run (Marsaglia 2003, xorshift).
    let mut state = 0x2545_f491u32;
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as usize % below
    };
    let mut models = 0;
    for _ in 0..2000 {
        let mut bytes = whole.clone();
        for _ in 0..=random(4) {
            // The last bytes are the specifications, with the table of replacements.
            let at = if random(2) == 0 { random(bytes.len()) } else { bytes.len() - 1 - random(1500) };
            bytes[at] = random(256) as u8;
        }
        let tokenizer = read(&bytes).and_then(|definition| {
            Tokenizer::from_json(&definition.to_json()?, definition.path())?
                .encode("an \u{fb01} A\u{30a} \u{2126}\u{bd} \u{a0}x")
        });
        match tokenizer {
            Ok(_) => models += 1,
            Err(error) => {
                let error = error.to_string();
                assert!(!error.contains("internal error"), "{error}");
            }
        }
    }
    assert!(models > 100, "{models} of 2000 were models");
}
