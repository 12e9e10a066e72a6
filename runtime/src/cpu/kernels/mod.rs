//! The kernels of every stored type and instruction set, in one table per instruction set.
//!
//! | File | Duty |
//! |---|---|
//! | `panel` | what a kernel is given, and the arithmetic of all of them |
//! | `scalar` | that arithmetic element by element: the oracle |
//! | `unpack` | what the vector kernels need of an instruction set; codes and scales in those terms |
//! | `learned` | the same of the learned types |
//! | `tokens` | activations, and what sums of products with them add to results |
//! | `product` | the vector kernel of a single token, compiled for every instruction set and type |
//! | `x86_64`, `aarch64` | the instruction sets, each family with its `batch` for several tokens |
//! | `rows` | weights that are not in panels |

/// The table of an instruction set whose panel product is the function `$matmul`, generic over the type's id.
macro_rules! table {
    ($isa:literal, $($matmul:ident)::+) => {{
        use crate::cpu::kernels::{KernelTable, kernel};
        use qsf_format::QuantType::{N2, N3, N4, N5, Q2, Q2Sym, Q3, Q4, Q6, Q8, T2, T3, Ternary};
        KernelTable {
            isa: $isa,
            q2_sym: kernel(Q2Sym, concat!($isa, "-2bit-sym"), $($matmul)::+::<{ Q2Sym as u8 }>),
            q2: kernel(Q2, concat!($isa, "-2bit"), $($matmul)::+::<{ Q2 as u8 }>),
            q3: kernel(Q3, concat!($isa, "-3bit"), $($matmul)::+::<{ Q3 as u8 }>),
            q4: kernel(Q4, concat!($isa, "-4bit"), $($matmul)::+::<{ Q4 as u8 }>),
            ternary: kernel(Ternary, concat!($isa, "-ternary"), $($matmul)::+::<{ Ternary as u8 }>),
            q8: kernel(Q8, concat!($isa, "-8bit"), $($matmul)::+::<{ Q8 as u8 }>),
            n2: kernel(N2, concat!($isa, "-n2"), $($matmul)::+::<{ N2 as u8 }>),
            n3: kernel(N3, concat!($isa, "-n3"), $($matmul)::+::<{ N3 as u8 }>),
            n4: kernel(N4, concat!($isa, "-n4"), $($matmul)::+::<{ N4 as u8 }>),
            n5: kernel(N5, concat!($isa, "-n5"), $($matmul)::+::<{ N5 as u8 }>),
            q6: kernel(Q6, concat!($isa, "-6bit"), $($matmul)::+::<{ Q6 as u8 }>),
            t2: kernel(T2, concat!($isa, "-t2"), $($matmul)::+::<{ T2 as u8 }>),
            t3: kernel(T3, concat!($isa, "-t3"), $($matmul)::+::<{ T3 as u8 }>),
            float_dot: concat!($isa, "-16-lanes"),
            wide: &[],
        }
    }};
}

/// The wide kernels of an instruction set, one per type, by the function `$matmul`.
#[cfg(target_arch = "x86_64")]
macro_rules! wide_table {
    ($isa:literal, $matmul:ident) => {
        wide_table!($isa, $matmul, Q2Sym "2bit-sym", Q2 "2bit", Q3 "3bit", Q4 "4bit", Ternary "ternary", Q8 "8bit",
            N2 "n2", N3 "n3", N4 "n4", N5 "n5", Q6 "6bit", T2 "t2", T3 "t3")
    };
    ($isa:literal, $matmul:ident, $($quant:ident $name:literal),*) => {{
        use crate::cpu::kernels::kernel;
        use qsf_format::QuantType;
        &[$(kernel(
            QuantType::$quant,
            concat!($isa, "-int8-256-", $name),
            $matmul::<{ QuantType::$quant as u8 }>,
        )),*]
    }};
}

/// An array of four registers, element `$i` by `$value`. `array::map` is not always inlined, and then registers go through
/// memory.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! each {
    ($i:ident => $value:expr) => { each!($i, 0 1 2 3, $value) };
    ($i:ident, $($at:literal)*, $value:expr) => { [$({ let $i = $at; $value }),*] };
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod learned;
mod panel;
mod product;
mod rows;
mod scalar;
mod tokens;
mod unpack;
#[cfg(target_arch = "x86_64")]
mod x86_64;

use qsf_format::QuantType;

use super::backend::Cpu;
use super::isa::{Isa, Level};
use panel::PanelFn;

pub use panel::{Int8Kernel, WideKernel};
pub(crate) use panel::{PanelKernel, PanelOut, PanelTask, Rows};
pub(crate) use rows::{RowScratch, RowTask};
#[cfg(target_arch = "x86_64")]
pub(super) use x86_64::AmxBf16;

/// The kernels of one instruction set.
#[derive(Debug)]
pub struct KernelTable {
    isa: &'static str,
    q2_sym: Int8Kernel,
    q2: Int8Kernel,
    q3: Int8Kernel,
    q4: Int8Kernel,
    ternary: Int8Kernel,
    q8: Int8Kernel,
    n2: Int8Kernel,
    n3: Int8Kernel,
    n4: Int8Kernel,
    n5: Int8Kernel,
    q6: Int8Kernel,
    t2: Int8Kernel,
    t3: Int8Kernel,
    // Rows are decoded to f32, in memory or in registers, and multiplied in the order of `lanes`, compiled for this instruction set.
    float_dot: &'static str,
    // Of all block types or none.
    wide: &'static [WideKernel],
}

const fn kernel<X>(quant: QuantType, name: &'static str, matmul: PanelFn<X>) -> PanelKernel<X> {
    PanelKernel { quant, name, matmul }
}

/// One line of the table: what runs for weights of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelEntry {
    /// Stored type of the weights.
    pub quant: QuantType,
    /// Arithmetic: `int8`, `int8-256` or `f32`.
    pub path: &'static str,
    /// Name of the kernel.
    pub kernel: &'static str,
}

impl Cpu {
    /// The kernels of its instruction set.
    pub fn kernels(&self) -> &'static KernelTable {
        KernelTable::of(self.isa())
    }
}

impl KernelTable {
    /// The table of an instruction set.
    pub fn of(isa: Isa) -> &'static KernelTable {
        match isa.level() {
            Level::Scalar => &scalar::SCALAR,
            #[cfg(target_arch = "x86_64")]
            Level::Sse => &x86_64::SSE,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => &x86_64::AVX2,
            #[cfg(target_arch = "x86_64")]
            Level::AvxVnni => &x86_64::AVX_VNNI,
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => &x86_64::AVX512,
            #[cfg(target_arch = "aarch64")]
            Level::Neon => &aarch64::NEON,
            #[cfg(target_arch = "aarch64")]
            Level::Dotprod => &aarch64::DOTPROD,
            #[cfg(target_arch = "aarch64")]
            Level::I8mm => &aarch64::I8MM,
            #[cfg(target_arch = "x86_64")]
            Level::Amx => &x86_64::AMX,
        }
    }

    /// Name of the instruction set.
    pub const fn isa(&self) -> &'static str {
        self.isa
    }

    /// The int8 kernel for weights of this type; float types have none.
    pub const fn int8(&self, quant: QuantType) -> Option<&Int8Kernel> {
        match quant {
            QuantType::Q2Sym => Some(&self.q2_sym),
            QuantType::Q2 => Some(&self.q2),
            QuantType::Q3 => Some(&self.q3),
            QuantType::Q4 => Some(&self.q4),
            QuantType::Ternary => Some(&self.ternary),
            QuantType::Q8 => Some(&self.q8),
            QuantType::N2 => Some(&self.n2),
            QuantType::N3 => Some(&self.n3),
            QuantType::N4 => Some(&self.n4),
            QuantType::N5 => Some(&self.n5),
            QuantType::Q6 => Some(&self.q6),
            QuantType::T2 => Some(&self.t2),
            QuantType::T3 => Some(&self.t3),
            QuantType::F16 | QuantType::F32 | QuantType::Bf16 => None,
        }
    }

    /// The wide kernel for weights of this type; float types have none, and few processors.
    pub fn wide(&self, quant: QuantType) -> Option<&'static WideKernel> {
        self.wide.iter().find(|kernel| kernel.quant() == quant)
    }

    /// Whether the processor has a matrix unit, and so wide kernels.
    pub const fn has_matrix_unit(&self) -> bool {
        !self.wide.is_empty()
    }

    /// Name of the float kernel, the same for all types: only the decoding differs.
    pub const fn float_dot(&self) -> &'static str {
        self.float_dot
    }

    /// Every kernel: type, path and name. The int8 kernels first, then the wide ones, then the float path of every type.
    pub fn entries(&self) -> impl Iterator<Item = KernelEntry> + '_ {
        let int8 = QuantType::ALL.into_iter().filter_map(|quant| {
            self.int8(quant).map(|kernel| KernelEntry { quant, path: "int8", kernel: kernel.name() })
        });
        let float = QuantType::ALL.map(|quant| KernelEntry { quant, path: "f32", kernel: self.float_dot });
        let wide = self.wide.iter().map(|kernel| KernelEntry {
            quant: kernel.quant(),
            path: "int8-256",
            kernel: kernel.name(),
        });
        int8.chain(wide).chain(float)
    }
}

#[cfg(test)]
mod tests;
