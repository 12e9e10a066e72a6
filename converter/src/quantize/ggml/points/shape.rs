//! What the types with a grid of points are.

use qsf_runtime::ggml::GgmlType;

/// Columns that the coders handle as one code: one point of eight values, or two of four that share a byte of signs.
pub(in super::super) const WIDTH: usize = 8;

/// A type.
#[derive(Debug, Clone, Copy)]
pub(in super::super) struct PointShape {
    pub ty: GgmlType,
    /// Columns that share a scale: 16 or 32.
    pub group: usize,
    pub signs: Signs,
    pub shift: Shift,
    /// The scale of a group is this times the block's times `2 * code + 1`.
    pub unit: f32,
    /// The largest code of a scale.
    pub top: f32,
    /// About the best scale of normally distributed values whose mean square is 1.
    pub typical: f32,
    /// Scales worth trying, as parts of the one at which the largest value is at the largest level.
    pub parts: (f32, f32),
}

/// How the signs of eight values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Signs {
    /// A bit for each.
    Free,
    /// Seven bits: the number of minus signs is even.
    Even,
    /// Points have signs of their own.
    OfPoints,
}

/// What is added to levels, in the unit of levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Shift {
    None,
    /// [`SHIFT`] up or down, for a group.
    Group,
    /// [`SHIFT`] up or down, for eight values.
    Eight,
}

/// By how much the levels of `IQ1` types are moved.
pub(in super::super) const SHIFT: f32 = 0.125;

/// The shape of a type with a grid.
pub(in super::super) fn point_shape_of(ty: GgmlType) -> Option<PointShape> {
    let shape = |group, signs, unit, typical, parts| PointShape {
        ty,
        group,
        signs,
        shift: Shift::None,
        unit,
        top: 15.0,
        typical,
        parts,
    };
    let ternary =
        |group, shift| PointShape { shift, top: 7.0, ..shape(group, Signs::OfPoints, 1.0, 1.3, (0.35, 0.9)) };
    Some(match ty {
        GgmlType::IQ3_S => shape(32, Signs::Free, 1.0, 0.17, (0.8, 1.25)),
        GgmlType::IQ3_XXS => shape(32, Signs::Even, 0.25, 0.045, (0.8, 1.3)),
        GgmlType::IQ2_S => shape(16, Signs::Free, 0.125, 0.06, (0.75, 1.3)),
        GgmlType::IQ2_XS => shape(16, Signs::Even, 0.125, 0.06, (0.75, 1.3)),
        GgmlType::IQ2_XXS => shape(32, Signs::Even, 0.125, 0.06, (0.75, 1.3)),
        GgmlType::IQ1_S => ternary(32, Shift::Group),
        GgmlType::IQ1_M => ternary(16, Shift::Eight),
        _ => return None,
    })
}
