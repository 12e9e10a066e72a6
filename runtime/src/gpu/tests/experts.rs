//! Adapters of experts add there what they add on the processor.

use std::path::Path;
use std::sync::Arc;

use qsf_cpu::{Cpu, Isa};
use qsf_format::{TensorId, TensorKind};

use super::Numbers;
use crate::decoder::{Activations, Decoder};
use crate::gpu::{Gpu, GpuDecoder};
use crate::linear::LowRank;
use crate::runner::Runner;
use crate::source::adapter::{Adapter, Update};
use crate::source::{self, expected_shape};
use crate::weights::Model;

const TOKENS: [u32; 24] = [1, 5, 9, 2, 70, 3, 3, 8, 44, 21, 7, 6, 50, 11, 1, 5, 9, 2, 70, 3, 3, 8, 44, 21];

/// Logits of a prompt and of a token behind it.
fn logits<R: Runner>(runner: &R) -> Vec<f32> {
    let vocab = runner.config().vocab as usize;
    let mut state = runner.state_with(32, 32, qsf_cpu::KvTypes::F16.into()).unwrap();
    let mut out = vec![0.0; (TOKENS.len() + 1) * vocab];
    let (prompt, last) = out.split_at_mut(TOKENS.len() * vocab);
    runner.forward(&mut state, &TOKENS).unwrap();
    runner.logits(&mut state, 0..TOKENS.len(), prompt).unwrap();
    runner.forward(&mut state, &[4]).unwrap();
    runner.logits(&mut state, 0..1, last).unwrap();
    out
}

fn distance(found: &[f32], expected: &[f32]) -> f32 {
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|value| value * value).sum::<f32>();
    let off = square(&mut found.iter().zip(expected).map(|(a, b)| a - b));
    (off / square(&mut expected.iter().copied())).sqrt()
}

#[test]
fn adapters_of_some_experts_add_what_they_add_on_the_processor() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/golden/mixtral");
    let source = source::open(&path).unwrap();
    let config = source.config();
    let mut numbers = Numbers(5);
    let mut updates = Vec::new();
    // Of different ranks, and of one expert none at all.
    for (expert, rank) in [(0, 2), (1, 3), (3, 1), (4, 2)] {
        for kind in [TensorKind::ExpertGate, TensorKind::ExpertUp, TensorKind::ExpertDown] {
            let id = TensorId::of_layer(1, kind);
            let (rows, inputs) = expected_shape(config, id).unwrap();
            let outputs = rows / config.experts.as_ref().unwrap().count as usize;
            let mut values = |count: usize| (0..count).map(|_| 0.3 * numbers.normal()).collect::<Vec<f32>>();
            let low_rank =
                LowRank::new(values(rank * inputs), &values(outputs * rank), [outputs, inputs], 1.0);
            updates.push(Update { id, expert: Some(expert), module: id.to_string(), low_rank });
        }
    }
    let decoder = |adapters| {
        let mut model = Model::load(source.as_ref()).unwrap();
        model.adapt(adapters).unwrap();
        Decoder::new(Arc::new(model), Cpu::new(Isa::best()), Some(Activations::F32))
    };
    let adapter = Adapter { path, name: "test".into(), scale: 1.0, files: Vec::new(), updates };
    let (plain, adapted) = (decoder(Vec::new()), decoder(vec![adapter]));
    let found = logits(&GpuDecoder::new(Gpu::open(true).unwrap(), &adapted).unwrap());
    let off = distance(&found, &logits(&adapted));
    assert!(off <= 5e-3, "{off:.2e}");
    let change = distance(&found, &logits(&plain));
    assert!(change > 0.05, "as without an adapter: {change:.2e}");
}
