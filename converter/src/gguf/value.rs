//! Metadata values, and their bytes
//! ([specification](https://github.com/ggml-org/ggml/blob/master/docs/gguf.md)).

use gguf_rs_lib::format::GGUFValueType;

/// A value of a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    U16(u16),
    U32(u32),
    I32(i32),
    F32(f32),
    F64(f64),
    Bool(bool),
    Text(String),
    Texts(Vec<String>),
    F32s(Vec<f32>),
    I32s(Vec<i32>),
    Bools(Vec<bool>),
    /// The number of a type, and bytes as another file has them.
    Stored(u32, Vec<u8>),
}

/// Keys with their values, in order.
pub(crate) type Pairs = Vec<(String, Value)>;

impl Value {
    /// The number of its type.
    pub fn type_id(&self) -> u32 {
        let known = match self {
            Value::U16(_) => GGUFValueType::U16,
            Value::U32(_) => GGUFValueType::U32,
            Value::I32(_) => GGUFValueType::I32,
            Value::F32(_) => GGUFValueType::F32,
            Value::F64(_) => GGUFValueType::F64,
            Value::Bool(_) => GGUFValueType::Bool,
            Value::Text(_) => GGUFValueType::String,
            Value::Texts(_) | Value::F32s(_) | Value::I32s(_) | Value::Bools(_) => GGUFValueType::Array,
            Value::Stored(id, _) => return *id,
        };
        known as u32
    }

    /// Adds its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::U16(v) => out.extend(v.to_le_bytes()),
            Value::U32(v) => out.extend(v.to_le_bytes()),
            Value::I32(v) => out.extend(v.to_le_bytes()),
            Value::F32(v) => out.extend(v.to_le_bytes()),
            Value::F64(v) => out.extend(v.to_le_bytes()),
            Value::Bool(v) => out.push(u8::from(*v)),
            Value::Text(v) => write_text(out, v),
            Value::Texts(all) => {
                array_head(out, GGUFValueType::String, all.len());
                all.iter().for_each(|text| write_text(out, text));
            }
            Value::F32s(all) => {
                array_head(out, GGUFValueType::F32, all.len());
                all.iter().for_each(|v| out.extend(v.to_le_bytes()));
            }
            Value::I32s(all) => {
                array_head(out, GGUFValueType::I32, all.len());
                all.iter().for_each(|v| out.extend(v.to_le_bytes()));
            }
            Value::Bools(all) => {
                array_head(out, GGUFValueType::Bool, all.len());
                all.iter().for_each(|v| out.push(u8::from(*v)));
            }
            Value::Stored(_, bytes) => out.extend(bytes),
        }
    }
}

fn array_head(out: &mut Vec<u8>, element: GGUFValueType, count: usize) {
    out.extend((element as u32).to_le_bytes());
    out.extend((count as u64).to_le_bytes());
}

/// Length and bytes of a text.
pub(super) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
