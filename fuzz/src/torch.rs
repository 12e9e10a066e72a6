//! Files as `torch.save` writes them: a pickle of tensors in a zip archive.

/// Bytes of the storage that all tensors are in.
const STORAGE_BYTES: usize = 2048;

/// A checkpoint with this pickle and a storage `0` of small values.
pub fn checkpoint(pickle: &[u8]) -> Vec<u8> {
    let storage: Vec<u8> = (0..STORAGE_BYTES / 2).flat_map(|i| [i as u8, 0x3d]).collect();
    zip(&[("archive/data.pkl", pickle), ("archive/byteorder", b"little"), ("archive/data/0", &storage)])
}

/// A pickle of tensors of these names and shapes, in bf16, one behind the other in storage `0` as far as it goes.
pub fn state_dict(shapes: &[(&str, Vec<usize>)]) -> Vec<u8> {
    let mut pickle = b"\x80\x02ccollections\nOrderedDict\n)R(".to_vec();
    let count = (STORAGE_BYTES / 2) as u16;
    let mut offset = 0;
    for (name, shape) in shapes {
        let values: usize = shape.iter().product();
        if offset + values > count.into() {
            offset = 0;
        }
        text(&mut pickle, name);
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        text(&mut pickle, "storage");
        pickle.extend(b"ctorch\nBFloat16Storage\n");
        text(&mut pickle, "0");
        text(&mut pickle, "cpu");
        pickle.extend([&b"M"[..], &count.to_le_bytes(), b"tQM", &(offset as u16).to_le_bytes()].concat());
        let strides = (0..shape.len()).map(|i| shape[i + 1..].iter().product::<usize>());
        numbers(&mut pickle, shape.iter().copied());
        numbers(&mut pickle, strides);
        pickle.extend(b"\x89}tR");
        offset += values;
    }
    pickle.extend(b"u.");
    pickle
}

fn text(pickle: &mut Vec<u8>, text: &str) {
    pickle.push(b'X');
    pickle.extend((text.len() as u32).to_le_bytes());
    pickle.extend(text.as_bytes());
}

fn numbers(pickle: &mut Vec<u8>, numbers: impl Iterator<Item = usize>) {
    pickle.push(b'(');
    for number in numbers {
        pickle.push(b'M');
        pickle.extend((number as u16).to_le_bytes());
    }
    pickle.push(b't');
}

fn zip(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, data) in entries {
        let offset = (file.len() as u32).to_le_bytes();
        let (crc, size) = (crc32fast::hash(data).to_le_bytes(), (data.len() as u32).to_le_bytes());
        let header = [&[0; 8][..], &crc, &size, &size, &[name.len() as u8, 0, 0, 0]].concat();
        file.extend([b"PK\x03\x04\x14\0", &header[..], name.as_bytes(), data].concat());
        let entry = [b"PK\x01\x02\x14\0\x14\0", &header[..], &[0; 10], &offset, name.as_bytes()].concat();
        directory.extend(entry);
    }
    let [count, bytes, at] = [entries.len(), directory.len(), file.len()].map(|n| (n as u32).to_le_bytes());
    file.extend(directory);
    file.extend([b"PK\x05\x06\0\0\0\0", &count[..2], &count[..2], &bytes, &at, &[0, 0]].concat());
    file
}
