//! Section LORA: what adapters add to matrices of the model, as products of two narrow ones (ANNEX.md, LORA).

use crate::quant_type::QuantType;
use crate::tensor_kind::{TensorId, TensorKind};

/// The version of the section that is written and read.
const VERSION: u32 = 1;
/// Bytes before the records.
const HEADER_BYTES: usize = 16;
/// Bytes of the record of an adapter, and of the record of an update.
const RECORD_BYTES: [usize; 2] = [16, 32];
/// Stands for no layer, and for no expert.
const NONE: u32 = u32::MAX;

/// An adapter in a file.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredAdapter {
    /// What it is called.
    pub name: String,
    /// What it was multiplied with when it was put into the file. The factors of its updates have it already.
    pub scale: f32,
    /// What it adds to each matrix, by ascending places.
    pub updates: Vec<StoredUpdate>,
}

/// What is added to a matrix: the sum over r of `factors[r] * up[r] * down[r]`, a column times a row.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredUpdate {
    /// The matrix.
    pub id: TensorId,
    /// Which of its experts, where each has updates of its own.
    pub expert: Option<u32>,
    /// Rows of the matrix.
    pub outputs: u32,
    /// Columns of the matrix.
    pub inputs: u32,
    /// F16 or F32.
    pub quant: QuantType,
    /// One for each r.
    pub factors: Vec<f32>,
    /// Rank x inputs, little-endian.
    pub down: Vec<u8>,
    /// Rank x outputs, little-endian.
    pub up: Vec<u8>,
}

/// Offset in the section, what was expected there and what was found.
type Wrong = (usize, String, String);

impl StoredAdapter {
    /// The bytes of a section of these adapters, of a model of `layers` layers.
    ///
    /// # Errors
    /// What the format cannot hold.
    pub fn section(adapters: &[StoredAdapter], layers: u32) -> Result<Vec<u8>, String> {
        let number = |n: usize| u32::try_from(n).map_err(|_| format!("{n} are more than 32 bits can count"));
        let updates = || adapters.iter().flat_map(|adapter| &adapter.updates);
        let names: usize = adapters.iter().map(|adapter| adapter.name.len()).sum();
        let mut fields = vec![VERSION, number(adapters.len())?, number(updates().count())?, number(names)?];
        for adapter in adapters {
            let [name, updates] = [adapter.name.len(), adapter.updates.len()];
            fields.extend([number(name)?, number(updates)?, adapter.scale.to_bits(), 0]);
        }
        for update in updates() {
            fields.extend([update.id.layer.unwrap_or(NONE), update.id.kind as u32]);
            fields.extend([update.expert.unwrap_or(NONE), number(update.factors.len())?]);
            fields.extend([update.outputs, update.inputs, update.quant as u32, 0]);
        }
        let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        adapters.iter().for_each(|adapter| bytes.extend(adapter.name.as_bytes()));
        for update in updates() {
            bytes.extend(update.factors.iter().flat_map(|factor| factor.to_le_bytes()));
            bytes.extend(update.down.iter().chain(&update.up));
        }
        match StoredAdapter::parse(&bytes, layers) {
            Ok(read) if read == adapters => Ok(bytes),
            Ok(_) => Err("values of another number than the counts say".into()),
            Err((at, expected, found)) => Err(format!("at byte {at} expected {expected}, found {found}")),
        }
    }

    /// Reads a section of a model of `layers` layers.
    ///
    /// # Errors
    /// The first field that is wrong. No memory is taken before the length fits the counts.
    pub(crate) fn parse(bytes: &[u8], layers: u32) -> Result<Vec<StoredAdapter>, Wrong> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return wrong(0, format!("at least {HEADER_BYTES} bytes"), format!("{} bytes", bytes.len()));
        };
        let [version, adapters, updates, names] = fields(header);
        if version != VERSION {
            return wrong(0, format!("version {VERSION}"), version);
        }
        if adapters == 0 {
            return wrong(4, "an adapter", adapters);
        }
        let sizes = [adapters, updates].map(u64::from);
        let [adapters_at, updates_at, names_at] = [
            HEADER_BYTES as u64,
            HEADER_BYTES as u64 + sizes[0] * RECORD_BYTES[0] as u64,
            HEADER_BYTES as u64 + sizes[0] * RECORD_BYTES[0] as u64 + sizes[1] * RECORD_BYTES[1] as u64,
        ];
        let values_at = names_at + u64::from(names);
        if values_at > bytes.len() as u64 {
            return wrong(
                0,
                format!("at least {values_at} bytes by the counts"),
                format!("{} bytes", bytes.len()),
            );
        }
        // All of these are inside of what is in memory.
        let [adapters_at, updates_at, names_at, values_at] =
            [adapters_at, updates_at, names_at, values_at].map(|at| at as usize);
        let mut left = Left { bytes, name: names_at..values_at, value: values_at };
        let mut records = bytes[updates_at..names_at].chunks_exact(RECORD_BYTES[1]).enumerate();
        let mut all = Vec::with_capacity(adapters as usize);
        for (i, record) in bytes[adapters_at..updates_at].chunks_exact(RECORD_BYTES[0]).enumerate() {
            let at = adapters_at + i * RECORD_BYTES[0];
            let [name, count, scale, reserved] = fields(record);
            let scale = f32::from_bits(scale);
            if !scale.is_finite() {
                return wrong(at + 8, "a finite number", scale);
            }
            if reserved != 0 {
                return wrong(at + 12, "zero", reserved);
            }
            let name = left.name(at, name)?;
            if count == 0 || count as usize > records.len() {
                return wrong(at + 4, format!("1 to {} updates", records.len()), count);
            }
            let mut updates: Vec<StoredUpdate> = Vec::with_capacity(count as usize);
            for (j, record) in records.by_ref().take(count as usize) {
                let at = updates_at + j * RECORD_BYTES[1];
                let update = left.update(at, record, layers)?;
                if updates.last().is_some_and(|before| before.place() >= update.place()) {
                    return wrong(at, "updates by ascending places, each once", place_text(&update));
                }
                updates.push(update);
            }
            all.push(StoredAdapter { name, scale, updates });
        }
        if let Some((j, _)) = records.next() {
            return wrong(8, format!("{j} updates as the adapters have"), updates);
        }
        left.check_end()?;
        Ok(all)
    }
}

impl StoredUpdate {
    /// By what updates are sorted.
    pub fn place(&self) -> (u32, u32, u32) {
        (self.id.layer.unwrap_or(NONE), self.id.kind as u32, self.expert.unwrap_or(NONE))
    }

    /// Columns of the one matrix, rows of the other.
    pub fn rank(&self) -> usize {
        self.factors.len()
    }
}

fn place_text(update: &StoredUpdate) -> String {
    let expert = update.expert.map(|expert| format!(", expert {expert}")).unwrap_or_default();
    format!("{}{expert}", update.id)
}

fn wrong<T>(at: usize, expected: impl ToString, found: impl ToString) -> Result<T, Wrong> {
    Err((at, expected.to_string(), found.to_string()))
}

/// The first fields of a record.
fn fields<const N: usize>(record: &[u8]) -> [u32; N] {
    std::array::from_fn(|i| u32::from_le_bytes([0, 1, 2, 3].map(|b| record[4 * i + b])))
}

/// What no record has taken yet.
struct Left<'a> {
    bytes: &'a [u8],
    name: std::ops::Range<usize>,
    value: usize,
}

impl<'a> Left<'a> {
    /// The name of the adapter whose record is at `at`.
    fn name(&mut self, at: usize, length: u32) -> Result<String, Wrong> {
        if length as usize > self.name.len() {
            return wrong(at, format!("a name of at most {} bytes", self.name.len()), length);
        }
        let start = self.name.start;
        self.name.start += length as usize;
        match std::str::from_utf8(&self.bytes[start..self.name.start]) {
            Ok(name) => Ok(name.to_owned()),
            Err(error) => wrong(start + error.valid_up_to(), "a name in UTF-8", "other bytes"),
        }
    }

    /// The update of the record at `at`, with its values.
    fn update(&mut self, at: usize, record: &[u8], layers: u32) -> Result<StoredUpdate, Wrong> {
        let [layer, kind, expert, rank, outputs, inputs, quant, reserved] = fields(record);
        let layer = (layer != NONE).then_some(layer);
        if let Some(layer) = layer.filter(|layer| *layer >= layers) {
            return wrong(at, format!("a layer below {layers}"), layer);
        }
        let Some(kind) = TensorKind::from_id(kind) else {
            return wrong(at + 4, "a kind of SPEC.md section 5", kind);
        };
        for (field, value) in [(12, rank), (16, outputs), (20, inputs)] {
            if value == 0 {
                return wrong(at + field, "at least 1", value);
            }
        }
        let quant = [QuantType::F16, QuantType::F32].into_iter().find(|known| *known as u32 == quant);
        let Some(quant) = quant else {
            let found = fields::<8>(record)[6];
            return wrong(
                at + 24,
                format!("type {} or {}", QuantType::F16 as u8, QuantType::F32 as u8),
                found,
            );
        };
        if reserved != 0 {
            return wrong(at + 28, "zero", reserved);
        }
        let width = if quant == QuantType::F16 { 2 } else { 4 };
        let factors = self.values(at, rank, 1, QuantType::F32, 4)?;
        let factors = factors.as_chunks().0.iter().map(|factor| f32::from_le_bytes(*factor)).collect();
        let down = self.values(at, rank, inputs, quant, width)?.to_vec();
        let up = self.values(at, rank, outputs, quant, width)?.to_vec();
        let id = TensorId { layer, kind };
        let expert = (expert != NONE).then_some(expert);
        Ok(StoredUpdate { id, expert, outputs, inputs, quant, factors, down, up })
    }

    /// The next rank x `count` values of `width` bytes each, all finite, of the update whose record is at `at`.
    fn values(
        &mut self,
        at: usize,
        rank: u32,
        count: u32,
        quant: QuantType,
        width: usize,
    ) -> Result<&'a [u8], Wrong> {
        let start = self.value;
        let need = u64::from(rank).saturating_mul(u64::from(count)).saturating_mul(width as u64);
        if need > (self.bytes.len() - start) as u64 {
            let found = format!("{} bytes left", self.bytes.len() - start);
            return wrong(at, format!("{need} bytes of values"), found);
        }
        self.value += need as usize;
        let values = &self.bytes[start..self.value];
        let finite = |value: &[u8]| match value {
            [a, b] => half::f16::from_le_bytes([*a, *b]).is_finite(),
            [a, b, c, d] => f32::from_le_bytes([*a, *b, *c, *d]).is_finite(),
            _ => false,
        };
        match values.chunks_exact(width).position(|value| !finite(value)) {
            Some(i) => wrong(
                start + i * width,
                format!("a finite {quant}"),
                format!("bytes {:02X?}", &values[i * width..][..width]),
            ),
            None => Ok(values),
        }
    }

    fn check_end(&self) -> Result<(), Wrong> {
        if !self.name.is_empty() {
            return wrong(12, "names as long as the adapters say", format!("{} bytes more", self.name.len()));
        }
        if self.value != self.bytes.len() {
            let found = format!("{} bytes more", self.bytes.len() - self.value);
            return wrong(self.value, "the end of the section", found);
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    const LAYERS: u32 = 3;

    fn update(layer: Option<u32>, kind: TensorKind, expert: Option<u32>, quant: QuantType) -> StoredUpdate {
        let (outputs, inputs, rank) = (3, 5, 2);
        let width = if quant == QuantType::F16 { 2 } else { 4 };
        let values = |count: u32| (0..rank * count * width).map(|i| i as u8 % 60).collect();
        let (down, up) = (values(inputs), values(outputs));
        let id = TensorId { layer, kind };
        StoredUpdate { id, expert, outputs, inputs, quant, factors: vec![0.5, -4.0], down, up }
    }

    fn adapters() -> Vec<StoredAdapter> {
        let first = vec![
            update(Some(0), TensorKind::AttnQ, None, QuantType::F16),
            update(Some(2), TensorKind::ExpertUp, Some(1), QuantType::F32),
            update(Some(2), TensorKind::ExpertUp, Some(4), QuantType::F16),
        ];
        let second = vec![update(None, TensorKind::Head, None, QuantType::F16)];
        vec![
            StoredAdapter { name: "küche".into(), scale: 0.5, updates: first },
            StoredAdapter { name: String::new(), scale: 1.0, updates: second },
        ]
    }

    #[test]
    fn adapters_come_back_in_the_stated_bytes() {
        let bytes = StoredAdapter::section(&adapters(), LAYERS).unwrap();
        let values = |width: usize| 2 * 4 + 2 * width * (5 + 3);
        assert_eq!(bytes.len(), 16 + 2 * 16 + 4 * 32 + 6 + 3 * values(2) + values(4));
        assert_eq!(StoredAdapter::parse(&bytes, LAYERS), Ok(adapters()));
    }

    #[test]
    fn every_wrong_field_is_refused_at_its_byte() {
        let good = StoredAdapter::section(&adapters(), LAYERS).unwrap();
        let with = |i: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[i] = value;
            StoredAdapter::parse(&bytes, LAYERS).unwrap_err().0
        };
        let (first, names, values) = (48, 176, 182);
        assert_eq!(with(0, 2), 0, "a later version");
        assert_eq!(with(4, 0), 4, "no adapter");
        assert_eq!(with(11, 1), 0, "more updates than bytes");
        assert_eq!(with(12, 5), 16, "a name beyond the names");
        assert_eq!(with(16, 7), 16, "a name beyond the names");
        assert_eq!(with(20, 0), 20, "an adapter of nothing");
        assert_eq!(with(20, 5), 20, "more updates than there are");
        assert_eq!(with(43, 0x7F), 40, "a scale that is not finite");
        assert_eq!(with(28, 1), 28, "a reserved field");
        assert_eq!(with(first, 3), first, "no such layer");
        assert_eq!(with(first + 7, 1), first + 4, "an unknown kind");
        assert_eq!(with(first + 12, 0), first + 12, "rank 0");
        assert_eq!(with(first + 24, 9), first + 24, "a type of blocks");
        assert_eq!(with(first + 28, 1), first + 28, "a reserved field");
        assert_eq!(with(first + 64 + 8, 1), first + 64, "an expert twice");
        assert_eq!(with(names, 0xFF), names, "no UTF-8");
        assert_eq!(with(values + 7, 0x7F), values + 4, "a factor that is not finite");
        assert_eq!(with(values + 9, 0x7C), values + 8, "a value that is not finite");
        for len in 0..good.len() {
            StoredAdapter::parse(&good[..len], LAYERS).unwrap_err();
        }
        let longer = [&good[..], &[0]].concat();
        assert_eq!(StoredAdapter::parse(&longer, LAYERS).unwrap_err().0, good.len());
        // Counts whose sizes exceed every memory are refused by the length alone.
        let mut huge = good;
        huge[first + 12..first + 24].fill(0xFF);
        let (_, expected, _) = StoredAdapter::parse(&huge, LAYERS).unwrap_err();
        assert!(expected.contains("bytes of values"), "{expected}");
    }

    #[test]
    fn what_the_format_cannot_hold_is_not_written() {
        let mut short = adapters();
        short[0].updates[0].up.pop();
        StoredAdapter::section(&short, LAYERS).unwrap_err();
        let mut unsorted = adapters();
        unsorted[0].updates.swap(0, 1);
        StoredAdapter::section(&unsorted, LAYERS).unwrap_err();
        StoredAdapter::section(&[], LAYERS).unwrap_err();
        StoredAdapter::section(&adapters(), 2).unwrap_err();
    }
}
