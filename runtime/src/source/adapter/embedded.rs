//! Adapters that are in the file of the model (section LORA).

use qsf_cpu::{Isa, decode_row};
use qsf_format::{BUILT_IN, BlockSize, StoredAdapter, StoredUpdate};

use super::open::Adapter;
use super::update::Update;
use crate::error::Result;
use crate::linear::LowRank;
use crate::source::WeightSource;

impl Adapter {
    /// Those in the file of `source`.
    ///
    /// # Errors
    /// When they are damaged.
    pub fn embedded(source: &dyn WeightSource) -> Result<Vec<Adapter>> {
        let adapter = |stored: StoredAdapter| Adapter {
            path: source.path().to_owned(),
            updates: stored.updates.iter().map(update).collect(),
            name: stored.name,
            scale: stored.scale,
            files: Vec::new(),
        };
        Ok(source.adapters()?.into_iter().map(adapter).collect())
    }
}

fn update(stored: &StoredUpdate) -> Update {
    let (rank, shape) = (stored.rank(), [stored.outputs as usize, stored.inputs as usize]);
    let values = |bytes: &[u8], count: usize| {
        let mut values = vec![0.0; rank * count];
        decode_row(Isa::best(), stored.quant, BlockSize::B64, &BUILT_IN, bytes, &mut values);
        values
    };
    let (down, mut up) = (values(&stored.down, shape[1]), values(&stored.up, shape[0]));
    for (column, factor) in up.chunks_exact_mut(shape[0]).zip(&stored.factors) {
        column.iter_mut().for_each(|value| *value *= factor);
    }
    Update {
        id: stored.id,
        expert: stored.expert.map(|expert| expert as usize),
        module: "section LORA".into(),
        low_rank: LowRank::of_columns(down, up, shape),
    }
}
