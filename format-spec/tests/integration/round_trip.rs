//! What the writer writes, the reader gives back; and nothing half-written is ever left under the final name.

use crate::small_file::*;
use qsf_format::*;

#[test]
fn everything_written_comes_back_with_every_compression() {
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.qsf");
        let bytes = write(&path, compression).unwrap();
        assert_eq!(bytes, path.metadata().unwrap().len());
        let file = QsfFile::open(&path).unwrap();
        assert_eq!(file.meta().unwrap(), Some(meta()));
        for (i, seed) in [(0, 1), (1, 2)] {
            let group = file.layer(i).unwrap();
            for (read, written) in group.tensors.iter().zip(layer(seed)) {
                assert_eq!(read.kind, Some(written.kind));
                assert_eq!((read.rows, read.cols, read.quant), (written.rows, written.cols, written.quant));
                assert_eq!(read.layout, written.layout);
                assert_eq!(&group.bytes.as_slice()[read.data.clone()], written.data, "{compression:?}");
            }
        }
        assert_eq!(file.layers()[0].importance, None, "unknown importance is never a number");
        assert_eq!(file.layers()[1].importance, Some(0.5));
        let info = file.embedding_info().unwrap();
        assert_eq!((info.quant, info.layout), (QuantType::Q4, Layout::Panels16));
        assert_eq!(file.embedding(&info).unwrap().as_slice(), embedding());
        let (tied, last) = file.final_section().unwrap();
        assert!(!tied);
        assert_eq!(last.tensors.len(), 3);
        let (up, mut apart) = (TensorId::of_layer(1, TensorKind::FfnUp), file.outliers().unwrap());
        assert_eq!(*apart.take(up, QuantType::Q4, 256, HIDDEN).unwrap().unwrap(), outliers(256));
        assert_eq!(file.section_bytes(SectionTag::CHAT_TEMPLATE).unwrap().unwrap(), b"{{ messages }}");
        let report = verify(&path).unwrap();
        assert_eq!((report.layers, report.tensors), (2, 13));
        assert!(report.unprotected.is_empty());
    }
}

#[test]
fn the_predicted_size_is_that_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let bytes = write(&path, Compression::None).unwrap();
    let file = QsfFile::open(&path).unwrap();
    let of_tags = [
        SectionTag::META,
        SectionTag::TOKENIZER,
        SectionTag::CHAT_TEMPLATE,
        SectionTag::GRIDS,
        SectionTag::OUTLIERS,
    ];
    let data = |tensors: &[EncodedTensor]| tensors.iter().map(|t| t.data.len() as u64).collect::<Vec<_>>();
    let (_, last) = file.final_section().unwrap();
    let parts = FileParts {
        embedding: embedding().len() as u64,
        embedding_chunks: 1,
        layers: vec![data(&layer(1)), data(&layer(2))],
        last: last.tensors.iter().map(|t| t.data.len() as u64).collect(),
        positions: Some(QuantType::N3.tensor_bytes(BlockSize::B64, 32, HIDDEN.into()).unwrap()),
        sections: of_tags.map(|tag| file.section(tag).unwrap().stored_bytes).to_vec(),
    };
    assert_eq!(parts.file_bytes(), bytes);
}

#[test]
fn learned_tables_come_back_and_without_them_their_types_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut tables = CodeTables::default();
    tables.grid_mut(QuantType::N3).unwrap().levels_mut()[0] = -101;
    tables.grid_mut(QuantType::N4).unwrap().levels_mut()[0] = -102;
    write_with(&path, WriterOptions { tables, ..options(Compression::None) }, &meta()).unwrap();
    let file = QsfFile::open(&path).unwrap();
    assert_eq!(file.tables().grid(QuantType::N3), tables.grid(QuantType::N3));
    assert_eq!(
        file.tables().grid(QuantType::N4),
        CodeTables::default().grid(QuantType::N4),
        "no tensor has this type, so its table is not stored"
    );
    // The section under a name that nobody knows: what it meant is gone, and nothing else shows that.
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(4).rposition(|tag| tag == b"GRID").unwrap();
    bytes[at] = b'X';
    seal_section(&mut bytes, b"META");
    std::fs::write(&path, &bytes).unwrap();
    let error = QsfFile::open(&path).unwrap().positions().unwrap_err().to_string();
    assert!(error.contains("n3") && error.contains("GRID"), "{error}");
}

#[test]
fn each_chunk_of_an_embedding_in_panels_can_be_read_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    // Rows of 4224 bytes: 248 of them fill 1 MiB, and 240 of these are whole panels.
    let (rows, cols, row_bytes) = (VOCAB, 4096, 4224);
    let mut meta = meta();
    meta.model = ModelConfig { layers: 1, hidden: cols, position: PositionConfig::alibi(), ..model() };
    let embedding = pattern(rows as usize * row_bytes, 5);
    let mut writer = QsfWriter::create(&path, 1, options(Compression::Zstd)).unwrap();
    writer.begin_embedding(QuantType::Q8, Layout::Panels16, rows, cols).unwrap();
    writer.embedding_rows(&embedding).unwrap();
    writer.layer(layer(1), None).unwrap();
    writer.begin_final(false).unwrap();
    writer.end_final();
    writer.finish(&meta, MIXED, None, None).unwrap();
    let file = QsfFile::open(&path).unwrap();
    let info = file.embedding_info().unwrap();
    let raw: Vec<_> = info.chunks.iter().map(|chunk| chunk.raw_bytes as usize / row_bytes).collect();
    assert_eq!(raw, [240, 60]);
    assert_eq!(file.embedding(&info).unwrap().as_slice(), embedding);
}

#[test]
fn a_float_type_in_panels_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut writer = QsfWriter::create(&path, 2, options(Compression::None)).unwrap();
    let error = writer.begin_embedding(QuantType::F16, Layout::Panels16, VOCAB, HIDDEN).unwrap_err();
    assert!(error.to_string().contains("f16 has no layout 'panels'"), "{error}");
}

#[test]
fn uncompressed_tensor_data_is_aligned_in_the_file_itself() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    write(&path, Compression::None).unwrap();
    let file = QsfFile::open(&path).unwrap();
    let group = file.layer(1).unwrap();
    for t in &group.tensors {
        let address = group.bytes.as_slice()[t.data.clone()].as_ptr() as usize;
        assert_eq!(address % 64, 0, "{:?} cannot be used in place by aligned loads", t.kind);
    }
    assert_eq!(file.layers()[1].offset % LAYER_ALIGN, 0);
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("a.qsf"), dir.path().join("b.qsf"));
    write(&a, Compression::Lz4).unwrap();
    write(&b, Compression::Lz4).unwrap();
    assert_eq!(std::fs::read(a).unwrap(), std::fs::read(b).unwrap());
}

#[test]
fn an_existing_file_is_not_replaced_without_force() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    std::fs::write(&path, "precious").unwrap();
    let error = write(&path, Compression::None).unwrap_err();
    assert_eq!(error.failure(), Failure::Usage);
    assert!(error.to_string().contains("--force"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}

#[test]
fn an_unfinished_file_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut writer = QsfWriter::create(&path, 1, options(Compression::None)).unwrap();
    writer.begin_embedding(QuantType::Q4, Layout::Rows, VOCAB, HIDDEN).unwrap();
    let error = writer.finish(&meta(), MIXED, None, None).unwrap_err();
    assert!(error.to_string().contains("token embedding"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_second_writer_of_the_same_file_is_refused_and_the_first_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let first = QsfWriter::create(&path, 1, options(Compression::None)).unwrap();
    let error =
        QsfWriter::create(&path, 1, options(Compression::None)).err().expect("two writers of one file");
    assert!(format!("{error:?}").contains("another process"), "{error:?}");
    drop(first);
}

#[test]
fn a_missing_directory_is_named() {
    let error = write(std::path::Path::new("/nonexistent/model.qsf"), Compression::None).unwrap_err();
    assert!(error.to_string().contains("/nonexistent"), "{error}");
}

#[test]
fn a_file_that_no_reader_accepts_does_not_replace_a_good_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    write(&path, Compression::None).unwrap();
    let good = std::fs::read(&path).unwrap();
    let writer =
        without_positions(&path, WriterOptions { force: true, ..options(Compression::None) }).unwrap();
    // META says learned positions; none were written.
    let error = writer.finish(&meta(), MIXED, None, None).unwrap_err().to_string();
    assert!(error.contains("model.qsf.partial") && error.contains("learned positions"), "{error}");
    assert!(std::fs::read(&path).unwrap() == good, "the good file is gone");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "something is left behind");
}

#[test]
fn a_file_that_no_reader_accepts_gets_no_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut meta = meta();
    meta.model.tied_head = true;
    let error = write_with(&path, options(Compression::None), &meta).unwrap_err().to_string();
    assert!(error.contains("tied_head"), "{error}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_tensor_without_all_its_rows_is_refused_when_the_next_begins() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = before_final(&dir.path().join("model.qsf"), options(Compression::None)).unwrap();
    writer.begin_final(false).unwrap();
    writer.begin_tensor(TensorKind::FinalNorm, 1, HIDDEN, QuantType::F16, Layout::Rows).unwrap();
    writer.tensor_rows(&[0; 100]).unwrap();
    let error =
        writer.begin_tensor(TensorKind::FinalNormBias, 1, HIDDEN, QuantType::F16, Layout::Rows).unwrap_err();
    assert!(error.to_string().contains("lacks 28 bytes"), "{error}");
}

#[test]
fn rows_after_the_end_of_their_section_do_not_count() {
    let dir = tempfile::tempdir().unwrap();
    for part in ["the final section", "the section of learned positions"] {
        let path = dir.path().join("model.qsf");
        let mut writer = if part == "the final section" {
            let mut writer = before_final(&path, options(Compression::None)).unwrap();
            writer.begin_final(false).unwrap();
            writer.begin_tensor(TensorKind::FinalNorm, 1, HIDDEN, QuantType::F16, Layout::Rows).unwrap();
            writer.end_final();
            writer
        } else {
            let mut writer = without_positions(&path, options(Compression::None)).unwrap();
            writer.begin_positions().unwrap();
            writer.begin_tensor(TensorKind::Positions, 1, HIDDEN, QuantType::F16, Layout::Rows).unwrap();
            writer.end_positions();
            writer
        };
        writer.tensor_rows(&[0; 128]).unwrap();
        let error = writer.finish(&meta(), MIXED, None, None).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
        assert!(!path.exists());
    }
}

#[test]
fn a_tokenizer_too_large_for_any_reader_is_refused_when_writing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let writer = without_positions(&path, options(Compression::None)).unwrap();
    let tokenizer = vec![0; MAX_SECTION_BYTES + 1];
    let error = writer.finish(&meta(), MIXED, Some(&tokenizer), None).unwrap_err();
    assert!(matches!(error, FormatError::Unwritable { .. }), "{error}");
    assert!(error.to_string().contains("section TOKN"), "{error}");
    assert!(!path.exists());
}

#[test]
fn an_evaluation_is_appended_to_a_complete_file_before_it_gets_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let before = write(&path, Compression::None).unwrap();
    let mut writer =
        without_positions(&path, WriterOptions { force: true, ..options(Compression::None) }).unwrap();
    writer.begin_positions().unwrap();
    let t = tensor(TensorKind::Positions, 32, HIDDEN, QuantType::N3, 13);
    writer.begin_tensor(t.kind, t.rows, t.cols, t.quant, t.layout).unwrap();
    writer.tensor_rows(&t.data).unwrap();
    writer.end_positions();
    let tokenizer: &[u8] = b"{\"tokenizer\": true}";
    let mut file = writer.complete(&meta(), MIXED, Some(tokenizer), Some(b"{{ messages }}")).unwrap();
    assert_eq!(std::fs::read(file.path()).unwrap(), std::fs::read(&path).unwrap());
    let json = br#"{"ppl": 12.5}"#;
    file.append_evaluation(json).unwrap();
    let after = file.publish().unwrap();
    assert!(after > before && after == path.metadata().unwrap().len());
    verify(&path).unwrap();
    let read = QsfFile::open(&path).unwrap();
    assert_eq!(read.section_bytes(SectionTag::EVALUATION).unwrap().as_deref(), Some(&json[..]));
    assert_eq!(read.meta().unwrap(), Some(meta()));
}

/// Reading the one while writing the other would destroy it.
#[test]
fn a_file_that_is_called_as_a_new_one_is_before_it_is_whole_stays() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("b.qsf.partial"), dir.path().join("b.qsf"));
    write(&dir.path().join("a.qsf"), Compression::None).unwrap();
    std::fs::rename(dir.path().join("a.qsf"), &path).unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = store_adapters(&QsfFile::open(&path).unwrap(), &[], &out, true);
    assert!(matches!(refused, Err(FormatError::ForeignFile { .. })), "{refused:?}");
    assert!(std::fs::read(&path).unwrap() == before && !out.exists());
}
