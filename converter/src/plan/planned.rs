//! Every tensor with the type that it is to be stored in.

use qsf_format::{BlockSize, RowParts, TensorId};
use qsf_runtime::source::TensorInfo;

use super::error::PlanError;
use super::finer_rows::FinerRows;
use super::gguf_recipe::{GgufRecipe, GgufRules};
use super::recipe::Recipe;
use super::stored_form::{OutlierShare, StoredForm};
use super::tensor_report::TensorReport;
use super::tensor_type::TensorType;
use super::type_override::TypeOverride;

/// Every tensor of a source, in file order, with the type that it is to be stored in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    tensors: Vec<PlannedTensor>,
}

/// One tensor and the type that it is to be stored in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedTensor {
    /// What the source knows of it.
    pub info: TensorInfo,
    /// The type to store.
    pub quant: TensorType,
    /// How many of its weights are stored apart, if the type has blocks.
    pub outliers: OutlierShare,
    /// Rows that are in other types.
    pub finer: FinerRows,
}

impl PlannedTensor {
    /// How the tensor is to be stored. Of vectors nothing is apart.
    pub fn form(&self) -> StoredForm {
        let apart = if self.info.id.kind.is_matrix() { self.outliers } else { OutlierShare::NONE };
        StoredForm { quant: self.quant, outliers: apart, finer: self.finer }
    }

    /// Its type, and those of its other parts.
    pub fn types(&self) -> impl Iterator<Item = TensorType> + use<> {
        std::iter::once(self.quant).chain(self.finer.types().map(|(quant, _)| quant.into()))
    }

    /// The tensor, stored as `form`.
    pub fn stored_as(&self, form: StoredForm) -> PlannedTensor {
        let StoredForm { quant, outliers, finer } = form;
        PlannedTensor { info: self.info.clone(), quant, outliers, finer }
    }

    /// What is reported of the tensor, stored as `quant`, with nothing apart.
    pub fn record(
        &self,
        quant: TensorType,
        cosine: f64,
        relative_error: f64,
        max_abs_error: f64,
    ) -> TensorReport {
        let mut report = TensorReport {
            layer: self.info.id.layer,
            kind: self.info.id.kind.name().into(),
            // Both come from u32 fields of the configuration, which every shape was checked against.
            rows: self.info.rows as u32,
            cols: self.info.cols as u32,
            quant,
            outliers: 0,
            promoted_from: (quant != self.quant).then_some(self.quant),
            cosine: None,
            relative_error: None,
            max_abs_error: None,
        };
        report.set_errors(cosine, relative_error, max_abs_error);
        report
    }
}

impl Plan {
    /// The types that `recipe` and `overrides` give to `tensors`. Later overrides win over earlier ones. One to a block
    /// type passes over vectors, so that `*=8bit` means every matrix. Where an override does not say how many weights are
    /// stored apart, `outliers` are.
    ///
    /// # Errors
    /// When an override applies to no tensor.
    pub fn new(
        tensors: &[TensorInfo],
        recipe: Recipe,
        overrides: &[TypeOverride],
        outliers: OutlierShare,
    ) -> Result<Plan, PlanError> {
        let mut planned: Vec<PlannedTensor> = tensors
            .iter()
            .map(|info| PlannedTensor {
                info: info.clone(),
                quant: recipe.assign_stored(info).into(),
                outliers,
                finer: FinerRows::NONE,
            })
            .collect();
        for rule in overrides {
            apply(rule, &mut planned, outliers)?;
        }
        Ok(Plan { tensors: planned })
    }

    /// The types that a recipe of GGUF files and `overrides` give to `tensors`.
    ///
    /// # Errors
    /// When an override applies to no tensor.
    pub fn for_gguf(
        tensors: &[TensorInfo],
        recipe: GgufRecipe,
        rules: &GgufRules<'_>,
        overrides: &[TypeOverride],
    ) -> Result<Plan, PlanError> {
        let outliers = OutlierShare::NONE;
        let planned = |info: &TensorInfo| PlannedTensor {
            info: info.clone(),
            quant: recipe.assign(info, rules),
            outliers,
            finer: FinerRows::NONE,
        };
        let mut planned: Vec<PlannedTensor> = tensors.iter().map(planned).collect();
        for rule in overrides {
            apply(rule, &mut planned, outliers)?;
        }
        Ok(Plan { tensors: planned })
    }

    /// The types that `assign` and `overrides` give to `tensors`.
    ///
    /// # Errors
    /// When an override applies to no tensor.
    pub fn for_groups(
        tensors: &[TensorInfo],
        assign: &dyn Fn(&TensorInfo) -> TensorType,
        overrides: &[TypeOverride],
    ) -> Result<Plan, PlanError> {
        let outliers = OutlierShare::NONE;
        let finer = FinerRows::NONE;
        let planned =
            |info: &TensorInfo| PlannedTensor { info: info.clone(), quant: assign(info), outliers, finer };
        let mut planned: Vec<PlannedTensor> = tensors.iter().map(planned).collect();
        for rule in overrides {
            apply(rule, &mut planned, outliers)?;
        }
        Ok(Plan { tensors: planned })
    }

    /// The tensors in file order.
    pub fn tensors(&self) -> &[PlannedTensor] {
        &self.tensors
    }

    /// One of them.
    pub fn tensor(&self, id: TensorId) -> Option<&PlannedTensor> {
        self.tensors.iter().find(|tensor| tensor.info.id == id)
    }

    /// Weights of all tensors.
    pub fn weights(&self) -> u64 {
        self.tensors.iter().map(|t| t.info.rows as u64 * t.info.cols as u64).sum()
    }

    /// Changes how a tensor is stored.
    pub fn set(&mut self, id: TensorId, form: StoredForm) {
        if let Some(tensor) = self.tensors.iter_mut().find(|tensor| tensor.info.id == id) {
            (tensor.quant, tensor.outliers, tensor.finer) = (form.quant, form.outliers, form.finer);
        }
    }

    /// Whether any tensor is stored in a block type.
    pub fn quantizes(&self) -> bool {
        self.tensors.iter().any(|tensor| !tensor.quant.is_float())
    }

    /// Bytes of all tensor values, without headers and before compression; `None` beyond `u64`.
    pub fn predicted_bytes(&self, block: BlockSize) -> Option<u64> {
        self.tensors
            .iter()
            .try_fold(0u64, |sum, t| sum.checked_add(t.form().bytes(block, t.info.rows, t.info.cols)?))
    }

    /// The types of all tensors and parts.
    pub fn types(&self) -> impl Iterator<Item = TensorType> + '_ {
        self.tensors.iter().flat_map(PlannedTensor::types)
    }

    /// Bytes of section PART.
    pub fn row_part_bytes(&self) -> u64 {
        let split = self.tensors.iter().filter(|tensor| !tensor.finer.is_none());
        split.map(|tensor| RowParts::record_bytes(tensor.info.rows as u64)).fold(0, u64::saturating_add)
    }

    /// Bytes of section OUTL; at most, where too few weights stand out.
    pub fn outlier_bytes(&self) -> u64 {
        let bytes = |t: &PlannedTensor| t.form().outlier_bytes(t.info.rows, t.info.cols);
        self.tensors.iter().map(bytes).fold(0, u64::saturating_add)
    }
}

fn apply(
    rule: &TypeOverride,
    planned: &mut [PlannedTensor],
    outliers: OutlierShare,
) -> Result<(), PlanError> {
    let (mut named, mut applied) = (false, false);
    for tensor in planned.iter_mut().filter(|tensor| rule.names(tensor.info.id)) {
        named = true;
        if rule.quant().is_float() || tensor.info.id.kind.is_matrix() {
            if !rule.finer().suits(tensor.info.id.kind, tensor.info.rows) {
                return Err(PlanError::NoSuchRows { rule: rule.clone(), name: tensor.info.id.to_string() });
            }
            (tensor.quant, tensor.finer) = (rule.quant(), rule.finer());
            tensor.outliers = rule.outliers().unwrap_or(outliers);
            applied = true;
        }
    }
    match (named, applied) {
        (_, true) => Ok(()),
        (true, false) => Err(PlanError::OnlyVectors { rule: rule.clone() }),
        (false, false) => {
            let mut kinds: Vec<_> = planned.iter().map(|tensor| tensor.info.id.kind).collect();
            kinds.sort_unstable();
            kinds.dedup();
            let known = kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(", ");
            Err(PlanError::NoSuchTensor { rule: rule.clone(), known })
        }
    }
}

#[cfg(test)]
mod tests {
    use qsf_format::{QuantType, TensorId, TensorKind};

    use super::*;

    fn tensors() -> Vec<TensorInfo> {
        let info =
            |id, rows| TensorInfo { id, name: "t".into(), rows, cols: 64, stored: QuantType::Bf16.into() };
        vec![
            info(TensorId::of_model(TensorKind::TokenEmbedding), 100),
            info(TensorId::of_layer(0, TensorKind::AttnQ), 64),
            info(TensorId::of_layer(0, TensorKind::AttnNorm), 1),
            info(TensorId::of_layer(1, TensorKind::AttnQ), 64),
            info(TensorId::of_model(TensorKind::FinalNorm), 1),
        ]
    }

    fn types(overrides: &[&str]) -> Result<Vec<&'static str>, PlanError> {
        let overrides: Vec<TypeOverride> = overrides.iter().map(|s| s.parse().unwrap()).collect();
        let plan = Plan::new(&tensors(), Recipe::Uniform(QuantType::Q4), &overrides, OutlierShare::NONE)?;
        Ok(plan.tensors().iter().map(|tensor| tensor.quant.name()).collect())
    }

    #[test]
    fn a_later_override_wins_and_a_block_type_passes_over_norms() {
        assert_eq!(types(&[]).unwrap(), ["4bit", "4bit", "f16", "4bit", "f16"]);
        assert_eq!(
            types(&["*=3bit", "layer 1 *=8bit", "*norm=f32"]).unwrap(),
            ["3bit", "3bit", "f32", "8bit", "f32"]
        );
    }

    #[test]
    fn an_override_that_would_do_nothing_is_an_error_that_says_why() {
        let error = types(&["attn_z=8bit"]).unwrap_err().to_string();
        assert!(error.contains("attn_z") && error.contains("attn_q, attn_norm"), "{error}");
        let error = types(&["*norm=8bit"]).unwrap_err().to_string();
        assert!(error.contains("only vectors"), "{error}");
    }

    #[test]
    fn predicted_bytes_follow_the_overrides() {
        let rules = ["token_embedding=f32".parse().unwrap()];
        let plan = Plan::new(&tensors(), Recipe::Uniform(QuantType::Q4), &rules, OutlierShare::NONE).unwrap();
        let expected = 100 * 64 * 4 + 2 * 64 * 36 + 2 * 64 * 2;
        assert_eq!(plan.predicted_bytes(BlockSize::B64), Some(expected));
    }
}
