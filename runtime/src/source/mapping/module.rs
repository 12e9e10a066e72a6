//! Which matrices of the model a named module is: for updates of them that come by name, and are of low rank.

use qsf_format::{ModelConfig, TensorId, TensorKind};

use super::assemble::StoredPart;
use super::measure::Measured;
use super::place::Place;
use super::table::{Form, NameRule, NameTable};
use crate::source::RowOrder;

/// End of the names of matrices.
const WEIGHT: &str = ".weight";

/// A module by its name.
#[derive(Debug)]
pub(in crate::source) struct Module<'a> {
    /// What stands before the name of the table.
    pub prefix: &'a str,
    /// Whether it is the output head.
    pub is_head: bool,
    /// Outputs and inputs that it may have.
    pub shapes: Vec<[usize; 2]>,
    /// The matrices of the model that it holds; empty where they do not lie in it row by row.
    pub parts: Vec<ModulePart>,
}

/// A matrix of the model in a module.
#[derive(Debug)]
pub(in crate::source) struct ModulePart {
    pub id: TensorId,
    /// Of which expert it is, where each has a module.
    pub expert: Option<usize>,
    /// Rows.
    pub rows: usize,
    pub order: PartOrder,
}

/// Where the rows, or columns, of a matrix are.
#[derive(Debug, Clone, Copy)]
pub(in crate::source) enum PartOrder {
    Rows(RowOrder),
    Columns(RowOrder),
}

/// The module that `path` ends with; `None` where the table has none of that name, or the model has no such layer or expert.
/// Where it has several, one with `shape` is meant.
pub(in crate::source) fn module_of<'a>(
    table: &NameTable,
    config: &ModelConfig,
    path: &'a str,
    shape: [usize; 2],
) -> Option<Module<'a>> {
    let rules = table.rules.iter().filter(|rule| rule.kinds.iter().all(|kind| kind.is_matrix()));
    let found = rules.filter_map(|rule| module(rule, config, name_in(rule, path)?));
    // Of names of which one ends with the other, the longer one is meant.
    found.min_by_key(|module| (module.prefix.len(), !module.shapes.contains(&shape)))
}

/// What a path says.
struct Named<'a> {
    prefix: &'a str,
    layer: Option<u32>,
    expert: Option<u32>,
}

/// The numbers in a path that ends with the name of a rule.
fn name_in<'a>(rule: &NameRule, path: &'a str) -> Option<Named<'a>> {
    let (mut rest, mut layer, mut expert) = (path, None, None);
    for part in rule.name.strip_suffix(WEIGHT)?.rsplit('.') {
        let (before, last) = rest.rsplit_once('.').unwrap_or(("", rest));
        let number = || last.parse::<u32>().ok().filter(|number| number.to_string() == last);
        match part {
            "{}" => layer = Some(number()?),
            "{e}" => expert = Some(number()?),
            part if part == last => {}
            _ => return None,
        }
        rest = before;
    }
    Some(Named { prefix: rest, layer, expert })
}

fn module<'a>(rule: &NameRule, config: &ModelConfig, named: Named<'a>) -> Option<Module<'a>> {
    let Named { prefix, layer, expert } = named;
    if layer.is_some_and(|layer| layer >= config.layers) {
        return None;
    }
    if rule.kinds == [TensorKind::Head] {
        // There is one also where its matrix is the embedding's.
        let [rows, cols] = [config.vocab as usize, config.hidden as usize];
        let id = TensorId::of_model(TensorKind::Head);
        let part = ModulePart { id, expert: None, rows, order: rows_from(0, rows) };
        return Some(Module { prefix, is_head: true, shapes: vec![[rows, cols]], parts: vec![part] });
    }
    let measured = Measured::of(config, rule, layer)?;
    if expert.is_some_and(|expert| expert as usize >= measured.experts) {
        return None;
    }
    let shapes = measured.shapes.iter().filter_map(|shape| match (&shape[..], rule.form) {
        (&[inputs, outputs], Form::Transposed) => Some([outputs, inputs]),
        (&[outputs, inputs], _) => Some([outputs, inputs]),
        _ => None,
    });
    let of_kind = |(place, &id): (Place, &TensorId)| {
        let rows = place.len;
        let order = match place.stored_part(rule.form, config, id.kind)? {
            StoredPart::From(first) | StoredPart::Transposed(first) => rows_from(first, rows),
            StoredPart::Ordered(order) => PartOrder::Rows(order),
            StoredPart::Columns(order) => PartOrder::Columns(order),
            StoredPart::TransposedExperts { .. }
            | StoredPart::RunsTransposed { .. }
            | StoredPart::Piece(_)
            | StoredPart::MinusOne
            | StoredPart::MinusExp => return None,
        };
        Some(ModulePart { id, expert: expert.map(|expert| expert as usize), rows, order })
    };
    let together = measured.experts > 1 && !measured.one_by_one;
    let parts = measured.places().into_iter().zip(&measured.ids).filter(|_| !together).map(of_kind);
    let parts = parts.collect::<Option<Vec<_>>>().unwrap_or_default();
    Some(Module { prefix, is_head: false, shapes: shapes.collect(), parts })
}

/// So many rows from `first` on.
fn rows_from(first: usize, rows: usize) -> PartOrder {
    PartOrder::Rows(RowOrder::Strided { first, run: rows.max(1), stride: rows.max(1) })
}
