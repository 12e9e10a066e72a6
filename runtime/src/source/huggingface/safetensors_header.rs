//! The header of a safetensors file (<https://huggingface.co/docs/safetensors/index>): JSON with type, shape and place of each
//! tensor. The library keeps all of it as a tree of values before it looks at any, which takes up to fifty times its size; here
//! tensors are read one by one.

use std::fmt;
use std::ops::Range;
use std::path::Path;

use qsf_format::printable::{message, quote};
use safetensors::Dtype;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::content::{START, cut_short, lfs_pointer};
use crate::error::{Result, RuntimeError};

/// Longest header: real ones take some MB at most.
const MAX_BYTES: u64 = 8 << 20;
/// Most tensors of a file, and most dimensions of a tensor. Tensors of real models have up to five.
const MAX_TENSORS: usize = 1 << 17;
const MAX_DIMENSIONS: usize = 16;
/// What says something about the file and is no tensor.
const ABOUT: &str = "__metadata__";

/// Name, type, shape and bytes of a tensor in a file.
pub(super) type FoundTensor = (String, Dtype, Vec<usize>, Range<usize>);

/// The tensors of `file`, by their place in it, so that the tensor that a message names is the same in each run.
pub(super) fn read_safetensors(path: &Path, file: &[u8]) -> Result<Vec<FoundTensor>> {
    let damaged = |found: &str| {
        let expected = "a complete safetensors file";
        RuntimeError::bad_input(path, "the header", expected, message(found))
    };
    if file.is_empty() {
        return Err(damaged("an empty file"));
    }
    if let Some(found) = lfs_pointer(&file[..file.len().min(START as usize)]) {
        return Err(damaged(&found));
    }
    let length = file.first_chunk().map(|length| u64::from_le_bytes(*length));
    let length = length.ok_or_else(|| damaged(&format!("{} bytes", file.len())))?;
    if length > MAX_BYTES {
        let expected = format!("a length of at most {MAX_BYTES}");
        return Err(RuntimeError::bad_input(path, "the header", expected, length));
    }
    // In range: 8 MiB at most.
    let data = size_of::<u64>() + length as usize;
    let header = file.get(size_of::<u64>()..data).ok_or_else(|| damaged("the end of the file in it"))?;
    let Header(mut tensors) = serde_json::from_slice(header).map_err(|e| damaged(&e.to_string()))?;
    tensors.sort_unstable_by(|a, b| (a.1.data_offsets, &a.0).cmp(&(b.1.data_offsets, &b.0)));
    let mut end = 0;
    let mut found = Vec::with_capacity(tensors.len());
    for (name, Info { dtype, shape: Shape(shape), data_offsets: (first, last) }) in tensors {
        let wrong = |expected: &str, found: String| {
            Err(RuntimeError::bad_input(path, format!("tensor {}", quote(&name)), expected, found))
        };
        if first != end || last < first {
            return wrong(
                &format!("bytes from {end} on, behind those of the tensor before"),
                format!("{first} to {last}"),
            );
        }
        let bits = shape.iter().try_fold(dtype.bitsize(), |bits, &n| bits.checked_mul(n));
        if bits.filter(|bits| bits % 8 == 0).map(|bits| bits / 8) != Some(last - first) {
            let expected = format!("as many bytes as {dtype:?} of shape {shape:?} has");
            return wrong(&expected, format!("{} bytes", last - first));
        }
        end = last;
        // `last` may be anything as yet: whether the file is that long is checked below.
        found.push((name, dtype, shape, data.saturating_add(first)..data.saturating_add(last)));
    }
    if data.checked_add(end).is_none_or(|end| end > file.len()) {
        let expected = data.checked_add(end).map_or("more bytes".into(), |bytes| format!("{bytes} bytes"));
        return Err(RuntimeError::bad_input(path, "the file", expected, cut_short(file.len() as u64)));
    }
    if data + end != file.len() {
        let found = format!("{} bytes of data for tensors of {end}", file.len() - data);
        return Err(damaged(&found));
    }
    Ok(found)
}

/// The tensors in the order of the header.
struct Header(Vec<(String, Info)>);

#[derive(Deserialize)]
struct Info {
    dtype: Dtype,
    shape: Shape,
    data_offsets: (usize, usize),
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Header, D::Error> {
        struct Tensors;

        impl<'de> Visitor<'de> for Tensors {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of tensors")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut header: A) -> std::result::Result<Header, A::Error> {
                let mut tensors = Vec::new();
                while let Some(name) = header.next_key::<String>()? {
                    if name == ABOUT {
                        header.next_value::<IgnoredAny>()?;
                        continue;
                    }
                    if tensors.len() == MAX_TENSORS {
                        return Err(A::Error::custom(format!("more than {MAX_TENSORS} tensors")));
                    }
                    tensors.push((name, header.next_value()?));
                }
                Ok(Header(tensors))
            }
        }

        deserializer.deserialize_map(Tensors)
    }
}

/// Dimensions, slowest first.
struct Shape(Vec<usize>);

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Shape, D::Error> {
        struct Dimensions;

        impl<'de> Visitor<'de> for Dimensions {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of at most {MAX_DIMENSIONS} dimensions")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> std::result::Result<Shape, A::Error> {
                let mut shape = Vec::new();
                while let Some(n) = list.next_element()? {
                    if shape.len() == MAX_DIMENSIONS {
                        return Err(A::Error::invalid_length(MAX_DIMENSIONS + 1, &self));
                    }
                    shape.push(n);
                }
                Ok(Shape(shape))
            }
        }

        deserializer.deserialize_seq(Dimensions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(header: &str, data: usize) -> Result<Vec<FoundTensor>> {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        file.extend(vec![0; data]);
        read_safetensors(Path::new("a.safetensors"), &file)
    }

    fn error(header: &str, data: usize) -> String {
        read(header, data).unwrap_err().to_string()
    }

    fn tensor(name: &str, shape: &str, offsets: &str) -> String {
        format!("\"{name}\":{{\"dtype\":\"F16\",\"shape\":{shape},\"data_offsets\":{offsets}}}")
    }

    #[test]
    fn tensors_come_in_the_order_of_their_bytes() {
        let (a, b) = (tensor("a", "[2,2]", "[2,10]"), tensor("b", "[]", "[0,2]"));
        let header = format!("{{\"__metadata__\":{{\"format\":\"pt\"}},{a},{b}}}");
        let data = 8 + header.len();
        let expected = [
            ("b".to_owned(), Dtype::F16, vec![], data..data + 2),
            ("a".to_owned(), Dtype::F16, vec![2, 2], data + 2..data + 10),
        ];
        assert_eq!(read(&header, 10).unwrap(), expected);
        let cut = error(&header, 9);
        assert!(cut.contains(&format!("found {} bytes", data + 9)) && cut.contains("cut short"), "{cut}");
        assert_eq!(read("{}", 0).unwrap(), []);
    }

    #[test]
    fn tensors_with_gaps_overlaps_or_wrong_sizes_are_named() {
        for (shape, offsets, says) in [
            ("[1]", "[2,4]", "bytes from 0 on"),
            ("[1]", "[2,0]", "bytes from 0 on"),
            ("[2]", "[0,2]", "as many bytes as F16"),
            ("[18446744073709551615,2]", "[0,2]", "as many bytes as F16"),
            ("[0]", "[0,0]", "2 bytes of data"),
            ("[9223372036854775807]", "[0,18446744073709551614]", "as many bytes as F16"),
        ] {
            let message = error(&format!("{{{}}}", tensor("a", shape, offsets)), 2);
            assert!(message.contains(says), "{message}");
        }
        let both = format!("{{{},{}}}", tensor("a", "[1]", "[0,2]"), tensor("b", "[1]", "[0,2]"));
        assert!(error(&both, 2).contains("bytes from 2 on"));
    }

    #[test]
    fn what_would_take_much_memory_is_refused_as_it_is_read() {
        let dimensions = format!("[{}1]", "1,".repeat(100));
        assert!(
            error(&format!("{{{}}}", tensor("a", &dimensions, "[0,2]")), 2).contains("invalid length 17")
        );
        assert!(error("{\"a\":[[0],[0]]}", 0).contains("the header"));
        assert!(error(&format!("{{\"a\":{}", "[".repeat(1 << 20)), 0).contains("the header"));
        let many: Vec<String> = (0..=MAX_TENSORS).map(|i| tensor(&format!("{i:x}"), "[]", "[0,2]")).collect();
        assert!(error(&format!("{{{}}}", many.join(",")), 2).contains("more than 131072 tensors"));
    }
}
