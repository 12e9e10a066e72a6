//! In which order the blocks of a tensor stand (SPEC.md section 5; byte 13 of its header).

use std::fmt;

use crate::quant_type::QuantType;

/// Rows of a panel.
pub const PANEL_ROWS: usize = 16;

/// Order of a tensor's bytes. The discriminant is the id in the file. Every layout takes the same number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Layout {
    /// Row after row.
    Rows = 0,
    /// Panels of sixteen rows whose blocks are interleaved, then the rows that fill no panel (SPEC.md section 6.1).
    /// Block types only.
    Panels16 = 3,
}

impl Layout {
    /// Every layout, in id order.
    pub const ALL: [Layout; 2] = [Layout::Rows, Layout::Panels16];

    /// The id stored in files.
    pub const fn id(self) -> u8 {
        self as u8
    }

    /// The layout with this id, if this version of the format knows one.
    pub fn from_id(id: u8) -> Option<Layout> {
        Self::ALL.into_iter().find(|layout| layout.id() == id)
    }

    /// The name used on command lines, in META and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Rows => "rows",
            Layout::Panels16 => "panels",
        }
    }

    /// Whether tensors of this type can have this layout.
    pub const fn suits(self, quant: QuantType) -> bool {
        matches!(self, Layout::Rows) || !quant.is_float()
    }

    /// How many of a tensor's `rows` rows, from the first on, are in panels. The others are plain rows.
    pub const fn panel_rows(self, rows: usize) -> usize {
        match self {
            Layout::Rows => 0,
            Layout::Panels16 => rows - rows % PANEL_ROWS,
        }
    }

    /// The layout in a tensor header (id `id`) of type `quant`, or what was expected there.
    pub(crate) fn parse(id: u8, quant: QuantType) -> Result<Layout, &'static str> {
        let layout = Self::from_id(id).ok_or("layout 0 (rows) or 3 (panels)")?;
        if layout.suits(quant) { Ok(layout) } else { Err("layout 0, as the type has no blocks") }
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
