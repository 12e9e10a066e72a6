//! Section EXIT: by what a token may be known to be decided before the last layer, one linear classifier behind each of some
//! layers (SPEC.md section 7.10).

/// The version of the section that is written and read.
const VERSION: u32 = 1;
/// Bytes before the records.
const HEADER_BYTES: usize = 16;
/// Bytes of a record before its weights.
const RECORD_HEAD_BYTES: usize = 12;

/// Where a model may be left early.
#[derive(Debug, Clone, PartialEq)]
pub struct EarlyExits {
    /// Values of a classifier: the columns of the head.
    pub cols: u32,
    /// Positions of a text that the agreements were counted on.
    pub positions: u32,
    /// By ascending layers.
    pub exits: Vec<LayerExit>,
}

/// The classifier behind one layer.
///
/// With x what leaves the layer, behind the final norm, `1 / (1 + e^-(weights . x + bias))` is how likely the likeliest token
/// of the head on x is that of the head behind all layers.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerExit {
    /// The layer.
    pub layer: u32,
    /// Of the positions, those where both tokens were the same.
    pub agreeing: u32,
    /// Added to the product.
    pub bias: f32,
    /// One per column.
    pub weights: Vec<f32>,
}

/// Offset in the section, what was expected there and what was found.
type Wrong = (usize, String, String);

impl EarlyExits {
    /// Size of a section of so many classifiers; the largest number where it is beyond all numbers.
    pub fn section_bytes(count: u32, cols: u32) -> u64 {
        u64::from(count).saturating_mul(record_bytes(cols)).saturating_add(HEADER_BYTES as u64)
    }

    /// The bytes of the section, of a model of `layers` layers.
    ///
    /// # Errors
    /// What the format cannot hold.
    pub fn to_bytes(&self, layers: u32) -> Result<Vec<u8>, String> {
        let count = u32::try_from(self.exits.len()).map_err(|_| format!("{} exits", self.exits.len()))?;
        let mut bytes: Vec<u8> =
            [VERSION, self.cols, self.positions, count].iter().flat_map(|n| n.to_le_bytes()).collect();
        for exit in &self.exits {
            bytes.extend(
                [exit.layer, exit.agreeing, exit.bias.to_bits()].iter().flat_map(|n| n.to_le_bytes()),
            );
            bytes.extend(exit.weights.iter().flat_map(|weight| weight.to_le_bytes()));
        }
        match EarlyExits::parse(&bytes, layers, self.cols) {
            Ok(read) if read == *self => Ok(bytes),
            Ok(_) => Err("weights that are no row for each exit".into()),
            Err((at, expected, found)) => Err(format!("at byte {at} expected {expected}, found {found}")),
        }
    }

    /// Reads a section of a model of `layers` layers and hidden states of `cols` values.
    ///
    /// # Errors
    /// The first field that is wrong. No memory is taken before the length fits the counts.
    pub(crate) fn parse(bytes: &[u8], layers: u32, cols: u32) -> Result<EarlyExits, Wrong> {
        let wrong = |at: usize, expected: String, found: String| Err((at, expected, found));
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return wrong(0, format!("at least {HEADER_BYTES} bytes"), format!("{} bytes", bytes.len()));
        };
        let field = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|b| header[4 * i + b]));
        let [version, found_cols, positions, count] = std::array::from_fn(field);
        if version != VERSION {
            return wrong(0, format!("version {VERSION}"), version.to_string());
        }
        if found_cols != cols {
            return wrong(4, format!("{cols} columns as in the header"), found_cols.to_string());
        }
        if count == 0 || count >= layers {
            return wrong(12, format!("1 to {} exits", layers.saturating_sub(1)), count.to_string());
        }
        // No section is as long as what saturates.
        let expected = EarlyExits::section_bytes(count, cols);
        if bytes.len() as u64 != expected {
            return wrong(0, format!("{expected} bytes by the counts"), format!("{} bytes", bytes.len()));
        }
        let record = record_bytes(cols) as usize;
        let mut exits: Vec<LayerExit> = Vec::with_capacity(count as usize);
        for (i, bytes) in bytes[HEADER_BYTES..].chunks_exact(record).enumerate() {
            let at = HEADER_BYTES + i * record;
            let (head, weights) = bytes.split_at(RECORD_HEAD_BYTES);
            let field = |i: usize| u32::from_le_bytes([0, 1, 2, 3].map(|b| head[4 * i + b]));
            let [layer, agreeing, bias] = std::array::from_fn(field);
            let least = exits.last().map_or(0, |before| before.layer + 1);
            if layer < least || layer >= layers - 1 {
                let expected = format!("a layer from {least} to {}", layers.saturating_sub(2));
                return wrong(at, expected, layer.to_string());
            }
            if agreeing > positions {
                return wrong(at + 4, format!("at most {positions} positions"), agreeing.to_string());
            }
            let bias = f32::from_bits(bias);
            let weights: Vec<f32> = weights.as_chunks().0.iter().map(|w| f32::from_le_bytes(*w)).collect();
            let values = [bias].into_iter().chain(weights.iter().copied());
            if let Some((j, value)) = values.enumerate().find(|(_, value)| !value.is_finite()) {
                return wrong(at + 8 + 4 * j, "a finite number".into(), value.to_string());
            }
            exits.push(LayerExit { layer, agreeing, bias, weights });
        }
        Ok(EarlyExits { cols, positions, exits })
    }
}

/// Bytes of a record.
fn record_bytes(cols: u32) -> u64 {
    RECORD_HEAD_BYTES as u64 + 4 * u64::from(cols)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const COLS: u32 = 3;
    const LAYERS: u32 = 6;

    fn exits() -> EarlyExits {
        let exit = |layer, agreeing| LayerExit {
            layer,
            agreeing,
            bias: -0.5,
            weights: (0..COLS).map(|i| i as f32 * 0.25).collect(),
        };
        EarlyExits { cols: COLS, positions: 100, exits: vec![exit(1, 20), exit(2, 15), exit(4, 100)] }
    }

    #[test]
    fn exits_come_back_in_the_stated_bytes() {
        let bytes = exits().to_bytes(LAYERS).unwrap();
        assert_eq!(bytes.len() as u64, EarlyExits::section_bytes(3, COLS));
        assert_eq!(bytes.len(), 16 + 3 * (12 + 4 * 3));
        assert_eq!(EarlyExits::parse(&bytes, LAYERS, COLS), Ok(exits()));
    }

    #[test]
    fn every_wrong_field_is_refused_at_its_byte() {
        let good = exits().to_bytes(LAYERS).unwrap();
        let with = |i: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[i] = value;
            EarlyExits::parse(&bytes, LAYERS, COLS).unwrap_err().0
        };
        assert_eq!(with(0, 2), 0, "a later version");
        assert_eq!(with(4, 4), 4, "other columns than the model");
        assert_eq!(with(8, 99), 68, "more agreeing positions than there are");
        assert_eq!(with(12, 0), 12, "no exit");
        assert_eq!(with(12, 6), 12, "an exit behind every layer");
        assert_eq!(with(12, 2), 0, "a length that the counts do not make");
        assert_eq!(with(40, 1), 40, "layers out of order");
        assert_eq!(with(64, 5), 64, "behind the last layer");
        for (at, value) in [(24, f32::INFINITY), (32, f32::NAN)] {
            let mut bytes = good.clone();
            bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
            assert_eq!(EarlyExits::parse(&bytes, LAYERS, COLS).unwrap_err().0, at, "bias or weight {value}");
        }
        for len in 0..good.len() {
            EarlyExits::parse(&good[..len], LAYERS, COLS).unwrap_err();
        }
        // Counts whose sizes exceed every memory are refused by the length alone.
        let mut huge = good[..16].to_vec();
        huge[4..8].fill(0xFF);
        huge[12..16].copy_from_slice(&(u32::MAX - 1).to_le_bytes());
        let (at, expected, _) = EarlyExits::parse(&huge, u32::MAX, u32::MAX).unwrap_err();
        assert!(at == 0 && expected.contains("bytes by the counts"), "{expected}");
        EarlyExits::parse(&good, 0, COLS).unwrap_err();
        EarlyExits::parse(&good, 1, COLS).unwrap_err();
    }

    #[test]
    fn what_the_format_cannot_hold_is_not_written() {
        let mut short = exits();
        short.exits[1].weights.pop();
        short.to_bytes(LAYERS).unwrap_err();
        let mut none = exits();
        none.exits.clear();
        none.to_bytes(LAYERS).unwrap_err();
        exits().to_bytes(5).unwrap_err();
    }
}
