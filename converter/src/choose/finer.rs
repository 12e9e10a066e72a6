//! Forms of token embedding and head with rows in several types: those of frequent tokens in larger ones.
//!
//! An error of a row does as much as its token is frequent. So rows are measured in groups, by how often their tokens occur: each group in
//! each type, and no other. Damages of groups add up as those of tensors do, and a form gives every group a type, none a larger one than
//! a group that comes more often.

use std::ops::Range;

use qsf_format::QuantType;
use qsf_format::panels::PANEL_ROWS;

use crate::plan::{FinerRows, StoredForm, TensorType};

/// Types that groups may get, each about a bit larger than the one before.
const LADDER: [QuantType; 6] =
    [QuantType::X2, QuantType::X3, QuantType::X4, QuantType::N5, QuantType::Q6, QuantType::Q8];
/// Halvings of all rows: the most frequent group has one row in 64, each behind it doubles what is before. The last half is two groups.
const HALVINGS: usize = 6;
/// Fewer rows are not worth three more tensors.
const LEAST_ROWS: usize = 64 * PANEL_ROWS;

/// A type in which all groups were measured.
pub(super) struct MeasuredType {
    ty: QuantType,
    /// What it does to the model in all rows.
    whole: f64,
    /// What it does in each group.
    groups: Vec<f64>,
}

impl MeasuredType {
    /// What was measured in a type.
    pub(super) fn new(ty: QuantType, whole: f64, groups: Vec<f64>) -> MeasuredType {
        MeasuredType { ty, whole, groups }
    }

    /// The part of a group in what the type does in all rows.
    fn share(&self, group: usize) -> f64 {
        let sum = self.groups.iter().sum::<f64>();
        self.groups[group] * if sum > 0.0 { self.whole / sum } else { 1.0 }
    }
}

/// Whether groups can be measured in this form.
pub(super) fn may_be_finer(form: StoredForm) -> Option<QuantType> {
    let ty = form.quant.qsf().filter(|ty| LADDER.contains(ty))?;
    (form == StoredForm::from(TensorType::from(ty))).then_some(ty)
}

/// Places of each group among all rows, the most frequent first; no group where there are too few rows.
pub(super) fn groups_of(rows: usize) -> Vec<Range<usize>> {
    if rows < LEAST_ROWS {
        return Vec::new();
    }
    let halved = (1..=HALVINGS).rev().map(|halvings| rows >> halvings);
    let ends = halved.chain([rows / 4 * 3]).map(|end| end / PANEL_ROWS * PANEL_ROWS).chain([rows]);
    let mut first = 0;
    ends.map(|end| std::mem::replace(&mut first, end)..end).collect()
}

/// The forms that are worth their bytes, with their damages: those for which no mixture of two others has as few bytes and does less.
/// `bytes` says what a form takes.
pub(super) fn finer_forms(
    groups: &[Range<usize>],
    measured: &[MeasuredType],
    bytes: impl Fn(StoredForm) -> Option<u64>,
) -> Vec<(StoredForm, f64)> {
    let mut types: Vec<&MeasuredType> = measured.iter().collect();
    types.sort_by_key(|measured| LADDER.iter().position(|ty| *ty == measured.ty));
    let mut all = Vec::new();
    for_each_choice(types.len(), groups.len(), &mut |choice| {
        let damage = choice.iter().enumerate().map(|(group, ty)| types[*ty].share(group)).sum();
        let form = form_of(groups, choice.iter().map(|ty| types[*ty].ty));
        if let Some((form, bytes)) = form.and_then(|form| Some((form, bytes(form)?))) {
            all.push((form, bytes, damage));
        }
    });
    let mut forms = lower_hull(all);
    forms.retain(|(form, _)| !form.finer.is_none());
    forms
}

/// Calls `with` with every way to give `groups` groups one of `types` types, none a larger one than the group before.
fn for_each_choice(types: usize, groups: usize, with: &mut dyn FnMut(&[usize])) {
    fn rest(types: usize, groups: usize, chosen: &mut Vec<usize>, with: &mut dyn FnMut(&[usize])) {
        if chosen.len() == groups {
            return with(chosen);
        }
        let most = chosen.last().map_or(types, |last| last + 1);
        for ty in 0..most {
            chosen.push(ty);
            rest(types, groups, chosen, with);
            chosen.pop();
        }
    }
    rest(types, groups, &mut Vec::new(), with);
}

/// The form in which each group has its type; `None` when these are more than a tensor can have.
fn form_of(groups: &[Range<usize>], types: impl Iterator<Item = QuantType>) -> Option<StoredForm> {
    let mut runs: Vec<(QuantType, u32)> = Vec::new();
    for (group, ty) in groups.iter().zip(types) {
        let rows = group.len() as u32;
        match runs.last_mut() {
            Some((last, sum)) if *last == ty => *sum += rows,
            _ => runs.push((ty, rows)),
        }
    }
    let (rest, _) = runs.pop()?;
    Some(StoredForm { finer: FinerRows::new(&runs)?, ..StoredForm::from(TensorType::from(rest)) })
}

/// Those on the lower left of the convex hull, smallest first.
fn lower_hull(mut all: Vec<(StoredForm, u64, f64)>) -> Vec<(StoredForm, f64)> {
    all.sort_by(|a, b| a.1.cmp(&b.1).then(a.2.total_cmp(&b.2)));
    let mut hull: Vec<(StoredForm, u64, f64)> = Vec::new();
    for next in all {
        if hull.last().is_some_and(|last| next.2 >= last.2) {
            continue;
        }
        while let [.., before, last] = hull[..] {
            let saved = |from: (StoredForm, u64, f64), to: (StoredForm, u64, f64)| {
                (from.2 - to.2) / (to.1 - from.1).max(1) as f64
            };
            if saved(before, last) > saved(last, next) {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
    hull.into_iter().map(|(form, _, damage)| (form, damage)).collect()
}

#[cfg(test)]
mod tests {
    use qsf_format::BlockSize;

    use super::*;

    #[test]
    fn groups_are_all_rows_and_each_doubles_what_is_before() {
        assert!(groups_of(1000).is_empty());
        let groups = groups_of(32_000);
        assert_eq!(groups[..2], [0..496, 496..992]);
        assert_eq!(groups[5..], [8000..16_000, 16_000..24_000, 24_000..32_000]);
        assert!(groups.windows(2).all(|two| two[0].end == two[1].start));
    }

    /// Damages of a Zipf distribution: of an error of `error` in each row.
    fn zipf(ty: QuantType, error: f64, groups: &[Range<usize>]) -> MeasuredType {
        let of = |group: &Range<usize>| group.clone().map(|rank| error / (rank + 1) as f64).sum::<f64>();
        let damages: Vec<f64> = groups.iter().map(of).collect();
        MeasuredType::new(ty, damages.iter().sum(), damages)
    }

    #[test]
    fn rows_that_count_four_times_as_much_get_a_bit_more() {
        use QuantType::*;
        let groups = groups_of(16_384);
        let measured = [(X2, 64.0), (X3, 16.0), (X4, 4.0), (N5, 1.0)].map(|(ty, e)| zipf(ty, e, &groups));
        let bytes = |form: StoredForm| form.bytes(BlockSize::B64, 16_384, 512);
        let forms = finer_forms(&groups, &measured, bytes);
        let names: Vec<String> = forms.iter().map(|(form, _)| form.to_string()).collect();
        assert!(names.iter().any(|name| name == "n5:512/x4:1536/x3:6144/x2"), "{names:?}");
        // No larger form does more damage, and each saves less for a byte than the one before.
        let sizes: Vec<f64> = forms.iter().map(|(form, _)| bytes(*form).unwrap() as f64).collect();
        let saved: Vec<f64> =
            (1..forms.len()).map(|i| (forms[i - 1].1 - forms[i].1) / (sizes[i] - sizes[i - 1])).collect();
        assert!(saved.iter().all(|saved| *saved > 0.0), "{saved:?}");
        assert!(saved.windows(2).all(|two| two[0] >= two[1]), "{saved:?}");
    }

    #[test]
    fn damages_of_groups_are_parts_of_that_of_the_whole() {
        let measured = MeasuredType::new(QuantType::X2, 6.0, vec![1.0, 2.0]);
        assert_eq!((measured.share(0), measured.share(1)), (2.0, 4.0));
        assert_eq!(MeasuredType::new(QuantType::X2, 0.0, vec![0.0]).share(0), 0.0);
    }
}
