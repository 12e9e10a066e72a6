//! Runs the program that a pickle is, on values that can do nothing: it ends with a description of the object, in
//! which tensors are calls that were not made. No step recurses, and memory has a limit.

use std::path::Path;

use qsf_format::printable::quote;
use safetensors::Dtype;

use super::advice::untrusted_advice;
use super::globals::{self, Global};
use super::opcodes::{NoOperation, Operation, Operations};
use crate::error::{Result, RuntimeError};

/// Limit of values held at once, about 16 bytes each; a tensor takes 35. Vectors double when they grow, so that this is
/// less than 30 MB.
const MAX_VALUES: usize = 1 << 19;
/// A file may have one more for each so many of its bytes.
const FILE_BYTES_PER_VALUE: usize = 128;

/// What a pickle can be made of. Small, and without pointers: copying and dropping one costs nothing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value {
    /// `None`.
    None,
    /// A truth value.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A number or bytes that no tensor depends on.
    Other,
    /// A text, by place.
    Text(u32),
    /// A list. What is in it is not kept.
    List,
    /// A tuple, by place.
    Tuple(Span),
    /// A dictionary, by place.
    Dict(u32),
    /// A class or function.
    Global(Global),
    /// A storage, by place.
    Storage(u32),
    /// A tensor, by place.
    Tensor(u32),
}

/// A part of the items of all tuples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Span {
    start: u32,
    len: u32,
}

/// Values in the bytes of an entry of the archive, as the pickle claims.
#[derive(Debug, Clone, Copy)]
pub(super) struct Storage<'a> {
    /// Type of the values; `None` for bytes.
    pub dtype: Option<Dtype>,
    /// Name of the entry behind `data/`.
    pub key: &'a str,
    /// Values, or bytes for `None`.
    pub count: i64,
}

/// A call that makes a tensor.
#[derive(Debug, Clone, Copy)]
pub(super) struct TensorCall {
    /// Whether one of the arguments is a type.
    pub typed: bool,
    /// Its arguments.
    pub args: Span,
}

#[derive(Debug, Clone, Copy, Default)]
struct Dict {
    /// The last pair, by its place plus 1, of a list that goes backwards.
    last: u32,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    key: Value,
    value: Value,
    /// As in `Dict::last`.
    before: u32,
}

/// The object of a pickle and everything that it has in it.
#[derive(Debug)]
pub(super) struct Unpickled<'a> {
    /// The object.
    pub root: Value,
    texts: Vec<&'a str>,
    items: Vec<Value>,
    dicts: Vec<Dict>,
    pairs: Vec<Pair>,
    storages: Vec<Storage<'a>>,
    tensors: Vec<TensorCall>,
}

impl<'a> Unpickled<'a> {
    /// A text.
    pub fn text(&self, value: Value) -> Option<&'a str> {
        let Value::Text(at) = value else { return None };
        self.texts.get(at as usize).copied()
    }

    /// A storage.
    pub fn storage(&self, value: Value) -> Option<&Storage<'a>> {
        let Value::Storage(at) = value else { return None };
        self.storages.get(at as usize)
    }

    /// A tensor.
    pub fn tensor(&self, value: Value) -> Option<&TensorCall> {
        let Value::Tensor(at) = value else { return None };
        self.tensors.get(at as usize)
    }

    /// The items of a tuple.
    pub fn tuple(&self, value: Value) -> Option<&[Value]> {
        let Value::Tuple(span) = value else { return None };
        Some(self.items(span))
    }

    /// The items of a part.
    pub fn items(&self, span: Span) -> &[Value] {
        let start = span.start as usize;
        self.items.get(start..start + span.len as usize).unwrap_or_default()
    }

    /// The pairs of a dictionary, the last one first.
    pub fn pairs(&self, value: Value) -> Option<impl Iterator<Item = (Value, Value)>> {
        let Value::Dict(at) = value else { return None };
        let mut next = self.dicts.get(at as usize)?.last;
        Some(std::iter::from_fn(move || {
            let pair = self.pairs.get(next.checked_sub(1)? as usize)?;
            next = pair.before;
            Some((pair.key, pair.value))
        }))
    }

    /// What a value is, for messages.
    pub fn describe(&self, value: Value) -> String {
        match value {
            Value::None => "None".to_owned(),
            Value::Bool(value) => if value { "True" } else { "False" }.to_owned(),
            Value::Int(value) => value.to_string(),
            Value::Other => "a number or bytes".to_owned(),
            Value::Text(_) => format!("the text {}", quote(self.text(value).unwrap_or_default())),
            Value::List => "a list".to_owned(),
            Value::Tuple(span) => format!("a tuple of {}", span.len),
            Value::Dict(_) => "a dictionary".to_owned(),
            Value::Global(global) => format!("the class or function {global:?}"),
            Value::Storage(_) => "a storage".to_owned(),
            Value::Tensor(_) => "a tensor".to_owned(),
        }
    }

    fn held(&self) -> usize {
        // Weighed by size; a value takes 16 bytes.
        let (pairs, storages) = (3 * self.pairs.len(), 3 * self.storages.len());
        self.texts.len() + self.items.len() + self.dicts.len() + pairs + storages + self.tensors.len()
    }
}

/// The object that `pickle`, a part of the file at `path`, describes. `file_bytes` is the size of the whole file.
///
/// # Errors
/// The pickle is damaged, or is more than tensors, plain values and dictionaries: nothing else is made, and nothing run.
pub(super) fn unpickle<'a>(path: &Path, pickle: &'a [u8], file_bytes: usize) -> Result<Unpickled<'a>> {
    let out = Unpickled {
        root: Value::None,
        texts: Vec::new(),
        items: Vec::new(),
        dicts: Vec::new(),
        pairs: Vec::new(),
        storages: Vec::new(),
        tensors: Vec::new(),
    };
    let mut machine = Machine { path, at: 0, out, stack: Vec::new(), marks: Vec::new(), memo: Vec::new() };
    let mut operations = Operations::new(pickle);
    if operations.read().is_ok_and(|first| !matches!(first, Operation::Protocol(2..=5))) {
        return Err(machine.wrong("a pickle of protocol 2 to 5", "another beginning"));
    }
    let limit = MAX_VALUES + file_bytes / FILE_BYTES_PER_VALUE;
    loop {
        machine.at = operations.at();
        match operations.read().map_err(|no| machine.no_operation(no))? {
            Operation::Stop => break,
            Operation::Frame(bytes) if bytes > operations.left() as u64 => {
                return Err(machine.wrong(format!("{bytes} bytes in a frame"), operations.left()));
            }
            operation => machine.step(operation)?,
        }
        if machine.held() > limit {
            return Err(machine.wrong(format!("at most {limit} values"), "more"));
        }
    }
    if operations.left() > 0 {
        return Err(machine.wrong("the end of the pickle", format!("{} bytes more", operations.left())));
    }
    match (machine.stack.as_slice(), machine.marks.is_empty()) {
        (&[root], true) => Ok(Unpickled { root, ..machine.out }),
        _ => Err(machine.wrong("one object", format!("{} on the stack", machine.stack.len()))),
    }
}

struct Machine<'a, 'p> {
    path: &'p Path,
    /// Offset of the operation in the pickle.
    at: usize,
    out: Unpickled<'a>,
    stack: Vec<Value>,
    /// Heights of the stack.
    marks: Vec<usize>,
    memo: Vec<Value>,
}

impl<'a> Machine<'a, '_> {
    fn wrong(&self, expected: impl ToString, found: impl ToString) -> RuntimeError {
        RuntimeError::bad_input(self.path, format!("data.pkl, byte {}", self.at), expected, found)
    }

    fn no_operation(&self, no: NoOperation) -> RuntimeError {
        match no {
            NoOperation::Cut => self.wrong("more bytes", "the end of the pickle"),
            NoOperation::NotText => self.wrong("a text in UTF-8", "other bytes"),
            NoOperation::Refused(opcode, None) => self.wrong("an operation", format!("byte {opcode:#04x}")),
            NoOperation::Refused(_, Some(name)) => RuntimeError::unsupported(
                self.path,
                format!("operation {name} of a pickle"),
                untrusted_advice(),
            ),
        }
    }

    fn held(&self) -> usize {
        self.out.held() + self.stack.len() + self.marks.len() + self.memo.len()
    }

    fn step(&mut self, operation: Operation<'a>) -> Result<()> {
        match operation {
            Operation::Stop | Operation::Frame(_) => {}
            Operation::Protocol(_) => return Err(self.wrong("one protocol", "another one")),
            Operation::Mark => self.marks.push(self.stack.len()),
            Operation::None => self.stack.push(Value::None),
            Operation::Bool(value) => self.stack.push(Value::Bool(value)),
            Operation::Int(value) => self.stack.push(Value::Int(value)),
            Operation::Other => self.stack.push(Value::Other),
            Operation::Text(text) => {
                let place = place_of(&mut self.out.texts, text);
                self.stack.push(Value::Text(place));
            }
            Operation::EmptyList => self.stack.push(Value::List),
            Operation::EmptyDict => self.push_dict(),
            Operation::Append => {
                self.pop()?;
                self.expect_list()?;
            }
            Operation::Appends => {
                let mark = self.pop_mark()?;
                self.stack.truncate(mark);
                self.expect_list()?;
            }
            Operation::SetItem => {
                let (value, key) = (self.pop()?, self.pop()?);
                let dict = self.top_dict()?;
                self.add_pair(dict, key, value);
            }
            Operation::SetItems => {
                let above = self.pop_mark()?;
                let pairs = self.stack.split_off(above);
                let dict = self.top_dict()?;
                let (pairs, []) = pairs.as_chunks() else {
                    return Err(self.wrong("keys with values", "a key without one"));
                };
                for &[key, value] in pairs {
                    self.add_pair(dict, key, value);
                }
            }
            Operation::Tuple(len) => {
                let floor = self.marks.last().copied().unwrap_or(0);
                let start = self.stack.len().checked_sub(len).filter(|&start| start >= floor);
                let start = start.ok_or_else(|| self.too_few())?;
                self.push_tuple(start);
            }
            Operation::TupleOfMark => {
                let mark = self.pop_mark()?;
                self.push_tuple(mark);
            }
            Operation::Put(number) => self.put(number as usize)?,
            Operation::Memoize => self.put(self.memo.len())?,
            Operation::Get(number) => match self.memo.get(number as usize) {
                Some(&value) => self.stack.push(value),
                None => return Err(self.wrong("the number of a value that was kept", number)),
            },
            Operation::Global(module, name) => self.push_global(module, name)?,
            Operation::StackGlobal => {
                let (name, module) = (self.pop()?, self.pop()?);
                let (Some(module), Some(name)) = (self.out.text(module), self.out.text(name)) else {
                    return Err(self.wrong("a module and a name", self.out.describe(name)));
                };
                self.push_global(module, name)?;
            }
            Operation::PersistentId => self.push_storage()?,
            Operation::Reduce => {
                let (args, callee) = (self.pop()?, self.pop()?);
                let made = self.call(callee, args)?;
                self.stack.push(made);
            }
            Operation::Build => self.build()?,
        }
        Ok(())
    }

    fn too_few(&self) -> RuntimeError {
        self.wrong("a value for this operation", "none above the mark")
    }

    fn pop(&mut self) -> Result<Value> {
        if self.marks.last().is_some_and(|&mark| self.stack.len() <= mark) {
            return Err(self.too_few());
        }
        self.stack.pop().ok_or_else(|| self.too_few())
    }

    /// The top, which stays.
    fn top(&mut self) -> Result<Value> {
        let top = self.pop()?;
        self.stack.push(top);
        Ok(top)
    }

    /// The height of the stack at the last mark, which is taken away.
    fn pop_mark(&mut self) -> Result<usize> {
        self.marks.pop().ok_or_else(|| self.wrong("a mark", "none"))
    }

    fn expect_list(&mut self) -> Result<()> {
        match self.top()? {
            Value::List => Ok(()),
            other => Err(self.wrong("a list to add to", self.out.describe(other))),
        }
    }

    fn top_dict(&mut self) -> Result<u32> {
        match self.top()? {
            Value::Dict(dict) => Ok(dict),
            other => Err(self.wrong("a dictionary to add to", self.out.describe(other))),
        }
    }

    fn push_dict(&mut self) {
        let place = place_of(&mut self.out.dicts, Dict::default());
        self.stack.push(Value::Dict(place));
    }

    fn add_pair(&mut self, dict: u32, key: Value, value: Value) {
        if let Some(dict) = self.out.dicts.get_mut(dict as usize) {
            dict.last = place_of(&mut self.out.pairs, Pair { key, value, before: dict.last }) + 1;
        }
    }

    /// Makes a tuple of the stack from `start` on.
    fn push_tuple(&mut self, start: usize) {
        // A pickle of `MAX_PICKLE_BYTES` keeps both far below 2^32.
        let span = Span { start: self.out.items.len() as u32, len: (self.stack.len() - start) as u32 };
        self.out.items.extend(self.stack.drain(start..));
        self.stack.push(Value::Tuple(span));
    }

    /// Writers number from 0 without gaps, so that a list is enough and a large number costs nothing.
    fn put(&mut self, number: usize) -> Result<()> {
        let top = self.top()?;
        let kept = self.memo.len();
        match self.memo.get_mut(number) {
            Some(place) => *place = top,
            None if number == kept => self.memo.push(top),
            None => return Err(self.wrong(format!("number {kept} or less"), number)),
        }
        Ok(())
    }

    fn push_global(&mut self, module: &str, name: &str) -> Result<()> {
        let global = globals::find(module, name).ok_or_else(|| {
            // Either may be as long as the file; `quote` shows no more than this.
            let short = |text: &str| text.chars().take(80).collect::<String>();
            let what = format!("{} in a pickle", quote(&format!("{}.{}", short(module), short(name))));
            RuntimeError::unsupported(self.path, what, untrusted_advice())
        })?;
        self.stack.push(Value::Global(global));
        Ok(())
    }

    /// The id of a storage is ("storage", class, key, device, count), as `torch.serialization` writes it.
    fn push_storage(&mut self) -> Result<()> {
        let id = self.pop()?;
        let storage = match self.out.tuple(id) {
            Some(&[kind, Value::Global(class), key, _device, Value::Int(count)]) => {
                let dtype = match class {
                    Global::Storage(dtype) => Some(Some(dtype)),
                    Global::UntypedStorage => Some(None),
                    _ => None,
                };
                let is_storage = self.out.text(kind) == Some("storage");
                let key = self.out.text(key).filter(|_| is_storage);
                dtype.zip(key).map(|(dtype, key)| Storage { dtype, key, count })
            }
            _ => None,
        };
        let storage = storage.ok_or_else(|| self.wrong("the id of a storage", self.out.describe(id)))?;
        let place = place_of(&mut self.out.storages, storage);
        self.stack.push(Value::Storage(place));
        Ok(())
    }

    /// What a function would return.
    fn call(&mut self, callee: Value, args: Value) -> Result<Value> {
        let (Value::Global(callee), Value::Tuple(span)) = (callee, args) else {
            let found = format!("{} with {}", self.out.describe(callee), self.out.describe(args));
            return Err(self.wrong("a function with a tuple of arguments", found));
        };
        // Attributes of a tensor do not change its values: they are left out, and the call is the one inside.
        let (callee, span) = match (callee, self.out.items(span)) {
            (
                Global::WithAttributes,
                &[Value::Global(inner), Value::Global(Global::TensorClass), Value::Tuple(args), _state],
            ) => (inner, args),
            _ => (callee, span),
        };
        match (callee, self.out.items(span)) {
            (Global::OrderedDict, []) => Ok(Value::Dict(place_of(&mut self.out.dicts, Dict::default()))),
            (Global::Size, &[size @ Value::Tuple(_)]) => Ok(size),
            (Global::Parameter, &[tensor @ Value::Tensor(_), ..]) => Ok(tensor),
            (Global::Tensor | Global::TypedTensor, _) => {
                let call = TensorCall { typed: callee == Global::TypedTensor, args: span };
                Ok(Value::Tensor(place_of(&mut self.out.tensors, call)))
            }
            (_, args) => {
                let found = format!("{callee:?} with {} arguments", args.len());
                Err(self.wrong("a call that makes a tensor, a size or an empty dictionary", found))
            }
        }
    }

    /// The only state that a file of tensors has is `_metadata`, versions of modules, on a state dict.
    fn build(&mut self) -> Result<()> {
        let state = self.pop()?;
        self.top_dict()?;
        let mut pairs = self.out.pairs(state).into_iter().flatten();
        match (pairs.next(), pairs.next()) {
            (Some((key, _)), None) if self.out.text(key) == Some("_metadata") => Ok(()),
            _ => Err(self.wrong("no state but _metadata", self.out.describe(state))),
        }
    }
}

/// Adds a value and returns its place, which a pickle of `MAX_PICKLE_BYTES` keeps far below 2^32.
fn place_of<T>(values: &mut Vec<T>, value: T) -> u32 {
    values.push(value);
    (values.len() - 1) as u32
}
