//! Writers of pickles and zip files that write whatever they are told.

/// A pickle, operation by operation.
#[derive(Clone)]
pub struct Pickle(pub Vec<u8>);

impl Pickle {
    /// Begins with protocol 2.
    pub fn new() -> Pickle {
        Pickle(vec![0x80, 2])
    }

    /// A whole pickle: a dictionary with these values, which are pushed by `push`.
    pub fn of_dict(pairs: &[(&str, &dyn Fn(Pickle) -> Pickle)]) -> Pickle {
        let mut pickle = Pickle::new().op(b"}");
        for (key, push) in pairs {
            pickle = push(pickle.text(key)).op(b"s");
        }
        pickle.op(b".")
    }

    /// Opcodes and arguments as they are.
    pub fn op(mut self, bytes: &[u8]) -> Pickle {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn text(self, text: &str) -> Pickle {
        self.op(b"X").op(&(text.len() as u32).to_le_bytes()).op(text.as_bytes())
    }

    pub fn int(self, value: i64) -> Pickle {
        self.op(&[0x8a, 8]).op(&value.to_le_bytes())
    }

    pub fn ints(self, values: &[i64]) -> Pickle {
        values.iter().fold(self.op(b"("), |pickle, &value| pickle.int(value)).op(b"t")
    }

    pub fn global(self, module: &str, name: &str) -> Pickle {
        self.op(b"c").op(module.as_bytes()).op(b"\n").op(name.as_bytes()).op(b"\n")
    }

    /// A storage of `count` values of a class in module `torch`.
    pub fn storage(self, class: &str, key: &str, count: i64) -> Pickle {
        let id = self.op(b"(").text("storage").global("torch", class).text(key).text("cpu").int(count);
        id.op(b"tQ")
    }

    /// A tensor on a storage.
    pub fn tensor(self, class: &str, key: &str, count: i64, view: (i64, &[i64], &[i64])) -> Pickle {
        let (offset, size, strides) = view;
        let call = self.global("torch._utils", "_rebuild_tensor_v2").op(b"(").storage(class, key, count);
        call.int(offset).ints(size).ints(strides).op(b"\x89}tR")
    }

    /// The tensor of most tests: 2 x 3 values of f32 in storage `0`.
    pub fn sound_tensor(self) -> Pickle {
        self.tensor("FloatStorage", "0", 6, (0, &[2, 3], &[3, 1]))
    }
}

/// An entry of a zip file. Fields that are set are lies; what is not set is right.
#[derive(Clone, Default)]
pub struct Entry {
    pub name: String,
    pub data: Vec<u8>,
    pub local_name: Option<String>,
    pub crc: Option<u32>,
    pub flags: u16,
    pub local_flags: Option<u16>,
    pub method: u16,
    pub disk: u16,
    /// In the directory: bytes stored, bytes, offset.
    pub stored: Option<u32>,
    pub size: Option<u32>,
    pub offset: Option<u32>,
    pub local_size: Option<u32>,
    /// What stands behind the data.
    pub behind: Vec<u8>,
    /// Extra fields of the directory.
    pub extra: Vec<u8>,
}

impl Entry {
    pub fn new(name: &str, data: &[u8]) -> Entry {
        Entry { name: name.to_owned(), data: data.to_owned(), ..Entry::default() }
    }
}

/// A zip file.
#[derive(Clone, Default)]
pub struct Zip {
    pub entries: Vec<Entry>,
    /// The end record as a zip64 one, with the values of the plain one out of range.
    pub zip64: bool,
}

impl Zip {
    /// A checkpoint with this pickle and 24 bytes in storage `0`.
    pub fn of_checkpoint(pickle: &[u8]) -> Zip {
        let storage: Vec<u8> = (0..24).collect();
        let entries = vec![
            Entry::new("archive/data.pkl", pickle),
            Entry::new("archive/byteorder", b"little"),
            Entry::new("archive/data/0", &storage),
        ];
        Zip { entries, zip64: false }
    }

    /// A checkpoint that opens, with one entry changed.
    pub fn sound_but(name: &str, change: impl Fn(&mut Entry)) -> Zip {
        let pickle = Pickle::of_dict(&[("w", &Pickle::sound_tensor)]);
        let mut zip = Zip::of_checkpoint(&pickle.0);
        zip.entries.iter_mut().filter(|entry| entry.name == name).for_each(change);
        zip
    }

    pub fn bytes(&self) -> Vec<u8> {
        let (mut file, mut directory) = (Vec::new(), Vec::new());
        for entry in &self.entries {
            let offset = file.len() as u32;
            let (size, crc) = (entry.data.len() as u32, entry.crc.unwrap_or(crc32fast::hash(&entry.data)));
            let local_size = entry.local_size.unwrap_or(size);
            let name = entry.local_name.as_ref().unwrap_or(&entry.name);
            put(
                &mut file,
                &[0x0403_4b50],
                &[20, entry.local_flags.unwrap_or(entry.flags), entry.method, 0, 0],
            );
            put(&mut file, &[crc, local_size, local_size], &[name.len() as u16, 0]);
            file.extend_from_slice(name.as_bytes());
            file.extend_from_slice(&entry.data);
            file.extend_from_slice(&entry.behind);
            let (stored, size) = (entry.stored.unwrap_or(size), entry.size.unwrap_or(size));
            put(&mut directory, &[0x0201_4b50], &[20, 20, entry.flags, entry.method, 0, 0]);
            put(&mut directory, &[crc, stored, size], &[]);
            put(&mut directory, &[], &[entry.name.len() as u16, entry.extra.len() as u16, 0, entry.disk, 0]);
            put(&mut directory, &[0, entry.offset.unwrap_or(offset)], &[]);
            directory.extend_from_slice(entry.name.as_bytes());
            directory.extend_from_slice(&entry.extra);
        }
        let (count, bytes, offset) = (self.entries.len(), directory.len(), file.len());
        file.extend_from_slice(&directory);
        if self.zip64 {
            let at = file.len() as u64;
            put(&mut file, &[0x0606_4b50, 44, 0, 45 | 45 << 16, 0, 0], &[]);
            for value in [count, count, bytes, offset] {
                file.extend_from_slice(&(value as u64).to_le_bytes());
            }
            put(&mut file, &[0x0706_4b50, 0, at as u32, (at >> 32) as u32, 1], &[]);
            put(&mut file, &[0x0605_4b50], &[0, 0, u16::MAX, u16::MAX]);
            put(&mut file, &[u32::MAX, u32::MAX], &[0]);
        } else {
            put(&mut file, &[0x0605_4b50], &[0, 0, count as u16, count as u16]);
            put(&mut file, &[bytes as u32, offset as u32], &[0]);
        }
        file
    }
}

fn put(out: &mut Vec<u8>, words: &[u32], halves: &[u16]) {
    out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    out.extend(halves.iter().flat_map(|half| half.to_le_bytes()));
}
