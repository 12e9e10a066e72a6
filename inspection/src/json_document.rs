//! What is the same in every JSON document of the programs: which document it is, and by which description (docs/json.md).

use serde_json::{Value, json};

/// The description that documents follow, `docs/schema/`. A member that gets another name or meaning makes the next one.
pub const SCHEMA: u32 = 1;

/// The document `name` with these members, which are an object.
pub fn document(name: &str, mut members: Value) -> Value {
    members["schema"] = json!(SCHEMA);
    members["document"] = json!(name);
    members
}
