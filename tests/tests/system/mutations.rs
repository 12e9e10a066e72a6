//! Files with single fields changed and all checksums made right again: an error or a model, and never a panic. The fuzz targets
//! do the same for longer (fuzz/README.md).

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{QsfFile, verify_file};
use qsf_runtime::source::gguf::open_gguf;
use qsf_runtime::source::{QsfSource, WeightSource};
use qsf_tests::mutate::{self, Dice};

/// Mutations of each file.
const EACH: u32 = 300;

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    assert!(files.len() > 3, "{files:?}");
    files
}

/// Loads every tensor that a source has.
fn load(source: &dyn WeightSource) {
    for info in source.tensors() {
        if let Ok(tensor) = source.load(info.id) {
            assert_eq!((tensor.rows(), tensor.cols()), (info.rows, info.cols));
        }
    }
}

/// Opens, verifies and loads a QSF file; whether all of that went well.
fn read_qsf(bytes: Vec<u8>) -> Result<(), String> {
    let file = QsfFile::from_memory(Path::new("mutated"), Arc::new(bytes)).map_err(|e| e.to_string())?;
    let verified = verify_file(&file).map(|_| ()).map_err(|e| e.to_string());
    for layer in 0..file.layers().len() {
        let outlined = file.layer_outline(layer).map(|outline| outline.tensors);
        match (file.layer(layer).map(|group| group.tensors), outlined) {
            (Ok(read), Ok(outlined)) => assert_eq!(read, outlined),
            (read, outlined) => assert!(read.is_err(), "{outlined:?}"),
        }
    }
    load(&QsfSource::from_file(file).map_err(|e| e.to_string())?);
    verified
}

#[test]
fn qsf_files_with_other_fields_are_read_or_refused() {
    let (mut read, mut refused) = (0, 0);
    for path in files("conformance", "qsf") {
        let sound = fs::read(&path).unwrap();
        for seed in 0..EACH / 10 {
            let mut bytes = sound.clone();
            mutate::qsf::mutate(&mut bytes, &mut Dice::new(seed));
            match read_qsf(bytes) {
                Ok(()) => read += 1,
                Err(message) => {
                    assert!(message.len() > 10 && !message.contains('\u{1b}'), "{message:?}");
                    refused += 1;
                }
            }
        }
    }
    // Else checksums are not made right, or nothing is changed.
    println!("{read} read, {refused} refused");
    assert!(read > 10 && refused > 100, "{read} read, {refused} refused");
}

#[test]
fn gguf_files_with_other_fields_are_read_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (mut read, mut refused) = (0, 0);
    for path in files("fixtures/gguf", "gguf") {
        let sound = fs::read(&path).unwrap();
        let changed = dir.path().join("mutated.gguf");
        for seed in 0..EACH / 5 {
            let mut bytes = sound.clone();
            mutate::gguf::mutate(&mut bytes, &mut Dice::new(seed));
            fs::write(&changed, bytes).unwrap();
            match open_gguf(&changed) {
                Ok(source) => {
                    load(&source);
                    read += 1;
                }
                Err(error) => {
                    assert!(!error.to_string().contains('\u{1b}'), "{error}");
                    refused += 1;
                }
            }
        }
    }
    println!("{read} read, {refused} refused");
    assert!(read > 10 && refused > 100, "{read} read, {refused} refused");
}
