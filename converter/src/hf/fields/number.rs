//! Numbers with no more digits than they need.

use serde_json::{Value, json};

/// A number of 32 bits with the digits that tell it from its neighbours.
pub(super) fn number(value: f32) -> Value {
    value.to_string().parse::<f64>().map_or(Value::Null, |value| json!(value))
}

/// The number next to `value` with the fewest digits of which `means` says that it means the same.
pub(super) fn shortest(value: f64, means: impl Fn(f64) -> bool) -> f64 {
    let rounded = (1..16).filter_map(|digits| format!("{value:.digits$e}").parse().ok());
    let mut found = rounded.filter(|rounded| means(*rounded));
    found.next().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digits_are_those_that_a_person_would_have_written() {
        let third = |value: f64| (value / 3.0) as f32 == (1.4f64 / 3.0) as f32;
        assert_eq!(shortest(f64::from((1.4f64 / 3.0) as f32) * 3.0, third), 1.4);
        assert_eq!(shortest(0.1 + 0.2, |value| value == 0.1 + 0.2), 0.1 + 0.2);
        assert_eq!(number(1e-5).to_string(), "0.00001");
    }
}
