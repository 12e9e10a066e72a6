//! Vocabulary clusters, from conversion to the head that uses them: what is stored is true, and what is fast stays close.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{QsfFile, SectionTag, VocabClusters};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::source::QsfSource;
use qsf_runtime::{Decoder, Model, Tokenizer};
use qsf_tests::*;
use serde_json::Value;

/// The embedded model at `args`, in `dir`.
fn converted(dir: &Path, name: &str, args: &str) -> PathBuf {
    let (model, out) = (demo_model(dir), dir.join(name));
    program("qsf-convert").arg(model).arg(&out).args(args).run().ok();
    out
}

fn stored(file: &Path) -> VocabClusters {
    QsfFile::open(file).unwrap().clusters().unwrap().unwrap()
}

/// Positions of the likeliest token's cluster in the order in which clusters are looked at, counted plainly in f64.
fn ranks(file: &Path, clusters: &VocabClusters) -> Vec<usize> {
    let source = QsfSource::open(file).unwrap();
    let model = Model::load(&source).unwrap();
    let (vocab, hidden) = (model.config.vocab as usize, model.config.hidden as usize);
    let tokenizer = Tokenizer::from_json(
        &QsfFile::open(file).unwrap().section_bytes(SectionTag::TOKENIZER).unwrap().unwrap(),
        file,
    );
    let mut tokens = tokenizer.unwrap().encode(&fs::read_to_string(TEXT).unwrap()).unwrap();
    tokens.truncate(4096);
    let decoder = Decoder::new(Arc::new(model), Cpu::new(Isa::best()), None);
    let mut state = decoder.state(512, 512).unwrap();
    let centroids: Vec<f64> =
        clusters.centroids.as_chunks::<2>().0.iter().map(|v| half(u16::from_le_bytes(*v))).collect();
    let mut ranks = Vec::new();
    // Every other chunk: those before have shown the leads.
    for chunk in tokens.chunks(512).skip(1).step_by(2) {
        state.rewind(0).unwrap();
        decoder.forward(&mut state, chunk).unwrap();
        for position in 0..chunk.len() {
            let mut logits = vec![0.0; vocab];
            decoder.logits(&mut state, position..position + 1, &mut logits).unwrap();
            let best = (0..vocab).rev().max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap();
            let input = decoder.head_input(&state, position..position + 1);
            let score = |cluster: usize| {
                let centroid = &centroids[cluster * hidden..][..hidden];
                let dot: f64 = centroid.iter().zip(input).map(|(c, x)| c * f64::from(*x)).sum();
                dot + f64::from(clusters.leads[cluster])
            };
            let own = score(usize::from(clusters.cluster_of[best]));
            ranks.push((0..clusters.count()).filter(|cluster| score(*cluster) > own).count());
        }
    }
    ranks
}

/// An f16 that is zero or normal, or subnormal.
fn half(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3FF) / 1024.0);
    let size =
        if exponent == 0 { fraction * 2f64.powi(-14) } else { (1.0 + fraction) * 2f64.powi(exponent - 15) };
    if bits & 0x8000 == 0 { size } else { -size }
}

#[test]
fn the_stored_containment_is_what_a_plain_count_finds_and_inspect_shows_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = converted(dir.path(), "out.qsf", &format!("--clusters 64 -q 8bit --calibration {TEXT}"));
    let clusters = stored(&file);
    assert!(clusters.count() > 32 && clusters.count() <= 64, "{} clusters", clusters.count());
    let ranks = ranks(&file, &clusters);
    assert_eq!(clusters.positions as usize, ranks.len());
    for c in &clusters.containments {
        let counted = ranks.iter().filter(|rank| **rank < c.probed as usize).count();
        assert_eq!(c.positions as usize, counted, "{} clusters", c.probed);
    }
    // A few clusters must contain far more than their share, or the grouping is worthless.
    assert!(clusters.share(8).unwrap() > 0.5, "{:?}", clusters.containments);
    let json = program("qsf-inspect").arg(&file).args("--json --verify").run().json();
    assert_eq!(json["clusters"]["count"], clusters.count());
    let shown = json["clusters"]["containment"].as_array().unwrap();
    assert_eq!(shown.len(), clusters.containments.len());
    assert_eq!(shown.last().unwrap()["share"], 1.0);
    let text = program("qsf-inspect").arg(&file).run().ok().stdout;
    assert!(text.contains(&format!("vocabulary: {} clusters", clusters.count())), "{text}");
    assert_eq!(json["provenance"]["options"]["clusters"]["count"], 64);
}

#[test]
fn clusters_have_the_same_bytes_with_any_number_of_threads_and_need_no_calibration() {
    let dir = tempfile::tempdir().unwrap();
    let first = fs::read(converted(dir.path(), "a.qsf", "--clusters -t 1")).unwrap();
    let model = dir.path().join("demo-1m");
    for (threads, isa) in [("2", "scalar"), ("3", "")] {
        let out = dir.path().join(format!("{threads}.qsf"));
        let call = program("qsf-convert").arg(&model).arg(&out).args("--clusters 256 -t").arg(threads);
        let call = if isa.is_empty() { call } else { call.env("QSF_CPU", isa) };
        call.run().ok();
        assert!(fs::read(&out).unwrap() == first, "other bytes with {threads} threads {isa}");
    }
    let clusters = stored(&dir.path().join("a.qsf"));
    assert!(clusters.count() > 200 && clusters.positions > 1500, "{} positions", clusters.positions);
}

#[test]
fn all_clusters_are_the_exact_head_and_few_come_close() {
    let dir = tempfile::tempdir().unwrap();
    let file = converted(dir.path(), "out.qsf", "--clusters 64");
    let count = stored(&file).count();
    let eval = |head: &str| {
        let call = program("qsf-eval").arg(&file).arg("--file").arg(TEXT);
        call.args("--ctx 256 --chunks 6 --json --head").arg(head).run().json()
    };
    let run = |head: &str| {
        let call = program("qsf-run").arg(&file).args("-n 40 --temp 0 --json -p Once --head").arg(head);
        call.run().json()
    };
    let (exact, all) = (eval("exact"), eval(&format!("clusters:{count}")));
    assert_eq!(exact["ppl"], all["ppl"]);
    assert_eq!((&exact["head"], &all["head"]["probed"]), (&Value::Null, &Value::from(count)));
    assert_eq!(run("exact")["token_ids"], run(&format!("clusters:{count}"))["token_ids"]);
    let default = eval("clusters");
    assert!(default["head"]["share"].as_f64().unwrap() >= 0.99, "{}", default["head"]);
    let probed = default["head"]["probed"].as_u64().unwrap();
    assert!(probed < count as u64, "{}", default["head"]);
    let (exact_ppl, ppl) = (exact["ppl"].as_f64().unwrap(), default["ppl"].as_f64().unwrap());
    assert!(ppl != exact_ppl && (ppl / exact_ppl - 1.0).abs() < 0.2, "{ppl} for {exact_ppl}");
    let text = program("qsf-eval").arg(&file).arg("--file").arg(TEXT);
    let text = text.args("--ctx 256 --chunks 2 --head clusters:3").run().ok().stdout;
    assert!(text.contains(&format!("3 of {count} clusters")), "{text}");
    let bench = program("qsf-run").arg(&file).args("--bench --pp 0 --tg 4 -r 1 --json --head clusters:3");
    let bench = bench.run().json();
    assert_eq!((&bench["head"]["probed"], &bench["weight_bytes_per_token"]), (&Value::from(3), &Value::Null));
}

#[test]
fn rows_of_every_type_and_order_are_the_same_in_the_order_of_their_clusters() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        "-q n3",
        "-q t2",
        "-q t3",
        "-q x2",
        "-q 6bit",
        "-q n2",
        "-q ternary",
        "-q 3bit --layout rows",
        "-q 2bit --block-size 128",
        "-q f16",
        "-q 8bit --compress zstd",
    ] {
        let file = converted(dir.path(), "out.qsf", &format!("{args} --clusters 20 --force"));
        let count = stored(&file).count();
        let run = |head: &str| {
            let call = program("qsf-run")
                .arg(&file)
                .args("-n 24 --temp 0 --json --prompt-ids 5,6,700 --head")
                .arg(head);
            call.run().json()["token_ids"].clone()
        };
        let eval = |head: &str| {
            let call = program("qsf-eval").arg(&file).arg("--file").arg(TEXT);
            call.args("--ctx 64 --chunks 1 --json --head").arg(head).run().json()["ppl"].clone()
        };
        let all = format!("clusters:{count}");
        assert_eq!((run("exact"), eval("exact")), (run(&all), eval(&all)), "{args}");
    }
}

#[test]
fn a_head_that_cannot_be_had_is_refused_with_what_to_do() {
    let dir = tempfile::tempdir().unwrap();
    let plain = converted(dir.path(), "plain.qsf", "");
    let clustered = converted(dir.path(), "clustered.qsf", "--clusters 16");
    let run = |file: &Path, head: &str| program("qsf-run").arg(file).args("-p a -n 2 --head").arg(head);
    refused("no clusters", dir.path(), run(&plain, "clusters"), 2, &["plain.qsf", "--clusters", "exact"]);
    refused("a source", dir.path(), run(&dir.path().join("demo-1m"), "clusters:4"), 2, &["--clusters"]);
    refused("too many", dir.path(), run(&clustered, "clusters:17"), 2, &["clusters:17", "16"]);
    refused("none", dir.path(), run(&clustered, "clusters:0"), 2, &["clusters:P"]);
    refused("a word", dir.path(), run(&clustered, "fast"), 2, &["fast"]);
    let convert = |args: &str| {
        program("qsf-convert").arg(dir.path().join("demo-1m")).arg(dir.path().join("new.qsf")).args(args)
    };
    refused("more than tokens", dir.path(), convert("--clusters 2049"), 2, &["2049", "2048"]);
    refused("no cluster", dir.path(), convert("--clusters 0"), 2, &["--clusters"]);
}

#[test]
fn clusters_count_in_the_size_that_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let args = "--target-size 600kB --clusters 128 --calibration-tokens 1024";
    let file = converted(dir.path(), "out.qsf", args);
    let bytes = fs::metadata(&file).unwrap().len();
    assert!(bytes <= 600_000 && bytes > 590_000, "{bytes}");
    assert!(stored(&file).count() > 100);
}
