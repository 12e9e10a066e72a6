//! The blocks that docs/format-examples.md decodes by hand, and its records: what stands there is what decoder and writer give.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::tensor_header::tensor_header_bytes;
use crate::{
    BlockSize, CodeTables, Layout, Outliers, QuantType, RowParts, TensorId, TensorKind, decode_panel_row,
    decode_row,
};

const PAGE: &str = include_str!("../../docs/format-examples.md");

/// A box of the page: a tensor, and some of its rows.
struct Example {
    quant: QuantType,
    block: BlockSize,
    rows: usize,
    cols: usize,
    panels: bool,
    table: Vec<i8>,
    bytes: Vec<u8>,
    values: Vec<(usize, Vec<f32>)>,
}

impl Example {
    /// Reads lines such as `type 4bit`. A line that begins with a blank goes on with the line before.
    fn parse(text: &str) -> Example {
        let quant = |name: &str| QuantType::ALL.into_iter().find(|quant| quant.name() == name).unwrap();
        let mut example = Example {
            quant: QuantType::F32,
            block: BlockSize::B64,
            rows: 0,
            cols: 0,
            panels: false,
            table: Vec::new(),
            bytes: Vec::new(),
            values: Vec::new(),
        };
        let mut key = "";
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if !line.starts_with(' ') {
                key = words.next().unwrap();
            }
            match key {
                "type" => example.quant = quant(words.next().unwrap()),
                "blocks" => example.block = BlockSize::new(words.next().unwrap().parse().unwrap()).unwrap(),
                "shape" => {
                    let words: Vec<&str> = words.map(|word| word.trim_end_matches(',')).collect();
                    (example.rows, example.cols) = (words[0].parse().unwrap(), words[2].parse().unwrap());
                    example.panels = words[4] == "3";
                }
                "table" => example.table.extend(words.map(|word| word.parse::<i8>().unwrap())),
                "bytes" => example.bytes.extend(words.map(|word| u8::from_str_radix(word, 16).unwrap())),
                "row" => {
                    if !line.starts_with(' ') {
                        example.values.push((words.next().unwrap().parse().unwrap(), Vec::new()));
                    }
                    let row = &mut example.values.last_mut().unwrap().1;
                    row.extend(words.map(|word| word.parse::<f32>().unwrap()));
                }
                other => panic!("{other}"),
            }
        }
        example
    }

    /// The tables of a section GRID with this record alone.
    fn tables(&self) -> CodeTables {
        if self.table.is_empty() {
            return CodeTables::default();
        }
        let mut grid = vec![self.quant.id(), self.table.len() as u8];
        grid.extend(self.table.iter().map(|value| value.cast_unsigned()));
        CodeTables::parse(&grid).unwrap().0
    }

    fn decode(&self, row: usize) -> Vec<f32> {
        let mut out = vec![0.0; self.cols];
        let tables = self.tables();
        if self.panels {
            assert_eq!(self.rows, 16, "one panel");
            decode_panel_row(self.quant, self.block, &tables, &self.bytes, row, &mut out);
        } else {
            let row_bytes = self.bytes.len() / self.rows;
            let bytes = &self.bytes[row * row_bytes..][..row_bytes];
            decode_row(self.quant, self.block, &tables, bytes, &mut out);
        }
        out
    }
}

#[test]
fn the_examples_of_the_documentation_decode_to_the_values_that_stand_there() {
    let boxes: Vec<&str> =
        PAGE.split("```qsf\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let mut seen = Vec::new();
    for example in boxes.into_iter().map(Example::parse) {
        let bytes = example.quant.tensor_bytes(example.block, example.rows as u64, example.cols as u64);
        assert_eq!(bytes, Some(example.bytes.len() as u64), "{}", example.quant);
        for (row, values) in &example.values {
            assert_eq!(&example.decode(*row), values, "{} row {row}", example.quant);
        }
        seen.push((example.quant, example.panels));
    }
    let expected = [
        (QuantType::Q4, false),
        (QuantType::Q6, false),
        (QuantType::N4, false),
        (QuantType::T2, false),
        (QuantType::X4, false),
        (QuantType::N3, true),
    ];
    assert_eq!(seen, expected);
}

/// The lines of bytes below a heading, each of them.
fn bytes_below(heading: &str) -> Vec<Vec<u8>> {
    let section = PAGE.split(&format!("\n## {heading}\n")).nth(1).unwrap().split("\n## ").next().unwrap();
    let lines = section.lines().filter(|line| line.starts_with("    "));
    let bytes =
        |line: &str| line.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect();
    lines.map(bytes).collect()
}

#[test]
fn the_records_of_the_documentation_are_those_that_a_writer_makes() {
    let mut outliers = Outliers::default();
    outliers.push_row(&[(7, -300.0)]);
    let id = TensorId::of_layer(2, TensorKind::FfnUp);
    assert_eq!(bytes_below("A record of OUTL"), [outliers.to_bytes(id)]);

    let parts = RowParts::of([0, 2, 1, 0, 0, 1]).unwrap();
    let types = [QuantType::Q4, QuantType::Q8, QuantType::F16];
    let headers = types.iter().enumerate().map(|(part, quant)| {
        let rows = parts.rows_of(part) as u32;
        tensor_header_bytes(TensorKind::Head, part as u8, rows, 64, *quant, Layout::Rows).to_vec()
    });
    let record = parts.to_bytes(TensorId::of_model(TensorKind::Head));
    assert_eq!(bytes_below("A record of PART"), headers.chain([record]).collect::<Vec<_>>());
}
