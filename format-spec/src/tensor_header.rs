//! Tensor headers, and the walk over the tensors of a layer, of the final section or of the positions (SPEC.md section 5).

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use zerocopy::byteorder::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::alignment::{TENSOR_HEADER_BYTES, first_nonzero, next_tensor_header};
use crate::block_size::BlockSize;
use crate::error::{Origin, Unread};
use crate::layout::Layout;
use crate::quant_type::QuantType;
use crate::tensor_kind::TensorKind;

/// Most parts of a matrix: a row has two bits for the number of its part.
pub const MOST_PARTS: usize = 4;
const LAYER_DEFAULT: u8 = 0xFF;
const OPTIONAL: u8 = 1;

#[derive(Debug, Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTensorHeader {
    kind: U32,
    rows: U32,
    cols: U32,
    quant: u8,
    layout: u8,
    flags: U16,
}

/// One tensor inside raw bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorEntry {
    /// What the tensor is for; `None` for a kind that this version does not know (SPEC.md section 5.1).
    pub kind: Option<TensorKind>,
    /// The kind's id as stored.
    pub kind_id: u32,
    /// The matrix whose part it is, and the number of the part, from 1 (SPEC.md section 5.2); its own kind is `None` then.
    pub part_of: Option<(TensorKind, u8)>,
    /// Whether results are the same without it, so that a program may pass over a kind that it does not know.
    pub optional: bool,
    /// Rows; 1 for vectors.
    pub rows: u32,
    /// Values per row, padding not counted.
    pub cols: u32,
    /// Stored type.
    pub quant: QuantType,
    /// Order of the data.
    pub layout: Layout,
    /// Range of the data in the raw bytes; its header stands in the 16 bytes before.
    pub data: Range<usize>,
}

impl TensorEntry {
    /// Whether this version does not know what it is for.
    pub fn is_unknown(&self) -> bool {
        self.kind.is_none() && self.part_of.is_none()
    }

    /// What it belongs to, the number of a part left aside.
    pub fn matrix_kind(&self) -> Option<TensorKind> {
        self.kind.or(self.part_of.map(|(kind, _)| kind))
    }

    /// What a part of a matrix is called.
    pub fn part_name(&self) -> Option<String> {
        self.part_of.map(|(kind, part)| part_name(kind, part))
    }

    /// Header and data in the raw bytes: what TCRC covers.
    pub fn with_header(&self) -> Range<usize> {
        self.data.start - TENSOR_HEADER_BYTES as usize..self.data.end
    }
}

/// The 16 header bytes of a tensor of explicit type, or, from 1 on, of a part of one.
pub fn tensor_header_bytes(
    kind: TensorKind,
    part: u8,
    rows: u32,
    cols: u32,
    quant: QuantType,
    layout: Layout,
) -> [u8; 16] {
    let raw = RawTensorHeader {
        kind: part_id(kind, part).into(),
        rows: rows.into(),
        cols: cols.into(),
        quant: quant.id(),
        layout: layout.id(),
        flags: 0.into(),
    };
    zerocopy::transmute!(raw)
}

/// What part `part`, from 1 on, of a matrix of `kind` is called.
pub fn part_name(kind: TensorKind, part: u8) -> String {
    format!("{kind}.{part}")
}

/// The kind's id that part `part` of a matrix of `kind` has.
pub(crate) fn part_id(kind: TensorKind, part: u8) -> u32 {
    u32::from(part) << 8 | kind.id()
}

/// The matrix and the number of its part that a kind's id stands for.
fn part_of_id(id: u32) -> Option<(TensorKind, u8)> {
    let part = u8::try_from(id >> 8).ok().filter(|part| (1..MOST_PARTS).contains(&usize::from(*part)))?;
    TensorKind::from_id(id & 0xFF).filter(|kind| kind.may_have_parts()).map(|kind| (kind, part))
}

/// How many tensors a walk expects.
pub(crate) enum TensorCount {
    /// Exactly this many.
    Exactly(usize),
    /// As many as fill the bytes.
    ToEnd,
    /// This many, with anything behind: only plain files, whose final section has no stated length.
    Plain(usize),
}

/// The raw bytes that a walk goes over: in memory, or fetched where a header stands.
pub(crate) trait RawSpan {
    /// How many there are.
    fn len(&self) -> usize;

    /// Some of them, checked. The range is inside of them and no longer than a header with its padding.
    ///
    /// # Errors
    /// When they are damaged, or do not fit into memory.
    fn bytes(&mut self, range: Range<usize>) -> Result<Cow<'_, [u8]>, Unread>;
}

impl RawSpan for &[u8] {
    fn len(&self) -> usize {
        <[u8]>::len(self)
    }

    fn bytes(&mut self, range: Range<usize>) -> Result<Cow<'_, [u8]>, Unread> {
        Ok(Cow::Borrowed(&self[range]))
    }
}

/// Walks over the tensors in `raw`, which comes from `origin`. The first `lead` bytes belong to the caller; all other bytes that are no header and no data must be zero.
pub(crate) fn parse_tensors(
    mut raw: impl RawSpan,
    origin: Origin,
    lead: usize,
    count: TensorCount,
    default: Option<QuantType>,
    block: BlockSize,
    place: &str,
) -> Result<Vec<TensorEntry>, Unread> {
    let mut tensors = Vec::new();
    // A set: a hostile file can hold so many optional tensors that comparing each with all would take hours.
    let mut kinds = HashSet::new();
    let mut end = lead;
    loop {
        let more = match count {
            TensorCount::Exactly(n) | TensorCount::Plain(n) => tensors.len() < n,
            TensorCount::ToEnd => end < raw.len(),
        };
        if !more {
            break;
        }
        let place = format!("{place}, tensor {}", tensors.len());
        let entry = parse_tensor(&mut raw, origin, end, default, block, &place)?;
        if !kinds.insert(entry.kind_id) {
            let found = format!("a second kind {}", entry.kind_id);
            return Err(origin.damage(place, entry.with_header().start, "each kind once", found).into());
        }
        end = entry.data.end;
        tensors.push(entry);
    }
    if !matches!(count, TensorCount::Plain(_)) && end != raw.len() {
        let found = format!("{} more bytes", raw.len() - end);
        return Err(origin.damage(place, end, "the end after the last tensor", found).into());
    }
    Ok(tensors)
}

/// The tensor whose header follows bytes that end at `end`.
fn parse_tensor(
    raw: &mut impl RawSpan,
    origin: Origin,
    end: usize,
    default: Option<QuantType>,
    block: BlockSize,
    place: &str,
) -> Result<TensorEntry, Unread> {
    let damage = |from: usize, expected: String, found: String| origin.damage(place, from, expected, found);
    let start = next_tensor_header(end as u64)
        .and_then(|start| usize::try_from(start).ok())
        .filter(|&start| start < raw.len())
        .ok_or_else(|| damage(end, "a tensor header".into(), "the end of the bytes".into()))?;
    let total = raw.len();
    let bytes = raw.bytes(end..total.min(start + TENSOR_HEADER_BYTES as usize))?;
    let (padding, header) = bytes.split_at(start - end);
    if let Some(i) = first_nonzero(padding) {
        return Err(damage(end + i, "zero padding".into(), format!("byte {:#04x}", padding[i])).into());
    }
    let Ok(header) = RawTensorHeader::read_from_bytes(header) else {
        let found = format!("{} bytes", header.len());
        return Err(damage(start, "a tensor header of 16 bytes".into(), found).into());
    };
    let optional = header.flags == u16::from(OPTIONAL);
    if header.flags != 0 && !optional {
        return Err(damage(start + 14, "flags 0 or 1".into(), header.flags.to_string()).into());
    }
    let kind_id = header.kind.get();
    let kind = TensorKind::from_id(kind_id);
    let quant = if header.quant == LAYER_DEFAULT { default } else { QuantType::from_id(header.quant) };
    let Some(quant) = quant else {
        return Err(damage(start + 12, "a known type id".into(), header.quant.to_string()).into());
    };
    let layout = Layout::parse(header.layout, quant)
        .map_err(|expected| damage(start + 13, expected.into(), format!("layout {}", header.layout)))?;
    let (rows, cols) = (header.rows.get(), header.cols.get());
    if rows == 0 || cols == 0 {
        return Err(
            damage(start + 4, "at least one row and column".into(), format!("{rows} x {cols}")).into()
        );
    }
    let data_start = start + TENSOR_HEADER_BYTES as usize;
    let bytes = quant
        .tensor_bytes(block, rows.into(), cols.into())
        .filter(|&bytes| bytes <= (total - data_start) as u64)
        .ok_or_else(|| {
            damage(
                start,
                format!("data of a {rows} x {cols} {quant} tensor"),
                format!("{} bytes left", total - data_start),
            )
        })?;
    let data = data_start..data_start + bytes as usize;
    let part_of = part_of_id(kind_id);
    Ok(TensorEntry { kind, kind_id, part_of, optional, rows, cols, quant, layout, data })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::error::Damage;

    /// A final section of optional 1 x 1 tensors of these unknown kinds.
    fn optional_tensors(kinds: impl Iterator<Item = u32>) -> Vec<u8> {
        let mut raw = vec![0];
        for kind in kinds {
            raw.resize(next_tensor_header(raw.len() as u64).unwrap() as usize, 0);
            let mut header =
                tensor_header_bytes(TensorKind::FinalNorm, 0, 1, 1, QuantType::F32, Layout::Rows);
            header[..4].copy_from_slice(&kind.to_le_bytes());
            header[14] = OPTIONAL;
            raw.extend_from_slice(&header);
            raw.extend_from_slice(&[0; 4]);
        }
        raw
    }

    fn walk(raw: &[u8]) -> Result<Vec<TensorEntry>, Damage> {
        let (origin, count) = (Origin::InFile(0), TensorCount::ToEnd);
        parse_tensors(raw, origin, 1, count, None, BlockSize::B64, "final section").map_err(|e| match e {
            Unread::Damaged(damage) => damage,
            Unread::NoMemory { .. } => panic!("{e:?}"),
        })
    }

    #[test]
    fn a_hundred_thousand_optional_tensors_do_not_keep_the_reader_busy() {
        let raw = optional_tensors(1000..101_000);
        let started = Instant::now();
        assert_eq!(walk(&raw).unwrap().len(), 100_000);
        let took = started.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
    }

    #[test]
    fn a_layout_that_is_not_known_or_not_of_the_type_is_refused_at_its_byte() {
        let section = |quant: QuantType, layout: u8| {
            let mut raw = vec![0; 48];
            let mut header = tensor_header_bytes(TensorKind::Head, 0, 17, 40, quant, Layout::Rows);
            header[13] = layout;
            raw.extend_from_slice(&header);
            let bytes = quant.tensor_bytes(BlockSize::B64, 17, 40).unwrap();
            raw.resize(64 + bytes as usize, 0);
            walk(&raw)
        };
        for quant in QuantType::ALL {
            assert_eq!(section(quant, 0).unwrap()[0].layout, Layout::Rows);
            for layout in 1..=255 {
                let found = section(quant, layout);
                if layout == 3 && !quant.is_float() {
                    assert_eq!(found.unwrap()[0].layout, Layout::Panels16);
                    continue;
                }
                let damage = found.unwrap_err();
                assert_eq!((damage.offset, damage.found), (48 + 13, format!("layout {layout}")), "{quant}");
            }
        }
    }

    #[test]
    fn a_kind_that_comes_twice_is_refused_even_with_many_between() {
        let damage = walk(&optional_tensors((1000..2000).chain([1000]))).unwrap_err();
        assert_eq!(damage.expected, "each kind once");
        assert!(damage.found.contains("1000"), "{damage}");
    }
}
