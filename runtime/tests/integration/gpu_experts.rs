//! Mixtures of experts of every kind compute on a graphics processor what they compute on the CPU.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use qsf_format::{
    Activation, BlockSize, ExpertGroups, Experts, GateClip, ModelConfig, Outliers, QuantType, RouterScore,
    SharedExperts, TensorId, TensorKind,
};
use qsf_runtime::cpu::KvTypes;
use qsf_runtime::source::{Tensor, TensorInfo, WeightSource};
use qsf_runtime::{Result, Runner, Sequence};

use crate::gpu::{LIMIT, assert_close, cpu_decoder, distance, gpu_decoder, llama, tokens};
use crate::random_model::RandomModel;

/// A mixture of nine experts, three for a token.
fn model(experts: Experts) -> ModelConfig {
    let experts = Experts { count: 9, used: 3, ffn: 44, ..experts };
    ModelConfig { experts: Some(experts), ..llama() }
}

/// Mixtures that differ from the usual one in a point or two each.
fn mixtures() -> Vec<(&'static str, ModelConfig)> {
    let plain = Experts { normalize_weights: true, ..Experts::default() };
    let shared = |gated| Some(SharedExperts { ffn: 70, gated });
    let sigmoid = Experts { score: RouterScore::Sigmoid, choice_bias: true, ..plain.clone() };
    let groups = Some(ExpertGroups { count: 3, used: 2, best: 2 });
    let mixer = Experts {
        score: RouterScore::SparseMixer,
        margin: Some(0.5),
        normalize_weights: false,
        ..Experts::default()
    };
    vec![
        ("sigmoid", model(sigmoid.clone())),
        ("groups", model(Experts { groups, weight_scale: Some(1.5), ..sigmoid.clone() })),
        ("sparse mixer", model(mixer)),
        ("weighted inputs", model(Experts { weigh_inputs: true, ..sigmoid })),
        ("shared", model(Experts { shared: shared(false), ..plain.clone() })),
        ("gated shared", model(Experts { shared: shared(true), dense_layers: vec![0], ..plain.clone() })),
        ("beside a feed-forward", model(Experts { beside_ffn: true, ..plain.clone() })),
        (
            "without gates",
            ModelConfig {
                gated_ffn: false,
                activation: Activation::Relu2,
                ..model(Experts { shared: shared(false), ..plain.clone() })
            },
        ),
        (
            "limited gates",
            ModelConfig { gate_clip: Some(GateClip { alpha: 1.702, limit: 0.05 }), ..model(plain) },
        ),
    ]
}

#[test]
fn every_kind_of_mixture_computes_what_the_cpu_computes() {
    for (name, config) in mixtures() {
        config.check().unwrap();
        for quant in [QuantType::F32, QuantType::Q4] {
            assert_close(&RandomModel::new(config.clone(), quant), &format!("{name}, {quant}"));
        }
    }
}

/// Odd numbers of panels, so that nothing but panels may be between the matrices of two experts.
#[test]
fn experts_are_of_every_type() {
    for quant in QuantType::ALL {
        let mixture = Experts { count: 5, used: 5, ffn: 48, ..Experts::default() };
        let config = ModelConfig { layers: 1, experts: Some(mixture), ..llama() };
        assert_close(&RandomModel::new(config, quant), quant.name());
    }
}

#[test]
fn a_layer_may_have_more_experts_than_threads_and_more_than_are_brought_together() {
    for count in [300, 1030] {
        let mixture = Experts { count, used: 5, ffn: 16, ..Experts::default() };
        let config = ModelConfig { layers: 1, experts: Some(mixture), ..llama() };
        assert_close(&RandomModel::new(config, QuantType::Q2), &format!("{count} experts"));
    }
}

#[test]
fn a_step_has_no_more_tokens_than_their_experts_have_workgroups() {
    let mixture = Experts { count: 700, used: 700, ffn: 16, ..Experts::default() };
    let config = ModelConfig { layers: 1, experts: Some(mixture), ..llama() };
    let gpu = gpu_decoder(&cpu_decoder(&RandomModel::new(config, QuantType::Q2)));
    let mut state = gpu.state_with(200, 200, KvTypes::F16.into()).unwrap();
    assert_eq!(state.batch(), 93, "65535 divided by 700");
    gpu.forward(&mut state, &[3; 93]).unwrap();
    let mut logits = vec![0.0; 150];
    gpu.logits(&mut state, 92..93, &mut logits).unwrap();
    assert!(logits.iter().all(|logit| logit.is_finite()));
}

/// A model whose up projections are of another type, or which has outliers in matrices of experts and of heads, or
/// biases of experts.
pub struct Altered {
    model: RandomModel,
    ups: Option<RandomModel>,
    outliers: bool,
    infos: Vec<TensorInfo>,
}

impl Altered {
    pub fn new(config: ModelConfig, ups: Option<QuantType>, outliers: bool, biases: bool) -> Altered {
        let model = RandomModel::new(config.clone(), QuantType::Q4);
        let ups = ups.map(|quant| RandomModel::new(config.clone(), quant));
        let of_ups = |info: &TensorInfo| match &ups {
            Some(ups) if info.id.kind == TensorKind::ExpertUp => {
                ups.tensors().iter().find(|other| other.id == info.id).unwrap().clone()
            }
            _ => info.clone(),
        };
        let mut infos: Vec<TensorInfo> = model.tensors().iter().map(of_ups).collect();
        let kinds = [TensorKind::ExpertGateBias, TensorKind::ExpertUpBias, TensorKind::ExpertDownBias];
        let with_biases = 0..if biases { config.layers } else { 0 };
        for (layer, kind) in with_biases.flat_map(|layer| kinds.map(|kind| (layer, kind))) {
            let id = TensorId::of_layer(layer, kind);
            let (rows, cols) = qsf_runtime::source::expected_shape(&config, id).unwrap();
            let info = TensorInfo { id, name: id.to_string(), rows, cols, stored: QuantType::F32.into() };
            infos.push(info);
        }
        Altered { model, ups, outliers, infos }
    }
}

impl WeightSource for Altered {
    fn path(&self) -> &Path {
        self.model.path()
    }

    fn config(&self) -> &ModelConfig {
        self.model.config()
    }

    fn tokenizer_json(&self) -> Option<&[u8]> {
        None
    }

    fn chat_template(&self) -> Option<&[u8]> {
        None
    }

    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn tensors(&self) -> &[TensorInfo] {
        &self.infos
    }

    fn load(&self, id: TensorId) -> Result<Tensor> {
        let info = self.infos.iter().find(|info| info.id == id).unwrap();
        if matches!(
            id.kind,
            TensorKind::ExpertGateBias | TensorKind::ExpertUpBias | TensorKind::ExpertDownBias
        ) {
            let values = (0..info.rows * info.cols).map(|i| ((i * 37 % 101) as f32 - 50.0) / 300.0);
            let bytes: Vec<u8> = values.flat_map(f32::to_le_bytes).collect();
            let tensor = Tensor::new(info.rows, info.cols, QuantType::F32, BlockSize::B64, bytes.into());
            return Ok(tensor.unwrap());
        }
        let of = if id.kind == TensorKind::ExpertUp { self.ups.as_ref() } else { None };
        let tensor = of.unwrap_or(&self.model).load(id)?;
        let with_outliers = [
            TensorKind::ExpertGate,
            TensorKind::ExpertDown,
            TensorKind::AttnKUp,
            TensorKind::AttnVUp,
            TensorKind::Head,
            TensorKind::TokenEmbedding,
        ];
        if !self.outliers || !with_outliers.contains(&id.kind) {
            return Ok(tensor);
        }
        let mut outliers = Outliers::default();
        for row in 0..tensor.rows() {
            let outlier = [((row * 7 % tensor.cols()) as u16, 0.5)];
            outliers.push_row(if row % 3 == 0 { &outlier } else { &[] });
        }
        Ok(tensor.with_outliers(Arc::new(outliers), 0))
    }

    fn release(&self, _layer: Option<u32>) {}
}

#[test]
fn experts_have_biases_outliers_and_gates_of_another_type() {
    // Each token goes through all, so that no near tie decides what is computed.
    let mixture = Experts { count: 6, used: 6, ffn: 44, normalize_weights: true, ..Experts::default() };
    let clipped = ModelConfig {
        gate_clip: Some(GateClip { alpha: 1.702, limit: 0.5 }),
        experts: Some(mixture),
        ..llama()
    };
    for ups in [None, Some(QuantType::Q6)] {
        for (outliers, biases) in [(false, true), (true, false), (true, true), (false, false)] {
            let name = format!("up projections {ups:?}, outliers {outliers}, biases {biases}");
            assert_close(&Altered::new(clipped.clone(), ups, outliers, biases), &name);
        }
    }
}

#[test]
fn an_embedding_has_the_outliers_of_its_rows() {
    for tied_head in [true, false] {
        let config = ModelConfig { tied_head, ..llama() };
        assert_close(&Altered::new(config, None, true, false), &format!("tied head {tied_head}"));
    }
}

#[test]
fn logits_from_a_later_row_on_have_the_outliers_of_that_row() {
    let gpu = gpu_decoder(&cpu_decoder(&Altered::new(llama(), None, true, false)));
    let mut state = gpu.state_with(20, 20, KvTypes::F16.into()).unwrap();
    gpu.forward(&mut state, &tokens(150, 20)).unwrap();
    let (mut all, mut later) = (vec![0.0; 20 * 150], vec![0.0; 3 * 150]);
    gpu.logits(&mut state, 0..20, &mut all).unwrap();
    gpu.logits(&mut state, 9..12, &mut later).unwrap();
    let off = distance(&later, &all[9 * 150..12 * 150]);
    assert!(off <= LIMIT, "{off:.2e}");
}
