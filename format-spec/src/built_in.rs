//! The built-in tables of learned types: what a writer stores that has learned none of its own. The grids were learned from the weights of
//! two small models (`converter/examples/learn_tables.rs`), the sums from Gaussian numbers.

use crate::sum_tables::SumTables;

pub(crate) const GRID_2: [i8; 4] = [-127, -51, 5, 69];
pub(crate) const GRID_3: [i8; 8] = [-127, -80, -48, -22, 2, 26, 54, 91];
pub(crate) const GRID_4: [i8; 16] =
    [-127, -102, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 52, 67, 86, 113];
pub(crate) const GRID_5: [i8; 32] = [
    -126, -112, -101, -91, -82, -75, -66, -59, -52, -46, -39, -33, -26, -20, -13, -6, 0, 6, 13, 20, 27, 33,
    40, 47, 54, 61, 69, 78, 87, 98, 109, 124,
];

pub(crate) const SUMS_2: SumTables = SumTables {
    newest: [-14, 27, 9, -59, -24, -4, 35, 26, 25, -39, -33, -17, -65, 57, -7, 13],
    oldest: [53, -33, 18, -10, -56, 3, 40, -25, -5, 15, 56, -36, 12, 12, -48, 70],
};
pub(crate) const SUMS_3: SumTables = SumTables {
    newest: [-17, 24, 10, -33, -40, 3, 39, -13, 20, -51, -26, -16, -61, 47, -2, 44],
    oldest: [28, 5, 23, -21, -63, -8, 55, -36, -13, 17, 46, -29, 2, 28, -60, 80],
};

pub(crate) const SUMS_2_OF_16: SumTables = SumTables {
    newest: [-50, 66, 18, 21, 51, -29, 16, -13, 1, 3, 20, -32, -9, -59, -15, 42],
    oldest: [6, 38, 22, -40, 2, -30, 60, 6, -18, -68, -39, -19, 40, -9, -9, 29],
};
pub(crate) const SUMS_3_OF_16: SumTables = SumTables {
    newest: [-72, 71, 22, 26, 53, -31, 4, -13, -4, 0, 12, -18, -25, -55, -22, 40],
    oldest: [7, 28, 30, -30, -7, -20, 53, 0, -17, -55, -39, -30, 16, -12, -3, 12],
};
pub(crate) const SUMS_4_OF_16: SumTables = SumTables {
    newest: [-74, 69, 17, 26, 53, -34, 3, -13, -8, -3, 7, -23, -22, -57, -16, 42],
    oldest: [4, 18, 26, -26, -6, -18, 54, -7, -13, -53, -36, -29, 12, -20, -1, 9],
};
