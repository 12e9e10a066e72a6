//! A QSF file from a stranger: as it is, then with sizes and checksums made right, which an attacker can do as well.
#![no_main]

use std::path::Path;
use std::sync::Arc;

use libfuzzer_sys::{fuzz_mutator, fuzz_target};
use qsf_format::{QsfFile, verify_file};
use qsf_fuzz::reseal::reseal;
use qsf_fuzz::{load_all, must_say_something, mutate, mutated};
use qsf_runtime::cpu::{Cpu, Isa};
use qsf_runtime::source::{QsfSource, WeightSource};
use qsf_runtime::{ClusteredHead, Decoder, Model};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    mutated(data, size, max_size, seed, mutate::qsf::mutate)
});

fuzz_target!(|bytes: &[u8]| {
    check(bytes.to_vec());
    let mut bytes = bytes.to_vec();
    reseal(&mut bytes);
    check(bytes);
});

fn check(bytes: Vec<u8>) {
    let file = match QsfFile::from_memory(Path::new("memory"), Arc::new(bytes)) {
        Ok(file) => file,
        Err(error) => return must_say_something(&error),
    };
    if let Err(error) = verify_file(&file) {
        must_say_something(&error);
    }
    let layers = (0..file.layers().len()).map(|layer| file.layer_outline(layer));
    let ends = [file.final_outline().map(|(_, outline)| outline), file.embedding_outline()];
    for error in layers.chain(ends).filter_map(Result::err) {
        must_say_something(&error);
    }
    match QsfSource::from_file(file) {
        Ok(source) => {
            load_all(&source);
            decode_two_tokens(&source);
        }
        Err(error) => must_say_something(&error),
    }
}

/// Larger vocabularies than this get no logits: a seed has a small one.
const MAX_LOGITS: u32 = 1 << 16;

/// Whatever numbers the weights are, a model that opened runs.
fn decode_two_tokens(source: &QsfSource) {
    let model = match Model::load(source) {
        Ok(model) => model,
        Err(error) => return must_say_something(&error),
    };
    let context = model.config.max_positions.min(2) as usize;
    let last = model.config.vocab - 1;
    let mut logits = vec![0.0; if last < MAX_LOGITS { last as usize + 1 } else { 0 }];
    // Clusters that are sound but not those of the head are refused, not used.
    let clustered = match source.clusters() {
        Ok(clusters) => clusters.map(|clusters| ClusteredHead::new(&model, &clusters, 1)),
        Err(error) => return must_say_something(&error),
    };
    let mut decoder = Decoder::new(Arc::new(model), Cpu::new(Isa::best()), None);
    match clustered {
        Some(Ok(head)) => decoder = decoder.with_clusters(head),
        Some(Err(error)) => must_say_something(&error),
        None => {}
    }
    match source.early_exits() {
        // At 0 the model is left behind the first of them.
        Ok(Some(exits)) => match decoder.with_early_exit(exits.into(), 0.0) {
            Ok(exiting) => decoder = exiting,
            Err(error) => return must_say_something(&error),
        },
        Ok(None) => {}
        Err(error) => return must_say_something(&error),
    }
    let outcome = decoder.state(context, 1).and_then(|mut state| {
        for token in [0, last].into_iter().take(context) {
            decoder.decode(&mut state, token)?;
            if !logits.is_empty() {
                decoder.logits(&mut state, 0..1, &mut logits)?;
            }
        }
        Ok(())
    });
    if let Err(error) = outcome {
        must_say_something(&error);
    }
}
