//! Sizes on command lines.

use std::str::FromStr;

/// A number of bytes on a command line: `24MB`, `1.5 GiB`, `800k`, `4096`. Units of 1000, or of 1024 with an i.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let error = || format!("'{s}' is no size such as 24MB, 1.5GiB or 4096 (bytes)");
        let end = s.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(s.len());
        let (number, unit) = s.split_at(end);
        let unit = unit.trim().to_ascii_lowercase();
        let scale = match unit.strip_suffix('b').unwrap_or(&unit) {
            "" => 1,
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
        // A fraction of a byte is dropped. Whole numbers do not go through floats, which lose digits.
        let bytes = match number.parse::<u64>() {
            Ok(number) => number.checked_mul(scale).ok_or_else(error)?,
            Err(_) => {
                let bytes = number.parse::<f64>().map_err(|_| error())? * scale as f64;
                if bytes < u64::MAX as f64 { bytes as u64 } else { return Err(error()) }
            }
        };
        Ok(ByteSize(bytes))
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
        assert_eq!(bytes("18446744073709551615"), Some(u64::MAX));
        for wrong in
            ["", "MB", "-1", "1.2.3MB", "12 parsecs", "1e9", "18446744073709551616", "99999999TiB", "nan"]
        {
            assert_eq!(bytes(wrong), None, "{wrong}");
        }
    }
}
