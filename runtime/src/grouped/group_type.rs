//! The types: how many bits, how many columns share a scale, and what a code stands for.

use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use qsf_format::QuantType;

/// What a code of a group with scale `s` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupZero {
    /// `s * (code - middle)`: the middle code is 0.
    Middle,
    /// `s * (code - zero)`, with a code for each group that is 0.
    Code,
    /// `s * code + bias`, with a bias for each group, in the type of the scale.
    Bias,
}

/// A type.
///
/// In memory a row is its codes, then its scales, then its zeros (a byte each) or biases. Rows are whole groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupType {
    /// Bits of a code.
    pub bits: u32,
    /// Columns that share a scale.
    pub group: usize,
    /// What a code stands for.
    pub zero: GroupZero,
    /// Float type of scales and biases.
    pub scale: QuantType,
}

/// Widths of codes.
const BITS: [u32; 6] = [2, 3, 4, 5, 6, 8];
/// Sizes of groups.
const GROUPS: [usize; 3] = [32, 64, 128];
const FLOATS: [QuantType; 3] = [QuantType::F16, QuantType::Bf16, QuantType::F32];
const ZEROS: [(GroupZero, &str); 3] =
    [(GroupZero::Middle, "int"), (GroupZero::Code, "uint"), (GroupZero::Bias, "affine")];

static NAMES: LazyLock<Vec<(GroupType, String)>> = LazyLock::new(|| {
    let mut names = Vec::new();
    for (zero, word) in ZEROS {
        for bits in BITS {
            for group in GROUPS {
                for scale in FLOATS {
                    let ty = GroupType { bits, group, zero, scale };
                    names.push((ty, format!("{word}{bits}-g{group}-{}", scale.name())));
                }
            }
        }
    }
    names
});

impl GroupType {
    /// Widths of codes, smallest first.
    pub const BITS: [u32; 6] = BITS;

    /// Sizes of groups, smallest first.
    pub const GROUPS: [usize; 3] = GROUPS;

    /// The name in reports and plans, such as `int4-g128-bf16`.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(ty, _)| *ty == self).map_or("group type", |(_, name)| name)
    }

    /// The type of this name. `affine6` alone, as MLX's own default of 64 columns has it, with scales of bf16.
    pub fn of_name(name: &str) -> Option<GroupType> {
        if let Some(bits) =
            name.to_ascii_lowercase().strip_prefix("affine").and_then(|bits| bits.parse().ok())
            && BITS.contains(&bits)
        {
            return Some(GroupType { bits, group: 64, zero: GroupZero::Bias, scale: QuantType::Bf16 });
        }
        NAMES.iter().find(|(_, known)| known.eq_ignore_ascii_case(name)).map(|(ty, _)| *ty)
    }

    /// The largest code.
    pub const fn top(self) -> u8 {
        ((1u32 << self.bits) - 1) as u8
    }

    /// Groups of a row of so many values.
    pub const fn groups(self, cols: usize) -> usize {
        cols / self.group
    }

    /// Bytes of a scale.
    pub const fn scale_bytes(self) -> usize {
        if matches!(self.scale, QuantType::F32) { 4 } else { 2 }
    }

    /// Whether rows of so many values are whole groups.
    pub const fn suits(self, cols: usize) -> bool {
        cols > 0 && cols.is_multiple_of(self.group)
    }

    /// The codes of a row.
    pub const fn codes(self, cols: usize) -> Range<usize> {
        0..cols / 8 * self.bits as usize
    }

    /// The scales of a row.
    pub const fn scales(self, cols: usize) -> Range<usize> {
        let start = self.codes(cols).end;
        start..start + self.groups(cols) * self.scale_bytes()
    }

    /// The zeros or biases of a row.
    pub const fn offsets(self, cols: usize) -> Range<usize> {
        let start = self.scales(cols).end;
        let each = match self.zero {
            GroupZero::Middle => 0,
            GroupZero::Code => 1,
            GroupZero::Bias => self.scale_bytes(),
        };
        start..start + self.groups(cols) * each
    }

    /// Bytes of a row of so many values; `None` where they are no whole groups.
    pub const fn row_bytes(self, cols: usize) -> Option<usize> {
        if self.suits(cols) { Some(self.offsets(cols).end) } else { None }
    }
}

impl fmt::Display for GroupType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_a_name_of_its_own_that_means_it() {
        let names: std::collections::HashSet<&str> = NAMES.iter().map(|(ty, _)| ty.name()).collect();
        assert_eq!(names.len(), NAMES.len());
        for (ty, name) in NAMES.iter() {
            assert_eq!(GroupType::of_name(&name.to_uppercase()), Some(*ty));
        }
        assert_eq!(GroupType::of_name("int4"), None);
        assert_eq!(GroupType::of_name("Affine6").map(GroupType::name), Some("affine6-g64-bf16"));
        assert_eq!(GroupType::of_name("affine7"), None);
    }

    #[test]
    fn a_row_is_codes_scales_and_what_stands_for_zero() {
        let ty = |bits, zero| GroupType { bits, group: 64, zero, scale: QuantType::Bf16 };
        assert_eq!(ty(4, GroupZero::Middle).row_bytes(128), Some(64 + 2 * 2));
        assert_eq!(ty(4, GroupZero::Code).row_bytes(128), Some(64 + 2 * 2 + 2));
        assert_eq!(ty(3, GroupZero::Bias).row_bytes(128), Some(48 + 2 * 2 + 2 * 2));
        assert_eq!(ty(4, GroupZero::Middle).row_bytes(96), None);
    }
}
