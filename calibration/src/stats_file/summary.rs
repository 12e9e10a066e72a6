//! What statistics look like, in a few numbers for each input.

use std::fmt;

use qsf_runtime::LinearInput;

use crate::layer_stats::LayerStats;
use crate::moments::{Channels, Detail, Moments};

/// One layer, or the head.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerSummary {
    /// The layer; `None` for the head.
    pub layer: Option<u32>,
    /// As in [`LayerStats::influence`].
    pub influence: Option<f64>,
    /// Its inputs.
    pub inputs: Vec<InputSummary>,
}

/// One input.
#[derive(Debug, Clone, PartialEq)]
pub struct InputSummary {
    /// Which.
    pub input: LinearInput,
    /// Tokens seen.
    pub tokens: u64,
    /// Columns.
    pub cols: usize,
    /// Least, median and greatest mean square of a column.
    pub mean_square: [f64; 3],
    /// Columns that stand out.
    pub channels: Channels,
    /// Bytes in a statistics file.
    pub bytes: u64,
}

impl LayerSummary {
    /// The numbers of a layer.
    pub fn new(stats: &LayerStats) -> LayerSummary {
        let inputs = stats.inputs.iter().map(|(input, moments)| InputSummary::new(*input, moments));
        LayerSummary { layer: stats.layer, influence: stats.influence, inputs: inputs.collect() }
    }

    /// The names of the columns of what [`LayerSummary`] shows.
    pub const HEAD: &'static str = "layer  input               tokens  columns    mean square: min     median        max  dead  outliers        bytes";
}

impl InputSummary {
    fn new(input: LinearInput, moments: &Moments) -> InputSummary {
        let mut squares = moments.mean_square();
        squares.sort_by(f64::total_cmp);
        let at = |i: usize| squares.get(i).copied().unwrap_or(0.0);
        let cols = squares.len() as u64;
        let products = if moments.detail() == Detail::Full { 2 * cols * (cols + 1) } else { 0 };
        InputSummary {
            input,
            tokens: moments.tokens(),
            cols: squares.len(),
            mean_square: [at(0), at(squares.len() / 2), at(squares.len().saturating_sub(1))],
            channels: moments.channels(),
            bytes: 28 + 16 * cols + products,
        }
    }
}

/// A line for each input, and one for the influence.
impl fmt::Display for LayerSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = self.layer.map_or_else(|| "head".to_owned(), |layer| layer.to_string());
        for summary in &self.inputs {
            let InputSummary { input, tokens, cols, mean_square: [min, median, max], channels, bytes } =
                summary;
            let Channels { dead, outliers } = channels;
            let input = format!("{input:?}");
            write!(
                f,
                "{layer:>5}  {input:<16} {tokens:>9} {cols:>8}       {min:>11.3e} {median:>10.3e} {max:>10.3e}"
            )?;
            writeln!(f, " {dead:>5} {outliers:>9} {bytes:>12}")?;
        }
        match self.influence {
            Some(influence) => writeln!(f, "{layer:>5}  influence {influence:.5}"),
            None => Ok(()),
        }
    }
}
