//! Values of the types that safetensors has and QSF has not: double precision, and floats of 8 bits (OCP 8-bit Floating
//! Point Specification 1.0; the scale format E8M0 is that of the OCP Microscaling Formats Specification 1.0).

use qsf_format::QuantType;
use safetensors::Dtype;

use crate::tensor::{ForeignRows, ForeignType, StoredType, TensorBytes};
use qsf_cpu::Isa;

/// How a tensor of `dtype` is stored. Types that are not read have a name all the same, for messages.
pub(super) fn stored_type(dtype: Dtype) -> StoredType {
    let foreign = |name, quantized| StoredType::Foreign(ForeignType { name, quantized });
    match dtype {
        Dtype::F16 => QuantType::F16.into(),
        Dtype::BF16 => QuantType::Bf16.into(),
        Dtype::F32 => QuantType::F32.into(),
        Dtype::F64 => foreign("F64", false),
        Dtype::F8_E4M3 => foreign("F8_E4M3", true),
        Dtype::F8_E5M2 => foreign("F8_E5M2", true),
        Dtype::F8_E8M0 => foreign("F8_E8M0", true),
        Dtype::I8 => foreign("I8", true),
        Dtype::U8 => foreign("U8", true),
        Dtype::I16 => foreign("I16", true),
        Dtype::U16 => foreign("U16", true),
        Dtype::I32 => foreign("I32", true),
        Dtype::U32 => foreign("U32", true),
        Dtype::I64 => foreign("I64", true),
        Dtype::U64 => foreign("U64", true),
        _ => foreign("a type that is not read", true),
    }
}

/// Why bytes cannot be read as values.
#[derive(Debug)]
pub(super) enum Unread {
    /// The type.
    Type,
    /// Another count of bytes is needed; `None`: more than can be addressed.
    Length(Option<u64>),
}

/// Rows of F64 or of a float of 8 bits.
#[derive(Debug)]
pub(super) struct PlainRows {
    format: Format,
    stored: StoredType,
    cols: usize,
    bytes: TensorBytes,
}

#[derive(Debug, Clone, Copy)]
enum Format {
    F64,
    /// The value of each byte.
    Byte(&'static [f32; 256]),
}

impl PlainRows {
    /// Rows over `bytes`.
    ///
    /// # Errors
    /// The type is none of these, or `bytes` has another length.
    pub fn new(dtype: Dtype, rows: usize, cols: usize, bytes: TensorBytes) -> Result<PlainRows, Unread> {
        let format = match dtype {
            Dtype::F64 => Format::F64,
            Dtype::F8_E4M3 => Format::Byte(&E4M3),
            Dtype::F8_E5M2 => Format::Byte(&E5M2),
            Dtype::F8_E8M0 => Format::Byte(&E8M0),
            _ => return Err(Unread::Type),
        };
        let length = rows.checked_mul(cols).and_then(|count| count.checked_mul(width(format)));
        if length != Some(bytes.as_slice().len()) {
            return Err(Unread::Length(length.map(|length| length as u64)));
        }
        Ok(PlainRows { format, stored: stored_type(dtype), cols, bytes })
    }
}

fn width(format: Format) -> usize {
    match format {
        Format::F64 => size_of::<f64>(),
        Format::Byte(_) => 1,
    }
}

impl ForeignRows for PlainRows {
    fn stored_type(&self) -> StoredType {
        self.stored
    }

    fn row_bytes(&self) -> usize {
        self.cols * width(self.format)
    }

    fn decode_row(&self, _: Isa, row: usize, out: &mut [f32]) {
        assert_eq!(out.len(), self.cols, "values of a row");
        let bytes = &self.bytes.as_slice()[row * self.row_bytes()..][..self.row_bytes()];
        match self.format {
            Format::F64 => {
                let (values, _) = bytes.as_chunks();
                out.iter_mut().zip(values).for_each(|(out, value)| *out = f64::from_le_bytes(*value) as f32);
            }
            Format::Byte(values) => {
                out.iter_mut().zip(bytes).for_each(|(out, &byte)| *out = values[usize::from(byte)]);
            }
        }
    }
}

static E4M3: [f32; 256] = table(4, 3, 7, false);
static E5M2: [f32; 256] = table(5, 2, 15, true);
static E8M0: [f32; 256] = scales();

/// The value of every byte with a sign, `exponent` and `mantissa` bits. With `infinities`, the highest exponent means
/// infinity or not a number, as in IEEE 754; without, only the highest byte of each sign is not a number.
const fn table(exponent: u32, mantissa: u32, bias: i32, infinities: bool) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        let magnitude = byte as u32 & 0x7f;
        let (high, low) = (magnitude >> mantissa, magnitude & ((1 << mantissa) - 1));
        let highest = high == (1 << exponent) - 1;
        let value = if infinities && highest {
            if low == 0 { f32::INFINITY } else { f32::NAN }
        } else if !infinities && magnitude == 0x7f {
            f32::NAN
        } else if high == 0 {
            low as f32 * power_of_two(1 - bias - mantissa as i32)
        } else {
            (low + (1 << mantissa)) as f32 * power_of_two(high as i32 - bias - mantissa as i32)
        };
        values[byte] = if byte >= 128 { -value } else { value };
        byte += 1;
    }
    values
}

/// Powers of two from 2^-127 to 2^127; the last byte is not a number.
const fn scales() -> [f32; 256] {
    let mut values = [f32::NAN; 256];
    let mut byte = 0;
    while byte < 255 {
        values[byte] = power_of_two(byte as i32 - 127);
        byte += 1;
    }
    values
}

/// 2^`exponent`, from -149 to 127.
const fn power_of_two(exponent: i32) -> f32 {
    if exponent >= -126 {
        f32::from_bits(((exponent + 127) as u32) << 23)
    } else {
        f32::from_bits(1 << (exponent + 149))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(dtype: Dtype, bytes: Vec<u8>, cols: usize) -> Vec<f32> {
        let rows = PlainRows::new(dtype, 1, cols, bytes.into()).unwrap();
        let mut out = vec![0.0; cols];
        rows.decode_row(Isa::best(), 0, &mut out);
        out
    }

    #[test]
    fn floats_of_8_bits_have_the_values_of_the_tables_in_their_specification() {
        // OCP 8-bit Floating Point Specification 1.0, tables 1 and 2: largest normal, smallest normal, largest and
        // smallest subnormal, zero, and what is no number.
        let e4m3 = values(Dtype::F8_E4M3, vec![0x7e, 0x08, 0x07, 0x01, 0x00, 0x80, 0xfe, 0x38], 8);
        let expected = [448.0, 2f32.powi(-6), 0.875 * 2f32.powi(-6), 2f32.powi(-9), 0.0, -0.0, -448.0, 1.0];
        assert_eq!(bits(&e4m3), bits(&expected));
        let e5m2 = values(Dtype::F8_E5M2, vec![0x7b, 0x04, 0x03, 0x01, 0x7c, 0xfc, 0xbc, 0x3d], 8);
        let small = 2f32.powi(-16);
        let expected =
            [57344.0, 2f32.powi(-14), 3.0 * small, small, f32::INFINITY, f32::NEG_INFINITY, -1.0, 1.25];
        assert_eq!(bits(&e5m2), bits(&expected));
        let nans = [values(Dtype::F8_E4M3, vec![0x7f, 0xff], 2), values(Dtype::F8_E5M2, vec![0x7d, 0xff], 2)];
        assert!(nans.iter().flatten().all(|value| value.is_nan()));
        assert_eq!(
            values(Dtype::F8_E8M0, vec![0, 1, 127, 254], 4),
            [2f32.powi(-127), 2f32.powi(-126), 1.0, 2f32.powi(127)]
        );
        assert!(values(Dtype::F8_E8M0, vec![255], 1)[0].is_nan());
    }

    #[test]
    fn doubles_are_rounded_to_the_nearest_float() {
        let numbers = [0.1f64, -1e300, 1e-60, 1.0 + 2f64.powi(-24) + 2f64.powi(-40)];
        let bytes = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let expected = [0.1f32, f32::NEG_INFINITY, 0.0, 1.0 + f32::EPSILON];
        assert_eq!(values(Dtype::F64, bytes, 4), expected);
    }

    #[test]
    fn bytes_of_another_length_or_type_are_no_rows() {
        let new = |dtype, rows, cols, bytes| PlainRows::new(dtype, rows, cols, vec![0; bytes].into());
        assert!(matches!(new(Dtype::F64, 2, 3, 47), Err(Unread::Length(Some(48)))));
        assert!(matches!(new(Dtype::F64, usize::MAX, 3, 48), Err(Unread::Length(None))));
        assert!(matches!(new(Dtype::I32, 1, 1, 4), Err(Unread::Type)));
    }

    fn bits(values: &[f32]) -> Vec<u32> {
        values.iter().map(|value| value.to_bits()).collect()
    }
}
