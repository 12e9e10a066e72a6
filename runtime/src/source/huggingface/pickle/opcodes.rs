//! The bytes of a pickle as operations: those that `torch.save` writes for tensors and plain values at protocols 2 to
//! 5, and no other. What each does is documented in CPython's `Lib/pickletools.py`.

/// A step of the machine that a pickle is a program for. Texts are parts of the pickle.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Operation<'a> {
    /// Announces the protocol.
    Protocol(u8),
    /// Says how many bytes the next part has.
    Frame(u64),
    /// Ends the program.
    Stop,
    /// Marks the top of the stack.
    Mark,
    /// Pushes `None`.
    None,
    /// Pushes a truth value.
    Bool(bool),
    /// Pushes an integer.
    Int(i64),
    /// Pushes a value that no tensor depends on: a float, bytes, an integer of more than 64 bits.
    Other,
    /// Pushes a text.
    Text(&'a str),
    /// Pushes an empty list.
    EmptyList,
    /// Adds the top to a list.
    Append,
    /// Adds everything above the mark to a list.
    Appends,
    /// Pushes an empty dictionary.
    EmptyDict,
    /// Adds a pair to a dictionary.
    SetItem,
    /// Adds all pairs above the mark to a dictionary.
    SetItems,
    /// Makes a tuple of so many values.
    Tuple(usize),
    /// Makes a tuple of everything above the mark.
    TupleOfMark,
    /// Keeps the top under this number.
    Put(u32),
    /// Keeps the top under the next number.
    Memoize,
    /// Pushes what was kept.
    Get(u32),
    /// Pushes the class or function of this module and name.
    Global(&'a str, &'a str),
    /// Pushes the class or function whose module and name are on the stack.
    StackGlobal,
    /// Replaces an object's id by the object.
    PersistentId,
    /// Calls a function.
    Reduce,
    /// Sets the state of an object.
    Build,
}

/// Why a byte is no [`Operation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoOperation {
    /// The pickle ends in the middle.
    Cut,
    /// A text is not UTF-8.
    NotText,
    /// An operation that the files of `torch.save` do not need; its name, where it has one.
    Refused(u8, Option<&'static str>),
}

/// Takes operations from the front of a pickle.
#[derive(Debug)]
pub(super) struct Operations<'a> {
    pickle: &'a [u8],
    at: usize,
}

impl<'a> Operations<'a> {
    /// All operations of `pickle`.
    pub fn new(pickle: &'a [u8]) -> Operations<'a> {
        Operations { pickle, at: 0 }
    }

    /// Offset of the next operation.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.pickle.len() - self.at
    }

    /// The next operation.
    pub fn read(&mut self) -> Result<Operation<'a>, NoOperation> {
        let [opcode] = self.array()?;
        Ok(match opcode {
            0x80 => Operation::Protocol(self.array::<1>()?[0]),
            0x95 => Operation::Frame(u64::from_le_bytes(self.array()?)),
            b'.' => Operation::Stop,
            b'(' => Operation::Mark,
            b'N' => Operation::None,
            0x88 => Operation::Bool(true),
            0x89 => Operation::Bool(false),
            b'K' => Operation::Int(self.array::<1>()?[0].into()),
            b'M' => Operation::Int(u16::from_le_bytes(self.array()?).into()),
            b'J' => Operation::Int(i32::from_le_bytes(self.array()?).into()),
            0x8a => {
                let bytes = self.array::<1>()?[0];
                integer(self.take(bytes.into())?)
            }
            b'G' => {
                self.array::<8>()?;
                Operation::Other
            }
            b'C' | b'B' | 0x8e => {
                self.counted(opcode)?;
                Operation::Other
            }
            0x8c | b'X' | 0x8d => Operation::Text(text(self.counted(opcode)?)?),
            b']' => Operation::EmptyList,
            b'a' => Operation::Append,
            b'e' => Operation::Appends,
            b'}' => Operation::EmptyDict,
            b's' => Operation::SetItem,
            b'u' => Operation::SetItems,
            b')' => Operation::Tuple(0),
            0x85 => Operation::Tuple(1),
            0x86 => Operation::Tuple(2),
            0x87 => Operation::Tuple(3),
            b't' => Operation::TupleOfMark,
            b'q' => Operation::Put(self.array::<1>()?[0].into()),
            b'r' => Operation::Put(u32::from_le_bytes(self.array()?)),
            0x94 => Operation::Memoize,
            b'h' => Operation::Get(self.array::<1>()?[0].into()),
            b'j' => Operation::Get(u32::from_le_bytes(self.array()?)),
            b'c' => Operation::Global(self.line()?, self.line()?),
            0x93 => Operation::StackGlobal,
            b'Q' => Operation::PersistentId,
            b'R' => Operation::Reduce,
            b'b' => Operation::Build,
            other => return Err(NoOperation::Refused(other, name_of_refused(other))),
        })
    }

    /// Bytes after their count, which takes 1, 4 or 8 bytes.
    fn counted(&mut self, opcode: u8) -> Result<&'a [u8], NoOperation> {
        let count = match opcode {
            b'C' | 0x8c => self.array::<1>()?[0].into(),
            b'B' | b'X' => u32::from_le_bytes(self.array()?).into(),
            _ => u64::from_le_bytes(self.array()?),
        };
        self.take(usize::try_from(count).map_err(|_| NoOperation::Cut)?)
    }

    /// Text up to a line feed.
    fn line(&mut self) -> Result<&'a str, NoOperation> {
        let bytes = self.pickle[self.at..].iter().position(|&b| b == b'\n').ok_or(NoOperation::Cut)?;
        let line = text(self.take(bytes)?)?;
        self.array::<1>()?;
        Ok(line)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], NoOperation> {
        let (taken, _) = self.pickle[self.at..].split_at_checked(bytes).ok_or(NoOperation::Cut)?;
        self.at += bytes;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], NoOperation> {
        let array = *self.pickle[self.at..].first_chunk().ok_or(NoOperation::Cut)?;
        self.at += N;
        Ok(array)
    }
}

fn text(bytes: &[u8]) -> Result<&str, NoOperation> {
    str::from_utf8(bytes).map_err(|_| NoOperation::NotText)
}

/// A little-endian integer in two's complement; no bytes are 0.
fn integer<'a>(bytes: &[u8]) -> Operation<'a> {
    let negative = bytes.last().is_some_and(|&top| top >= 0x80);
    let mut value = [if negative { 0xff } else { 0 }; 8];
    match value.get_mut(..bytes.len()) {
        Some(low) => {
            low.copy_from_slice(bytes);
            Operation::Int(i64::from_le_bytes(value))
        }
        None => Operation::Other,
    }
}

/// The other opcodes, for messages.
fn name_of_refused(opcode: u8) -> Option<&'static str> {
    Some(match opcode {
        b'0' => "POP",
        b'1' => "POP_MARK",
        b'2' => "DUP",
        b'F' => "FLOAT",
        b'I' => "INT",
        b'L' => "LONG",
        b'S' => "STRING",
        b'T' => "BINSTRING",
        b'U' => "SHORT_BINSTRING",
        b'V' => "UNICODE",
        b'P' => "PERSID",
        b'd' => "DICT",
        b'l' => "LIST",
        b'g' => "GET",
        b'p' => "PUT",
        b'i' => "INST",
        b'o' => "OBJ",
        0x81 => "NEWOBJ",
        0x82 => "EXT1",
        0x83 => "EXT2",
        0x84 => "EXT4",
        0x8b => "LONG4",
        0x8f => "EMPTY_SET",
        0x90 => "ADDITEMS",
        0x91 => "FROZENSET",
        0x92 => "NEWOBJ_EX",
        0x96 => "BYTEARRAY8",
        0x97 => "NEXT_BUFFER",
        0x98 => "READONLY_BUFFER",
        _ => return None,
    })
}
