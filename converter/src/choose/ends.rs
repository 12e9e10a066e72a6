//! What each form of token embedding and head does to the model.
//!
//! The rows of both are classes: those of the most frequent tokens first, wherever a form has them in a type of their own. Each class is
//! measured as a matrix of a layer is: what it does to the model in one type, and some of its rows in all types. The damages of
//! classes add up, as those of matrices do, so that forms cost nothing, however many there are.

use std::ops::Range;

use qsf_calibration::{LayerStats, Probe};
use qsf_format::{QuantType, TensorKind};
use qsf_runtime::source::{Replaced, Tensor};

use super::finer::finer_forms;
use super::matrices::{SurveyedLayer, SurveyedTensor, Surveyor};
use super::probed::{Probed, probed_rows, within_bounds};
use super::sample::{Sample, spread_rows};
use super::survey_work::SurveyWork;
use super::types::form_of;
use crate::encode::Fit;
use crate::error::Result;
use crate::fit::Fits;
use crate::plan::{FinerRows, PlannedTensor, StoredForm, TensorType};

/// The type that a class is in when its effect on the model is measured: nearer to what is chosen in the end than that of layers, as
/// errors of a head do not get through a norm before they are predictions.
const PROBE: QuantType = QuantType::N3;

/// Places of rows in the order of their tokens, the most frequent first.
type Class = Range<usize>;

impl Surveyor<'_> {
    /// Embedding and head.
    pub(super) fn ends(
        &self,
        stats: &LayerStats,
        probe: &mut Probe<'_>,
        work: &SurveyWork<'_>,
    ) -> Result<SurveyedLayer> {
        let mut fits = Fits::of_stats(self.encoder.rows.isa, stats.clone());
        let mut tensors = Vec::new();
        for planned in self.wanted_of(None) {
            let id = planned.info.id;
            let fit = if self.is_fitted(planned) { fits.of(id, None)? } else { Fit::default() };
            let options = self.end(planned, &fit, probe)?;
            if !options.is_empty() {
                tensors.push(SurveyedTensor::new(id, options));
            }
            work.done(self.work_of_end(work, planned));
        }
        Ok(SurveyedLayer { tensors, importance: None })
    }

    /// The work that measuring embedding or head is.
    pub(super) fn work_of_end(&self, work: &SurveyWork<'_>, planned: &PlannedTensor) -> u64 {
        let forms = self.forms_of_end(planned);
        let classes = classes(&forms, planned.info.rows);
        work.end(planned, classes.len() as u64, types_of(&forms).len() as u64)
    }

    /// Damages of the forms of one of them; nothing where the probe's scales leave f16.
    fn end(
        &self,
        planned: &PlannedTensor,
        fit: &Fit,
        probe: &mut Probe<'_>,
    ) -> Result<Vec<(StoredForm, f64)>> {
        let (encoder, info) = (self.encoder, &planned.info);
        let tensor = encoder.source.load(info.id)?;
        let forms = self.forms_of_end(planned);
        let classes = classes(&forms, tensor.rows());
        let mut types = Vec::new();
        for form in types_of(&forms) {
            // A type that the tensor would not be stored in has another size.
            if encoder.rows.choose_type(info, &tensor, form.quant)? == form.quant {
                types.push(form);
            }
        }
        let whole = Whole { surveyor: self, planned, tensor: &tensor, fit };
        let Some(per_error) = whole.damage_per_error(&classes, probe)? else { return Ok(Vec::new()) };
        let measured = classes.iter().zip(&per_error);
        let measured = measured.map(|(class, per_error)| whole.class(class, &types, *per_error));
        let measured = measured.collect::<Result<Vec<_>>>()?;
        let (mut options, mut best) = (Vec::new(), 0.0f64);
        for form in forms {
            let of_class = |(class, measured): (&Class, &Vec<Option<Measured>>)| {
                let at = types.iter().position(|known| *known == type_of(form, class.start))?;
                measured[at]
            };
            let all: Option<Vec<Measured>> = classes.iter().zip(&measured).map(of_class).collect();
            let Some(all) = all else { continue };
            let damage = all.iter().map(|measured| measured.damage).sum();
            let cosine = all.iter().map(|measured| measured.cosine).sum();
            best = best.max(cosine);
            if self.is_allowed(cosine) {
                options.push((form, within_bounds(damage)));
            }
        }
        if options.is_empty() {
            self.check_reached(info.id, best)?;
        }
        Ok(options)
    }

    /// How embedding or head may be stored.
    fn forms_of_end(&self, planned: &PlannedTensor) -> Vec<StoredForm> {
        let types = (self.types)(planned);
        let form = |quant: &TensorType| match *quant == planned.quant {
            // Of a plan that is measured as it is.
            true => planned.form(),
            false => form_of(planned, *quant),
        };
        let mut forms: Vec<StoredForm> = types.iter().map(form).collect();
        if self.finer {
            forms.extend(finer_forms(planned, &types));
        }
        forms
    }

    /// Whether a matrix outside of layers multiplies something: an embedding that is not the head, too, does not.
    fn is_fitted(&self, planned: &PlannedTensor) -> bool {
        planned.info.id.kind != TensorKind::TokenEmbedding || self.encoder.source.config().tied_head
    }
}

/// What one type does to a class.
#[derive(Clone, Copy)]
struct Measured {
    damage: f64,
    /// Times the class's part of all rows.
    cosine: f64,
}

/// Embedding or head, before anything is done to it.
struct Whole<'a> {
    surveyor: &'a Surveyor<'a>,
    planned: &'a PlannedTensor,
    tensor: &'a Tensor,
    fit: &'a Fit,
}

impl Whole<'_> {
    /// About so many rows of a class, from all over it. Those of matrices of other rows than tokens are as they come.
    fn rows(&self, class: &Class, most: usize) -> Vec<u32> {
        let order = self.surveyor.encoder.token_order.tokens();
        let of_tokens = order.len() == self.tensor.rows();
        let places = spread_rows(class.len(), most).into_iter().map(|place| class.start + place as usize);
        places.map(|place| if of_tokens { order[place] } else { place as u32 }).collect()
    }

    /// Divergence of the model for each unit of the mean error of a class's rows; `None` where the probe's scales leave f16.
    fn damage_per_error(&self, classes: &[Class], probe: &mut Probe<'_>) -> Result<Option<Vec<f64>>> {
        let Whole { surveyor, planned, tensor, fit } = *self;
        let Surveyor { encoder, cpu, .. } = *surveyor;
        let probed = Probed { encoder, cpu, planned, tensor, fit, quant: PROBE };
        let (kind, is_fitted) = (planned.info.id.kind, surveyor.is_fitted(planned));
        let mut all = vec![0.0; classes.len()];
        if is_fitted {
            for (class, sum) in classes.iter().zip(&mut all) {
                let rows = self.rows(class, probed_rows(tensor.rows(), tensor.cols()));
                let part = rows.len() as f64 / class.len() as f64;
                let measure = |changed: &Replaced<'_>| match kind {
                    // What enters it is the same: no layer has to run again.
                    TensorKind::Head | TensorKind::TokenEmbedding => Ok(probe.divergence_of_head(changed)?),
                    _ => Ok(probe.divergence_of_ends(changed)?),
                };
                let Some(per_error) = probed.per_error(rows, measure)? else { return Ok(None) };
                *sum = per_error / part;
            }
        }
        if kind == TensorKind::TokenEmbedding {
            // Only rows that are read do something, and the probe reads few: how often those of a class are read, a longer text says.
            let read: Vec<u32> = probe.tokens_read().into_iter().collect();
            let measure = |changed: &Replaced<'_>| {
                let head = if is_fitted { probe.divergence_of_head(changed)? } else { 0.0 };
                Ok(probe.divergence_of_ends(changed)? - head)
            };
            let Some(per_error) = probed.per_error(read, measure)? else { return Ok(None) };
            for (class, sum) in classes.iter().zip(&mut all) {
                *sum += per_error * surveyor.encoder.token_order.part(class.clone());
            }
        }
        Ok(Some(all))
    }

    /// What each of `types` does to a class; `None` for those whose scales would leave f16.
    fn class(&self, class: &Class, types: &[StoredForm], per_error: f64) -> Result<Vec<Option<Measured>>> {
        let Whole { surveyor, tensor, fit, .. } = *self;
        let rows = self.rows(class, surveyor.size.sample_rows);
        let sample = Sample::new(&surveyor.encoder.rows, surveyor.cpu, tensor, fit, rows);
        let part = class.len() as f64 / tensor.rows() as f64;
        let measure = |form: &StoredForm| {
            let error = sample.error(*form)?;
            Ok(error
                .map(|error| Measured { damage: per_error * error.per_row(), cosine: part * error.cosine }))
        };
        types.iter().map(measure).collect()
    }
}

/// Rows that no form has in several types, together all.
fn classes(forms: &[StoredForm], rows: usize) -> Vec<Class> {
    let mut ends = vec![rows];
    for form in forms {
        let counts = form.finer.types().map(|(_, count)| count as usize);
        ends.extend(counts.scan(0, |sum, count| {
            *sum += count;
            Some(*sum)
        }));
    }
    ends.sort_unstable();
    ends.dedup();
    let starts = std::iter::once(0).chain(ends.clone());
    starts.zip(ends).map(|(start, end)| start..end).collect()
}

/// All forms that rows of these forms have, each once.
fn types_of(forms: &[StoredForm]) -> Vec<StoredForm> {
    let mut types = Vec::new();
    for form in forms {
        let finer = form.finer.types().map(|(quant, _)| StoredForm::from(quant));
        for form in finer.chain([StoredForm { finer: FinerRows::NONE, ..*form }]) {
            if !types.contains(&form) {
                types.push(form);
            }
        }
    }
    types
}

/// The form of the row at `place`.
fn type_of(form: StoredForm, place: usize) -> StoredForm {
    let mut end = 0;
    for (quant, count) in form.finer.types() {
        end += count as usize;
        if place < end {
            return quant.into();
        }
    }
    StoredForm { finer: FinerRows::NONE, ..form }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_class_have_one_type_in_every_form() {
        use QuantType::*;
        let finer = |types: &[(QuantType, u32)]| FinerRows::new(types).unwrap();
        let forms = [
            StoredForm::from(N3),
            StoredForm { finer: finer(&[(N5, 16), (N4, 48)]), ..N3.into() },
            StoredForm { finer: finer(&[(Q6, 64)]), ..N5.into() },
        ];
        assert_eq!(classes(&forms, 256), [0..16, 16..64, 64..256]);
        assert_eq!(types_of(&forms), [N3, N5, N4, Q6].map(StoredForm::from));
        let types = |form| [0, 15, 16, 63, 64, 255].map(|place| type_of(form, place).quant.to_string());
        assert_eq!(types(forms[0]), ["n3"; 6]);
        assert_eq!(types(forms[1]), ["n5", "n5", "n4", "n4", "n3", "n3"]);
        assert_eq!(types(forms[2]), ["6bit", "6bit", "6bit", "6bit", "n5", "n5"]);
        assert_eq!(classes(&forms[..1], 7).as_slice(), std::slice::from_ref(&(0..7)));
    }
}
