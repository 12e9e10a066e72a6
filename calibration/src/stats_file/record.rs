//! Records of a statistics file, as bytes.

use std::io::{self, Read};
use std::path::Path;

use qsf_runtime::cpu::{OutOfMemory, zeros};
use qsf_runtime::{LinearInput, RuntimeError};

use crate::moments::Moments;

/// Bytes of a record before its sums.
pub(super) const HEAD_BYTES: usize = 24;
/// The head, as a layer.
const NO_LAYER: u32 = u32::MAX;
const INFLUENCE: u8 = 254;
const END: u8 = 255;

/// What is wrong with the bytes of a file.
#[derive(Debug)]
pub(super) enum Malformed {
    Io(io::Error),
    Wrong { place: String, expected: String, found: String },
    Memory(OutOfMemory),
}

impl Malformed {
    pub fn new(place: impl Into<String>, expected: impl ToString, found: impl ToString) -> Malformed {
        Malformed::Wrong { place: place.into(), expected: expected.to_string(), found: found.to_string() }
    }

    /// As an error of the file `path`.
    pub fn at(self, path: &Path) -> RuntimeError {
        match self {
            Malformed::Io(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                RuntimeError::bad_input(path, "the end of the file", "whole statistics", "a part of them")
            }
            Malformed::Io(e) => RuntimeError::io(path, "read", e),
            Malformed::Wrong { place, expected, found } => {
                RuntimeError::bad_input(path, place, expected, found)
            }
            Malformed::Memory(e) => e.into(),
        }
    }
}

impl From<io::Error> for Malformed {
    fn from(e: io::Error) -> Malformed {
        Malformed::Io(e)
    }
}

impl From<OutOfMemory> for Malformed {
    fn from(e: OutOfMemory) -> Malformed {
        Malformed::Memory(e)
    }
}

/// What a record holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Influence,
    Input(LinearInput),
    End,
}

/// The head of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    pub layer: Option<u32>,
    pub what: What,
    pub products: bool,
    pub cols: u32,
    pub tokens: u64,
}

impl Head {
    pub fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let (which, expert) = match self.what {
            What::Influence => (INFLUENCE, 0),
            What::End => (END, 0),
            What::Input(LinearInput::Attention) => (0, 0),
            What::Input(LinearInput::AttnOutput) => (1, 0),
            What::Input(LinearInput::Ffn) => (2, 0),
            What::Input(LinearInput::FfnDown) => (3, 0),
            What::Input(LinearInput::ExpertFfn(expert)) => (4, expert),
            What::Input(LinearInput::ExpertDown(expert)) => (5, expert),
            What::Input(LinearInput::Head) => (6, 0),
            What::Input(LinearInput::QueryLatent) => (10, 0),
            What::Input(LinearInput::KeyUp) => (11, 0),
            What::Input(LinearInput::ValueUp) => (12, 0),
            What::Input(LinearInput::PerLayerGate) => (13, 0),
            What::Input(LinearInput::PerLayerUp) => (14, 0),
            What::Input(LinearInput::Experts) => (15, 0),
            What::Input(LinearInput::MixerOutput) => (16, 0),
            What::Input(LinearInput::MixerSelect) => (17, 0),
            What::Input(LinearInput::MixerStep) => (18, 0),
            What::Input(LinearInput::LaurelUp) => (19, 0),
            What::Input(LinearInput::MixerGate) => (20, 0),
        };
        let mut bytes = [0; HEAD_BYTES];
        bytes[..4].copy_from_slice(&self.layer.unwrap_or(NO_LAYER).to_le_bytes());
        bytes[4] = which;
        bytes[5] = u8::from(self.products);
        bytes[8..12].copy_from_slice(&expert.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.cols.to_le_bytes());
        bytes[16..].copy_from_slice(&self.tokens.to_le_bytes());
        bytes
    }

    /// The head that these bytes are; every head has exactly one form.
    pub fn parse(bytes: &[u8; HEAD_BYTES]) -> Result<Head, Malformed> {
        let field = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (layer, expert, cols) = (field(0), field(8), field(12));
        let tokens = u64::from(field(16)) | u64::from(field(20)) << 32;
        let what = match bytes[4] {
            0 => What::Input(LinearInput::Attention),
            1 => What::Input(LinearInput::AttnOutput),
            2 => What::Input(LinearInput::Ffn),
            3 => What::Input(LinearInput::FfnDown),
            4 => What::Input(LinearInput::ExpertFfn(expert)),
            5 => What::Input(LinearInput::ExpertDown(expert)),
            6 => What::Input(LinearInput::Head),
            10 => What::Input(LinearInput::QueryLatent),
            11 => What::Input(LinearInput::KeyUp),
            12 => What::Input(LinearInput::ValueUp),
            13 => What::Input(LinearInput::PerLayerGate),
            14 => What::Input(LinearInput::PerLayerUp),
            15 => What::Input(LinearInput::Experts),
            16 => What::Input(LinearInput::MixerOutput),
            17 => What::Input(LinearInput::MixerSelect),
            18 => What::Input(LinearInput::MixerStep),
            19 => What::Input(LinearInput::LaurelUp),
            20 => What::Input(LinearInput::MixerGate),
            INFLUENCE => What::Influence,
            END => What::End,
            which => {
                return Err(Malformed::new("the kind of a record", "0 to 6, 10 to 20, 254 or 255", which));
            }
        };
        let head =
            Head { layer: (layer != NO_LAYER).then_some(layer), what, products: bytes[5] == 1, cols, tokens };
        let of_model = matches!(what, What::End | What::Input(LinearInput::Head));
        let (cols_fit, may_have_products) = match what {
            What::Influence => (cols == 1, false),
            What::End => (cols == 0, false),
            What::Input(_) => (cols > 0, true),
        };
        let whole = of_model == head.layer.is_none()
            && cols_fit
            && (may_have_products || !head.products)
            && head.to_bytes() == *bytes;
        if whole { Ok(head) } else { Err(Malformed::new("the head of a record", "fields that agree", head)) }
    }

    /// Bytes of the sums; `None`: more than can be counted.
    pub fn body_bytes(&self) -> Option<u64> {
        let cols = u64::from(self.cols);
        match self.what {
            What::Influence => Some(8),
            What::End => Some(0),
            What::Input(_) => {
                let products = if self.products { cols.checked_mul(cols + 1)?.checked_mul(2)? } else { 0 };
                products.checked_add(16 * cols)
            }
        }
    }

    /// Where the record belongs among the others.
    pub fn order(&self) -> (u32, u8, u32, u8) {
        let bytes = self.to_bytes();
        let expert = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        // Influence before inputs, the end behind all.
        let kind = match self.what {
            What::Influence => 0,
            What::Input(_) => 1,
            What::End => 2,
        };
        let which = if kind == 1 { bytes[4] + 1 } else { kind };
        (self.layer.unwrap_or(NO_LAYER), if kind == 2 { u8::MAX } else { which }, expert, kind)
    }
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "layer {layer} ")?,
            None => f.write_str("the model's ")?,
        }
        write!(f, "{:?} of {} columns and {} tokens", self.what, self.cols, self.tokens)
    }
}

/// Writes the sums of `moments`, in the order of a record, to `put`.
pub(super) fn put_moments<E>(
    moments: &Moments,
    mut put: impl FnMut(&[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let (sums, squares, products) = moments.parts();
    for values in [sums, squares] {
        put(&values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())?;
    }
    let n = sums.len();
    for (i, row) in products.into_iter().flat_map(|products| products.chunks_exact(n)).enumerate() {
        put(&row[i..].iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>())?;
    }
    Ok(())
}

/// Reads the sums of a record whose bytes are known to be there.
pub(super) fn read_moments(head: &Head, from: &mut impl Read) -> Result<Moments, Malformed> {
    let n = head.cols as usize;
    let wide = |from: &mut dyn Read| -> Result<Vec<f64>, Malformed> {
        let mut bytes = vec![0; 8 * n];
        from.read_exact(&mut bytes)?;
        Ok(bytes.as_chunks::<8>().0.iter().map(|value| f64::from_le_bytes(*value)).collect())
    };
    let (sums, squares) = (wide(from)?, wide(from)?);
    let products = if head.products {
        let mut products = zeros(n.saturating_mul(n), "second moments")?;
        let mut bytes = vec![0; 4 * n];
        for (i, row) in products.chunks_exact_mut(n).enumerate() {
            let bytes = &mut bytes[..4 * (n - i)];
            from.read_exact(bytes)?;
            for (value, bytes) in row[i..].iter_mut().zip(bytes.as_chunks::<4>().0) {
                *value = f32::from_le_bytes(*bytes);
            }
        }
        Some(products)
    } else {
        None
    };
    Ok(Moments::from_parts(head.tokens, sums, squares, products))
}
