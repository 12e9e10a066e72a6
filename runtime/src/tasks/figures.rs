//! What comes of a task: means with their errors, and what changes from a base.

use std::collections::BTreeMap;

use serde::Serialize;

use super::verdict::{MeasureKind, Said};

/// One figure of a task. The field names are those of `qsf-eval --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Measure {
    /// `acc`, `acc_norm`, `mc1`, `mc2` or `ppl`.
    pub name: &'static str,
    /// Its value: for all but `ppl` a part of one.
    pub value: f64,
    /// Its standard error; none of a single item.
    pub stderr: Option<f64>,
    /// How the base does.
    #[serde(flatten)]
    pub compared: Option<Compared>,
    /// How it is summed up.
    #[serde(skip)]
    pub kind: MeasureKind,
}

/// One figure of the model beside that of the base.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Compared {
    /// The value of the base.
    pub base_value: f64,
    /// Its standard error.
    pub base_stderr: Option<f64>,
    /// Value less that of the base.
    pub difference: f64,
    /// Its standard error, item by item: both answered the same ones.
    pub difference_stderr: Option<f64>,
    /// Items that only the model has right; none where they are not right or wrong.
    pub gained: Option<u64>,
    /// Items that only the base has right.
    pub lost: Option<u64>,
    /// Part of the items in which both chose the same continuation, or are both right or both wrong where there is one.
    pub same_choice_share: Option<f64>,
}

/// The items of one subject. The field names are those of `qsf-eval --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    /// The subject.
    pub name: String,
    /// Its items.
    pub items: usize,
    /// Its figures.
    pub measures: Vec<Measure>,
}

/// All figures of a task. The field names are those of `qsf-eval --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TaskFigures {
    /// Items.
    pub items: usize,
    /// Figures of all of them.
    pub measures: Vec<Measure>,
    /// Those of each subject, where there are several.
    pub groups: Vec<Group>,
    /// Items of which the context was cut, as it did not fit.
    pub cut_items: usize,
    /// Tokens that the model was run on.
    pub tokens: u64,
    /// Time of all of it.
    pub seconds: f64,
}

/// Values of one measure, item by item.
#[derive(Debug, Default)]
struct Column {
    values: Vec<f64>,
    base: Vec<f64>,
    same_choices: u64,
}

/// Values of items as they come.
#[derive(Debug, Default)]
pub(super) struct Tally {
    names: Vec<(&'static str, MeasureKind)>,
    columns: Vec<Column>,
    items: usize,
}

/// The same by subject.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    pub all: Tally,
    groups: BTreeMap<String, Tally>,
}

impl Tallies {
    pub fn add(&mut self, group: Option<&str>, model: &[Said], base: Option<&[Said]>) {
        self.all.add(model, base);
        if let Some(group) = group {
            self.groups.entry(group.to_owned()).or_default().add(model, base);
        }
    }

    pub fn items(&self) -> usize {
        self.all.items
    }

    pub fn measures(&self) -> Vec<Measure> {
        self.all.measures()
    }

    /// Of each subject, where there are several.
    pub fn groups(&self) -> Vec<Group> {
        if self.groups.len() < 2 {
            return Vec::new();
        }
        let group = |(name, tally): (&String, &Tally)| Group {
            name: name.clone(),
            items: tally.items,
            measures: tally.measures(),
        };
        self.groups.iter().map(group).collect()
    }
}

impl Tally {
    fn add(&mut self, model: &[Said], base: Option<&[Said]>) {
        if self.names.is_empty() {
            self.names = model.iter().map(|said| (said.name, said.kind)).collect();
            self.columns = model.iter().map(|_| Column::default()).collect();
        }
        self.items += 1;
        for (column, said) in self.columns.iter_mut().zip(model) {
            column.values.push(said.value);
        }
        let Some(base) = base else { return };
        for ((column, model), base) in self.columns.iter_mut().zip(model).zip(base) {
            column.base.push(base.value);
            let same =
                if model.choice.is_some() { model.choice == base.choice } else { model.value == base.value };
            column.same_choices += u64::from(same);
        }
    }

    fn measures(&self) -> Vec<Measure> {
        let measures = self.names.iter().zip(&self.columns);
        measures.map(|((name, kind), column)| column.measure(name, *kind)).collect()
    }
}

impl Column {
    fn measure(&self, name: &'static str, kind: MeasureKind) -> Measure {
        let (value, stderr) = figure(kind, &self.values);
        let compared = (!self.base.is_empty()).then(|| self.compared(kind, value));
        Measure { name, value, stderr, compared, kind }
    }

    fn compared(&self, kind: MeasureKind, value: f64) -> Compared {
        let (base_value, base_stderr) = figure(kind, &self.base);
        let pairs = || self.values.iter().zip(&self.base);
        let differences: Vec<f64> = pairs().map(|(model, base)| model - base).collect();
        let (mean, error) = mean(&differences);
        let (difference, difference_stderr) = match kind {
            MeasureKind::Share | MeasureKind::Mean => (mean, error),
            // To the first order in the difference of losses.
            MeasureKind::Perplexity => (value - base_value, error.map(|error| error * value)),
        };
        let is_share = kind == MeasureKind::Share;
        let count =
            |sign: f64| differences.iter().filter(|difference| **difference * sign > 0.5).count() as u64;
        Compared {
            base_value,
            base_stderr,
            difference,
            difference_stderr,
            gained: is_share.then(|| count(1.0)),
            lost: is_share.then(|| count(-1.0)),
            same_choice_share: is_share.then(|| self.same_choices as f64 / self.base.len() as f64),
        }
    }
}

fn figure(kind: MeasureKind, values: &[f64]) -> (f64, Option<f64>) {
    let (mean, error) = mean(values);
    match kind {
        MeasureKind::Share | MeasureKind::Mean => (mean, error),
        // The error of the mean, carried through the exponential.
        MeasureKind::Perplexity => (mean.exp(), error.map(|error| error * mean.exp())),
    }
}

/// Mean, and its error by the deviation of the sample.
fn mean(values: &[f64]) -> (f64, Option<f64>) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (mean, (values.len() > 1).then(|| (squares / (n - 1.0) / n).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(value: f64, choice: usize) -> [Said; 1] {
        [Said { name: "acc", kind: MeasureKind::Share, value, choice: Some(choice) }]
    }

    #[test]
    fn errors_are_those_of_the_sample_and_differences_are_taken_item_by_item() {
        let mut tallies = Tallies::default();
        // Model right, base wrong; both right; both wrong with other choices; base right.
        for (model, base) in
            [((1.0, 2), (0.0, 1)), ((1.0, 0), (1.0, 0)), ((0.0, 1), (0.0, 2)), ((0.0, 1), (1.0, 3))]
        {
            tallies.add(None, &said(model.0, model.1), Some(&said(base.0, base.1)));
        }
        let measure = &tallies.measures()[0];
        // Of 1, 1, 0, 0: deviation sqrt(1/3), over sqrt(4).
        assert_eq!(measure.value, 0.5);
        assert!((measure.stderr.unwrap() - (1.0_f64 / 12.0).sqrt()).abs() < 1e-12);
        let compared = measure.compared.unwrap();
        assert_eq!(
            (compared.gained, compared.lost, compared.same_choice_share),
            (Some(1), Some(1), Some(0.25))
        );
        assert_eq!(compared.difference, 0.0);
        // Of 1, 0, 0, -1.
        assert!((compared.difference_stderr.unwrap() - (2.0_f64 / 3.0 / 4.0).sqrt()).abs() < 1e-12);
        assert!(tallies.groups().is_empty());
    }

    #[test]
    fn a_single_item_has_no_error_and_a_perplexity_is_of_mean_losses() {
        let mut tally = Tally::default();
        let loss = |value| [Said { name: "ppl", kind: MeasureKind::Perplexity, value, choice: None }];
        tally.add(&loss(1.0), None);
        assert_eq!((tally.measures()[0].value, tally.measures()[0].stderr), (1f64.exp(), None));
        tally.add(&loss(3.0), None);
        let measure = &tally.measures()[0];
        assert!((measure.value - 2f64.exp()).abs() < 1e-12);
        assert!((measure.stderr.unwrap() - 2f64.exp()).abs() < 1e-12);
    }
}
