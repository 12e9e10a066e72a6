//! What tables do to stored tensors, on stores made by hand.

use std::collections::BTreeMap;
use std::path::Path;

use qsf_format::{Experts, ModelConfig, PositionConfig, QkNorm, QuantType, TensorId, TensorKind};

use super::*;
use crate::error::Result;
use crate::tensor::{StoredType, Tensor};

/// Tensors of floats counted up from 0, by name.
#[derive(Debug, Default)]
struct Counted(BTreeMap<String, Vec<usize>>);

impl Counted {
    fn with(mut self, name: &str, shape: &[usize]) -> Counted {
        self.0.insert(name.to_owned(), shape.to_vec());
        self
    }

    fn without(mut self, name: &str) -> Counted {
        assert!(self.0.remove(name).is_some(), "{name} was there");
        self
    }
}

impl TensorStore for Counted {
    fn file_of(&self, _: &str) -> &Path {
        Path::new("file")
    }

    fn describe(&self, name: &str) -> Option<(&[usize], StoredType)> {
        Some((self.0.get(name)?, QuantType::F32.into()))
    }

    fn names(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        Box::new(self.0.keys().map(String::as_str))
    }

    fn load(&self, name: &str) -> Result<Tensor> {
        let shape = self.0.get(name).ok_or_else(|| no_such_tensor(Path::new("file"), name))?;
        let cols = shape.last().copied().unwrap_or(1);
        let count: usize = shape.iter().product();
        let values: Vec<f32> = (0..count).map(|i| i as f32).collect();
        Ok(Tensor::from_f32(count / cols, cols, &values))
    }
}

/// One layer, hidden 4, 2 heads of 2, ffn 6, vocabulary 5, tied.
fn config() -> ModelConfig {
    ModelConfig {
        architecture: "test".into(),
        layers: 1,
        hidden: 4,
        heads: 2,
        kv_heads: 2,
        head_dim: 2,
        ffn: 6,
        vocab: 5,
        max_positions: 3,
        gated_ffn: true,
        position: PositionConfig::rope(1e4, None),
        tied_head: true,
        ..ModelConfig::default()
    }
}

fn experts(count: u32) -> ModelConfig {
    let experts = Experts {
        count,
        used: 1,
        ffn: 3,
        normalize_weights: true,
        dense_layers: vec![],
        ..Experts::default()
    };
    ModelConfig { experts: Some(experts), ..config() }
}

/// Tensors that no rule under test is about.
const REST: &[NameRule] = &[
    rows("embed", &[TensorKind::TokenEmbedding]),
    rows("norm", &[TensorKind::FinalNorm]),
    rows("head", &[TensorKind::Head]),
    rows("{}.n1", &[TensorKind::AttnNorm]),
    rows("{}.n2", &[TensorKind::FfnNorm]),
    rows("{}.o", &[TensorKind::AttnOutput]),
];
const FFN: &[NameRule] = &[
    rows("{}.gate", &[TensorKind::FfnGate]),
    rows("{}.up", &[TensorKind::FfnUp]),
    rows("{}.down", &[TensorKind::FfnDown]),
];
const QKV: &[TensorKind] = &[TensorKind::AttnQ, TensorKind::AttnK, TensorKind::AttnV];
const QKV_BIAS: &[TensorKind] = &[TensorKind::AttnQBias, TensorKind::AttnKBias, TensorKind::AttnVBias];

fn rest() -> Counted {
    let names = [("embed", &[5, 4][..]), ("norm", &[4]), ("0.n1", &[4]), ("0.n2", &[4]), ("0.o", &[4, 4])];
    names.iter().fold(Counted::default(), |store, (name, shape)| store.with(name, shape))
}

fn ffn(store: Counted) -> Counted {
    store.with("0.gate", &[6, 4]).with("0.up", &[6, 4]).with("0.down", &[4, 6])
}

fn map(
    config: &ModelConfig,
    table: &NameTable,
    declared: &[(TensorKind, bool)],
    store: &Counted,
) -> Result<Mapping> {
    let path = Path::new("model");
    Mapping::new(
        MappingRequest { path, config, table, prefix: "", bare: &[], declared, layers_ahead: 0 },
        store,
    )
}

fn load(mapping: &Mapping, store: &Counted, kind: TensorKind) -> Vec<f32> {
    let layer = kind.is_per_layer().then_some(0);
    let id = TensorId { layer, kind };
    let tensor = mapping.load(id, store, Path::new("model")).unwrap();
    let info = mapping.tensors().iter().find(|info| info.id == id).unwrap();
    assert_eq!((tensor.rows(), tensor.cols(), tensor.stored_type()), (info.rows, info.cols, info.stored));
    tensor.to_f32()
}

/// The rows of a matrix of 4 columns whose values are counted up.
fn rows_of(rows: impl IntoIterator<Item = usize>) -> Vec<f32> {
    rows.into_iter().flat_map(|row| (4 * row..4 * row + 4).map(|i| i as f32)).collect()
}

fn refusal(result: Result<Mapping>, parts: &[&str]) {
    let message = result.unwrap_err().to_string();
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in: {message}");
    }
}

const HEAD_BY_HEAD: NameTable = NameTable {
    rules: join_rules!(
        REST,
        FFN,
        &[formed("{}.qkv", QKV, Form::HeadByHead), formed("{}.qkv_bias", QKV_BIAS, Form::HeadByHead)]
    ),
    ignored: &[".mask"],
};

#[test]
fn queries_keys_and_values_that_alternate_by_head_are_parted_weights_and_biases() {
    let store = ffn(rest()).with("0.qkv", &[12, 4]).with("0.qkv_bias", &[12]).with("0.mask", &[1]);
    let mapping = map(&config(), &HEAD_BY_HEAD, &[], &store).unwrap();
    assert_eq!(load(&mapping, &store, TensorKind::AttnQ), rows_of([0, 1, 6, 7]));
    assert_eq!(load(&mapping, &store, TensorKind::AttnK), rows_of([2, 3, 8, 9]));
    assert_eq!(load(&mapping, &store, TensorKind::AttnVBias), [4.0, 5.0, 10.0, 11.0]);
}

#[test]
fn kinds_one_below_another_and_transposed_ones_are_parted() {
    const TABLE: NameTable = NameTable {
        rules: join_rules!(
            REST,
            &[
                formed("{}.qkv", QKV, Form::Transposed),
                rows("{}.qkv_bias", QKV_BIAS),
                rows("{}.gate_up", &[TensorKind::FfnGate, TensorKind::FfnUp]),
                formed("{}.down", &[TensorKind::FfnDown], Form::Transposed),
            ]
        ),
        ignored: &[],
    };
    let store = rest().with("0.qkv", &[4, 12]).with("0.qkv_bias", &[12]);
    let store = store.with("0.gate_up", &[12, 4]).with("0.down", &[6, 4]);
    let mapping = map(&config(), &TABLE, &[], &store).unwrap();
    let key: Vec<f32> = (4..8).flat_map(|out| (0..4).map(move |input| (12 * input + out) as f32)).collect();
    assert_eq!(load(&mapping, &store, TensorKind::AttnK), key);
    assert_eq!(load(&mapping, &store, TensorKind::AttnVBias), [8.0, 9.0, 10.0, 11.0]);
    assert_eq!(load(&mapping, &store, TensorKind::FfnUp), rows_of(6..12));
    assert_eq!(load(&mapping, &store, TensorKind::FfnDown)[..6], [0.0, 4.0, 8.0, 12.0, 16.0, 20.0]);
    refusal(
        map(&config(), &TABLE, &[], &store.with("0.down", &[4, 6])),
        &["file", "0.down", "expected shape [6, 4]", "found shape [4, 6]"],
    );
}

const MIXTURE: NameTable = NameTable {
    rules: join_rules!(
        REST,
        &[
            rows("{}.qkv", QKV),
            rows("{}.router", &[TensorKind::Router]),
            rows("{}.{e}.gate", &[TensorKind::ExpertGate]),
            rows("{}.{e}.up", &[TensorKind::ExpertUp]),
            rows("{}.{e}.down", &[TensorKind::ExpertDown]),
            formed("{}.gate_up", &[TensorKind::ExpertGate, TensorKind::ExpertUp], Form::ExpertByExpert),
            rows("{}.down", &[TensorKind::ExpertDown]),
        ]
    ),
    ignored: &[],
};

fn mixture(count: usize) -> Counted {
    rest().with("0.qkv", &[12, 4]).with("0.router", &[count, 4])
}

#[test]
fn experts_one_by_one_and_in_one_tensor_become_the_same_matrices() {
    for count in [1, 2] {
        let mut single = mixture(count);
        for e in 0..count {
            for (name, shape) in [("gate", [3, 4]), ("up", [3, 4]), ("down", [4, 3])] {
                single = single.with(&format!("0.{e}.{name}"), &shape);
            }
        }
        let mapping = map(&experts(count as u32), &MIXTURE, &[], &single).unwrap();
        let each: Vec<f32> = (0..count).flat_map(|_| rows_of(0..3)).collect();
        assert_eq!(load(&mapping, &single, TensorKind::ExpertUp), each);
        assert_eq!(mapping.names_of(Some(0)).filter(|name| name.ends_with(".down")).count(), count);

        let joined = mixture(count).with("0.gate_up", &[count, 6, 4]).with("0.down", &[count, 4, 3]);
        let mapping = map(&experts(count as u32), &MIXTURE, &[], &joined).unwrap();
        let gates = rows_of((0..count).flat_map(|e| 6 * e..6 * e + 3));
        let ups = rows_of((0..count).flat_map(|e| 6 * e + 3..6 * e + 6));
        assert_eq!(load(&mapping, &joined, TensorKind::ExpertGate), gates);
        assert_eq!(load(&mapping, &joined, TensorKind::ExpertUp), ups);
        assert_eq!(load(&mapping, &joined, TensorKind::ExpertDown).len(), count * 12);
    }
}

#[test]
fn an_expert_that_is_missing_or_too_many_is_named() {
    let all = || {
        let names = (0..2).flat_map(|e| ["gate", "up", "down"].map(|name| (e, name)));
        names.fold(mixture(2), |store, (e, name)| {
            store.with(&format!("0.{e}.{name}"), if name == "down" { &[4, 3] } else { &[3, 4] })
        })
    };
    let config = experts(2);
    refusal(map(&config, &MIXTURE, &[], &all().without("0.1.up")), &["0.1.up", "as of the other experts"]);
    refusal(map(&config, &MIXTURE, &[], &all().without("0.0.up")), &["0.0.up", "found none"]);
    refusal(map(&config, &MIXTURE, &[], &all().with("0.2.up", &[3, 4])), &["0.2.up", "only tensors of a"]);
    let twice = all().with("0.down", &[2, 4, 3]);
    refusal(
        map(&config, &MIXTURE, &[], &twice),
        &["0.down", "one tensor for layer 0 expert_down", "0.0.down"],
    );
}

const OTHERS: NameTable = NameTable {
    rules: join_rules!(
        &[
            rows("embed", &[TensorKind::TokenEmbedding]),
            formed("norm", &[TensorKind::FinalNorm], Form::PlusOne),
            formed("positions", &[TensorKind::Positions], Form::Skip(2)),
            rows("{}.n1", &[TensorKind::AttnNorm]),
            rows("{}.n2", &[TensorKind::FfnNorm]),
            rows("{}.o", &[TensorKind::AttnOutput]),
            formed("{}.q", &[TensorKind::AttnQ], Form::NeighbouringPairs),
            rows("{}.kv", &[TensorKind::AttnK, TensorKind::AttnV]),
            rows("{}.q_norm", &[TensorKind::QNorm]),
            rows("{}.k_norm", &[TensorKind::KNorm]),
        ],
        FFN
    ),
    ignored: &[],
};

#[test]
fn skipped_rows_pairs_and_norms_that_are_one_too_large_come_out_right() {
    let wide = ModelConfig {
        heads: 1,
        kv_heads: 1,
        head_dim: 4,
        position: PositionConfig::Learned {},
        qk_norm: Some(QkNorm::Head),
        ..config()
    };
    let store = ffn(rest()).with("positions", &[5, 4]).with("0.q", &[4, 4]).with("0.kv", &[8, 4]);
    let store = store.with("0.q_norm", &[4]).with("0.k_norm", &[4]);
    let mapping = map(&wide, &OTHERS, &[], &store).unwrap();
    assert_eq!(load(&mapping, &store, TensorKind::Positions), rows_of(2..5));
    assert_eq!(load(&mapping, &store, TensorKind::FinalNorm), [-1.0, 0.0, 1.0, 2.0]);
    assert_eq!(load(&mapping, &store, TensorKind::AttnQ), rows_of([0, 2, 1, 3]));
    assert_eq!(load(&mapping, &store, TensorKind::AttnV), rows_of(4..8));
    let none = ModelConfig { qk_norm: None, ..wide };
    refusal(map(&none, &OTHERS, &[], &store), &["0.k_norm", "only tensors of a test model as configured"]);
}

#[test]
fn declared_kinds_must_be_there_and_denied_ones_must_not() {
    let store = || ffn(rest()).with("0.qkv", &[12, 4]);
    let with_bias = || store().with("0.qkv_bias", &[12]);
    let declared = |there| QKV_BIAS.iter().map(|&kind| (kind, there)).collect::<Vec<_>>();
    assert!(map(&config(), &HEAD_BY_HEAD, &[], &store()).is_ok());
    assert!(map(&config(), &HEAD_BY_HEAD, &declared(true), &with_bias()).is_ok());
    refusal(map(&config(), &HEAD_BY_HEAD, &declared(true), &store()), &["0.qkv_bias", "found none"]);
    refusal(map(&config(), &HEAD_BY_HEAD, &declared(false), &with_bias()), &["0.qkv_bias", "this one too"]);
}

#[test]
fn a_tied_head_may_be_saved_as_a_copy_and_an_untied_one_must_be_saved() {
    let store = || ffn(rest()).with("0.qkv", &[12, 4]);
    let copy = store().with("head", &[5, 4]);
    assert!(map(&config(), &HEAD_BY_HEAD, &[], &copy).unwrap().tensors().iter().all(|t| t.name != "head"));
    let untied = ModelConfig { tied_head: false, ..config() };
    assert_eq!(load(&map(&untied, &HEAD_BY_HEAD, &[], &copy).unwrap(), &copy, TensorKind::Head).len(), 20);
    refusal(map(&untied, &HEAD_BY_HEAD, &[], &store()), &["head", "not tied"]);
}
