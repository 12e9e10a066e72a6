//! Models within a RAM budget: what is read from disk for every token gives the bits that a model in memory gives, stays within the
//! budget, and is never taken for whole when it is damaged.

use std::fs::{self, OpenOptions};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{CHUNK_BYTES, QsfFile};
use qsf_runtime::cpu::{Cpu, Isa, KvTypes};
use qsf_runtime::source::QsfSource;
use qsf_runtime::stream::{InUse, Io, MemoryPlan, Need, RamBudget, StreamSource, StreamedModel};
use qsf_runtime::{Decoder, KvOptions, Model, RuntimeError, memory};
use qsf_tests::*;

/// Some chunks in every layer, and matrices that end inside of them.
const SIZE: Size = Size { hidden: 320, ffn: 1000, layers: 4, vocab: 1500 };
const CONTEXT: usize = 40;
const PROMPT: [u32; 9] = [1, 7, 300, 1499, 7, 2, 0, 16, 17];

fn converted(dir: &Path, name: &str, model: &Path, args: &str) -> PathBuf {
    let out = dir.join(name);
    program("qsf-convert").arg(model).arg(&out).args(args).run().ok();
    out
}

fn llama(dir: &Path) -> PathBuf {
    let model = dir.join("llama");
    write_llama(&model, SIZE, 5);
    model
}

/// Logits of the prompt's last token, taken in two steps, and of three tokens behind it.
fn logits(model: Model, batch: usize) -> Result<Vec<Vec<f32>>, RuntimeError> {
    let cpu = Cpu::with_threads(Isa::best(), 2).unwrap();
    decode(&Decoder::new(Arc::new(model), cpu, None), batch)
}

fn decode(decoder: &Decoder, batch: usize) -> Result<Vec<Vec<f32>>, RuntimeError> {
    let vocab = decoder.model().config.vocab as usize;
    let mut state = decoder.state(CONTEXT, batch).unwrap();
    let mut rows = Vec::new();
    let mut step = |tokens: &[u32]| -> Result<(), RuntimeError> {
        let tokens: Vec<u32> = tokens.iter().map(|token| token % vocab as u32).collect();
        for tokens in tokens.chunks(state.batch()) {
            decoder.forward(&mut state, tokens)?;
        }
        let last = (tokens.len() - 1) % state.batch();
        let mut row = vec![0.0; vocab];
        decoder.logits(&mut state, last..last + 1, &mut row)?;
        rows.push(row);
        Ok(())
    };
    step(&PROMPT)?;
    for token in [3, 700, 3] {
        step(&[token])?;
    }
    Ok(rows)
}

fn need() -> Need {
    Need {
        context: CONTEXT,
        least_context: CONTEXT,
        batch: PROMPT.len(),
        kv: KvOptions::default(),
        smaller_kv: Vec::new(),
        logit_rows: 1,
        whole_head: false,
        skipped: Vec::new(),
        threads: 2,
        compared_with: None,
    }
}

fn plan(source: &StreamSource, budget: u64) -> Result<MemoryPlan, RuntimeError> {
    MemoryPlan::new(source, need(), RamBudget(budget), InUse::default())
}

/// The smallest budget for a model.
fn least(source: &StreamSource) -> u64 {
    match plan(source, 1) {
        Err(RuntimeError::BudgetTooSmall { least, .. }) => least,
        other => panic!("a budget of one byte: {:?}", other.map(|plan| plan.total())),
    }
}

fn streamed(file: &Path, io: Io, more: u64) -> Result<(StreamedModel, usize), RuntimeError> {
    let source = StreamSource::open(file, io)?;
    let plan = plan(&source, least(&source) + more)?;
    let batch = plan.batch;
    Ok((StreamedModel::load(&source, plan)?, batch))
}

#[test]
fn what_is_streamed_has_the_bits_of_what_is_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let (llama, gpt2) = (llama(dir.path()), dir.path().join("gpt2"));
    write_gpt2(&gpt2, SIZE, 6);
    for (i, (model, args)) in [
        (&llama, "--quant 8bit"),
        (&llama, "--quant 4bit --compress zstd"),
        (&llama, "--quant f16 --compress lz4"),
        (&llama, "--quant n3 --outliers 1%"),
        (&llama, "--quant t2 --layout rows"),
        (&llama, "--quant x3"),
        (&gpt2, "--quant 8bit --compress lz4"),
        (&gpt2, "--quant mixed"),
        // Experts are read when they are chosen; all of them, or those that were used last, are kept.
        (&golden("mixtral"), "--quant 4bit"),
        (&golden("qwen3_moe"), "--quant 8bit --compress lz4"),
    ]
    .into_iter()
    .enumerate()
    {
        let file = converted(dir.path(), &format!("{i}.qsf"), model, args);
        let expected = logits(Model::load(&QsfSource::open(&file).unwrap()).unwrap(), 512).unwrap();
        let all = fs::metadata(&file).unwrap().len();
        for io in Io::ALL {
            let mut reads = Vec::new();
            for more in [0, all / 8, all / 2, 40 * all + 50_000_000] {
                let (StreamedModel { model, plan, .. }, batch) = match streamed(&file, io, more) {
                    // Not every file system of a test machine can be read past its cache.
                    Err(RuntimeError::Io { source, .. }) if io == Io::Direct => {
                        println!("skipped: reading past the cache here: {source}");
                        continue;
                    }
                    streamed => streamed.unwrap(),
                };
                reads.push(plan.bytes_per_token);
                let found = logits(model, batch).unwrap();
                assert!(found == expected, "{args}, {}, {more} bytes more than the least", io.name());
            }
            assert!(reads.is_sorted_by(|a, b| a >= b), "more memory, more reading: {reads:?}");
            assert!(reads.first() > Some(&0) || reads.is_empty(), "the least budget holds the whole model");
            assert!(
                reads.last().is_none_or(|bytes| *bytes == 0),
                "with memory to spare nothing is read again"
            );
        }
    }
}

#[test]
fn a_chunk_that_is_read_later_is_checked_then() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model");
    // Matrices of more than two chunks, so that there are some in which no tensor begins.
    write_llama(&model, Size { ffn: 7000, ..SIZE }, 8);
    let file = converted(dir.path(), "m.qsf", &model, "--quant 8bit");
    let outline = QsfFile::open(&file).unwrap().layer_outline(2).unwrap();
    let inside = |data: &Range<usize>| {
        let chunk = data.start.next_multiple_of(CHUNK_BYTES);
        (chunk + CHUNK_BYTES <= data.end).then_some(chunk / CHUNK_BYTES)
    };
    let quiet = outline.tensors.iter().find_map(|tensor| inside(&tensor.data)).unwrap();
    let mut bytes = fs::read(&file).unwrap();
    bytes[outline.chunks[quiet].offset as usize + 12_345] ^= 4;
    fs::write(&file, &bytes).unwrap();
    for io in ["pread", "mmap"] {
        let call = program("qsf-run").arg(&file).args("--prompt-ids 1,2,3 -n 4 --ram-budget 16 --io").arg(io);
        let place = format!("layer 2, chunk {quiet}");
        refused(io, dir.path(), call, 3, &[&place, "CRC32", "m.qsf"]);
    }
}

#[test]
fn a_file_that_is_cut_off_while_the_model_runs_is_an_error_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let model = llama(dir.path());
    for io in [Io::Pread, Io::Mmap] {
        let file = converted(dir.path(), io.name(), &model, "--quant 8bit");
        let (StreamedModel { model, .. }, batch) = streamed(&file, io, 0).unwrap();
        let half = fs::metadata(&file).unwrap().len() / 2;
        OpenOptions::new().write(true).open(&file).unwrap().set_len(half).unwrap();
        let error = logits(model, batch).unwrap_err();
        assert_eq!(error.failure().exit_code(), 3, "{error}");
        let message = error.to_string();
        assert!(message.contains("cut off") && message.contains("offset"), "{message}");
    }
}

#[test]
fn a_file_that_is_removed_while_the_model_runs_is_still_there_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = converted(dir.path(), "m.qsf", &llama(dir.path()), "--quant 4bit");
    let expected = logits(Model::load(&QsfSource::open(&file).unwrap()).unwrap(), 512).unwrap();
    let (StreamedModel { model, .. }, batch) = streamed(&file, Io::Pread, 0).unwrap();
    if cfg!(unix) {
        fs::remove_file(&file).unwrap();
    }
    assert!(logits(model, batch).unwrap() == expected);
}

#[test]
fn layers_that_are_left_out_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let model = llama(dir.path());
    // Only a conversion to a size measures how much layers matter; any file can say so.
    let file = converted(dir.path(), "m.qsf", &model, "--quant 8bit");
    let source = StreamSource::open(&file, Io::Pread).unwrap();
    let budget = least(&source);
    let run = |skipped: &[usize]| {
        let need = Need { skipped: skipped.to_vec(), ..need() };
        let plan = MemoryPlan::new(&source, need, RamBudget(budget), InUse::default()).unwrap();
        let batch = plan.batch;
        let StreamedModel { model, plan, .. } = StreamedModel::load(&source, plan).unwrap();
        let cpu = Cpu::with_threads(Isa::best(), 1).unwrap();
        let decoder = Decoder::new(Arc::new(model), cpu, None).without_layers(skipped);
        (decode(&decoder, batch).unwrap(), plan.bytes_per_token)
    };
    let (found, read) = run(&[1, 2]);
    let whole = Model::load(&QsfSource::open(&file).unwrap()).unwrap();
    let cpu = Cpu::with_threads(Isa::best(), 1).unwrap();
    let decoder = Decoder::new(Arc::new(whole), cpu, None).without_layers(&[1, 2]);
    assert!(found == decode(&decoder, 512).unwrap());
    let (_, all) = run(&[]);
    assert!(read < all * 3 / 4, "{read} of {all} bytes");
}

#[test]
fn a_head_by_clusters_stays_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let model = demo_model(dir.path());
    let file = converted(dir.path(), "m.qsf", &model, "--quant 8bit --clusters 16");
    let source = StreamSource::open(&file, Io::Pread).unwrap();
    let plan_with = |whole_head: bool| {
        let need = Need { whole_head, ..need() };
        let Err(RuntimeError::BudgetTooSmall { least, .. }) =
            MemoryPlan::new(&source, need.clone(), RamBudget(1), InUse::default())
        else {
            panic!("a budget of one byte")
        };
        MemoryPlan::new(&source, need, RamBudget(least), InUse::default()).unwrap()
    };
    let (with, without) = (plan_with(true), plan_with(false));
    assert!(with.budget.0 > without.budget.0, "the head is larger than a buffer");
    let StreamedModel { model, plan, .. } = StreamedModel::load(&source, with).unwrap();
    assert!(model.head.weight.resident().is_some() && plan.bytes_per_token > 0);
    // The command line asks for that where the head is one by clusters.
    let run = |args: &str| {
        let fixed = "--prompt-ids 1,2,3 -n 12 --temp 0 --kv-type f16 --json --head clusters:4";
        program("qsf-run").arg(&file).args(fixed).args(args).run().json()["token_ids"].clone()
    };
    assert_eq!(run("--ram-budget 12"), run(""));
}

#[test]
fn a_small_budget_shortens_what_nobody_asked_for_and_then_its_cache() {
    let dir = tempfile::tempdir().unwrap();
    let file = converted(dir.path(), "m.qsf", &llama(dir.path()), "--quant 8bit");
    let source = StreamSource::open(&file, Io::Pread).unwrap();
    let types = |name: &str| name.parse::<KvTypes>().unwrap();
    let short = |context: usize, least_context: usize, smaller: &[&str], budget: u64| {
        let kv = types("f32").into();
        let smaller_kv = smaller.iter().map(|name| types(name)).collect();
        let need = Need { context, least_context, kv, smaller_kv, ..need() };
        MemoryPlan::new(&source, need, RamBudget(budget), InUse::default())
    };
    // What is named has something on top, for what differs between runs.
    let least = |context: usize| match short(context, context, &[], 1) {
        Err(RuntimeError::BudgetTooSmall { least, .. }) => least - memory::SPREAD,
        other => panic!("a budget of one byte: {:?}", other.map(|plan| plan.total())),
    };
    let (long, brief) = (least(4000), least(500));
    let plan = short(4000, 500, &["4bit", "2bit"], long).unwrap();
    assert_eq!((plan.context, plan.kv.types), (4000, types("f32")), "what is wanted, where it fits");
    let plan = short(4000, 500, &["4bit", "2bit"], long - 1).unwrap();
    assert_eq!((plan.context, plan.kv.types), (2000, types("f32")));
    let plan = short(4000, 500, &["4bit", "2bit"], brief - 1).unwrap();
    assert_eq!(plan.kv.types, types("4bit"), "coarser only when shorter does not help");
    assert!(short(500, 500, &[], brief - 1).is_err(), "what was asked for is given, or refused");
}

#[test]
fn a_budget_that_is_too_small_is_refused_with_one_that_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let file = converted(dir.path(), "m.qsf", &llama(dir.path()), "--quant 8bit");
    let call = |budget: &str| {
        program("qsf-run").arg(&file).args("--prompt-ids 1,2 -n 2 --temp 0 --ram-budget").arg(budget)
    };
    let output = call("1").run();
    assert_eq!(output.code, 5, "{}", output.stderr);
    let enough = output.stderr.split("a budget of ").nth(1).unwrap().split(" MB is enough").next().unwrap();
    let enough: f64 = enough.parse().unwrap();
    // What the process takes before differs by some pages from one run to the next.
    call(&format!("{}", enough + 0.5)).run().ok();
    assert_eq!(call(&format!("{}", enough - 1.0)).run().code, 5);
    for (what, budget, code) in [("no number", "lots", 2), ("nothing", "0", 2)] {
        refused(what, dir.path(), call(budget), code, &["--ram-budget"]);
    }
    let alone = program("qsf-run").arg(&file).args("--prompt-ids 1 --io direct");
    refused("--io alone", dir.path(), alone, 2, &["--ram-budget"]);
    // What needs another flag is refused also where that flag cannot be given.
    for (what, flags) in
        [("a plan of nothing", "--system --memory-plan"), ("a policy of nothing", "--system --kv-policy h2o")]
    {
        let flag = flags.split(' ').nth(1).unwrap();
        refused(what, dir.path(), program("qsf-run").args(flags), 2, &[flag]);
    }
    for (flags, why) in [
        ("--tokenize -p a --memory-plan", "cannot be used with"),
        ("--bench --kv-policy h2o", "cannot be used with"),
        ("-i --kv-policy h2o", "--kv-window <N>"),
        ("-i --kv-policy h2o --kv-window 64", "not with --interactive"),
    ] {
        let call = program("qsf-run").arg(&file).args(flags);
        refused(flags, dir.path(), call, 2, &[why]);
    }
    let source = program("qsf-run").arg(demo_model(dir.path())).args("-p a --ram-budget 100");
    refused("a directory", dir.path(), source, 4, &["qsf-convert"]);
}

#[test]
fn a_plan_says_where_the_memory_goes_and_adds_up() {
    let dir = tempfile::tempdir().unwrap();
    let file = converted(dir.path(), "m.qsf", &llama(dir.path()), "--quant 8bit");
    let plan = |args: &str| {
        let call = program("qsf-run").arg(&file).args("--prompt-ids 1,2,3 -n 5 --memory-plan --ram-budget");
        call.args(args).run().ok()
    };
    let text = plan("14").stdout;
    for part in ["RAM budget 14.0 MB", "key/value cache", "in all", "for every token"] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    let value = plan("14 --json").json();
    let regions = value["region_bytes"].as_object().unwrap();
    let sum: u64 = regions.values().map(|bytes| bytes.as_u64().unwrap()).sum();
    assert_eq!(Some(sum), value["planned_bytes"].as_u64());
    assert!(sum <= 14_000_000 && value["bytes_read_per_token"].as_u64().unwrap() > 0, "{value}");
}
