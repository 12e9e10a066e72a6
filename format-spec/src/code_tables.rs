//! The tables that codes of the learned types stand for (SPEC.md sections 6.2 and 7.6; section GRID of a file).

use crate::encoding::{Encoding, GridLevels};
use crate::quant_type::QuantType;
use crate::sum_tables::SumTables;

/// Most levels of a grid.
const MOST_LEVELS: usize = 64;

/// Levels of a grid type, and what the second grid has more than the first in every level.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// The first `len` are used, the others 0.
    levels: [i8; MOST_LEVELS],
    len: usize,
    /// Second grid minus first.
    pub shift: i8,
}

impl Grid {
    /// The grid of these levels, in -127..=127.
    ///
    /// # Panics
    /// With more than 64 levels.
    pub const fn new(levels: &[i8], shift: i8) -> Grid {
        let mut grid = Grid { levels: [0; MOST_LEVELS], len: levels.len(), shift };
        let mut i = 0;
        while i < levels.len() {
            grid.levels[i] = levels[i];
            i += 1;
        }
        grid
    }

    /// `2 * code - len`, for all codes below `len`.
    const fn even(len: usize, shift: i8) -> Grid {
        let mut grid = Grid { levels: [0; MOST_LEVELS], len, shift };
        let mut code = 0;
        while code < len {
            grid.levels[code] = (2 * code as i16 - len as i16) as i8;
            code += 1;
        }
        grid
    }

    /// Level of each code.
    pub fn levels(&self) -> &[i8] {
        &self.levels[..self.len]
    }

    /// Level of each code, to be changed.
    pub fn levels_mut(&mut self) -> &mut [i8] {
        &mut self.levels[..self.len]
    }
}

impl std::fmt::Debug for Grid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Grid").field("levels", &self.levels()).field("shift", &self.shift).finish()
    }
}

/// The table of one learned type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    Grid(Grid),
    Sums(SumTables),
}

/// The tables of one file: one for each learned type, in the order of [`QuantType::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeTables([Table; LEARNED]);

/// Number of learned types.
const LEARNED: usize = {
    let (mut count, mut i) = (0, 0);
    while i < QuantType::ALL.len() {
        count += QuantType::ALL[i].is_learned() as usize;
        i += 1;
    }
    count
};

/// The built-in tables.
pub static BUILT_IN: CodeTables = {
    let mut tables = [Table::Grid(Grid::new(&[], 0)); LEARNED];
    let (mut at, mut i) = (0, 0);
    while i < QuantType::ALL.len() {
        let table = match QuantType::ALL[i].encoding() {
            Encoding::Grid { levels: GridLevels::Table(levels), shift, .. } => {
                Some(Table::Grid(Grid::new(levels, shift)))
            }
            Encoding::Grid { planes, levels: GridLevels::Even, shift } => {
                Some(Table::Grid(Grid::even(1 << planes.bits(), shift)))
            }
            Encoding::Trellis { tables, .. } => Some(Table::Sums(*tables)),
            _ => None,
        };
        if let Some(table) = table {
            tables[at] = table;
            at += 1;
        }
        i += 1;
    }
    CodeTables(tables)
};

/// Where the table of each learned type stands, by its id.
const PLACE_BY_ID: [usize; 256] = {
    let mut places = [usize::MAX; 256];
    let (mut at, mut i) = (0, 0);
    while i < QuantType::ALL.len() {
        if QuantType::ALL[i].is_learned() {
            places[QuantType::ALL[i].id() as usize] = at;
            at += 1;
        }
        i += 1;
    }
    places
};

impl Default for CodeTables {
    fn default() -> Self {
        BUILT_IN
    }
}

impl CodeTables {
    fn table(&self, quant: QuantType) -> Option<&Table> {
        self.0.get(PLACE_BY_ID[usize::from(quant.id())])
    }

    fn table_mut(&mut self, quant: QuantType) -> Option<&mut Table> {
        self.0.get_mut(PLACE_BY_ID[usize::from(quant.id())])
    }

    /// Levels and shift of a grid type; `None` for others.
    pub fn grid(&self, quant: QuantType) -> Option<(&[i8], i8)> {
        match self.table(quant)? {
            Table::Grid(grid) => Some((grid.levels(), grid.shift)),
            Table::Sums(_) => None,
        }
    }

    /// The grid of a grid type, to be changed; `None` for others.
    pub fn grid_mut(&mut self, quant: QuantType) -> Option<&mut Grid> {
        match self.table_mut(quant)? {
            Table::Grid(grid) => Some(grid),
            Table::Sums(_) => None,
        }
    }

    /// The tables of a trellis type; `None` for others.
    pub fn sums(&self, quant: QuantType) -> Option<&SumTables> {
        match self.table(quant)? {
            Table::Sums(sums) => Some(sums),
            Table::Grid(_) => None,
        }
    }

    /// The tables of a trellis type, to be changed; `None` for others.
    pub fn sums_mut(&mut self, quant: QuantType) -> Option<&mut SumTables> {
        match self.table_mut(quant)? {
            Table::Sums(sums) => Some(sums),
            Table::Grid(_) => None,
        }
    }

    /// Section GRID with the tables of these types, in id order. Types without tables are passed over.
    pub fn to_bytes(&self, types: &[QuantType]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for quant in QuantType::ALL.into_iter().filter(|quant| types.contains(quant)) {
            let values: Vec<i8> = match self.table(quant) {
                None => continue,
                Some(Table::Grid(grid)) if has_even_levels(quant) => vec![grid.shift],
                Some(Table::Grid(grid)) => grid.levels().iter().copied().chain([grid.shift]).collect(),
                Some(Table::Sums(sums)) => sums.newest.into_iter().chain(sums.oldest).collect(),
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
            let count = match tables.table(quant) {
                Some(Table::Grid(_)) if has_even_levels(quant) => 1,
                Some(Table::Grid(grid)) => grid.len + 1,
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
        match self.table_mut(quant) {
            Some(Table::Grid(grid)) => {
                let (levels, shift) = values.split_at(values.len() - 1);
                grid.shift = shift[0];
                if !has_even_levels(quant) {
                    grid.levels_mut().copy_from_slice(levels);
                }
            }
            Some(Table::Sums(sums)) => {
                sums.newest.copy_from_slice(&values[..16]);
                sums.oldest.copy_from_slice(&values[16..]);
            }
            None => {}
        }
    }
}

/// Whether no file stores the levels of a grid type.
fn has_even_levels(quant: QuantType) -> bool {
    matches!(quant.encoding(), Encoding::Grid { levels: GridLevels::Even, .. })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn tables_come_back_for_the_types_that_were_stored() {
        let mut tables = CodeTables::default();
        tables.grid_mut(QuantType::N3).unwrap().levels_mut()[2] = -40;
        tables.grid_mut(QuantType::Q6).unwrap().shift = -1;
        tables.sums_mut(QuantType::T3).unwrap().oldest[5] = 7;
        let types = [QuantType::T3, QuantType::N3, QuantType::Q6, QuantType::Q8];
        let bytes = tables.to_bytes(&types);
        assert_eq!(bytes.len(), (2 + 9) + (2 + 1) + (2 + 32));
        let (read, defined) = CodeTables::parse(&bytes).unwrap();
        assert_eq!((read, defined), (tables, vec![QuantType::N3, QuantType::Q6, QuantType::T3]));
    }

    #[test]
    fn the_built_in_tables_are_legal() {
        let (read, defined) = CodeTables::parse(&BUILT_IN.to_bytes(&QuantType::ALL)).unwrap();
        assert_eq!((read, defined.len()), (BUILT_IN, LEARNED));
        for quant in QuantType::ALL {
            let levels = BUILT_IN.grid(quant).map_or(&[][..], |(levels, _)| levels);
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
