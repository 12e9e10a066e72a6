//! The columns of a file: a tree, of which the leaves have values.

use super::flaw::Found;

/// Groups within groups at most.
const MAX_DEPTH: usize = 16;
/// Nodes at most.
pub(super) const MAX_NODES: usize = 10_000;

/// How often a node is there for its parent (`FieldRepetitionType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repetition {
    Required,
    Optional,
    Repeated,
}

/// How values are stored (`Type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Physical {
    Boolean,
    Int32,
    Int64,
    Float,
    Double,
    ByteArray,
}

impl Physical {
    fn from_id(id: i64) -> Found<Physical> {
        Ok(match id {
            0 => Physical::Boolean,
            1 => Physical::Int32,
            2 => Physical::Int64,
            4 => Physical::Float,
            5 => Physical::Double,
            6 => Physical::ByteArray,
            3 => return Err("values of type INT96".into()),
            7 => return Err("values of type FIXED_LEN_BYTE_ARRAY".into()),
            _ => return Err(format!("values of type {id}, which there is not")),
        })
    }
}

/// A node as the footer has it (`SchemaElement`).
pub(super) struct Element {
    pub name: String,
    pub physical: Option<i64>,
    pub repetition: i64,
    pub children: u64,
    pub list: bool,
    pub unsigned: bool,
}

/// A node and what is below it.
#[derive(Debug)]
pub(super) struct Node {
    pub name: String,
    pub repetition: Repetition,
    /// Definition level of values for which this node is there.
    pub definition: u32,
    pub below: Below,
}

#[derive(Debug)]
pub(super) enum Below {
    /// By its place among the columns that are read.
    Leaf(usize),
    Group {
        nodes: Vec<Node>,
        /// A group with the annotation LIST, around the repeated node.
        list: bool,
    },
}

/// A column of values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Leaf {
    pub name: String,
    /// Its place among all leaves of the file.
    pub place: usize,
    pub physical: Physical,
    pub unsigned: bool,
    pub max_definition: u32,
    pub max_repetition: u32,
}

/// The columns of a file that are asked for.
#[derive(Debug)]
pub(super) struct Schema {
    pub nodes: Vec<Node>,
    pub leaves: Vec<Leaf>,
    /// Leaves of the whole file.
    pub all_leaves: usize,
}

impl Schema {
    /// Of `elements`, depth first, the columns with the names `wanted`.
    pub fn new(elements: Vec<Element>, wanted: &[&str]) -> Found<Schema> {
        let mut elements = elements.into_iter();
        let root = elements.next().ok_or("no schema")?;
        let mut builder = Builder { elements, leaves: Vec::new(), all_leaves: 0 };
        let mut nodes = Vec::new();
        for _ in 0..root.children {
            let element = builder.next()?;
            let keep = wanted.contains(&element.name.as_str());
            let node = builder.node(element, None, keep, 0)?;
            nodes.extend(node.filter(|_| keep));
        }
        match builder.elements.len() {
            0 => Ok(Schema { nodes, leaves: builder.leaves, all_leaves: builder.all_leaves }),
            left => Err(format!("a schema with {left} nodes that are in no group")),
        }
    }
}

struct Builder {
    elements: std::vec::IntoIter<Element>,
    leaves: Vec<Leaf>,
    all_leaves: usize,
}

/// What a node inherits.
struct Parent {
    path: String,
    definition: u32,
    repetition: u32,
}

impl Builder {
    fn next(&mut self) -> Found<Element> {
        self.elements.next().ok_or_else(|| "a schema whose groups have more nodes than there are".into())
    }

    /// The node that begins with `element`; `None` if it is not kept.
    fn node(
        &mut self,
        element: Element,
        parent: Option<&Parent>,
        keep: bool,
        depth: usize,
    ) -> Found<Option<Node>> {
        if depth > MAX_DEPTH {
            return Err(format!("a schema with more than {MAX_DEPTH} groups within each other"));
        }
        let repetition = match element.repetition {
            0 => Repetition::Required,
            1 => Repetition::Optional,
            2 => Repetition::Repeated,
            other => {
                return Err(format!("column {} with repetition {other}, which there is not", element.name));
            }
        };
        let above = parent.map_or((0, 0), |parent| (parent.definition, parent.repetition));
        let own = Parent {
            path: parent.map_or_else(String::new, |parent| format!("{}.", parent.path)) + &element.name,
            definition: above.0 + u32::from(repetition != Repetition::Required),
            repetition: above.1 + u32::from(repetition == Repetition::Repeated),
        };
        let below = match element.physical {
            Some(id) => {
                self.all_leaves += 1;
                if !keep {
                    return Ok(None);
                }
                Below::Leaf(self.leaf(&own, id, element.unsigned)?)
            }
            None => {
                let mut nodes = Vec::new();
                for _ in 0..element.children {
                    let child = self.next()?;
                    nodes.extend(self.node(child, Some(&own), keep, depth + 1)?);
                }
                if !keep {
                    return Ok(None);
                }
                if nodes.is_empty() {
                    return Err(format!("column {}, a group without anything in it", own.path));
                }
                Below::Group { nodes, list: element.list }
            }
        };
        Ok(Some(Node { name: element.name, repetition, definition: own.definition, below }))
    }

    fn leaf(&mut self, own: &Parent, physical: i64, unsigned: bool) -> Found<usize> {
        let named = |found: String| format!("column {} with {found}", own.path);
        if own.repetition > 1 {
            return Err(named("lists in lists".into()));
        }
        self.leaves.push(Leaf {
            name: own.path.clone(),
            place: self.all_leaves - 1,
            physical: Physical::from_id(physical).map_err(named)?,
            unsigned,
            max_definition: own.definition,
            max_repetition: own.repetition,
        });
        Ok(self.leaves.len() - 1)
    }
}
