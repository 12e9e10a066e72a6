//! The kernels of one instruction set, one for each type.

use qsf_format::QuantType;

use super::panel::{Int8Kernel, PanelFn, PanelKernel, WideKernel};

/// The kernels of one instruction set.
#[derive(Debug)]
pub struct KernelTable {
    pub(super) isa: &'static str,
    // Of every type in the order of `QuantType::ALL`; none for floats.
    pub(super) int8: &'static [Option<Int8Kernel>],
    // Rows are decoded to f32, in memory or in registers, and multiplied in the order of `lanes`, compiled for this instruction set.
    pub(super) float_dot: &'static str,
    // Likewise, or empty.
    pub(super) wide: &'static [Option<WideKernel>],
}

pub(super) const fn kernel<X>(quant: QuantType, name: &'static str, matmul: PanelFn<X>) -> PanelKernel<X> {
    PanelKernel { quant, name, matmul }
}

/// One line of the table: what runs for weights of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelEntry {
    /// Stored type of the weights.
    pub quant: QuantType,
    /// Arithmetic: `int8`, `int8-128` or `f32`.
    pub path: &'static str,
    /// Name of the kernel.
    pub kernel: &'static str,
}

impl KernelTable {
    /// Name of the instruction set.
    pub const fn isa(&self) -> &'static str {
        self.isa
    }

    /// The int8 kernel for weights of this type; float types have none.
    pub fn int8(&self, quant: QuantType) -> Option<&'static Int8Kernel> {
        self.int8[quant.index()].as_ref()
    }

    /// The wide kernel for weights of this type; float types have none, nor does every processor.
    pub fn wide(&self, quant: QuantType) -> Option<&'static WideKernel> {
        self.wide.get(quant.index())?.as_ref()
    }

    /// Whether there are wide kernels.
    pub const fn has_wide(&self) -> bool {
        !self.wide.is_empty()
    }

    /// Name of the float kernel, the same for all types: only the decoding differs.
    pub const fn float_dot(&self) -> &'static str {
        self.float_dot
    }

    /// Every kernel: type, path and name. The int8 kernels first, then the wide ones, then the float path of every type.
    pub fn entries(&self) -> impl Iterator<Item = KernelEntry> + '_ {
        let int8 = self.int8.iter().flatten().map(|kernel| KernelEntry {
            quant: kernel.quant(),
            path: "int8",
            kernel: kernel.name(),
        });
        let float = QuantType::ALL.map(|quant| KernelEntry { quant, path: "f32", kernel: self.float_dot });
        let wide = self.wide.iter().flatten().map(|kernel| KernelEntry {
            quant: kernel.quant(),
            path: "int8-128",
            kernel: kernel.name(),
        });
        int8.chain(wide).chain(float)
    }
}
