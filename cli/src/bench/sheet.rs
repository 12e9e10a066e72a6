//! Rows of results as a table for people, CSV or Markdown.

use clap::ValueEnum;

use crate::console::table;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns
    Table,
    /// One JSON object
    Json,
    /// Comma-separated values, every figure in full
    Csv,
    /// A Markdown table
    Md,
}

/// Named columns and their rows.
pub struct Sheet {
    /// Names of the columns.
    pub header: Vec<&'static str>,
    /// Columns from the left that are text; the others are numbers.
    pub text_columns: usize,
    /// A cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Sheet {
    /// Aligned for a terminal.
    pub fn to_table(&self) -> String {
        table(&self.header, self.text_columns, self.rows.iter().cloned())
    }

    /// As Markdown.
    pub fn to_markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let header: Vec<String> = self.header.iter().map(|name| (*name).to_owned()).collect();
        let rule = (0..header.len()).map(|i| if i < self.text_columns { "---|" } else { "---:|" });
        let mut out = line(&header) + "|" + &rule.collect::<String>() + "\n";
        out.extend(self.rows.iter().map(|row| line(row)));
        out
    }

    /// As CSV (RFC 4180), but with lines that end as lines of text files do.
    pub fn to_csv(&self) -> String {
        let cell = |cell: &str| {
            if cell.contains([',', '"', '\n', '\r']) {
                format!("\"{}\"", cell.replace('"', "\"\""))
            } else {
                cell.to_owned()
            }
        };
        let mut out = self.header.iter().map(|name| cell(name)).collect::<Vec<_>>().join(",") + "\n";
        for row in &self.rows {
            out += &(row.iter().map(|value| cell(value)).collect::<Vec<_>>().join(",") + "\n");
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_inside_of_cells_do_not_break_rows() {
        let rows = vec![vec!["a|b,\"c\"".into(), "1".into()]];
        let sheet = Sheet { header: vec!["name", "value"], text_columns: 1, rows };
        assert_eq!(sheet.to_csv(), "name,value\n\"a|b,\"\"c\"\"\",1\n");
        assert_eq!(sheet.to_markdown(), "| name | value |\n|---|---:|\n| a\\|b,\"c\" | 1 |\n");
    }
}
