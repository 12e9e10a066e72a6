//! The thread that reads ahead, and how pieces come from it to the decoder.
//!
//! A few buffers go round: empty to the reader, filled to the decoder. Both ways are queues of fixed size, so that nothing is
//! allocated while tokens are decoded. The reader goes through the schedule again and again, so the first pieces of the next token are
//! there when this one is done. A decoder that leaves something out says how far it wants to go on, and buffers
//! that were filled with what lies before come back unused.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::chunk_reader::ChunkReader;
use super::schedule::Schedule;
use crate::arena::Region;
use crate::error::{Result, RuntimeError};
use crate::tensor::TensorBytes;

/// Stack of the reader, which calls nothing deep.
const STACK_BYTES: usize = 256 << 10;

/// Streams the pieces of a schedule.
pub struct Pipeline {
    schedule: Arc<Schedule>,
    /// Where the reader shall go on at least.
    wanted: Arc<AtomicU64>,
    reading: Arc<Reading>,
    ends: Mutex<Option<Ends>>,
    reader: Option<JoinHandle<()>>,
}

/// What the reader has done.
#[derive(Default)]
struct Reading {
    bytes: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The decoder's ends of the queues.
struct Ends {
    filled: Receiver<Filled>,
    empty: SyncSender<Arc<Region>>,
    position: u64,
    waited: Duration,
}

struct Filled {
    position: u64,
    /// Where in the buffer the piece is.
    piece: Result<Range<usize>>,
    buffer: Arc<Region>,
}

impl Pipeline {
    /// Starts to read.
    ///
    /// # Errors
    /// When the system refuses a thread.
    ///
    /// # Panics
    /// When the schedule is empty.
    pub fn start(schedule: Arc<Schedule>, mut reader: ChunkReader, buffers: Vec<Region>) -> Result<Pipeline> {
        assert!(!schedule.is_empty() && !buffers.is_empty(), "nothing to stream, or nowhere to");
        let (empty, to_fill) = sync_channel::<Arc<Region>>(buffers.len());
        let (fill, filled) = sync_channel(buffers.len());
        for buffer in buffers {
            // There is room for all of them.
            let _ = empty.send(Arc::new(buffer));
        }
        let wanted = Arc::new(AtomicU64::new(0));
        let reading = Arc::new(Reading::default());
        let (plan, skip_to, done) = (schedule.clone(), wanted.clone(), reading.clone());
        let work = move || {
            let mut position = 0;
            for mut buffer in to_fill {
                position = skip_to.load(Ordering::Acquire).max(position);
                let piece = plan.at(position);
                let (started, before) = (Instant::now(), reader.bytes_read());
                let filled = match Arc::get_mut(&mut buffer) {
                    Some(memory) => reader.read(&piece.part, &piece.raw, memory),
                    // The decoder gives back what nobody uses any more.
                    None => Err(RuntimeError::Request("a buffer in use came back".into())),
                };
                done.bytes.fetch_add(reader.bytes_read() - before, Ordering::Relaxed);
                done.nanoseconds.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
                let piece = filled.map(|start| start..start + piece.raw.len());
                if fill.send(Filled { position, piece, buffer }).is_err() {
                    return;
                }
                position += 1;
            }
        };
        let thread = std::thread::Builder::new().name("qsf-stream".into()).stack_size(STACK_BYTES);
        let reader = thread.spawn(work).map_err(|_| RuntimeError::OutOfMemory {
            what: "thread that reads weights".into(),
            bytes: STACK_BYTES as u64,
        })?;
        let ends = Ends { filled, empty, position: 0, waited: Duration::ZERO };
        Ok(Pipeline { schedule, wanted, reading, ends: Mutex::new(Some(ends)), reader: Some(reader) })
    }

    /// The pieces that go round.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Stored bytes that were read so far, and the time that reading and checking them took.
    pub fn read(&self) -> (u64, Duration) {
        let Reading { bytes, nanoseconds } = &*self.reading;
        let time = Duration::from_nanos(nanoseconds.load(Ordering::Relaxed));
        (bytes.load(Ordering::Relaxed), time)
    }

    /// Time that the decoder has waited for the disk so far.
    pub fn waited(&self) -> Duration {
        self.ends
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .as_ref()
            .map_or(Duration::ZERO, |ends| ends.waited)
    }

    /// Calls `work` with each of the pieces `numbers` in turn, as soon as it is there.
    ///
    /// # Errors
    /// When one cannot be read or is damaged: then it and the ones behind are left out.
    pub fn for_each(&self, numbers: Range<usize>, mut work: impl FnMut(usize, TensorBytes)) -> Result<()> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ends) = ends.as_mut() else { return Err(stopped()) };
        for number in numbers {
            let position = self.schedule.next(number, ends.position);
            if position != ends.position {
                self.wanted.store(position, Ordering::Release);
            }
            let filled = ends.receive(position)?;
            ends.position = position + 1;
            let outcome = match filled.piece {
                Ok(range) => {
                    work(number, TensorBytes::Region(filled.buffer.clone(), range));
                    Ok(())
                }
                Err(e) => Err(e),
            };
            ends.empty.send(filled.buffer).map_err(|_| stopped())?;
            outcome?;
        }
        Ok(())
    }
}

impl Ends {
    /// The piece at `position`; what lies before it goes back.
    fn receive(&mut self, position: u64) -> Result<Filled> {
        let started = Instant::now();
        loop {
            let filled = self.filled.recv().map_err(|_| stopped())?;
            if filled.position == position {
                self.waited += started.elapsed();
                return Ok(filled);
            }
            self.empty.send(filled.buffer).map_err(|_| stopped())?;
        }
    }
}

fn stopped() -> RuntimeError {
    RuntimeError::Request("the thread that reads weights has stopped".into())
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // Without its queues the thread ends after the piece that it is at.
        *self.ends.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
