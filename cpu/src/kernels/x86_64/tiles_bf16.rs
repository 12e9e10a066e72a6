//! Products in bfloat16 by the tile unit of Intel AMX.
//! Everything here is from the manual: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (TDPBF16PS, TILELOADD,
//! TILESTORED).

use core::arch::asm;

use super::tiles::{Config, release};
use super::weights_bf16::weigh;
use crate::bf16_unit::{Bf16Unit, COLUMNS, Columns, RowLine, SumsOut};
use crate::lanes::Lanes;

/// Bytes and number of the lines of every tile.
const LINE: usize = 64;
const LINES: usize = 16;

/// The unit ([`tiles_allowed`](crate::tile_permission::tiles_allowed)).
pub(crate) struct AmxBf16(());

/// Tiles 0 to 3 are sums, 4 and 5 rows, 6 and 7 columns.
static CONFIG: Config = Config::new([(LINES, LINE); 8]);

const _: () =
    assert!(size_of::<RowLine>() == LINE && size_of::<Columns>() == 2 * LINES * LINE && COLUMNS == 2 * LINES);

// Tile registers keep their contents from one block to the next: the compiler uses none itself.
impl Bf16Unit for AmxBf16 {
    /// Two tiles, by two of columns.
    const ROWS: usize = 2 * LINES;

    #[inline(always)]
    unsafe fn new() -> AmxBf16 {
        // SAFETY: the caller's promise.
        unsafe { CONFIG.load() };
        AmxBf16(())
    }

    #[inline(always)]
    unsafe fn multiply<const ADD: bool>(
        &mut self,
        rows: &[RowLine],
        stride: usize,
        columns: &[Columns],
        out: SumsOut,
    ) {
        assert!(rows.len() >= (Self::ROWS - 1) * stride + columns.len(), "too few lines");
        // SAFETY: the value proves that tiles may be used and are set up; the room is the caller's promise.
        unsafe {
            if ADD {
                asm!(
                    "tileloadd tmm0, [{out} + {stride}]",
                    "tileloadd tmm1, [{out} + {stride} + 64]",
                    "tileloadd tmm2, [{others} + {stride}]",
                    "tileloadd tmm3, [{others} + {stride} + 64]",
                    out = in(reg) out.start,
                    others = in(reg) out.start.add(LINES * out.stride),
                    stride = in(reg) out.stride * size_of::<f32>(),
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    options(nostack, preserves_flags, readonly)
                );
            } else {
                asm!(
                    "tilezero tmm0",
                    "tilezero tmm1",
                    "tilezero tmm2",
                    "tilezero tmm3",
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    options(nostack, preserves_flags, nomem)
                );
            }
        }
        for (i, columns) in columns.iter().enumerate() {
            // SAFETY: as above; the tiles are 16 lines of 64 bytes each, and there are so many.
            unsafe {
                let rows = rows.as_ptr().add(i);
                asm!(
                    "tileloadd tmm4, [{rows} + {stride}]",
                    "tileloadd tmm6, [{columns} + {line}]",
                    "tdpbf16ps tmm0, tmm4, tmm6",
                    "tileloadd tmm7, [{columns} + {line} + 1024]",
                    "tdpbf16ps tmm1, tmm4, tmm7",
                    "tileloadd tmm5, [{others} + {stride}]",
                    "tdpbf16ps tmm2, tmm5, tmm6",
                    "tdpbf16ps tmm3, tmm5, tmm7",
                    rows = in(reg) rows,
                    others = in(reg) rows.add(LINES * stride),
                    stride = in(reg) stride * LINE,
                    columns = in(reg) columns,
                    line = in(reg) LINE,
                    out("tmm0") _, out("tmm1") _, out("tmm2") _, out("tmm3") _,
                    out("tmm4") _, out("tmm5") _, out("tmm6") _, out("tmm7") _,
                    options(nostack, preserves_flags, readonly)
                );
            }
        }
        // SAFETY: as above; the room is the caller's promise.
        unsafe {
            asm!(
                "tilestored [{out} + {stride}], tmm0",
                "tilestored [{out} + {stride} + 64], tmm1",
                "tilestored [{others} + {stride}], tmm2",
                "tilestored [{others} + {stride} + 64], tmm3",
                out = in(reg) out.start,
                others = in(reg) out.start.add(LINES * out.stride),
                stride = in(reg) out.stride * size_of::<f32>(),
                options(nostack, preserves_flags)
            );
        }
    }

    #[inline(always)]
    fn weigh(&mut self, scores: &[Lanes], origin: f32, lines: &mut [RowLine]) -> Lanes {
        // SAFETY: the value proves that the processor has the instructions.
        unsafe { weigh(scores, origin, lines) }
    }
}

impl Drop for AmxBf16 {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: a value was made on this thread.
        unsafe { release() }
    }
}
