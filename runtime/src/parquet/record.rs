//! The values of a row as JSON: columns are put together to lists and groups by their levels
//! (Dremel, <https://research.google/pubs/pub36632/>; `LogicalTypes.md` of parquet-format for lists).

use serde_json::{Map, Value};

use super::column::Placed;
use super::flaw::Found;
use super::schema::{Below, Node, Repetition};

/// The row whose values are `columns`, one list for each leaf, with at least one value.
pub(super) fn record(nodes: &[Node], columns: &mut [Vec<Placed>]) -> Found<Value> {
    let mut members = Map::new();
    for node in nodes {
        members.insert(node.name.clone(), value(node, columns, 0)?);
    }
    Ok(Value::Object(members))
}

/// What `node` is for the value `index` of its columns.
fn value(node: &Node, columns: &mut [Vec<Placed>], index: usize) -> Found<Value> {
    let first = first_leaf(node);
    let there = columns[first].get(index).is_some_and(|placed| placed.definition >= node.definition);
    match node.repetition {
        Repetition::Optional if !there => Ok(Value::Null),
        Repetition::Repeated => list(node, columns, there),
        _ => one(node, columns, index),
    }
}

/// All that there is of a repeated node.
fn list(node: &Node, columns: &mut [Vec<Placed>], there: bool) -> Found<Value> {
    let count = if there { columns[first_leaf(node)].len() } else { 0 };
    (0..count).map(|index| one(node, columns, index)).collect::<Found<Vec<_>>>().map(Value::Array)
}

/// A node that is there.
fn one(node: &Node, columns: &mut [Vec<Placed>], index: usize) -> Found<Value> {
    match &node.below {
        Below::Leaf(leaf) => {
            let placed = columns[*leaf].get_mut(index);
            let placed =
                placed.ok_or_else(|| format!("fewer values of {} than of its neighbours", node.name))?;
            Ok(placed.value.take())
        }
        Below::Group { nodes, list: true }
            if nodes.len() == 1 && nodes[0].repetition == Repetition::Repeated =>
        {
            elements(&nodes[0], columns, index)
        }
        Below::Group { nodes, .. } => {
            let mut members = Map::new();
            for node in nodes {
                members.insert(node.name.clone(), value(node, columns, index)?);
            }
            Ok(Value::Object(members))
        }
    }
}

/// The elements of a list. A repeated group with one node is around the element, except in files by old rules.
fn elements(repeated: &Node, columns: &mut [Vec<Placed>], index: usize) -> Found<Value> {
    match &repeated.below {
        Below::Group { nodes, .. } if nodes.len() == 1 && repeated.name != "array" => {
            let there = columns[first_leaf(repeated)]
                .get(index)
                .is_some_and(|placed| placed.definition >= repeated.definition);
            let count = if there { columns[first_leaf(repeated)].len() } else { 0 };
            (0..count)
                .map(|index| value(&nodes[0], columns, index))
                .collect::<Found<Vec<_>>>()
                .map(Value::Array)
        }
        _ => value(repeated, columns, index),
    }
}

/// By its place among the columns.
fn first_leaf(node: &Node) -> usize {
    match &node.below {
        Below::Leaf(leaf) => *leaf,
        // Groups are never empty.
        Below::Group { nodes, .. } => first_leaf(&nodes[0]),
    }
}
