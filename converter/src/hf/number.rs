//! Numbers as people write them.

use serde_json::{Value, json};

/// A number with the digits that it needs and no more.
pub(super) fn number(value: f32) -> Value {
    json!(value.to_string().parse::<f64>().unwrap_or(f64::from(value)))
}
