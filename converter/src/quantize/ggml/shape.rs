//! What the block types of ggml are, as a quantizer sees them: `scale * level - offset` in groups of 16 or 32 columns.

use qsf_runtime::cpu::vector::Vector;
use qsf_runtime::ggml::{FOUR_BIT_CODES, GgmlType};

use super::super::block;
use super::super::levels::{Levels, Table};
use super::super::vectors::{clamp, round};

/// Columns of a block with scales over its scales.
pub(super) const SUPER: usize = 256;

/// A type.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Shape {
    /// Columns that share a scale: 16 or 32.
    pub group: usize,
    /// What the codes stand for.
    pub form: Form,
    /// How scales are stored.
    pub scales: ScaleForm,
    /// Whether values have an offset.
    pub offset: bool,
    /// The least scale worth trying, as a part of the one that clips nothing: fewer levels want more clipping.
    pub clipped: f32,
}

/// What codes stand for.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum Form {
    /// Whole numbers.
    Integers { low: f32, high: f32 },
    /// The 16 levels of `IQ4_NL` and `IQ4_XS`.
    Table,
    /// Twice the values of 4-bit floats with two bits of exponent.
    Floats,
}

/// How scales are stored.
#[derive(Debug, Clone, Copy)]
pub(in super::super) enum ScaleForm {
    /// A binary16 number for each group.
    Half,
    /// A power of two for each group.
    Power,
    /// A whole number for each group, times a binary16 number for 256 columns.
    Integer {
        low: f32,
        high: f32,
        /// The largest offset; 0 without.
        offset: f32,
    },
}

/// The shape of a type that there is a quantizer for.
pub(super) fn shape_of(ty: GgmlType) -> Option<Shape> {
    let integers = |low, high| Form::Integers { low, high };
    let half = |form, offset, clipped| Shape { group: 32, form, scales: ScaleForm::Half, offset, clipped };
    let k = |group, form, (low, high, offset), clipped| Shape {
        group,
        form,
        scales: ScaleForm::Integer { low, high, offset },
        offset: offset > 0.0,
        clipped,
    };
    Some(match ty {
        GgmlType::Q4_0 => half(integers(-8.0, 7.0), false, 0.7),
        GgmlType::Q4_1 => half(integers(0.0, 15.0), true, 0.8),
        GgmlType::Q5_0 => half(integers(-16.0, 15.0), false, 0.8),
        GgmlType::Q5_1 => half(integers(0.0, 31.0), true, 0.9),
        GgmlType::Q8_0 => half(integers(-127.0, 127.0), false, 0.96),
        GgmlType::IQ4_NL => half(Form::Table, false, 0.65),
        GgmlType::IQ4_XS => k(32, Form::Table, (-32.0, 31.0, 0.0), 0.65),
        GgmlType::Q2_K => k(16, integers(0.0, 3.0), (0.0, 15.0, 15.0), 0.5),
        GgmlType::Q3_K => k(16, integers(-4.0, 3.0), (-32.0, 31.0, 0.0), 0.5),
        GgmlType::Q4_K => k(32, integers(0.0, 15.0), (0.0, 63.0, 63.0), 0.75),
        GgmlType::Q5_K => k(32, integers(0.0, 31.0), (0.0, 63.0, 63.0), 0.85),
        GgmlType::Q6_K => k(16, integers(-32.0, 31.0), (-128.0, 127.0, 0.0), 0.85),
        // One scale for 256 columns: 1 times the block's.
        GgmlType::TQ1_0 | GgmlType::TQ2_0 => k(32, integers(-1.0, 1.0), (1.0, 1.0, 0.0), 0.4),
        GgmlType::MXFP4 => {
            Shape { group: 32, form: Form::Floats, scales: ScaleForm::Power, offset: false, clipped: 0.5 }
        }
        _ => return None,
    })
}

/// Neighbouring whole numbers.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct Integers {
    pub low: f32,
    pub high: f32,
}

impl Levels for Integers {
    #[inline(always)]
    fn nearest<V: Vector>(&self, y: V) -> V {
        round(clamp(y, self.low, self.high))
    }

    #[inline(always)]
    fn code(&self, y: f32) -> u8 {
        (block::round(block::clamp(y, self.low, self.high)) - self.low) as u8
    }

    #[inline(always)]
    fn largest(&self) -> f32 {
        self.high.max(-self.low)
    }
}

/// The levels of the 4-bit types with a table.
pub(super) type Levels16 = Table<15>;

/// The levels of 4-bit floats.
pub(super) type Floats15 = Table<14>;

impl Floats15 {
    /// Twice the values of E2M1 (OCP Microscaling Formats v1.0, section 5.3.3), ascending; zero is one of them.
    pub(super) fn doubled() -> Floats15 {
        Table::new(&[-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12])
    }
}

impl Levels16 {
    /// Those of `IQ4_NL`.
    pub(super) fn four_bit() -> Levels16 {
        Table::new(&FOUR_BIT_CODES)
    }
}
