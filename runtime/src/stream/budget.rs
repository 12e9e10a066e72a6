//! The memory that a user grants, and what is taken already.

use std::str::FromStr;

use crate::error::{Result, RuntimeError};

/// Most anonymous memory (what is not a page of a file) of the process, in bytes. As text: `200` and `200MB` are 200 * 10^6
/// bytes, `1.5GB`, `512MiB` and so on are what they say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RamBudget(pub u64);

const UNITS: [(&str, f64); 8] = [
    ("kib", 1024.0),
    ("mib", 1_048_576.0),
    ("gib", 1_073_741_824.0),
    ("kb", 1e3),
    ("mb", 1e6),
    ("gb", 1e9),
    ("m", 1e6),
    ("g", 1e9),
];

impl FromStr for RamBudget {
    type Err = RuntimeError;

    fn from_str(text: &str) -> Result<RamBudget> {
        let lower = text.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(unit)?, *bytes)));
        let (number, bytes) = unit.unwrap_or((&lower, 1e6));
        let value = number.trim().parse::<f64>().ok().map(|number| number * bytes);
        match value.filter(|bytes| (1.0..1e18).contains(bytes)) {
            Some(bytes) => Ok(RamBudget(bytes as u64)),
            None => Err(RuntimeError::Request(format!(
                "RAM budget {text:?}: expected megabytes, or a number with MB, GB, MiB or GiB"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_megabytes_unless_it_says_otherwise() {
        for (text, bytes) in [
            ("200", 200_000_000),
            ("200MB", 200_000_000),
            ("200 mb", 200_000_000),
            ("1.5GB", 1_500_000_000),
            ("1.5g", 1_500_000_000),
            ("512MiB", 512 << 20),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(text.parse::<RamBudget>().unwrap(), RamBudget(bytes), "{text}");
        }
        for text in ["", "MB", "-5", "0", "nan", "1e40GB", "twelve"] {
            let refused = text.parse::<RamBudget>().unwrap_err().to_string();
            assert!(refused.contains("expected megabytes"), "{text}: {refused}");
        }
    }
}
