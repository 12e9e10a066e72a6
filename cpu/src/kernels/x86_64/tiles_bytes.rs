//! Products of bytes by the tile unit of Intel AMX, as attention asks for them.
//! Everything here is from the manual: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (TDPBSSD, TILELOADD,
//! TILESTORED).

use core::arch::asm;

use super::tiles::{Config, release};
use crate::byte_unit::{BYTES, ByteColumns, ByteRows, ByteSums, ByteUnit, ROWS};

/// Bytes of the lines of every tile.
const LINE: usize = 64;

const _: () = assert!(BYTES == LINE && size_of::<ByteColumns>() == ROWS * LINE, "tiles are full");

/// The unit ([`tiles_allowed`](crate::tile_permission::tiles_allowed)).
pub(crate) struct AmxBytes(());

/// Tiles 0 to 3 are sums, 4 is rows, and 5 to 7 are columns.
static CONFIG: Config = Config::new([(ROWS, LINE); 8]);

impl AmxBytes {
    /// Sets the unit up for this thread until the value is dropped.
    ///
    /// # Safety
    /// The processor and the process must be allowed to use the unit; there must be no other value of a unit on this thread.
    pub(crate) unsafe fn new() -> AmxBytes {
        // SAFETY: the caller's promise.
        unsafe { CONFIG.load() };
        AmxBytes(())
    }
}

// Tile registers keep their contents from one block to the next: the compiler uses none itself.
impl ByteUnit for AmxBytes {
    fn multiply(&mut self, rows: &ByteRows, columns: [&ByteColumns; 4], out: &mut [ByteSums; 4]) {
        // SAFETY: the value proves that tiles may be used and are set up; all that is read and written is behind the references.
        unsafe {
            asm!(
                "tileloadd tmm4, [{rows} + {line}]",
                "tileloadd tmm5, [{c0} + {line}]",
                "tilezero tmm0",
                "tdpbssd tmm0, tmm4, tmm5",
                "tileloadd tmm6, [{c1} + {line}]",
                "tilezero tmm1",
                "tdpbssd tmm1, tmm4, tmm6",
                "tileloadd tmm7, [{c2} + {line}]",
                "tilezero tmm2",
                "tdpbssd tmm2, tmm4, tmm7",
                "tileloadd tmm5, [{c3} + {line}]",
                "tilezero tmm3",
                "tdpbssd tmm3, tmm4, tmm5",
                "tilestored [{out} + {line}], tmm0",
                "tilestored [{out} + {line} + 1024], tmm1",
                "tilestored [{out} + {line} + 2048], tmm2",
                "tilestored [{out} + {line} + 3072], tmm3",
                rows = in(reg) rows,
                line = in(reg) LINE,
                c0 = in(reg) columns[0],
                c1 = in(reg) columns[1],
                c2 = in(reg) columns[2],
                c3 = in(reg) columns[3],
                out = in(reg) out,
                out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                options(nostack, preserves_flags)
            );
        }
    }
}

impl Drop for AmxBytes {
    fn drop(&mut self) {
        // SAFETY: a value was made on this thread.
        unsafe { release() }
    }
}
