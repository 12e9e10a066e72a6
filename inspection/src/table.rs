//! Tables in plain text.

use comfy_table::{CellAlignment, Table, presets};
use qsf_format::printable::printable;

/// A table in plain text: the first `text_columns` columns to the left, all others, being numbers, to the right.
pub fn table(header: &[&str], text_columns: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row.iter().map(|cell| printable(cell)));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if i >= text_columns {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}
