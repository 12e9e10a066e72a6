//! Reading a statistics file: its heads first, then the sums of one layer at a time.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use qsf_runtime::{Result, RuntimeError};

use super::header::StatsHeader;
use super::record::{HEAD_BYTES, Head, Malformed, What, read_moments};
use crate::layer_stats::LayerStats;
use crate::moments::Moments;

/// Bytes of the checksum behind a record.
const CRC_BYTES: u64 = 4;

/// An open statistics file. Nothing is taken on its word: sizes are held against the file's before memory is taken, and sums
/// against their checksums when they are read.
pub struct StatsReader<R = BufReader<File>> {
    path: PathBuf,
    from: R,
    header: StatsHeader,
    records: Vec<(u64, Head)>,
}

impl StatsReader {
    /// Opens the file `path`.
    ///
    /// # Errors
    /// When it cannot be read, or is no whole statistics file.
    pub fn open(path: &Path) -> Result<StatsReader> {
        let file = File::open(path).map_err(|e| RuntimeError::io(path, "open", e))?;
        StatsReader::new(path, BufReader::new(file))
    }
}

impl<R: Read + Seek> StatsReader<R> {
    /// Reads from anywhere; `path` is for messages.
    ///
    /// # Errors
    /// When that is no whole statistics file.
    pub fn new(path: &Path, mut from: R) -> Result<StatsReader<R>> {
        let index = index(&mut from);
        let (header, records) = index.map_err(|e| e.at(path))?;
        Ok(StatsReader { path: path.to_owned(), from, header, records })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the statistics are of.
    pub fn header(&self) -> &StatsHeader {
        &self.header
    }

    /// The layers that the file has statistics of, `None` for the head, in order.
    pub fn layers(&self) -> Vec<Option<u32>> {
        let mut layers: Vec<_> = self.records.iter().map(|(_, head)| head.layer).collect();
        layers.dedup();
        layers
    }

    /// The statistics of one layer, or of the head; empty where the file has none.
    ///
    /// # Errors
    /// When they cannot be read, do not have their checksum, or are no numbers.
    pub fn layer(&mut self, layer: Option<u32>) -> Result<LayerStats> {
        let mut stats = LayerStats { layer, ..LayerStats::default() };
        for (at, head) in self.records.iter().filter(|(_, head)| head.layer == layer) {
            let values = read_record(&mut self.from, *at, head).map_err(|e| e.at(&self.path))?;
            match (head.what, values) {
                (What::Influence, Values::Influence(influence)) => stats.influence = Some(influence),
                (What::Input(input), Values::Moments(moments)) => {
                    stats.inputs.insert(input, moments);
                }
                _ => {}
            }
        }
        Ok(stats)
    }
}

/// The header, and where each record is.
fn index<R: Read + Seek>(from: &mut R) -> Result<(StatsHeader, Vec<(u64, Head)>), Malformed> {
    let bytes = from.seek(SeekFrom::End(0))?;
    from.seek(SeekFrom::Start(0))?;
    let header = StatsHeader::read(from)?;
    let mut records: Vec<(u64, Head)> = Vec::new();
    loop {
        let at = from.stream_position()?;
        let mut head = [0; HEAD_BYTES];
        from.read_exact(&mut head)?;
        let head = Head::parse(&head)?;
        let body = head.body_bytes().and_then(|body| body.checked_add(CRC_BYTES));
        let end = body.and_then(|body| body.checked_add(at + HEAD_BYTES as u64));
        let Some(end) = end.filter(|end| *end <= bytes) else {
            return Err(Malformed::new(format!("{head} at offset {at}"), "all of it", "the end of the file"));
        };
        if records.last().is_some_and(|(_, last)| last.order() >= head.order()) {
            return Err(Malformed::new(format!("the record at offset {at}"), "records in order", head));
        }
        if head.what == What::End {
            read_record(from, at, &head)?;
            return if end == bytes {
                Ok((header, records))
            } else {
                Err(Malformed::new("the end of the file", format!("{end} bytes"), format!("{bytes}")))
            };
        }
        records.push((at, head));
        from.seek(SeekFrom::Start(end))?;
    }
}

enum Values {
    Influence(f64),
    Moments(Moments),
    None,
}

/// Reads a record whose bytes the file has.
fn read_record<R: Read + Seek>(from: &mut R, at: u64, head: &Head) -> Result<Values, Malformed> {
    from.seek(SeekFrom::Start(at))?;
    let mut hashed = Hashed { from, crc: crc32fast::Hasher::new() };
    hashed.read_exact(&mut [0; HEAD_BYTES])?;
    let values = match head.what {
        What::End => Values::None,
        What::Influence => {
            let mut bytes = [0; 8];
            hashed.read_exact(&mut bytes)?;
            Values::Influence(f64::from_le_bytes(bytes))
        }
        What::Input(_) => Values::Moments(read_moments(head, &mut hashed)?),
    };
    let found = hashed.crc.finalize();
    let mut crc = [0; 4];
    from.read_exact(&mut crc)?;
    let stored = u32::from_le_bytes(crc);
    let hex = |crc| format!("CRC {crc:08x}");
    if stored != found {
        return Err(Malformed::new(format!("{head} at offset {at}"), hex(stored), hex(found)));
    }
    let finite = match &values {
        Values::Influence(influence) => influence.is_finite(),
        Values::Moments(moments) => moments.is_plausible(),
        Values::None => true,
    };
    if finite {
        Ok(values)
    } else {
        Err(Malformed::new(format!("{head} at offset {at}"), "sums that are finite", "others"))
    }
}

/// Hashes what is read.
struct Hashed<'a, R> {
    from: &'a mut R,
    crc: crc32fast::Hasher,
}

impl<R: Read> Read for Hashed<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let n = self.from.read(buffer)?;
        self.crc.update(&buffer[..n]);
        Ok(n)
    }
}
