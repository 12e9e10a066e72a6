//! Writes GGUF files of any content, for tests: what it is told, not what makes sense.

/// A metadata value.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Str(&'static str),
    Text(String),
    U64(u64),
    I64(i64),
    F64(f64),
    /// All of the type of the first; of strings when there is none.
    List(Vec<Value>),
    /// A type and the bytes that follow it.
    Raw(u32, Vec<u8>),
}

impl Value {
    pub fn f32s(values: &[f32]) -> Value {
        Value::List(values.iter().map(|&v| Value::F32(v)).collect())
    }

    pub fn strs(values: &[&'static str]) -> Value {
        Value::List(values.iter().map(|&v| Value::Str(v)).collect())
    }

    fn type_id(&self) -> u32 {
        match self {
            Value::U8(_) => 0,
            Value::I8(_) => 1,
            Value::U16(_) => 2,
            Value::I16(_) => 3,
            Value::U32(_) => 4,
            Value::I32(_) => 5,
            Value::F32(_) => 6,
            Value::Bool(_) => 7,
            Value::Str(_) | Value::Text(_) => 8,
            Value::List(_) => 9,
            Value::U64(_) => 10,
            Value::I64(_) => 11,
            Value::F64(_) => 12,
            Value::Raw(id, _) => *id,
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Value::U8(v) => out.push(*v),
            Value::I8(v) => out.extend(v.to_le_bytes()),
            Value::U16(v) => out.extend(v.to_le_bytes()),
            Value::I16(v) => out.extend(v.to_le_bytes()),
            Value::U32(v) => out.extend(v.to_le_bytes()),
            Value::I32(v) => out.extend(v.to_le_bytes()),
            Value::F32(v) => out.extend(v.to_le_bytes()),
            Value::Bool(v) => out.push(u8::from(*v)),
            Value::Str(v) => write_string(out, v.as_bytes()),
            Value::Text(v) => write_string(out, v.as_bytes()),
            Value::U64(v) => out.extend(v.to_le_bytes()),
            Value::I64(v) => out.extend(v.to_le_bytes()),
            Value::F64(v) => out.extend(v.to_le_bytes()),
            Value::List(values) => {
                out.extend(values.first().map_or(8, Value::type_id).to_le_bytes());
                out.extend((values.len() as u64).to_le_bytes());
                values.iter().for_each(|v| v.write(out));
            }
            Value::Raw(_, bytes) => out.extend(bytes),
        }
    }
}

/// What a file shall hold.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    pub version: u32,
    pub pairs: Vec<(Vec<u8>, Value)>,
    pub tensors: Vec<TensorToWrite>,
    pub alignment: usize,
    /// In place of the true numbers.
    pub counts: (Option<u64>, Option<u64>),
    pub data: Vec<u8>,
}

#[derive(Debug, Clone)]
pub(crate) struct TensorToWrite {
    pub name: Vec<u8>,
    pub shape: Vec<u64>,
    pub type_id: u32,
    pub offset: u64,
}

impl Writer {
    pub fn new() -> Writer {
        Writer {
            version: 3,
            pairs: Vec::new(),
            tensors: Vec::new(),
            alignment: 32,
            counts: (None, None),
            data: Vec::new(),
        }
    }

    pub fn set(mut self, key: &str, value: Value) -> Writer {
        match self.pairs.iter_mut().find(|(k, _)| k == key.as_bytes()) {
            Some(pair) => pair.1 = value,
            None => self.pairs.push((key.as_bytes().to_vec(), value)),
        }
        self
    }

    pub fn without(mut self, key: &str) -> Writer {
        self.pairs.retain(|(k, _)| k != key.as_bytes());
        self
    }

    /// A tensor of 32-bit floats.
    pub fn f32s(self, name: &str, shape: &[u64], values: &[f32]) -> Writer {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        self.tensor(name, shape, 0, &bytes)
    }

    /// A tensor behind those before it.
    pub fn tensor(mut self, name: &str, shape: &[u64], type_id: u32, bytes: &[u8]) -> Writer {
        self.data.resize(self.data.len().next_multiple_of(self.alignment), 0);
        let (name, shape, offset) = (name.as_bytes().to_vec(), shape.to_vec(), self.data.len() as u64);
        self.tensors.push(TensorToWrite { name, shape, type_id, offset });
        self.data.extend(bytes);
        self
    }

    /// Leaves out a tensor; its bytes stay.
    pub fn without_tensor(mut self, name: &str) -> Writer {
        self.tensors.retain(|tensor| tensor.name != name.as_bytes());
        self
    }

    /// Everything before the data.
    pub fn head(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.counts.0.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.counts.1.unwrap_or(self.pairs.len() as u64).to_le_bytes());
        for (key, value) in &self.pairs {
            write_string(&mut out, key);
            out.extend(value.type_id().to_le_bytes());
            value.write(&mut out);
        }
        for tensor in &self.tensors {
            write_string(&mut out, &tensor.name);
            out.extend((tensor.shape.len() as u32).to_le_bytes());
            tensor.shape.iter().for_each(|n| out.extend(n.to_le_bytes()));
            out.extend(tensor.type_id.to_le_bytes());
            out.extend(tensor.offset.to_le_bytes());
        }
        out
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = self.head();
        if !self.data.is_empty() {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
            out.extend(&self.data);
        }
        out
    }
}

fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text);
}
