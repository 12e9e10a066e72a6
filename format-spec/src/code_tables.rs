//! The tables that codes of the learned types stand for (SPEC.md sections 6.2 and 7.6; section GRID of a file).

use crate::quant_type::QuantType;

/// Values of the linear grid of `6bit`, which no file stores.
const LINEAR: [i8; 64] = {
    let mut levels = [0; 64];
    let mut q = 0;
    while q < 64 {
        levels[q] = 2 * q as i8 - 64;
        q += 1;
    }
    levels
};

/// Levels of a grid type, and what the second grid has more than the first in every level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid<const N: usize> {
    /// Level of each code, in -127..=127.
    pub levels: [i8; N],
    /// Second grid minus first.
    pub shift: i8,
}

/// The two tables of a trellis type; a level is the sum of one entry of each, in -127..=127.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SumTables {
    /// By the four newest bits of the state.
    pub newest: [i8; 16],
    /// By the four oldest bits.
    pub oldest: [i8; 16],
}

/// The tables of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeTables {
    /// Of `n2`.
    pub n2: Grid<4>,
    /// Of `n3`.
    pub n3: Grid<8>,
    /// Of `n4`.
    pub n4: Grid<16>,
    /// Of `n5`.
    pub n5: Grid<32>,
    /// Shift of `6bit`, whose levels are 2q - 64.
    pub q6_shift: i8,
    /// Of `t2`.
    pub t2: SumTables,
    /// Of `t3`.
    pub t3: SumTables,
}

/// The built-in tables: what a writer stores that has learned none of its own. The grids were learned from the weights of
/// two small models (`converter/examples/learn_tables.rs`), the sums from Gaussian numbers.
pub static BUILT_IN: CodeTables = CodeTables {
    n2: Grid { levels: [-127, -51, 5, 69], shift: 19 },
    n3: Grid { levels: [-127, -80, -48, -22, 2, 26, 54, 91], shift: 8 },
    n4: Grid { levels: [-127, -102, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 52, 67, 86, 113], shift: 4 },
    n5: Grid {
        levels: [
            -126, -112, -101, -91, -82, -75, -66, -59, -52, -46, -39, -33, -26, -20, -13, -6, 0, 6, 13, 20,
            27, 33, 40, 47, 54, 61, 69, 78, 87, 98, 109, 124,
        ],
        shift: 3,
    },
    q6_shift: 1,
    t2: SumTables {
        newest: [-14, 27, 9, -59, -24, -4, 35, 26, 25, -39, -33, -17, -65, 57, -7, 13],
        oldest: [53, -33, 18, -10, -56, 3, 40, -25, -5, 15, 56, -36, 12, 12, -48, 70],
    },
    t3: SumTables {
        newest: [-17, 24, 10, -33, -40, 3, 39, -13, 20, -51, -26, -16, -61, 47, -2, 44],
        oldest: [28, 5, 23, -21, -63, -8, 55, -36, -13, 17, 46, -29, 2, 28, -60, 80],
    },
};

impl Default for CodeTables {
    fn default() -> Self {
        BUILT_IN
    }
}

impl SumTables {
    /// The level of a state of 8 bits, the oldest lowest.
    #[inline]
    pub const fn level(&self, state: u8) -> i8 {
        self.newest[(state >> 4) as usize].wrapping_add(self.oldest[(state & 15) as usize])
    }

    /// Whether every sum is in -127..=127.
    fn fits(&self) -> bool {
        let ends = |table: &[i8; 16]| table.iter().fold((0, 0), |(low, high), &v| (v.min(low), v.max(high)));
        let ((low_a, high_a), (low_b, high_b)) = (ends(&self.newest), ends(&self.oldest));
        i32::from(low_a) + i32::from(low_b) >= -127 && i32::from(high_a) + i32::from(high_b) <= 127
    }
}

impl CodeTables {
    /// Levels and shift of a grid type (`n2` to `n5`, `6bit`); `None` for others.
    pub fn grid(&self, quant: QuantType) -> Option<(&[i8], i8)> {
        Some(match quant {
            QuantType::N2 => (&self.n2.levels, self.n2.shift),
            QuantType::N3 => (&self.n3.levels, self.n3.shift),
            QuantType::N4 => (&self.n4.levels, self.n4.shift),
            QuantType::N5 => (&self.n5.levels, self.n5.shift),
            QuantType::Q6 => (&LINEAR, self.q6_shift),
            _ => return None,
        })
    }

    /// The tables of a trellis type (`t2`, `t3`); `None` for others.
    pub fn sums(&self, quant: QuantType) -> Option<&SumTables> {
        match quant {
            QuantType::T2 => Some(&self.t2),
            QuantType::T3 => Some(&self.t3),
            _ => None,
        }
    }

    /// Section GRID with the tables of these types, in id order. Types without tables are passed over.
    pub fn to_bytes(&self, types: &[QuantType]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for quant in QuantType::ALL.into_iter().filter(|quant| types.contains(quant)) {
            let values: Vec<i8> = match (self.grid(quant), self.sums(quant)) {
                (Some((_, shift)), _) if quant == QuantType::Q6 => vec![shift],
                (Some((levels, shift)), _) => levels.iter().copied().chain([shift]).collect(),
                (_, Some(sums)) => sums.newest.into_iter().chain(sums.oldest).collect(),
                (None, None) => continue,
            };
            bytes.extend([quant.id(), values.len() as u8]);
            bytes.extend(values.iter().map(|v| *v as u8));
        }
        bytes
    }

    /// The tables of a section GRID, and which types have theirs in it: the others must not be used with these.
    ///
    /// # Errors
    /// Offset in `bytes`, what was expected there and what was found.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(CodeTables, Vec<QuantType>), (usize, String, String)> {
        let mut tables = BUILT_IN;
        let mut defined: Vec<QuantType> = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let error =
                |place: usize, expected: &str, found: String| Err((place, expected.to_owned(), found));
            let quant = match QuantType::from_id(bytes[at]) {
                Some(quant) if quant.is_learned() => quant,
                _ => return error(at, "the id of a type with tables", bytes[at].to_string()),
            };
            if defined.last().is_some_and(|last| *last >= quant) {
                return error(at, "types in ascending order", quant.name().into());
            }
            let count = match (tables.grid(quant), tables.sums(quant)) {
                (Some(_), _) if quant == QuantType::Q6 => 1,
                (Some((levels, _)), _) => levels.len() + 1,
                _ => 32,
            };
            let record = bytes.get(at + 1..).and_then(|rest| rest.split_first());
            let Some((values, _)) = record
                .filter(|(found, _)| usize::from(**found) == count)
                .and_then(|(_, rest)| rest.split_at_checked(count))
            else {
                let found = format!("{:?} and {} bytes", bytes.get(at + 1), bytes.len() - at - 1);
                return error(at + 1, &format!("count {count} and so many values of {quant}"), found);
            };
            let values: Vec<i8> = values.iter().map(|v| *v as i8).collect();
            if let Some(i) = values.iter().position(|v| *v == i8::MIN) {
                return error(at + 2 + i, "a value in -127..=127", "-128".into());
            }
            tables.set(quant, &values);
            if tables.sums(quant).is_some_and(|sums| !sums.fits()) {
                return error(
                    at + 2,
                    "tables whose sums are in -127..=127",
                    format!("larger sums in {quant}"),
                );
            }
            defined.push(quant);
            at += 2 + count;
        }
        Ok((tables, defined))
    }

    /// Replaces the table of a type by the values of its record.
    fn set(&mut self, quant: QuantType, values: &[i8]) {
        fn grid<const N: usize>(grid: &mut Grid<N>, values: &[i8]) {
            grid.levels.copy_from_slice(&values[..N]);
            grid.shift = values[N];
        }
        fn sums(sums: &mut SumTables, values: &[i8]) {
            sums.newest.copy_from_slice(&values[..16]);
            sums.oldest.copy_from_slice(&values[16..]);
        }
        match quant {
            QuantType::N2 => grid(&mut self.n2, values),
            QuantType::N3 => grid(&mut self.n3, values),
            QuantType::N4 => grid(&mut self.n4, values),
            QuantType::N5 => grid(&mut self.n5, values),
            QuantType::Q6 => self.q6_shift = values[0],
            QuantType::T2 => sums(&mut self.t2, values),
            QuantType::T3 => sums(&mut self.t3, values),
            _ => {}
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back_for_the_types_that_were_stored() {
        let mut tables = CodeTables::default();
        tables.n3.levels[2] = -40;
        tables.q6_shift = -1;
        tables.t3.oldest[5] = 7;
        let types = [QuantType::T3, QuantType::N3, QuantType::Q6, QuantType::Q8];
        let bytes = tables.to_bytes(&types);
        assert_eq!(bytes.len(), (2 + 9) + (2 + 1) + (2 + 32));
        let (read, defined) = CodeTables::parse(&bytes).unwrap();
        assert_eq!((read, defined), (tables, vec![QuantType::N3, QuantType::Q6, QuantType::T3]));
    }

    #[test]
    fn the_built_in_tables_are_legal() {
        let (read, defined) = CodeTables::parse(&BUILT_IN.to_bytes(&QuantType::ALL)).unwrap();
        assert_eq!((read, defined.len()), (BUILT_IN, 7));
        for quant in [QuantType::N2, QuantType::N3, QuantType::N4, QuantType::N5, QuantType::Q6] {
            let (levels, _) = BUILT_IN.grid(quant).unwrap();
            assert!(levels.is_sorted(), "{quant}: {levels:?}");
        }
    }

    #[test]
    fn a_damaged_section_is_refused_at_the_byte() {
        let good = BUILT_IN.to_bytes(&[QuantType::N2, QuantType::T2]);
        let at = |bytes: &[u8]| CodeTables::parse(bytes).unwrap_err().0;
        let with = |i: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[i] = value;
            at(&bytes)
        };
        assert_eq!(with(0, QuantType::Q8.id()), 0, "a type without tables");
        assert_eq!(with(1, 6), 1, "a wrong count");
        assert_eq!(with(4, 0x80), 4, "-128");
        assert_eq!(with(9, 127), 9, "sums beyond a byte");
        assert_eq!(with(7, QuantType::N2.id()), 7, "the same type again");
        for len in 1..good.len() {
            if len != 7 {
                CodeTables::parse(&good[..len]).unwrap_err();
            }
        }
    }
}
