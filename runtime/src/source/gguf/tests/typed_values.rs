//! Metadata as its users ask for it.

use super::*;
use crate::gguf::{Metadata, PerLayer};

fn with<T>(writer: Writer, test: impl FnOnce(&Metadata) -> T) -> T {
    test(&open(&writer.bytes()).unwrap().metadata)
}

#[test]
fn integers_of_every_type_are_taken_and_only_from_0_to_4294967295() {
    let good = [
        Value::U8(7),
        Value::I8(7),
        Value::U16(7),
        Value::I16(7),
        Value::U32(7),
        Value::I32(7),
        Value::U64(7),
        Value::I64(7),
    ];
    for value in good {
        with(Writer::new().set("k", value), |metadata| assert_eq!(metadata.need_u32("k").unwrap(), 7));
    }
    let bad = [
        (Value::I8(-1), "-1 (i8)"),
        (Value::I64(-1), "-1 (i64)"),
        (Value::U64(1 << 32), "4294967296 (u64)"),
        (Value::F32(1.0), "1 (f32)"),
        (Value::Bool(true), "true (bool)"),
        (Value::Str("7\u{1b}"), r#"the string "7\u{1b}""#),
        (Value::strs(&["7"]), "an array of 1 (string)"),
        (Value::Raw(7, vec![2]), "a broken value"),
    ];
    for (value, found) in bad {
        with(Writer::new().set("k\u{7}", value), |metadata| {
            let message = metadata.u32("k\u{7}").unwrap_err().to_string();
            assert!(message.contains(r#"key "k\u{7}": expected"#) && message.contains(found), "{message}");
        });
    }
}

#[test]
fn values_are_read_as_what_they_are_and_absent_ones_are_told_from_wrong_ones() {
    let writer = Writer::new()
        .set("f", Value::F32(0.5))
        .set("d", Value::F64(0.25))
        .set("nan", Value::F32(f32::NAN))
        .set("b", Value::Bool(true))
        .set("s", Value::Str("text"))
        .set("floats", Value::f32s(&[1.5, -2.0]))
        .set("ints", Value::List(vec![Value::I32(3), Value::I32(-4)]))
        .set("bools", Value::List(vec![Value::Bool(true), Value::Bool(false)]))
        .set("none", Value::strs(&[]));
    with(writer, |metadata| {
        assert_eq!(metadata.f32("f").unwrap(), Some(0.5));
        assert_eq!(metadata.need_f32("d").unwrap(), 0.25);
        assert!(metadata.f32("nan").is_err() && metadata.f32("s").is_err());
        assert_eq!(metadata.bool("b").unwrap(), Some(true));
        assert_eq!(metadata.need_str("s").unwrap(), "text");
        assert_eq!(metadata.f32s("floats").unwrap().unwrap(), [1.5, -2.0]);
        assert_eq!(metadata.i32s("ints").unwrap().unwrap(), [3, -4]);
        assert!(metadata.u32s("ints").unwrap_err().to_string().contains("element 1: -4 (i32)"));
        assert_eq!(metadata.bools("bools").unwrap().unwrap(), [true, false]);
        assert_eq!(metadata.strings("none").unwrap().unwrap(), Vec::<&str>::new());
        assert_eq!(metadata.strings("absent").unwrap(), None);
        assert_eq!(metadata.f32s("absent").unwrap(), None);
        assert!(metadata.contains("f") && !metadata.contains("absent"));
        for message in [metadata.need_str("absent").map(|_| ()), metadata.need_u32("absent").map(|_| ())] {
            assert!(message.unwrap_err().to_string().contains("no such key"));
        }
    });
}

#[test]
fn scores_and_types_of_tokens_in_another_type_of_element_are_no_such_array() {
    // llama.cpp's LC#26690: the right number of elements, each too small, is read beyond the end.
    let writer = Writer::new()
        .set("scores", Value::List(vec![Value::U8(1); 3]))
        .set("tokens", Value::f32s(&[1.0]))
        .set("types", Value::f32s(&[1.0]));
    with(writer, |metadata| {
        let message = metadata.f32s("scores").unwrap_err().to_string();
        assert!(message.contains("numbers with fractions") && message.contains("1 (u8)"), "{message}");
        assert!(metadata.strings("tokens").is_err() && metadata.i32s("types").is_err());
        assert!(metadata.strings("scores").is_err());
    });
}

#[test]
fn a_number_per_layer_comes_alone_or_as_an_array() {
    let list = Value::List(vec![Value::U32(1), Value::U32(2)]);
    with(Writer::new().set("a", Value::U32(5)).set("b", list), |metadata| {
        assert_eq!(metadata.u32_or_array("a").unwrap(), Some(PerLayer::All(5)));
        assert_eq!(metadata.u32_or_array("b").unwrap(), Some(PerLayer::Each(vec![1, 2])));
        assert_eq!(metadata.u32_or_array("c").unwrap(), None);
    });
}

#[test]
fn text_that_is_no_utf_8_is_an_error_where_it_is_read() {
    let broken = Value::Raw(8, [&1u64.to_le_bytes()[..], &[0xff]].concat());
    let mut list = 8u32.to_le_bytes().to_vec();
    list.extend(1u64.to_le_bytes());
    list.extend([&1u64.to_le_bytes()[..], &[0xff]].concat());
    with(Writer::new().set("s", broken).set("l", Value::Raw(9, list)), |metadata| {
        for message in [metadata.str("s").map(|_| ()), metadata.strings("l").map(|_| ())] {
            assert!(message.unwrap_err().to_string().contains("UTF-8"));
        }
    });
}
