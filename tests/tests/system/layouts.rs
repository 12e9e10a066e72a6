//! The order of blocks in a file is for speed alone: in panels or in rows, a model is the same.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::panels::interleave;
use qsf_format::*;
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::source::{QsfSource, WeightSource};
use qsf_runtime::{Activations, Decoder, Model};
use qsf_tests::*;
use serde_json::{Value, json};

/// `model` converted with `args`, in rows and in panels.
#[track_caller]
fn in_both(model: &Path, dir: &Path, args: &str) -> [PathBuf; 2] {
    ["rows", "panels"].map(|layout| {
        let out = dir.join(format!("{layout}.qsf"));
        let call = program("qsf-convert").arg(model).arg(&out).args(args).args("--force --layout");
        call.arg(layout).run().ok();
        out
    })
}

/// A tensor of a file: its place and header, and its bytes.
struct Stored {
    name: String,
    rows: usize,
    cols: usize,
    quant: QuantType,
    layout: Layout,
    bytes: Vec<u8>,
}

fn tensors(file: &QsfFile) -> Vec<Stored> {
    let info = file.embedding_info().unwrap();
    let mut all = vec![Stored {
        name: "embedding".into(),
        rows: info.rows as usize,
        cols: info.cols as usize,
        quant: info.quant,
        layout: info.layout,
        bytes: file.embedding(&info).unwrap().as_slice().to_vec(),
    }];
    let mut add = |place: &str, group: TensorGroup| {
        all.extend(group.tensors.iter().map(|t| Stored {
            name: format!("{place} {}", t.kind.unwrap()),
            rows: t.rows as usize,
            cols: t.cols as usize,
            quant: t.quant,
            layout: t.layout,
            bytes: group.bytes.as_slice()[t.data.clone()].to_vec(),
        }));
    };
    for layer in 0..file.layers().len() {
        add(&format!("layer {layer}"), file.layer(layer).unwrap());
    }
    add("final", file.final_section().unwrap().1);
    if let Some(positions) = file.positions().unwrap() {
        add("positions", positions);
    }
    all
}

/// Checks that both files hold the same model, each tensor that can be in panels of the second in panels. Gives their names.
#[track_caller]
fn assert_same_model([rows, panels]: &[PathBuf; 2]) -> Vec<String> {
    let files = [rows, panels].map(|path| QsfFile::open(path).unwrap());
    let block = files[0].header().block;
    let mut in_panels = Vec::new();
    let both = tensors(&files[0]).into_iter().zip(tensors(&files[1]));
    for (plain, other) in both {
        let name = plain.name;
        assert_eq!(
            (&name, plain.rows, plain.cols, plain.quant),
            (&other.name, other.rows, other.cols, other.quant)
        );
        assert_eq!(plain.layout, Layout::Rows, "{name}");
        if other.layout == Layout::Panels16 {
            assert!(other.bytes == interleave(plain.quant, block, plain.cols, &plain.bytes), "{name}");
            in_panels.push(name);
        } else {
            assert!(other.bytes == plain.bytes, "{name}");
        }
    }
    let [mut expected, found] = files.map(|file| file.meta().unwrap().unwrap());
    assert_eq!(expected.provenance.options.insert("layout".into(), json!("panels")), Some(json!("rows")));
    assert_eq!(found, expected, "META says the same of both but the option");
    let sources = [rows, panels].map(|path| QsfSource::open(path).unwrap());
    for info in sources[0].tensors() {
        let values = |source: &QsfSource| -> Vec<u32> {
            source.load(info.id).unwrap().to_f32().iter().map(|value| value.to_bits()).collect()
        };
        assert!(values(&sources[0]) == values(&sources[1]), "{}: other values", info.name);
    }
    in_panels
}

#[test]
fn every_tensor_decodes_to_the_same_values_in_both_layouts() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for args in [
        "2bit",
        "2bit-sym",
        "3bit --block-size 32",
        "4bit",
        "ternary --block-size 128",
        "8bit --block-size 256",
    ] {
        let files = in_both(&model, dir.path(), &format!("-q {args}"));
        let in_panels = assert_same_model(&files);
        assert!(in_panels.contains(&"layer 0 ffn_down".to_owned()), "{args}: {in_panels:?}");
        assert!(in_panels.contains(&"embedding".to_owned()), "{args}: {in_panels:?}");
    }
    let files = in_both(&model, dir.path(), "-q f16");
    assert_eq!(assert_same_model(&files), [""; 0], "floats have no panels");
}

#[test]
fn learned_positions_compressed_layers_and_an_embedding_of_many_chunks_are_the_same_too() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    // 18,003 rows of 8 bits are 2.4 MB, and no multiple of 16.
    write_gpt2(&model, Size { vocab: 18_003, ..Size::TINY }, 2);
    let files = in_both(&model, dir.path(), "-q 8bit --tensor-type positions=4bit --compress zstd");
    let in_panels = assert_same_model(&files);
    for name in ["embedding", "positions positions", "layer 1 attn_q"] {
        assert!(in_panels.iter().any(|found| found == name), "{name}: {in_panels:?}");
    }
    let chunks = QsfFile::open(&files[1]).unwrap().embedding_info().unwrap().chunks.len();
    assert_eq!(chunks, 3);
}

#[test]
fn a_model_predicts_the_same_in_both_layouts() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    for quant in ["4bit", "3bit"] {
        let evaluate = |file: &PathBuf| {
            let call = program("qsf-eval").arg(file).arg("--base").arg(&model).arg("--file").arg(TEXT);
            let mut value = call.args("--ctx 128 --chunks 3 --activations f32 --json").run().json();
            for of_the_run in ["model", "seconds"] {
                value[of_the_run] = Value::Null;
            }
            value
        };
        let [rows, panels] = in_both(&model, dir.path(), &format!("-q {quant}"));
        assert_eq!(evaluate(&rows), evaluate(&panels), "{quant}");
    }
}

#[test]
fn experts_are_in_panels_where_each_is_whole_ones() {
    let dir = tempfile::tempdir().unwrap();
    for (ffn, expected) in [(192, true), (200, false)] {
        let model = dir.path().join(format!("{ffn}"));
        write_mixtral(&model, Size { ffn, ..Size::TINY }, 3, 7);
        let files = in_both(&model, dir.path(), "-q 4bit");
        let in_panels = assert_same_model(&files);
        let has = |name: &str| in_panels.iter().any(|found| found == name);
        assert_eq!(has("layer 1 expert_up"), expected, "experts of {ffn} rows: {in_panels:?}");
        assert!(has("layer 1 expert_down"), "experts of 128 rows: {in_panels:?}");
        let [expected, found] = files.map(|file| logits(&file));
        assert!(found == expected, "experts of {ffn} rows: other logits");
    }
}

/// Logits behind each of a few tokens.
fn logits(file: &Path) -> Vec<f32> {
    let model = Model::load(&QsfSource::open(file).unwrap()).unwrap();
    let (tokens, vocab) = ([1, 2, 3, 90, 7], model.config.vocab as usize);
    let decoder = Decoder::new(Arc::new(model), Cpu::new(Isa::best()), Some(Activations::F32));
    let mut state = decoder.state(tokens.len(), tokens.len()).unwrap();
    decoder.forward(&mut state, &tokens).unwrap();
    let mut out = vec![0.0; tokens.len() * vocab];
    decoder.logits(&mut state, 0..tokens.len(), &mut out).unwrap();
    out
}

/// Writes what `file` holds again, every tensor with the layout that `change` gives instead of its own.
fn write_changed(file: &QsfFile, out: &Path, change: impl Fn(TensorKind, Layout) -> Layout) {
    let header = file.header();
    let options = WriterOptions {
        force: true,
        block: header.block,
        compression: Compression::None,
        tables: CodeTables::default(),
    };
    let mut writer = QsfWriter::create(out, header.layers, options).unwrap();
    let info = file.embedding_info().unwrap();
    writer.begin_embedding(info.quant, info.layout, info.rows, info.cols).unwrap();
    writer.embedding_rows(file.embedding(&info).unwrap().as_slice()).unwrap();
    for layer in 0..file.layers().len() {
        let group = file.layer(layer).unwrap();
        let changed = group.tensors.iter().map(|t| EncodedTensor {
            kind: t.kind.unwrap(),
            part: 0,
            rows: t.rows,
            cols: t.cols,
            quant: t.quant,
            layout: change(t.kind.unwrap(), t.layout),
            data: group.bytes.as_slice()[t.data.clone()].to_vec(),
        });
        writer.layer(changed.collect(), None).unwrap();
    }
    let (tied, last) = file.final_section().unwrap();
    writer.begin_final(tied).unwrap();
    for t in &last.tensors {
        writer.begin_tensor(t.kind.unwrap(), t.rows, t.cols, t.quant, t.layout).unwrap();
        writer.tensor_rows(&last.bytes.as_slice()[t.data.clone()]).unwrap();
    }
    writer.end_final();
    writer.finish(&file.meta().unwrap().unwrap(), header.quant, None, None).unwrap();
}

#[test]
fn stacked_experts_that_end_inside_a_panel_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    write_mixtral(&model, Size { ffn: 200, ..Size::TINY }, 3, 7);
    let [_, file] = in_both(&model, dir.path(), "-q 4bit");
    let broken = dir.path().join("broken.qsf");
    write_changed(&QsfFile::open(&file).unwrap(), &broken, |kind, layout| match kind {
        TensorKind::ExpertUp => Layout::Panels16,
        _ => layout,
    });
    let call = program("qsf-run").arg(&broken).args("--prompt-ids 1,2 -n 1");
    refused("an expert of 12.5 panels", dir.path(), call, 3, &["layer 0 expert_up", "16 rows", "200 rows"]);
}

/// Layouts came later than the first files, which have layout 0 throughout and say nothing of it in META.
#[test]
fn a_file_that_was_written_before_there_were_layouts_is_read_as_ever() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let old = fixtures.join("qsf/llama-rows.qsf");
    let report = program("qsf-inspect").arg(&old).args("--verify --tensors --json").run().json();
    assert_eq!(report["provenance"]["options"]["layout"], Value::Null);
    let layouts: Vec<_> = report["tensors"].as_array().unwrap().iter().map(|t| t["layout"].clone()).collect();
    assert!(layouts.iter().all(|layout| layout == "rows"), "{layouts:?}");
    // Today's conversion of the same model with the same options.
    let dir = tempfile::tempdir().unwrap();
    let types = "attn_q=3bit attn_k=ternary attn_v=2bit attn_output=8bit ffn_up=2bit-sym";
    let types: String = types.split(' ').map(|rule| format!(" --tensor-type {rule}")).collect();
    let [_, new] =
        in_both(&fixtures.join("golden/llama"), dir.path(), &format!("--quant 4bit --block-size 32{types}"));
    let expected = fixtures.join("golden/llama/expected.safetensors");
    let golden = |file: &Path| {
        let call = program("qsf-eval").arg(file).arg("--golden").arg(&expected);
        let mut value = call.args("--activations f32 --json").run().json();
        for of_the_run in ["model", "seconds"] {
            value[of_the_run] = Value::Null;
        }
        value
    };
    assert_eq!(golden(&old), golden(&new));
}
