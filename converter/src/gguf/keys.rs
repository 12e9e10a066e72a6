//! Keys that begin with the name of an architecture.

use super::value::{Pairs, Value};

/// The keys of an architecture.
pub(super) struct Keys {
    architecture: &'static str,
    pub pairs: Pairs,
}

impl Keys {
    pub fn new(architecture: &'static str) -> Keys {
        Keys { architecture, pairs: Vec::new() }
    }

    /// Adds a key of the architecture.
    pub fn add(&mut self, name: &str, value: Value) {
        self.pairs.push((format!("{}.{name}", self.architecture), value));
    }

    /// Adds a key of the architecture, or changes its value.
    pub fn set(&mut self, name: &str, value: Value) {
        let key = format!("{}.{name}", self.architecture);
        match self.pairs.iter_mut().find(|(known, _)| *known == key) {
            Some((_, known)) => *known = value,
            None => self.pairs.push((key, value)),
        }
    }

    pub fn u32(&mut self, name: &str, value: u32) {
        self.add(name, Value::U32(value));
    }

    pub fn f32(&mut self, name: &str, value: f32) {
        self.add(name, Value::F32(value));
    }
}
