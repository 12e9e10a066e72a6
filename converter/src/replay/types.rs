//! How every tensor is stored, by its name.

use std::collections::BTreeMap;

use qsf_runtime::file_hash::sha256;
use serde::{Deserialize, Serialize};

use crate::plan::{Plan, StoredForm, TypeOverride};

/// Most tensors of a plan.
const MAX_TENSORS: usize = 1 << 17;

/// A map that keeps the order it was given, and refuses a name that comes twice when read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Types(Vec<(String, StoredForm)>);

impl Types {
    /// Those of all tensors of `plan`, in file order.
    pub fn of(plan: &Plan) -> Types {
        Types(plan.tensors().iter().map(|tensor| (tensor.info.id.to_string(), tensor.form())).collect())
    }

    /// What tells whether somebody has changed them; their order says nothing.
    pub fn sha256(&self) -> String {
        let sorted: BTreeMap<&str, String> =
            self.0.iter().map(|(name, form)| (name.as_str(), form.to_string())).collect();
        sha256(&serde_json::to_vec(&sorted).expect("names and types are JSON"))
    }

    /// Gives every tensor of `plan` its type here.
    ///
    /// # Errors
    /// With the name of a tensor that only one of the two has.
    pub fn apply(&self, plan: &mut Plan) -> Result<(), String> {
        let types: BTreeMap<String, StoredForm> =
            self.0.iter().map(|(name, form)| (name.to_ascii_lowercase(), *form)).collect();
        let ids: Vec<_> = plan.tensors().iter().map(|tensor| tensor.info.id).collect();
        let names: Vec<String> = ids.iter().map(ToString::to_string).collect();
        if let Some(unknown) = types.keys().find(|name| !names.contains(name)) {
            return Err(format!("a type of '{unknown}', which the model has not"));
        }
        for (id, name) in ids.into_iter().zip(names) {
            let form = types.get(&name).ok_or_else(|| format!("no type of '{name}'"))?;
            if !id.kind.is_matrix() && !form.quant.is_float() {
                return Err(format!("'{name}' as {form}: vectors are stored as f16, bf16 or f32"));
            }
            let rows = plan.tensor(id).map_or(0, |tensor| tensor.info.rows);
            if !form.finer.suits(id.kind, rows) {
                return Err(format!(
                    "'{name}' as {form}: only token_embedding, head and stacks of experts have rows in several types, fewer than all"
                ));
            }
            plan.set(id, *form);
        }
        Ok(())
    }

    /// Rules that name one tensor each.
    pub fn rules(&self) -> Vec<TypeOverride> {
        let rule = |(name, form): &(String, StoredForm)| TypeOverride::exactly(name, &form.to_string()).ok();
        self.0.iter().filter_map(rule).collect()
    }
}

impl Serialize for Types {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, form)| (name, form)))
    }
}

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Types, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = Types;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of tensor names and types")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Types, A::Error> {
                let mut types = BTreeMap::new();
                while let Some((name, form)) = map.next_entry::<String, StoredForm>()? {
                    if types.len() == MAX_TENSORS {
                        return Err(serde::de::Error::custom(format!("more than {MAX_TENSORS} tensors")));
                    }
                    if types.insert(name.clone(), form).is_some() {
                        return Err(serde::de::Error::custom(format!("tensor '{name}' comes twice")));
                    }
                }
                Ok(Types(types.into_iter().collect()))
            }
        }
        deserializer.deserialize_map(Visitor)
    }
}
