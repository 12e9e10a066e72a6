//! Sizes on command lines, by one rule for all of them.

use std::str::FromStr;

/// A number of bytes on a command line: `24MB`, `1.5 GiB`, `800k`. Units of 1000, or of 1024 with an i. A number alone is
/// megabytes, as `--ram-budget` has had it from the first version on; one that is more likely meant as bytes is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// From here on a number alone is too large to be megabytes: 100 GB.
const MOST_BARE: f64 = 100_000.0;

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let error = || format!("'{s}' is no size such as 500kB, 24MB or 1.5GiB");
        let text = s.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.trim().to_ascii_lowercase();
        let scale = match unit.strip_suffix('b').unwrap_or(&unit) {
            "" if unit == "b" => 1,
            "" => 1_000_000,
            "k" => 1_000,
            "m" => 1_000_000,
            "g" => 1_000_000_000,
            "t" => 1_000_000_000_000,
            "ki" => 1 << 10,
            "mi" => 1 << 20,
            "gi" => 1 << 30,
            "ti" => 1 << 40,
            _ => return Err(error()),
        };
        let value = number.parse::<f64>().map_err(|_| error())?;
        if unit.is_empty() && value >= MOST_BARE {
            return Err(format!(
                "'{s}' has no unit, and a number alone is megabytes: write {s}B, or {number}MB"
            ));
        }
        // A fraction of a byte is dropped. Whole numbers do not go through floats, which lose digits.
        let bytes = match number.parse::<u64>() {
            Ok(number) => number.checked_mul(scale).ok_or_else(error)?,
            Err(_) => {
                let bytes = value * scale as f64;
                if bytes < u64::MAX as f64 { bytes as u64 } else { return Err(error()) }
            }
        };
        Ok(ByteSize(bytes))
    }
}

/// A size that something has to fit in.
pub fn positive_size(text: &str) -> Result<ByteSize, String> {
    match text.parse()? {
        ByteSize(0) => Err(format!("'{text}' is nothing: expected a size such as 200MB")),
        size => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        let bytes = |s: &str| s.parse::<ByteSize>().map(|size| size.0).ok();
        assert_eq!(bytes("24.52MB"), Some(24_520_000));
        assert_eq!(bytes("24 mb"), Some(24_000_000));
        assert_eq!(bytes("1.5GiB"), Some(3 << 29));
        assert_eq!(bytes("8G"), Some(8_000_000_000));
        assert_eq!(bytes("4096B"), Some(4096));
        assert_eq!(bytes("18446744073709551615b"), Some(u64::MAX));
        for wrong in
            ["", "MB", "-1", "1.2.3MB", "12 parsecs", "1e9", "18446744073709551616B", "99999999TiB", "nan"]
        {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_number_alone_is_megabytes_unless_it_must_be_bytes() {
        let bytes = |s: &str| s.parse::<ByteSize>().map(|size| size.0);
        assert_eq!(bytes("200"), Ok(200_000_000));
        assert_eq!(bytes("1.5"), Ok(1_500_000));
        let error = bytes("500000").unwrap_err();
        assert!(error.contains("a number alone is megabytes: write 500000B"), "{error}");
        assert_eq!(positive_size("0"), Err("'0' is nothing: expected a size such as 200MB".into()));
    }
}
