//! How a matrix is stored: in a type, and with a share of its weights apart from the blocks (SPEC.md section 7.8).
//! Written `n3` or `n3+0.5%`; with rows in other types as `finer_rows` says.

use std::fmt;
use std::str::FromStr;

use qsf_format::{BlockSize, MAX_OUTLIER_COLS, Outliers, QuantType};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::finer_rows::FinerRows;
use super::recipe::{by_alias, unknown_type};
use super::tensor_type::{TensorType, names_of_others};

/// A part of the weights of a matrix, in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct OutlierShare(u32);

impl OutlierShare {
    /// None.
    pub const NONE: OutlierShare = OutlierShare(0);
    /// More would cost more than a type of one bit more does.
    const MOST: u32 = 50_000;

    /// So many millionths of the weights.
    pub const fn millionths(count: u32) -> OutlierShare {
        OutlierShare(count)
    }

    /// Whether it is none.
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// The number of weights of a matrix of this shape, rounded down.
    pub fn count(self, rows: usize, cols: usize) -> usize {
        (rows as u128 * cols as u128 * u128::from(self.0) / 1_000_000) as usize
    }
}

impl fmt::Display for OutlierShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = format!("{}.{:04}", self.0 / 10_000, self.0 % 10_000);
        write!(f, "{}%", decimals.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl FromStr for OutlierShare {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let percent = s.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let millionths = percent.map(|percent| (percent * 10_000.0).round());
        match millionths.filter(|millionths| (0.0..=f64::from(Self::MOST)).contains(millionths)) {
            Some(millionths) => Ok(OutlierShare(millionths as u32)),
            None => Err(format!("'{s}' is not a share of the weights from 0% to 5%, such as 0.5%")),
        }
    }
}

/// A type, and the share of the weights that is stored apart from its blocks, or the rows that are in other types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoredForm {
    /// Type of the blocks.
    pub quant: TensorType,
    /// What is stored apart.
    pub outliers: OutlierShare,
    /// Rows in other types; then nothing is stored apart.
    pub finer: FinerRows,
}

impl StoredForm {
    /// Bytes that a matrix of this shape adds to section OUTL.
    pub fn outlier_bytes(&self, rows: usize, cols: usize) -> u64 {
        match self.outliers_in(cols).count(rows, cols) {
            0 => 0,
            count => Outliers::record_bytes(rows as u64, count as u64),
        }
    }

    /// Bytes of a matrix of this shape; `None` beyond `u64`.
    pub fn bytes(&self, block: BlockSize, rows: usize, cols: usize) -> Option<u64> {
        let others = (rows as u64).checked_sub(self.finer.rows())?;
        let blocks = self.quant.tensor_bytes(block, others, cols as u64)?;
        blocks.checked_add(self.outlier_bytes(rows, cols))?.checked_add(self.finer.bytes(block, rows, cols)?)
    }

    /// What is stored apart of a matrix of so many columns: nothing of floats, nor of more columns than the format counts.
    pub fn outliers_in(&self, cols: usize) -> OutlierShare {
        let unsuitable = self.quant.qsf().is_none_or(QuantType::is_float) || !self.finer.is_none();
        if unsuitable || cols > MAX_OUTLIER_COLS { OutlierShare::NONE } else { self.outliers }
    }
}

impl From<QuantType> for StoredForm {
    fn from(quant: QuantType) -> StoredForm {
        TensorType::from(quant).into()
    }
}

impl From<TensorType> for StoredForm {
    fn from(quant: TensorType) -> StoredForm {
        StoredForm { quant, outliers: OutlierShare::NONE, finer: FinerRows::NONE }
    }
}

/// A type, the share of outliers where it says one, and rows in other types.
pub(super) fn parse_form(text: &str) -> Result<(TensorType, Option<OutlierShare>, FinerRows), String> {
    let (finer, rest) = FinerRows::parse(text)?;
    let (name, share) = rest.split_once('+').map_or((rest, None), |(name, share)| (name, Some(share)));
    let name = name.trim();
    let quant = match by_alias(name) {
        Some(quant) => quant.into(),
        None => name
            .parse::<TensorType>()
            .map_err(|_| format!("{}; {}", unknown_type(name), names_of_others()))?,
    };
    let share = share.map(|share| share.trim().parse::<OutlierShare>()).transpose()?;
    if quant.qsf().is_none_or(QuantType::is_float) && share.is_some() {
        return Err(format!("'{text}': weights are stored apart from blocks, and {quant} has none"));
    }
    if share.is_some() && !finer.is_none() {
        return Err(format!("'{text}': a matrix with rows in several types has no outliers"));
    }
    Ok((quant, share, finer))
}

impl fmt::Display for StoredForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.outliers.is_none() {
            true => write!(f, "{}{}", self.finer, self.quant),
            false => write!(f, "{}+{}", self.quant, self.outliers),
        }
    }
}

impl Serialize for StoredForm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for StoredForm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<StoredForm, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (quant, outliers, finer) = parse_form(&text).map_err(serde::de::Error::custom)?;
        Ok(StoredForm { quant, outliers: outliers.unwrap_or_default(), finer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_forms_come_back_from_their_text_and_wrong_ones_are_refused() {
        for (text, millionths) in [("0.5%", 5_000), ("0.1%", 1_000), ("5%", 50_000), ("0.0001%", 1)] {
            assert_eq!(text.parse(), Ok(OutlierShare(millionths)));
            assert_eq!(OutlierShare(millionths).to_string(), text);
        }
        for wrong in ["0.5", "6%", "-1%", "nan%", "%", ""] {
            assert!(wrong.parse::<OutlierShare>().unwrap_err().contains("0.5%"), "{wrong}");
        }
        let form = StoredForm { outliers: OutlierShare(5_000), ..QuantType::N3.into() };
        assert_eq!(serde_json::to_string(&form).unwrap(), "\"n3+0.5%\"");
        assert_eq!(serde_json::from_str::<StoredForm>("\"n3+0.5%\"").unwrap(), form);
        assert_eq!(serde_json::from_str::<StoredForm>("\"n3\"").unwrap(), QuantType::N3.into());
        assert!(parse_form("f16+1%").unwrap_err().contains("f16 has none"));
        let (_, _, finer) = parse_form("n5:16/n3").unwrap();
        let split = StoredForm { finer, ..QuantType::N3.into() };
        assert_eq!(serde_json::to_string(&split).unwrap(), "\"n5:16/n3\"");
        assert_eq!(serde_json::from_str::<StoredForm>("\"n5:16/n3\"").unwrap(), split);
        assert!(parse_form("n5:16/n3+1%").unwrap_err().contains("no outliers"));
    }

    #[test]
    fn bytes_are_those_of_blocks_and_of_the_record() {
        let form = StoredForm { outliers: OutlierShare(5_000), ..QuantType::N3.into() };
        let blocks = 100 * (2 + 32 * 13);
        assert_eq!(form.bytes(BlockSize::B64, 100, 1024), Some(blocks + 8 + 2 * 100 + 4 * 512));
        assert_eq!(StoredForm::from(QuantType::N3).bytes(BlockSize::B64, 100, 1024), Some(blocks));
        let float = StoredForm { quant: QuantType::F16.into(), ..form };
        assert_eq!(float.bytes(BlockSize::B64, 100, 1024), Some(2 * 100 * 1024));
        assert!(form.outliers_in(70_000).is_none());
        let (_, _, finer) = parse_form("n5:16/n3").unwrap();
        let split = StoredForm { finer, ..QuantType::N3.into() };
        let n5 = QuantType::N5.tensor_bytes(BlockSize::B64, 16, 1024).unwrap();
        assert_eq!(split.bytes(BlockSize::B64, 100, 1024), Some(84 * (2 + 32 * 13) + n5 + 8 + 25));
    }
}
