//! One row after another.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::column::{Column, Placed};
use super::flaw::Flaw;
use super::footer::Footer;
use super::record::record;
use crate::error::{Result, RuntimeError};

/// What the texts of a row may take together, and each of its other values counts as some bytes.
const MAX_ROW: usize = 1 << 20;
const VALUE: usize = 8;

/// Reads rows of a Parquet file.
pub struct ParquetRows {
    path: PathBuf,
    file: File,
    footer: Footer,
    /// The group that is read, and its rows that are left.
    group: usize,
    left: u64,
    columns: Vec<Column>,
    row: usize,
}

impl ParquetRows {
    /// Opens the file at `path` for those of its columns whose names are in `wanted`. The others are not read.
    ///
    /// # Errors
    /// When it cannot be read, or its footer is damaged or has something of these columns that is not read here: `BadInput`.
    pub fn open(path: &Path, wanted: &[&str]) -> Result<ParquetRows> {
        let mut file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
        let footer = Footer::read(&mut file, wanted).map_err(|flaw| bad(path, flaw))?;
        Ok(ParquetRows {
            path: path.to_owned(),
            file,
            footer,
            group: 0,
            left: 0,
            columns: Vec::new(),
            row: 0,
        })
    }

    /// The next row as a JSON object, and its number, from 1; `None` behind the last.
    ///
    /// # Errors
    /// When pages are damaged, in an encoding that is not read here, or a row is longer than 1 MiB: `BadInput`.
    pub fn next_row(&mut self) -> Result<Option<(usize, Value)>> {
        let next = self.next();
        next.map_err(|flaw| bad(&self.path, flaw))
    }

    fn next(&mut self) -> Result<Option<(usize, Value)>, Flaw> {
        while self.left == 0 {
            if let Some(column) = self.columns.iter().position(|column| !column.is_done()) {
                let place = format!("column {}", self.footer.schema.leaves[column].name);
                return Err(Flaw::new(place, "as many values as rows", "more"));
            }
            let Some(group) = self.footer.groups.get(self.group) else { return Ok(None) };
            let leaves = self.footer.schema.leaves.iter();
            self.columns = leaves.zip(&group.chunks).map(|(leaf, chunk)| Column::new(leaf, chunk)).collect();
            self.left = group.rows;
            self.group += 1;
        }
        self.left -= 1;
        self.row += 1;
        let mut bytes = 0;
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &mut self.columns {
            columns.push(values_of_row(column, &mut self.file, &mut bytes, self.row)?);
        }
        let record = record(&self.footer.schema.nodes, &mut columns);
        let record =
            record.map_err(|found| Flaw::new(format!("row {}", self.row), "columns that agree", found))?;
        Ok(Some((self.row, record)))
    }
}

fn values_of_row(
    column: &mut Column,
    file: &mut File,
    bytes: &mut usize,
    row: usize,
) -> Result<Vec<Placed>, Flaw> {
    let mut values = Vec::new();
    while values.is_empty() || column.continues_row(file)? {
        let placed = column.next(file)?;
        *bytes += VALUE + placed.value.as_str().map_or(0, str::len);
        if *bytes > MAX_ROW {
            return Err(Flaw::new(
                format!("row {row}"),
                format!("a row of at most {MAX_ROW} bytes"),
                "a longer one",
            ));
        }
        values.push(placed);
    }
    Ok(values)
}

fn bad(path: &Path, flaw: Flaw) -> RuntimeError {
    let expected = format!(
        "{} (if others read it, make JSONL of it: python -c \"import pandas, sys; \
         pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], orient='records', lines=True)\" IN.parquet OUT.jsonl)",
        flaw.expected
    );
    RuntimeError::bad_input(path, flaw.place, expected, flaw.found)
}
