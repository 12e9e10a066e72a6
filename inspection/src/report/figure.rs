//! Numbers as people read them.

use serde_json::json;

/// Digits that a figure is shown with; a standard error has two.
pub(super) const DIGITS: usize = 4;
pub(super) const ERROR_DIGITS: usize = 2;

/// A number with `digits` significant digits; the attribute has all that it has.
pub(super) fn figure(value: f64, digits: usize) -> String {
    format!("<data value=\"{}\">{}</data>", json!(value), significant(value, digits))
}

/// A number with so many digits behind the point; the attribute has all that it has.
pub(super) fn fixed(value: f64, digits: usize) -> String {
    format!("<data value=\"{}\">{value:.digits$}</data>", json!(value))
}

/// A number with `digits` significant digits.
pub(super) fn significant(value: f64, digits: usize) -> String {
    let size = value.abs();
    if size == 0.0 || !size.is_finite() {
        return format!("{value}");
    }
    if !(1e-6..1e7).contains(&size) {
        return format!("{value:.*e}", digits.saturating_sub(1));
    }
    let before = libm::log10(size).floor() as i32 + 1;
    format!("{value:.*}", (digits as i32 - before).max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_digits_are_four_digits_whatever_the_size() {
        for (value, text) in [
            (0.142445, "0.1424"),
            (0.00139, "0.001390"),
            (34.5508, "34.55"),
            (1082.84, "1083"),
            (12345.6, "12346"),
            (0.0, "0"),
            (2.4e-9, "2.400e-9"),
            (1e300, "1.000e300"),
        ] {
            assert_eq!(significant(value, DIGITS), text);
        }
        assert_eq!(significant(0.002676, ERROR_DIGITS), "0.0027");
    }
}
