//! What goes into a statistics file comes out, and what is no statistics file is an error.

use std::io::Cursor;
use std::path::Path;

use qsf_runtime::LinearInput::*;
use qsf_runtime::cpu::{ColumnPanels, Cpu, Isa};
use qsf_runtime::file_hash::hex;
use qsf_runtime::fingerprint::text_fingerprint;

use super::*;
use crate::layer_stats::LayerStats;
use crate::moments::{Detail, Moments};

/// Rows that a text of `tokens` tokens from `first` on makes.
fn rows(first: usize, tokens: usize, cols: usize, seed: usize) -> Vec<f32> {
    let value = |i: usize| ((i * 7_919 + seed * 104_729) % 2_003) as f32 / 1_000.0 - 1.0;
    (first * cols..(first + tokens) * cols).map(value).collect()
}

fn moments(first: usize, tokens: usize, cols: usize, seed: usize, detail: Detail) -> Moments {
    let (cpu, mut panels) = (Cpu::new(Isa::best()), ColumnPanels::new());
    let mut moments = Moments::new(cols, detail).unwrap();
    for chunk in rows(first, tokens, cols, seed).chunks(512 * cols) {
        panels.fill(&cpu, chunk, cols);
        moments.add(&cpu, chunk, &panels);
    }
    moments
}

/// Two layers, one of experts, and a head.
fn model(first: usize, tokens: usize, detail: Detail) -> Vec<LayerStats> {
    let inputs = |all: &[_]| {
        all.iter()
            .zip(1..)
            .map(|((input, cols), seed)| (*input, moments(first, tokens, *cols, seed, detail)))
            .collect()
    };
    let dense = inputs(&[(Attention, 5), (AttnOutput, 3), (Ffn, 5), (FfnDown, 40)]);
    let experts =
        inputs(&[(Attention, 5), (Ffn, 5), (ExpertFfn(0), 5), (ExpertFfn(7), 5), (ExpertDown(7), 9)]);
    vec![
        LayerStats { layer: Some(0), influence: Some(0.25), inputs: dense },
        LayerStats { layer: Some(1), influence: Some(-1e-9), inputs: experts },
        LayerStats { layer: None, influence: None, inputs: inputs(&[(Head, 5)]) },
    ]
}

fn header(model: u8, tokens: usize) -> StatsHeader {
    StatsHeader {
        model: [model; 32],
        texts: vec![TextMark { hash: text_fingerprint(&[1, 2, 3]), tokens: tokens as u64 }],
    }
}

fn write(path: &Path, header: &StatsHeader, layers: &[LayerStats]) {
    let mut writer = StatsWriter::create(path, false, header).unwrap();
    layers.iter().for_each(|stats| writer.layer(stats).unwrap());
    assert!(!path.exists(), "it has no name before it is whole");
    writer.finish().unwrap();
}

#[test]
fn what_is_written_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    for (name, detail) in [("diagonal", Detail::Diagonal), ("full", Detail::Full)] {
        let (path, layers) = (dir.path().join(name), model(0, 700, detail));
        write(&path, &header(1, 700), &layers);
        let mut reader = StatsReader::open(&path).unwrap();
        assert_eq!(*reader.header(), header(1, 700));
        assert_eq!(reader.layers(), [Some(0), Some(1), None]);
        for stats in &layers {
            assert!(reader.layer(stats.layer).unwrap() == *stats, "{name} {:?}", stats.layer);
        }
        let bytes: u64 =
            layers.iter().flat_map(|stats| LayerSummary::new(stats).inputs).map(|i| i.bytes).sum();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 48 + 40 + 4 + 2 * 36 + bytes + 28, "{name}");
    }
}

#[test]
fn shards_add_up_to_one_pass() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..4).map(|i| dir.path().join(format!("{i}"))).collect();
    for (i, path) in paths.iter().enumerate() {
        write(path, &header(1, 600), &model(i * 600, 600, Detail::Full));
    }
    let mut merged = MergedStats::open(&paths).unwrap();
    assert_eq!((merged.header().tokens(), merged.header().texts.len()), (2_400, 4));
    for stats in model(0, 2_400, Detail::Full) {
        let found = merged.layer(stats.layer).unwrap();
        assert_eq!(found.inputs.len(), stats.inputs.len());
        for (input, expected) in &stats.inputs {
            let found = &found.inputs[input];
            assert_eq!(found.tokens(), 2_400);
            let (squares, second) = (expected.mean_square(), expected.second_moment().unwrap());
            for (i, (a, b)) in found.second_moment().unwrap().iter().zip(&second).enumerate() {
                let scale = (squares[i / expected.cols()] * squares[i % expected.cols()]).sqrt();
                assert!(f64::from((a - b).abs()) <= 1e-6 * scale, "{input:?} {i}: {a} {b}");
            }
            for (a, b) in found.mean_square().iter().zip(&squares) {
                assert!((a - b).abs() <= 1e-12 * b);
            }
        }
        assert!((found.influence.unwrap_or(0.0) - stats.influence.unwrap_or(0.0)).abs() < 1e-12);
    }
    let again = [dir.path().join("again 1"), dir.path().join("again 2")];
    for out in &again {
        MergedStats::open(&paths).unwrap().write(out, false).unwrap();
    }
    let bytes = again.map(|path| std::fs::read(path).unwrap());
    assert!(bytes[0] == bytes[1], "the same files in the same order give the same bits");
}

#[test]
fn statistics_of_two_models_are_not_added() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (dir.path().join("first"), dir.path().join("second"));
    write(&a, &header(1, 10), &model(0, 10, Detail::Full));
    write(&b, &header(2, 10), &model(0, 10, Detail::Full));
    let error = MergedStats::open(&[&a, &b]).err().unwrap().to_string();
    for part in ["first", "second", &hex(&[1; 32]), &hex(&[2; 32])] {
        assert!(error.contains(part), "{error}");
    }
    let one = MergedStats::open(&[&a]).unwrap();
    assert!(one.check_model(&[1; 32]).is_ok() && one.check_model(&[3; 32]).is_err());
    assert!(MergedStats::open::<&Path>(&[]).is_err());

    // A file of the right fingerprint can still have another width.
    let c = dir.path().join("third");
    let inputs = [(Attention, moments(0, 10, 6, 1, Detail::Full))].into();
    write(&c, &header(1, 10), &[LayerStats { layer: Some(0), influence: None, inputs }]);
    let error = MergedStats::open(&[&a, &c]).unwrap().layer(Some(0)).unwrap_err().to_string();
    assert!(error.contains("third") && error.contains("5 columns") && error.contains("6 columns"), "{error}");
}

#[test]
fn an_interrupted_file_leaves_nothing_under_its_name_and_none_is_replaced_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stats");
    let mut writer = StatsWriter::create(&path, false, &header(1, 10)).unwrap();
    writer.layer(&model(0, 10, Detail::Full)[0]).unwrap();
    drop(writer);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    write(&path, &header(1, 10), &model(0, 10, Detail::Diagonal));
    assert!(StatsWriter::create(&path, false, &header(1, 10)).is_err());
    assert!(StatsWriter::create(&path, true, &header(1, 10)).is_ok());
}

fn read_all(bytes: &[u8]) -> qsf_runtime::Result<()> {
    let mut reader = StatsReader::new(Path::new("memory"), Cursor::new(bytes))?;
    reader.layers().into_iter().try_for_each(|layer| reader.layer(layer).map(|_| ()))
}

#[test]
fn every_cut_and_every_flipped_bit_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stats");
    write(&path, &header(1, 10), &model(0, 10, Detail::Full));
    let bytes = std::fs::read(&path).unwrap();
    read_all(&bytes).unwrap();
    for end in 0..bytes.len() {
        assert!(read_all(&bytes[..end]).is_err(), "cut to {end}");
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(read_all(&longer).is_err());
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(read_all(&damaged).is_err(), "a bit of byte {at}");
    }
}

#[test]
fn sizes_beyond_the_file_and_sums_that_are_no_numbers_are_refused_behind_sound_checksums() {
    let start = header(1, 10).to_bytes();
    let file = |head: record::Head, body: &[u8]| {
        let mut record = head.to_bytes().to_vec();
        record.extend(body);
        record.extend(crc32fast::hash(&record).to_le_bytes());
        let end = record::Head { layer: None, what: record::What::End, products: false, cols: 0, tokens: 10 };
        let end = end.to_bytes();
        [&start[..], &record, &end, &crc32fast::hash(&end).to_le_bytes()].concat()
    };
    let what = record::What::Input(Attention);
    let head = |cols, products| record::Head { layer: Some(0), what, products, cols, tokens: u64::MAX };
    let one = |sum: f64, square: f64| [sum.to_le_bytes(), square.to_le_bytes()].concat();
    read_all(&file(head(1, false), &one(1.0, 2.0))).unwrap();
    let message = |bytes: &[u8]| read_all(bytes).unwrap_err().to_string();
    assert!(message(&file(head(u32::MAX, true), &one(1.0, 2.0))).contains("the end of the file"));
    assert!(message(&file(head(0, false), &[])).contains("fields that agree"));
    for (sum, square) in [(f64::NAN, 1.0), (1.0, f64::INFINITY), (1.0, -1.0)] {
        assert!(message(&file(head(1, false), &one(sum, square))).contains("finite"));
    }
    let mut texts = start.clone();
    texts[12..16].copy_from_slice(&(1u32 << 20).to_le_bytes());
    assert!(message(&texts).contains("the end of the file"));
}

#[test]
fn a_summary_has_a_line_for_each_input() {
    let layers = model(0, 700, Detail::Full);
    let text = LayerSummary::new(&layers[1]).to_string();
    assert_eq!(text.lines().count(), 6, "{text}");
    assert!(text.contains("ExpertDown(7)") && text.contains("700") && text.contains("influence"), "{text}");
}
