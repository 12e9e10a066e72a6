//! The headers of all files of a model: the first says what the model is, the others which ones they are.

use std::ops::Range;

use qsf_format::Provenance;
use qsf_runtime::ggml::GgmlType;
use qsf_runtime::source::WeightSource;
use serde_json::Value as Json;

use super::header::{Entry, header, padded};
use super::layout::{Placed, names_of, place_all};
use super::metadata::{evaluation_keys, making, model_metadata};
use super::rope_keys::Factors;
use super::split::{ranges, split_pairs};
use super::value::Pairs;
use crate::error::Result;
use crate::plan::Plan;

/// What they say.
pub(super) struct Headers {
    /// What the model is.
    model: Pairs,
    /// `general.file_type`; that of the type with most bytes, where there is none.
    file_type: Option<u32>,
    /// Where the model is from; hashes that are not known yet have their length.
    pub provenance: Provenance,
    /// Whether figures of an evaluation are to be there.
    evaluated: bool,
    /// These.
    pub evaluation: Option<Json>,
    /// All tensors, in order.
    pub entries: Vec<Entry>,
}

/// Where a file stands among those of its model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub number: usize,
    /// 1: it is the only one.
    pub count: usize,
}

impl Headers {
    /// Those of a file with `placed`, behind `factors`.
    ///
    /// # Errors
    /// When llama.cpp's files have no word for something.
    pub fn new(
        source: &dyn WeightSource,
        plan: &Plan,
        provenance: Provenance,
        file_type: Option<u32>,
        evaluated: bool,
    ) -> Result<(Headers, Vec<Factors>, Vec<Placed>)> {
        let names = names_of(source)?;
        let placed = place_all(source, &names, plan)?;
        let (model, factors) = model_metadata(source, &names)?;
        // Factors first: they are known before anything is quantized, and the header is read back with them.
        let entries =
            factors.iter().map(Factors::entry).chain(placed.iter().map(|placed| placed.entry.clone()));
        let entries = entries.collect();
        let headers = Headers { model, file_type, provenance, evaluated, evaluation: None, entries };
        Ok((headers, factors, placed))
    }

    /// The header of one file.
    pub fn of(&self, place: Place, entries: Range<usize>) -> Vec<u8> {
        let Place { number, count } = place;
        let mut pairs = if number == 0 { self.all_pairs() } else { Pairs::new() };
        if count > 1 {
            pairs.extend(split_pairs(number, count, self.entries.len()));
        }
        header(&pairs, &self.entries[entries])
    }

    fn all_pairs(&self) -> Pairs {
        let file_type = self.file_type.unwrap_or_else(|| main_file_type(&self.entries));
        let mut pairs = self.model.clone();
        pairs.extend(making(file_type, &self.provenance));
        if self.evaluated {
            pairs.extend(evaluation_keys(self.evaluation.as_ref()));
        }
        pairs
    }

    /// The tensors of each file, as far as their sizes are known.
    pub fn ranges(&self, split_size: Option<u64>) -> Vec<Range<usize>> {
        match split_size {
            Some(most) => ranges(&self.entries, most),
            None => std::iter::once(0..self.entries.len()).collect(),
        }
    }
}

/// Bytes of the headers of files with these tensors, with those of the factors of positions, which are no tensors of the model.
///
/// # Errors
/// When llama.cpp's files have no word for something.
pub(crate) fn header_bytes(
    source: &dyn WeightSource,
    plan: &Plan,
    provenance: Provenance,
    evaluated: bool,
    split_size: Option<u64>,
) -> Result<u64> {
    let (headers, factors, _) = Headers::new(source, plan, provenance, None, evaluated)?;
    let factor_bytes: u64 = factors.iter().map(|factors| padded(factors.entry().bytes)).sum();
    let ranges = headers.ranges(split_size);
    let count = ranges.len();
    let all = ranges.into_iter().enumerate();
    let all = all.map(|(number, range)| headers.of(Place { number, count }, range).len() as u64);
    Ok(all.sum::<u64>() + factor_bytes)
}

/// How many files a model makes with these tensors.
///
/// # Errors
/// As [`header_bytes`].
pub(crate) fn count_files(source: &dyn WeightSource, plan: &Plan, split_size: u64) -> Result<usize> {
    let provenance = Provenance {
        tool: String::new(),
        sources: Vec::new(),
        requantized_from: Vec::new(),
        options: Default::default(),
    };
    let (headers, ..) = Headers::new(source, plan, provenance, None, false)?;
    Ok(ranges(&headers.entries, split_size).len())
}

/// The recipe that is named for the type with most bytes.
fn main_file_type(entries: &[Entry]) -> u32 {
    let recipes: [(GgmlType, u32); 14] = {
        use GgmlType::*;
        [
            (Q2_K, 10),
            (Q3_K, 11),
            (Q4_K, 14),
            (Q5_K, 16),
            (Q6_K, 18),
            (IQ4_XS, 30),
            (IQ4_NL, 25),
            (Q4_0, 2),
            (Q4_1, 3),
            (Q5_0, 8),
            (Q5_1, 9),
            (Q8_0, 7),
            (F16, 1),
            (BF16, 32),
        ]
    };
    let bytes =
        |ty: GgmlType| entries.iter().filter(|entry| entry.ty == ty).map(|entry| entry.bytes).sum::<u64>();
    recipes.into_iter().max_by_key(|(ty, _)| bytes(*ty)).map_or(0, |(_, number)| number)
}
