//! From pairs of tensors to updates of the model's matrices.

use std::collections::BTreeMap;
use std::path::Path;

use qsf_format::printable::quote;
use qsf_format::{ModelConfig, TensorKind};

use super::update::Update;
use crate::error::{Result, RuntimeError};
use crate::linear::LowRank;
use crate::source::mapping::{Module, ModulePart, NameTable, PartOrder, TensorStore, module_of};
use crate::tensor::Tensor;

/// Most values of a matrix, so that sizes stay far from overflow.
const MAX_VALUES: u64 = 1 << 32;

/// Ends of the names of both tensors of a pair.
pub(super) struct Ends {
    /// rank x inputs.
    pub down: &'static str,
    /// outputs x rank.
    pub up: &'static str,
}

/// A pair of tensors.
pub(super) struct Pair<'a> {
    /// Their names without the ends.
    pub name: &'a str,
    /// Inputs and outputs in between.
    pub rank: usize,
    /// Outputs and inputs.
    pub shape: [usize; 2],
    down: String,
    up: String,
    store: &'a dyn TensorStore,
}

/// The pairs of a file by name, and names of tensors that are of none.
pub(super) struct Pairs<'a> {
    pub pairs: Vec<Pair<'a>>,
    pub others: Vec<&'a str>,
}

impl<'a> Pairs<'a> {
    /// # Errors
    /// A pair has one tensor only, or two that do not fit together.
    pub fn of(store: &'a dyn TensorStore, ends: &Ends) -> Result<Pairs<'a>> {
        let (mut names, mut others) = (BTreeMap::new(), Vec::new());
        for name in store.names() {
            let side = [ends.down, ends.up].into_iter().enumerate();
            let found = side.filter_map(|(side, end)| Some((name.strip_suffix(end)?, side))).next();
            match found {
                Some((stem, side)) => names.entry(stem).or_insert([false; 2])[side] = true,
                None => others.push(name),
            }
        }
        others.sort_unstable();
        let pair = |(name, there): (&'a str, [bool; 2])| {
            let (down, up) = (format!("{name}{}", ends.down), format!("{name}{}", ends.up));
            if there != [true; 2] {
                let (has, misses) = if there[0] { (&down, &up) } else { (&up, &down) };
                return Err(wrong(store, has, format!("{} beside it", quote(misses)), "none"));
            }
            Pair::new(name, down, up, store)
        };
        Ok(Pairs { pairs: names.into_iter().map(pair).collect::<Result<_>>()?, others })
    }
}

impl<'a> Pair<'a> {
    fn new(name: &'a str, down: String, up: String, store: &'a dyn TensorStore) -> Result<Pair<'a>> {
        let shape = |name: &str| -> Result<[usize; 2]> {
            let (shape, _) = store.describe(name).unwrap_or((&[], qsf_format::QuantType::F32.into()));
            let values = shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
            match shape.try_into() {
                Ok(two) if values.is_some_and(|values| (1..=MAX_VALUES).contains(&(values as u64))) => {
                    Ok(two)
                }
                _ => Err(wrong(store, name, "a matrix with values", format!("shape {shape:?}"))),
            }
        };
        let ([rank, inputs], [outputs, columns]) = (shape(&down)?, shape(&up)?);
        if columns != rank {
            let expected = format!("{rank} columns, as {} has rows", quote(&down));
            return Err(wrong(store, &up, expected, columns));
        }
        Ok(Pair { name, rank, shape: [outputs, inputs], down, up, store })
    }

    /// The module of this name.
    ///
    /// # Errors
    /// When the model has none, or it has another shape.
    pub fn module<'b>(&self, table: &NameTable, config: &ModelConfig, path: &'b str) -> Result<Module<'b>> {
        let Some(module) = module_of(table, config, path, self.shape) else {
            let expected =
                format!("a matrix of a {} model with {} layers", config.architecture, config.layers);
            return Err(wrong(self.store, &self.down, expected, format!("module {}", quote(path))));
        };
        let looked_up = [TensorKind::TokenEmbedding, TensorKind::Positions, TensorKind::PerLayerEmbedding];
        let file = self.store.file_of(&self.down);
        let refuse = |what: &str| {
            let what = format!("an adapter of {what} (tensor {})", quote(&self.down));
            RuntimeError::unsupported(file, what, "matrices that tokens are multiplied with can have one")
        };
        if module.parts.iter().any(|part| looked_up.contains(&part.id.kind)) {
            return Err(refuse("an embedding"));
        }
        if !module.shapes.contains(&self.shape) && !module.parts.is_empty() {
            let all: Vec<String> = module.shapes.iter().map(|shape| format!("{shape:?}")).collect();
            let expected = format!("an update of a matrix of shape {}", all.join(" or "));
            return Err(wrong(self.store, &self.up, expected, format!("shape {:?}", self.shape)));
        }
        if module.parts.is_empty() {
            return Err(refuse(
                "experts that are stored together, or of parts that the model has in another order",
            ));
        }
        Ok(module)
    }

    /// What the pair adds to each matrix of `module`.
    ///
    /// # Errors
    /// When values are not there, or not finite.
    pub fn updates(&self, module: &Module<'_>, path: &str, scale: f32) -> Result<Vec<Update>> {
        let (down, up) = (self.load(&self.down)?, self.load(&self.up)?);
        let update = |part: &ModulePart| {
            let (down, up) = match part.order {
                PartOrder::Rows(order) => (Some(down.clone()), up.reordered(order, part.rows)),
                PartOrder::Columns(order) => (down.with_columns(order), Some(up.clone())),
            };
            let (Some(down), Some(up)) = (down, up) else {
                let expected = format!("rows for {}", part.id);
                return Err(wrong(self.store, &self.up, expected, format!("shape {:?}", self.shape)));
            };
            let shape = [up.rows(), down.cols()];
            let low_rank = LowRank::new(down.to_f32(), &up.to_f32(), shape, scale);
            Ok(Update { id: part.id, expert: part.expert, module: path.to_owned(), low_rank })
        };
        module.parts.iter().map(update).collect()
    }

    /// The values of a tensor as floats.
    fn load(&self, name: &str) -> Result<Tensor> {
        let tensor = self.store.load(name)?;
        let values = tensor.to_f32();
        match values.iter().find(|value| !value.is_finite()) {
            Some(value) => Err(wrong(self.store, name, "finite values", value)),
            None => Ok(Tensor::from_f32(tensor.rows(), tensor.cols(), &values)),
        }
    }
}

/// Refuses a tensor that is of no pair.
pub(super) fn refuse_other(file: &Path, name: &str, why: &str) -> RuntimeError {
    RuntimeError::unsupported(file, format!("tensor {} of an adapter", quote(name)), why)
}

pub(super) fn wrong(
    store: &dyn TensorStore,
    name: &str,
    expected: impl ToString,
    found: impl ToString,
) -> RuntimeError {
    RuntimeError::bad_input(store.file_of(name), format!("tensor {}", quote(name)), expected, found)
}
