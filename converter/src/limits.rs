//! What a file must reach to get its name.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use qsf_format::human_bytes;
use serde_json::Value;

/// Bounds of a conversion. What misses one is written beside, under [`rejected_path`].
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Limits {
    /// Most mean KL divergence from the source, in nats per token; needs an evaluation.
    pub max_kld: Option<f64>,
    /// Most that the perplexity may grow; needs an evaluation.
    pub max_ppl_increase: Option<Percent>,
    /// Most bytes of the file.
    pub max_size: Option<u64>,
}

impl Limits {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        *self != Limits::default()
    }

    /// The limits that a file of so many `bytes` misses; `evaluation` is what section EVAL says of it. A figure that is
    /// missing or no number misses its limit.
    pub(crate) fn missed(&self, bytes: u64, evaluation: Option<&Value>) -> Vec<String> {
        let number = |pointer: &str| {
            let found = evaluation.and_then(|found| found.pointer(pointer));
            found.and_then(Value::as_f64).unwrap_or(f64::NAN)
        };
        let mut missed = Vec::new();
        let kld = number("/kld/mean");
        if let Some(most) = self.max_kld.filter(|most| kld.is_nan() || kld > *most) {
            missed.push(format!("KL divergence {kld:.6}, at most {most} (--max-kld)"));
        }
        let (ppl, base) = (number("/ppl"), number("/base_ppl"));
        let increase = 100.0 * (ppl / base - 1.0);
        // By a product: the quotient of 22 and 20 is more than 1.1 in floats.
        let too_much = |most: &Percent| increase.is_nan() || ppl > base * (1.0 + most.0 / 100.0);
        if let Some(Percent(most)) = self.max_ppl_increase.filter(too_much) {
            missed.push(format!("perplexity {increase:+.2} %, at most {most:+} % (--max-ppl-increase)"));
        }
        if let Some(most) = self.max_size.filter(|most| bytes > *most) {
            let (found, most) = (human_bytes(bytes), human_bytes(most));
            missed.push(format!("{found} ({bytes} bytes), at most {most} (--max-size)"));
        }
        missed
    }
}

/// A part of a hundred on a command line: `5%`, or `5`, which is the same.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Percent(pub f64);

impl FromStr for Percent {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let number = s.strip_suffix('%').unwrap_or(s).trim().parse::<f64>().ok();
        let percent = number.filter(|percent| percent.is_finite() && *percent >= 0.0);
        percent.map(Percent).ok_or_else(|| format!("'{s}' is no percentage such as 5%"))
    }
}

/// Where a file is kept that was to be `out` and misses its limits: `NAME.rejected.qsf` beside it.
pub fn rejected_path(out: &Path) -> PathBuf {
    let mut name = out.file_stem().unwrap_or_default().to_owned();
    name.push(".rejected");
    if let Some(extension) = out.extension() {
        name.push(".");
        name.push(extension);
    }
    out.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_met_at_its_value_and_missed_by_more_or_by_what_is_no_number() {
        let limits =
            Limits { max_kld: Some(0.1), max_ppl_increase: Some(Percent(10.0)), max_size: Some(1000) };
        let found = |kld: Value, ppl: f64| json!({ "kld": { "mean": kld }, "ppl": ppl, "base_ppl": 20.0 });
        assert_eq!(limits.missed(1000, Some(&found(json!(0.1), 22.0))), Vec::<String>::new());
        for (bytes, evaluation, says) in [
            (1001, Some(found(json!(0.1), 22.0)), vec!["--max-size"]),
            (1000, Some(found(json!(0.11), 22.0)), vec!["--max-kld"]),
            (1000, Some(found(json!(null), 22.1)), vec!["--max-kld", "--max-ppl-increase"]),
            (1000, None, vec!["--max-kld", "--max-ppl-increase"]),
        ] {
            let missed = limits.missed(bytes, evaluation.as_ref());
            assert_eq!(missed.len(), says.len(), "{missed:?}");
            assert!(missed.iter().zip(says).all(|(missed, says)| missed.contains(says)), "{missed:?}");
        }
        assert!(!Limits::default().any() && Limits::default().missed(u64::MAX, None).is_empty());
    }

    #[test]
    fn a_rejected_file_is_beside_the_name_that_it_did_not_get() {
        assert_eq!(rejected_path(Path::new("d/a.b.qsf")), Path::new("d/a.b.rejected.qsf"));
        assert_eq!(rejected_path(Path::new("plain")), Path::new("plain.rejected"));
    }

    #[test]
    fn percentages_are_read_with_and_without_their_sign() {
        assert_eq!("5%".parse(), Ok(Percent(5.0)));
        assert_eq!("2.5".parse(), Ok(Percent(2.5)));
        for wrong in ["", "%", "-1%", "nan", "inf", "5 percent"] {
            assert!(wrong.parse::<Percent>().is_err(), "{wrong}");
        }
    }
}
