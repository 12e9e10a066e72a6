//! Matrices whose rows are in several types.

use qsf_format::*;

use crate::small_file::*;

/// Rows of the embedding in three parts: 4 bits, 8 bits, floats.
fn parts() -> RowParts {
    RowParts::of((0..VOCAB).map(|row| if row % 5 == 0 { 1 } else { u8::from(row == 7) * 2 })).unwrap()
}

fn write_split(
    path: &std::path::Path,
    outliers: Option<&Outliers>,
    with_record: bool,
) -> Result<u64, FormatError> {
    let model = ModelConfig { tied_head: true, position: PositionConfig::rope(1e4, None), ..model() };
    let parts = parts();
    let mut writer = QsfWriter::create(path, 2, options(Compression::None))?;
    let part = |part: usize, quant| {
        let rows = parts.rows_of(part) as u32;
        EncodedTensor { part: part as u8, ..tensor(TensorKind::TokenEmbedding, rows, HIDDEN, quant, 5) }
    };
    let first = part(0, QuantType::Q4);
    writer.begin_embedding(first.quant, first.layout, first.rows, first.cols)?;
    writer.embedding_rows(&first.data)?;
    writer.layer(layer(1), None)?;
    writer.layer(layer(2), None)?;
    writer.begin_final(true)?;
    let norms = [TensorKind::FinalNorm, TensorKind::FinalNormBias];
    let norms = norms.map(|kind| tensor(kind, 1, HIDDEN, QuantType::F16, 7));
    for t in norms.into_iter().chain([part(1, QuantType::Q8), part(2, QuantType::F32)]) {
        writer.begin_part((t.kind, t.part), t.rows, t.cols, t.quant, t.layout)?;
        writer.tensor_rows(&t.data)?;
    }
    writer.end_final();
    if let Some(outliers) = outliers {
        writer.outliers(TensorId::of_model(TensorKind::TokenEmbedding), outliers)?;
    }
    if with_record {
        writer.row_parts(TensorId::of_model(TensorKind::TokenEmbedding), &parts)?;
    }
    writer.finish(&Meta { model, ..meta() }, MIXED, None, None)
}

#[test]
fn an_embedding_in_parts_comes_back_and_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    write_split(&path, None, true).unwrap();
    let file = QsfFile::open(&path).unwrap();
    let info = file.embedding_info().unwrap();
    assert_eq!(info.rows as usize, parts().rows_of(0));
    let embedding = info.entry(0..0);
    let (_, last) = file.final_section().unwrap();
    let tensors: Vec<_> = last.tensors.iter().chain([&embedding]).collect();
    let mut table = file.row_parts().unwrap();
    let found = table.take(None, &tensors).unwrap();
    assert_eq!((found.len(), &found[0].rows, &found[0].tensors), (1, &parts(), &vec![4, 2, 3]));
    assert_eq!(last.tensors[3].part_name().unwrap(), "token_embedding.2");
    file.check_kinds_known(None, &last.tensors).unwrap();
    assert_eq!(verify(&path).unwrap().tensors, 5 + 2 * layer(1).len());
}

#[test]
fn parts_without_a_record_are_refused_and_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let error = write_split(&path, None, false).unwrap_err().to_string();
    assert!(error.contains("as in the file header"), "{error}");
    assert!(!path.exists());
}

#[test]
fn outliers_of_a_part_are_refused_and_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut outliers = Outliers::default();
    (0..parts().rows_of(0)).for_each(|_| outliers.push_row(&[(1, 0.5)]));
    let error = write_split(&path, Some(&outliers), true).unwrap_err().to_string();
    assert!(error.contains("a matrix that is not in parts"), "{error}");
    assert!(!path.exists());
}

#[test]
fn a_reader_that_does_not_know_the_section_must_refuse() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    write_split(&path, None, true).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let entry = section_entry(&bytes, b"PART");
    assert_eq!(u32_at(&bytes, entry + 4), 1);
    bytes[entry..entry + 4].copy_from_slice(b"PARS");
    seal_section(&mut bytes, b"PARS");
    std::fs::write(&path, bytes).unwrap();
    let error = QsfFile::open(&path).err().unwrap().to_string();
    assert!(error.contains("flags 0"), "{error}");
}
