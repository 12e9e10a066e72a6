//! Vocabulary clusters in a file: they come back, count in its size, and are not believed when they are damaged.

use std::path::Path;
use std::sync::Arc;

use crate::small_file::*;
use qsf_format::*;

fn clusters() -> VocabClusters {
    VocabClusters {
        cols: HIDDEN,
        centroids: (0..10 * HIDDEN).flat_map(|i| [i as u8, 0x30]).collect(),
        leads: (0..10u8).map(f32::from).collect(),
        cluster_of: (0..VOCAB as u16).map(|token| token * 7 % 10).collect(),
        positions: 50,
        containments: [(1, 20), (2, 41), (10, 50)]
            .map(|(probed, positions)| Containment { probed, positions })
            .to_vec(),
    }
}

fn complete(path: &Path) -> CompleteFile {
    let mut writer = without_positions(path, options(Compression::None)).unwrap();
    writer.begin_positions().unwrap();
    let t = tensor(TensorKind::Positions, 32, HIDDEN, QuantType::N3, 13);
    writer.begin_tensor(t.kind, t.rows, t.cols, t.quant, t.layout).unwrap();
    writer.tensor_rows(&t.data).unwrap();
    writer.end_positions();
    writer.complete(&meta(), MIXED, None, None).unwrap()
}

fn with_clusters() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    let mut file = complete(&path);
    file.append_clusters(&clusters()).unwrap();
    file.append_evaluation(b"{\"ppl\": 12.5}").unwrap();
    file.publish().unwrap();
    std::fs::read(path).unwrap()
}

fn open(bytes: Vec<u8>) -> Result<QsfFile, FormatError> {
    QsfFile::from_memory(Path::new("memory"), Arc::new(bytes))
}

#[test]
fn clusters_come_back_beside_an_evaluation_and_count_in_the_size() {
    let bytes = with_clusters();
    let file = open(bytes).unwrap();
    assert_eq!(file.clusters().unwrap(), Some(clusters()));
    assert!(file.section_bytes(SectionTag::EVALUATION).unwrap().is_some());
    verify_file(&file).unwrap();
    let stored = file.section(SectionTag::CLUSTERS).unwrap().stored_bytes;
    assert_eq!(stored, VocabClusters::section_bytes(10, HIDDEN, VOCAB, 3));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.qsf");
    complete(&path).publish().unwrap();
    assert_eq!(QsfFile::open(&path).unwrap().clusters().unwrap(), None);
}

#[test]
fn every_flipped_bit_of_the_section_is_found() {
    let bytes = with_clusters();
    let section = *open(bytes.clone()).unwrap().section(SectionTag::CLUSTERS).unwrap();
    for at in section.offset..section.offset + section.stored_bytes {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 1 << (at % 8);
        let error = open(damaged).unwrap().clusters().unwrap_err();
        assert!(error.to_string().contains("CLUS"), "{error}");
    }
}

#[test]
fn fields_that_contradict_each_other_or_the_model_are_found_under_a_right_checksum() {
    let bytes = with_clusters();
    let section = *open(bytes.clone()).unwrap().section(SectionTag::CLUSTERS).unwrap();
    for (at, byte) in [(0, 2), (4, 9), (8, 65), (12, 45), (16, 0), (20, 11), (24, 3), (28, 0xFF), (79, 0x7F)]
    {
        let mut damaged = bytes.clone();
        damaged[section.offset as usize + at] = byte;
        seal_section(&mut damaged, b"CLUS");
        let file = open(damaged).unwrap();
        let error = file.clusters().unwrap_err().to_string();
        assert!(error.contains("section CLUS") && error.contains("expected"), "byte {at}: {error}");
        verify_file(&file).unwrap_err();
    }
    let mut compressed = bytes;
    let entry = section_entry(&compressed, b"CLUS");
    compressed[entry + 28] = 3;
    seal_section(&mut compressed, b"CLUS");
    assert!(open(compressed).unwrap_err().to_string().contains("compression 0"));
}

#[test]
fn clusters_that_no_reader_accepts_are_not_written() {
    let dir = tempfile::tempdir().unwrap();
    for wrong in [
        VocabClusters { leads: Vec::new(), centroids: Vec::new(), ..clusters() },
        VocabClusters { positions: 40, ..clusters() },
        VocabClusters { cols: HIDDEN + 1, ..clusters() },
    ] {
        let path = dir.path().join("model.qsf");
        let mut file = complete(&path);
        let error = file.append_clusters(&wrong).unwrap_err();
        assert!(matches!(error, FormatError::Unwritable { .. }), "{error}");
        drop(file);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "something is left behind");
    }
    // Right in themselves, but of another vocabulary.
    let mut file = complete(&dir.path().join("model.qsf"));
    let other = VocabClusters { cluster_of: vec![0; VOCAB as usize - 1], ..clusters() };
    let error = file.append_clusters(&other).unwrap_err().to_string();
    assert!(error.contains("section CLUS") && error.contains("300 tokens"), "{error}");
}
