//! The ways to get bytes of a file: copied from a map of it, by ordinary reads, or past the page cache.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use memmap2::Mmap;

#[cfg(target_os = "linux")]
use crate::arena::REGION_ALIGN;
use crate::error::{Result, RuntimeError};

/// How weights are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Io {
    /// From a map of the file. The system reads ahead, and is told what is no longer needed.
    Mmap,
    /// By ordinary reads, through the page cache.
    #[default]
    Pread,
    /// By reads past the page cache, which a machine with little memory has no use for (Linux).
    Direct,
}

impl Io {
    /// Every way.
    pub const ALL: [Io; 3] = [Io::Mmap, Io::Pread, Io::Direct];

    /// The way that suits a file: past the cache where the cache has no room for it, as then it gains nothing and costs a copy.
    pub fn suitable(path: &Path) -> Io {
        let bytes = path.metadata().map_or(0, |metadata| metadata.len());
        let beyond = crate::memory::available().is_some_and(|available| bytes > available);
        if beyond && open(path, Io::Direct).is_ok() { Io::Direct } else { Io::Pread }
    }

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Io::Mmap => "mmap",
            Io::Pread => "pread",
            Io::Direct => "direct",
        }
    }
}

/// Reads ranges of a file.
pub trait Disk: Send {
    /// Multiple that offsets, lengths and addresses of fast reads have: 1 where it does not matter. Others are possible, and
    /// slower.
    fn align(&self) -> usize {
        1
    }

    /// Fills `out` with the bytes at `offset`. Where offset, length and address are aligned, the end may be behind that of
    /// the file, and the rest of `out` is left as it is.
    ///
    /// # Errors
    /// When the system cannot read them, or the file ends before.
    fn read(&mut self, offset: u64, out: &mut [u8]) -> std::io::Result<()>;
}

/// Opens a file for reading in this way.
///
/// # Errors
/// When it cannot be opened, or the file system or the platform has no such way.
pub fn open(path: &Path, io: Io) -> Result<Box<dyn Disk>> {
    match io {
        Io::Mmap => Ok(Box::new(Mapped::open(path)?)),
        Io::Pread => Ok(Box::new(Plain {
            file: open_file(path, OpenOptions::new().read(true))?,
            path: path.to_owned(),
        })),
        Io::Direct => open_direct(path),
    }
}

fn open_file(path: &Path, options: &OpenOptions) -> Result<File> {
    options.open(path).map_err(|e| RuntimeError::io(path, "open", e))
}

#[cfg(target_os = "linux")]
fn open_direct(path: &Path) -> Result<Box<dyn Disk>> {
    use std::os::unix::fs::OpenOptionsExt;
    let flags = rustix::fs::OFlags::DIRECT.bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(|source| {
        RuntimeError::io(path, "open for direct reading (--io pread works on every file system)", source)
    })?;
    let end = file.metadata().map_err(|e| RuntimeError::io(path, "read", e))?.len();
    Ok(Box::new(Direct { file, end, staging: Vec::new() }))
}

#[cfg(not(target_os = "linux"))]
fn open_direct(path: &Path) -> Result<Box<dyn Disk>> {
    Err(RuntimeError::Unsupported {
        path: path.to_owned(),
        what: "reading past the page cache on this system".into(),
        supported: "use --io pread or --io mmap".into(),
    })
}

struct Plain {
    file: File,
    #[cfg_attr(unix, expect(dead_code, reason = "only other systems have no positional reads"))]
    path: PathBuf,
}

impl Disk for Plain {
    #[cfg(unix)]
    fn read(&mut self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, out, offset)
    }

    #[cfg(not(unix))]
    fn read(&mut self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        use std::io::{Read, Seek, SeekFrom};
        let _ = &self.path;
        self.file.seek(SeekFrom::Start(offset))?;
        self.file.read_exact(out)
    }
}

#[cfg(target_os = "linux")]
struct Direct {
    file: File,
    end: u64,
    /// What is not aligned goes through here.
    staging: Vec<u8>,
}

#[cfg(target_os = "linux")]
impl Direct {
    /// Aligned, but for a file that ends inside of it.
    fn read_aligned(file: &File, end: u64, mut offset: u64, mut out: &mut [u8]) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt;
        while !out.is_empty() && offset < end {
            match file.read_at(out, offset) {
                Ok(0) => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                // Less than asked for, and not up to the end: the rest begins at a boundary again, or is the end.
                Ok(bytes) => {
                    offset += bytes as u64;
                    out = &mut out[bytes..];
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

#[cfg(target_os = "linux")]
impl Disk for Direct {
    fn align(&self) -> usize {
        REGION_ALIGN
    }

    fn read(&mut self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let align = REGION_ALIGN;
        let address = out.as_ptr() as usize;
        if offset.is_multiple_of(align as u64)
            && out.len().is_multiple_of(align)
            && address.is_multiple_of(align)
        {
            return Direct::read_aligned(&self.file, self.end, offset, out);
        }
        if offset + out.len() as u64 > self.end {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let before = (offset % align as u64) as usize;
        let len = (before + out.len()).next_multiple_of(align);
        if self.staging.len() < len + align {
            self.staging.resize(len + align, 0);
        }
        let shift = self.staging.as_ptr().align_offset(align);
        let staging = &mut self.staging[shift..shift + len];
        Direct::read_aligned(&self.file, self.end, offset - before as u64, staging)?;
        out.copy_from_slice(&staging[before..before + out.len()]);
        Ok(())
    }
}

struct Mapped {
    map: Mmap,
    file: File,
}

impl Mapped {
    fn open(path: &Path) -> Result<Mapped> {
        let file = open_file(path, OpenOptions::new().read(true))?;
        // SAFETY: the map is read-only, and every byte is copied and its checksum compared before it is used. That another process
        // truncates the file meanwhile cannot be excluded; docs/security.md says so.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| RuntimeError::io(path, "map", e))?;
        Ok(Mapped { map, file })
    }
}

impl Disk for Mapped {
    fn read(&mut self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|end| *end <= self.map.len() as u64);
        let Some(end) = end else { return Err(std::io::ErrorKind::UnexpectedEof.into()) };
        // Touching a page behind the end of a file that was cut off meanwhile would end the process.
        if end > self.file.metadata()?.len() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let range = offset as usize..end as usize;
        #[cfg(unix)]
        let _ = self.map.advise_range(memmap2::Advice::WillNeed, range.start, range.len());
        out.copy_from_slice(&self.map[range.clone()]);
        #[cfg(unix)]
        {
            // Inwards to whole pages of any size in use, as the neighbours may not be done.
            const PAGES: usize = 64 << 10;
            let (start, end) = (range.start.next_multiple_of(PAGES), range.end / PAGES * PAGES);
            if start < end {
                // SAFETY: pages of a read-only map of a file are read from the file again when they are touched next.
                let _ = unsafe {
                    self.map.unchecked_advise_range(memmap2::UncheckedAdvice::DontNeed, start, end - start)
                };
            }
        }
        Ok(())
    }
}
