//! Which stored tensor, or part of one, each tensor of the model is.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use qsf_format::printable::quote;
use qsf_format::{ModelConfig, QuantType, TensorId, TensorKind};

use super::assemble::{Origin, StoredPart, load};
use super::measure::{Measured, is_of_experts};
use super::store::TensorStore;
use super::table::{Form, NameRule, NameTable};
use crate::error::{Result, RuntimeError};
use crate::source::TensorInfo;
use crate::source::shape::{expected_shape, is_required, used_kinds};
use crate::tensor::{StoredType, Tensor};

/// What is to be matched.
#[derive(Debug, Clone, Copy)]
pub struct MappingRequest<'a> {
    /// The model, for messages.
    pub path: &'a Path,
    /// The architecture.
    pub config: &'a ModelConfig,
    /// Names of its tensors.
    pub table: &'a NameTable,
    /// In front of every name of the table but those in `bare`.
    pub prefix: &'a str,
    /// Names that stand outside of the prefix, as the output head does, and what stands before them.
    pub bare: &'a [(&'a str, &'a str)],
    /// Kinds that the configuration says are there, or are not.
    pub declared: &'a [(TensorKind, bool)],
    /// Layers behind the last that predict tokens further ahead, and are left out.
    pub layers_ahead: u32,
}

/// Every tensor of a model and where it comes from.
#[derive(Debug)]
pub struct Mapping {
    tensors: Vec<TensorInfo>,
    /// One for each of `tensors`.
    origins: Vec<Origin>,
    by_id: HashMap<TensorId, usize>,
    used: HashSet<String>,
}

impl Mapping {
    /// Finds every tensor that the model needs in `store`.
    ///
    /// # Errors
    /// A tensor is missing, is there twice, is not of the model, or has another shape.
    pub fn new(request: MappingRequest<'_>, store: &dyn TensorStore) -> Result<Mapping> {
        let mut mapping =
            Mapping { tensors: Vec::new(), origins: Vec::new(), by_id: HashMap::new(), used: HashSet::new() };
        // Layer by layer: a configuration that claims thousands of them costs nothing before the first is missed.
        for layer in [None].into_iter().chain((0..request.config.layers).map(Some)) {
            for rule in request.table.rules {
                if rule.name.contains("{}") == layer.is_some() {
                    mapping.match_rule(&request, rule, layer, store)?;
                }
            }
            let absent = used_kinds(request.config, layer).filter(|id| {
                let declared = request.declared.contains(&(id.kind, true));
                !mapping.by_id.contains_key(id) && (declared || is_required(request.config, *id))
            });
            // The one that the table names first: for a model without any tensor, its embedding.
            if let Some(id) = absent.min_by_key(|id| rule_of(&request, id.kind)) {
                return Err(missing(&request, id));
            }
        }
        mapping.check_pieces(&request, store)?;
        mapping.refuse_unused(&request, store)?;
        mapping.sort();
        Ok(mapping)
    }

    /// All tensors, in file order of a QSF file.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Names of the stored tensors that the tensors of `layer` (`None`: of the model as a whole) come from.
    pub fn names_of(&self, layer: Option<u32>) -> impl Iterator<Item = &str> {
        let of_layer = self.tensors.iter().zip(&self.origins).filter(move |(info, _)| info.id.layer == layer);
        of_layer.flat_map(|(_, origin)| origin.names.iter().map(String::as_str))
    }

    /// Names of all stored tensors in use; of one that holds several, as often.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.origins.iter().flat_map(|origin| origin.names.iter().map(String::as_str))
    }

    /// Loads one tensor.
    ///
    /// # Errors
    /// When it is not of this model, or damaged.
    pub fn load(&self, id: TensorId, store: &dyn TensorStore, path: &Path) -> Result<Tensor> {
        let Some(&at) = self.by_id.get(&id) else {
            return Err(RuntimeError::bad_input(path, id.to_string(), "a tensor of this model", "none"));
        };
        load(&self.tensors[at], &self.origins[at], store)
    }

    fn match_rule(
        &mut self,
        request: &MappingRequest<'_>,
        rule: &NameRule,
        layer: Option<u32>,
        store: &dyn TensorStore,
    ) -> Result<()> {
        if rule.form == Form::Piece {
            return self.match_piece(request, rule, layer, store);
        }
        let name = full_name(request, rule.name, layer);
        let experts = layer.and_then(|layer| request.config.experts(layer));
        let experts = experts.filter(|_| is_of_experts(rule.kinds[0])).map_or(1, |experts| experts.count);
        let of_expert = |e: u32| name.replace("{e}", &e.to_string());
        // The first alone before the others: there may be very many, and mostly there are none of that name.
        let Some((_, stored)) = store.describe(&of_expert(0)) else { return Ok(()) };
        let names: Vec<String> = match name.contains("{e}") {
            true => (0..experts).map(of_expert).collect(),
            false => vec![name],
        };
        // Not of this model as configured: reported as unused.
        if rule.kinds.iter().any(|&kind| request.declared.contains(&(kind, false))) {
            return Ok(());
        }
        let Some(measured) = Measured::of(request.config, rule, layer) else { return Ok(()) };
        for name in &names {
            check_shape(request, name, &measured.shapes, measured.is_vector, store)?;
            self.used.insert(name.clone());
        }
        for ((place, &id), shape) in measured.places().iter().zip(&measured.ids).zip(&measured.parts) {
            let Some(part) = place.stored_part(rule.form, request.config, id.kind) else { return Ok(()) };
            let whole = measured.ids.len() == 1 && part == StoredPart::From(0);
            let stored = if keeps_type(part, measured.is_vector, whole, stored) {
                stored
            } else {
                QuantType::F32.into()
            };
            let info = TensorInfo { id, name: names[0].clone(), rows: shape.0, cols: shape.1, stored };
            self.add(info, Origin { names: names.clone(), part, lens: Vec::new() }, store)?;
        }
        Ok(())
    }

    fn match_piece(
        &mut self,
        request: &MappingRequest<'_>,
        rule: &NameRule,
        layer: Option<u32>,
        store: &dyn TensorStore,
    ) -> Result<()> {
        let (name, id) = (full_name(request, rule.name, layer), TensorId { layer, kind: rule.kinds[0] });
        let Some((shape, stored)) = store.describe(&name) else { return Ok(()) };
        let Some((rows, cols)) = expected_shape(request.config, id) else { return Ok(()) };
        let is_vector = !id.kind.is_matrix();
        let wrong = |expected: String| {
            let (place, found) = (format!("tensor {}", quote(&name)), format!("shape {shape:?}"));
            RuntimeError::bad_input(store.file_of(&name), place, expected, found)
        };
        let len = match (is_vector, shape) {
            (true, shape) => shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n)),
            (false, &[len, inputs]) if inputs == cols => Some(len),
            (false, _) => None,
        };
        let len = len.ok_or_else(|| wrong(format!("a part of the rows of {rows} x {cols}")))?;
        let mut before =
            request.table.rules.iter().filter(|other| other.form == Form::Piece && other.kinds == rule.kinds);
        let place = before.position(|other| other.name == rule.name).unwrap_or(0);
        self.used.insert(name.clone());
        if place == 0 {
            let stored = if is_vector { QuantType::F32.into() } else { stored };
            let info = TensorInfo { id, name: name.clone(), rows, cols, stored };
            let origin = Origin { names: vec![name.clone()], part: StoredPart::From(0), lens: vec![len] };
            return self.add(info, origin, store);
        }
        let first = self.by_id.get(&id).copied().filter(|&at| {
            self.origins[at].lens.len() == place && (is_vector || self.tensors[at].stored == stored)
        });
        let at = first.ok_or_else(|| {
            missing_piece(request, id, store)
                .unwrap_or_else(|| wrong("the parts before it, of the same type".into()))
        })?;
        self.origins[at].names.push(name.clone());
        self.origins[at].lens.push(len);
        Ok(())
    }

    /// Pieces are all of their tensor together.
    fn check_pieces(&self, request: &MappingRequest<'_>, store: &dyn TensorStore) -> Result<()> {
        for (info, origin) in self.tensors.iter().zip(&self.origins) {
            let expected = if info.id.kind.is_matrix() { info.rows } else { info.cols };
            let found = origin.lens.iter().try_fold(0usize, |all, &len| all.checked_add(len));
            if !origin.lens.is_empty() && found != Some(expected) {
                // Too few outputs are those of a part that is not there.
                if found.is_some_and(|found| found < expected)
                    && let Some(missing) = missing_piece(request, info.id, store)
                {
                    return Err(missing);
                }
                let place = format!("tensors {}", origin.names.join(", "));
                let found = format!("{:?}", origin.lens);
                let expected = format!("{expected} outputs of {} together", info.id);
                return Err(RuntimeError::bad_input(store.file_of(&info.name), place, expected, found));
            }
        }
        Ok(())
    }

    fn add(&mut self, info: TensorInfo, origin: Origin, store: &dyn TensorStore) -> Result<()> {
        if let Some(other) = self.by_id.insert(info.id, self.tensors.len()) {
            let expected = format!("one tensor for {}", info.id);
            let found = format!("this one and {}", quote(&self.tensors[other].name));
            let place = format!("tensor {}", quote(&info.name));
            return Err(RuntimeError::bad_input(store.file_of(&info.name), place, expected, found));
        }
        self.tensors.push(info);
        self.origins.push(origin);
        Ok(())
    }

    /// A tensor that nothing uses would be dropped silently: the result would be another model.
    fn refuse_unused(&self, request: &MappingRequest<'_>, store: &dyn TensorStore) -> Result<()> {
        let ignored = |name: &str| {
            let tied_copy = request.config.tied_head
                && request.table.rules.iter().any(|rule| {
                    rule.kinds == [TensorKind::Head] && full_name(request, rule.name, None) == name
                });
            tied_copy
                || is_shared(request, name)
                || is_ignored(request.table.ignored, name)
                || is_ahead(request, name)
        };
        let unused = store.names().filter(|&name| !self.used.contains(name) && !ignored(name));
        match unused.filter(|name| !store.adds_nothing(name)).min() {
            None => Ok(()),
            Some(name) => {
                let expected =
                    format!("only tensors of a {} model as configured", request.config.architecture);
                let place = format!("tensor {}", quote(name));
                Err(RuntimeError::bad_input(store.file_of(name), place, expected, "this one too"))
            }
        }
    }

    /// File order of a QSF file: embedding, layers, the rest; in each, kinds by id.
    fn sort(&mut self) {
        let mut both: Vec<(TensorInfo, Origin)> =
            self.tensors.drain(..).zip(self.origins.drain(..)).collect();
        both.sort_by_key(|(info, _)| {
            let id = info.id;
            (id.kind != TensorKind::TokenEmbedding, id.layer.unwrap_or(u32::MAX), id.kind.id())
        });
        (self.tensors, self.origins) = both.into_iter().unzip();
        self.by_id = self.tensors.iter().enumerate().map(|(i, info)| (info.id, i)).collect();
    }
}

/// Whether a tensor has the type that it is stored in; otherwise it is floats.
fn keeps_type(part: StoredPart, is_vector: bool, whole: bool, stored: StoredType) -> bool {
    match part {
        StoredPart::MinusOne | StoredPart::MinusExp | StoredPart::Piece(_) => false,
        // Values of one width are moved as they are.
        _ if stored.native().is_some_and(QuantType::is_float) => true,
        // So are whole vectors, and rows, which are picked without looking at them.
        StoredPart::From(_) | StoredPart::Ordered(_) | StoredPart::Columns(_) => !is_vector || whole,
        StoredPart::Transposed(_)
        | StoredPart::RunsTransposed { .. }
        | StoredPart::TransposedExperts { .. } => false,
    }
}

fn check_shape(
    request: &MappingRequest<'_>,
    name: &str,
    expected: &[Vec<usize>],
    is_vector: bool,
    store: &dyn TensorStore,
) -> Result<()> {
    let place = || format!("tensor {}", quote(name));
    let Some((shape, _)) = store.describe(name) else {
        let expected = "a tensor of that name, as of the other experts";
        return Err(RuntimeError::bad_input(request.path, place(), expected, "none"));
    };
    // The values of a vector may stand in a table, with a row for each head or expert.
    let values = |shape: &[usize]| shape.iter().try_fold(1usize, |all, &n| all.checked_mul(n));
    let fits = |expected: &Vec<usize>| {
        expected == shape || is_vector && shape.len() > 1 && values(expected) == values(shape)
    };
    if expected.iter().any(fits) {
        return Ok(());
    }
    let expected: Vec<String> = expected.iter().map(|shape| format!("shape {shape:?}")).collect();
    let found = format!("shape {shape:?}");
    Err(RuntimeError::bad_input(store.file_of(name), place(), expected.join(" or "), found))
}

/// Whether a name is one of those that are left out.
pub fn is_ignored(ignored: &[&str], name: &str) -> bool {
    ignored.iter().any(|part| if part.ends_with('.') { name.starts_with(part) } else { name.ends_with(part) })
}

/// The name in the source.
fn full_name(request: &MappingRequest<'_>, name: &str, layer: Option<u32>) -> String {
    let bare = request.bare.iter().find(|(bare, _)| *bare == name);
    let prefix = bare.map_or(request.prefix, |(_, prefix)| prefix);
    let layer = layer.map_or_else(String::new, |layer| layer.to_string());
    format!("{prefix}{}", name.replace("{}", &layer))
}

/// Whether a tensor belongs to what predicts tokens further ahead: layers behind the last, or parts with "mtp" in their name.
fn is_ahead(request: &MappingRequest<'_>, name: &str) -> bool {
    if request.layers_ahead == 0 {
        return false;
    }
    let rest = name.strip_prefix(request.prefix);
    let layer = rest.and_then(|rest| rest.strip_prefix("layers.").or_else(|| rest.strip_prefix("blk.")));
    let layer = layer.and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
    let layers = request.config.layers;
    let behind = layer.is_some_and(|layer| layer >= layers && layer - layers < request.layers_ahead);
    behind || name.split('.').any(|part| part == "mtp" || part.starts_with("mtp_"))
}

/// Place in the table of the first rule for tensors of this kind.
fn rule_of(request: &MappingRequest<'_>, kind: TensorKind) -> Option<usize> {
    request.table.rules.iter().position(|rule| rule.kinds.contains(&kind) && rule.suits(request.config))
}

/// Whether a tensor is for keys or values of a layer that shares those of another: checkpoints have some that nothing uses.
fn is_shared(request: &MappingRequest<'_>, name: &str) -> bool {
    use TensorKind::{AttnK, AttnV, KNorm};
    let Some(shared) = request.config.shared_kv else { return false };
    let layers = request.config.layers.saturating_sub(shared.layers)..request.config.layers;
    let mut rules = request.table.rules.iter().filter(|rule| matches!(rule.kinds, [AttnK | AttnV | KNorm]));
    rules.any(|rule| layers.clone().any(|layer| full_name(request, rule.name, Some(layer)) == name))
}

/// The error for the first part of a tensor that is not there; `None`: all are.
fn missing_piece(
    request: &MappingRequest<'_>,
    id: TensorId,
    store: &dyn TensorStore,
) -> Option<RuntimeError> {
    let mut pieces =
        request.table.rules.iter().filter(|rule| rule.form == Form::Piece && rule.kinds == [id.kind]);
    let name = pieces.find_map(|rule| {
        let name = full_name(request, rule.name, id.layer);
        store.describe(&name).is_none().then_some(name)
    })?;
    let expected = format!("a tensor of that name, as every {} model has one", request.config.architecture);
    Some(RuntimeError::bad_input(request.path, format!("tensor {}", quote(&name)), expected, "none"))
}

fn missing(request: &MappingRequest<'_>, id: TensorId) -> RuntimeError {
    let rule = rule_of(request, id.kind).map(|at| &request.table.rules[at]);
    let name = rule
        .map_or_else(|| id.to_string(), |rule| full_name(request, rule.name, id.layer).replace("{e}", "0"));
    let expected = if id.kind == TensorKind::Head {
        "a tensor of that name, for the head is not tied to the embedding".to_owned()
    } else {
        format!("a tensor of that name, as every {} model has one", request.config.architecture)
    };
    RuntimeError::bad_input(request.path, format!("tensor {}", quote(&name)), expected, "none")
}
