//! The table of types: one row for each, in the order of their ids, and the only place that lists them all.

/// Hands the table on to the macro `$then`, with the arguments in the braces before it. A row has what the type is, its kind (`block` or
/// `float`), its name in Rust, its id in files, its name everywhere else, and its [`Encoding`](crate::Encoding).
#[doc(hidden)]
#[macro_export]
macro_rules! every_type {
    ($then:ident! { $($arguments:tt)* }) => { $then! { { $($arguments)* }
        /// `d * (2q - 3)`, q in 0..=3.
        block Q2Sym = 0, "2bit-sym", Encoding::Symmetric { levels: 4, step: 2, rows: RowCodes::Plain };
        /// `scale * q + min`, q in 0..=3.
        block Q2 = 1, "2bit", Encoding::Affine(Planes::TWO);
        /// `scale * q + min`, q in 0..=7.
        block Q3 = 2, "3bit", Encoding::Affine(Planes::TWO_AND_ONE);
        /// `scale * q + min`, q in 0..=15.
        block Q4 = 3, "4bit", Encoding::Affine(Planes::FOUR);
        /// `d * {-1, 0, 1}`.
        block Ternary = 4, "ternary", Encoding::Symmetric { levels: 3, step: 1, rows: RowCodes::SignAndZero };
        /// IEEE binary16.
        float F16 = 6, "f16", Encoding::Float(FloatFormat::F16);
        /// IEEE binary32.
        float F32 = 7, "f32", Encoding::Float(FloatFormat::F32);
        /// The upper half of an IEEE binary32.
        float Bf16 = 8, "bf16", Encoding::Float(FloatFormat::Bf16);
        /// `d * q`, q in -127..=127.
        block Q8 = 9, "8bit", Encoding::SignedBytes;
        /// 2-bit codes of a learned grid, with a scale and a choice of grid per 32 values.
        block N2 = 16, "n2",
            Encoding::Grid { planes: Planes::TWO, levels: GridLevels::Table(&built_in::GRID_2), shift: 19 };
        /// 3-bit codes of a learned grid.
        block N3 = 17, "n3",
            Encoding::Grid { planes: Planes::TWO_AND_ONE, levels: GridLevels::Table(&built_in::GRID_3), shift: 8 };
        /// 4-bit codes of a learned grid.
        block N4 = 18, "n4",
            Encoding::Grid { planes: Planes::FOUR, levels: GridLevels::Table(&built_in::GRID_4), shift: 4 };
        /// 5-bit codes of a learned grid.
        block N5 = 19, "n5",
            Encoding::Grid { planes: Planes::FOUR_AND_ONE, levels: GridLevels::Table(&built_in::GRID_5), shift: 3 };
        /// 6-bit codes of a linear grid, with a scale and a choice of grid per 32 values.
        block Q6 = 20, "6bit",
            Encoding::Grid { planes: Planes::FOUR_AND_TWO, levels: GridLevels::Even, shift: 1 };
        /// A trellis with 2 bits per value: levels are sums of two table entries, chosen by the last 8 bits.
        block T2 = 21, "t2", Encoding::Trellis { bits: 2, state: TrellisState::Byte, tables: &built_in::SUMS_2 };
        /// A trellis with 3 bits per value.
        block T3 = 22, "t3", Encoding::Trellis { bits: 3, state: TrellisState::Byte, tables: &built_in::SUMS_3 };
        /// A trellis with 2 bits per value: levels are sums of two table entries, chosen by the last 16 bits.
        block X2 = 23, "x2",
            Encoding::Trellis { bits: 2, state: TrellisState::TwoBytes, tables: &built_in::SUMS_2_OF_16 };
        /// The same with 3 bits per value.
        block X3 = 24, "x3",
            Encoding::Trellis { bits: 3, state: TrellisState::TwoBytes, tables: &built_in::SUMS_3_OF_16 };
        /// The same with 4 bits per value.
        block X4 = 25, "x4",
            Encoding::Trellis { bits: 4, state: TrellisState::TwoBytes, tables: &built_in::SUMS_4_OF_16 };
    } };
}
