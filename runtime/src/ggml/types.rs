//! The tensor types of ggml: ids, names, geometry.

use std::fmt;

use gguf_rs_lib::format::GGUFTensorType;

macro_rules! types {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// A tensor type of ggml that a GGUF file can have. Named as llama.cpp names them; ids and geometry are those
        /// of `gguf-rs-lib`, whose own enum also has variants that no file can contain.
        #[expect(non_camel_case_types, reason = "llama.cpp's names")]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u32)]
        pub enum GgmlType {
            $($(#[$doc])* $name = GGUFTensorType::$name as u32,)*
        }

        impl GgmlType {
            /// All types.
            pub const ALL: &[GgmlType] = &[$(GgmlType::$name,)*];

            /// llama.cpp's name, such as `Q4_K` or `IQ2_XXS`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(GgmlType::$name => stringify!($name),)*
                }
            }

            const fn descriptor(self) -> GGUFTensorType {
                match self {
                    $(GgmlType::$name => GGUFTensorType::$name,)*
                }
            }
        }
    };
}

types! {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// 4-bit codes around zero, a scale for 32.
    Q4_0,
    /// 4-bit codes, scale and offset for 32.
    Q4_1,
    /// 5-bit codes around zero, a scale for 32.
    Q5_0,
    /// 5-bit codes, scale and offset for 32.
    Q5_1,
    /// 8-bit codes, a scale for 32.
    Q8_0,
    /// 8-bit codes, a scale for 32, and their sum: made for activations.
    Q8_1,
    /// 2-bit codes, 4-bit scale and offset for 16.
    Q2_K,
    /// 3-bit codes, 6-bit scale for 16.
    Q3_K,
    /// 4-bit codes, 6-bit scale and offset for 32.
    Q4_K,
    /// 5-bit codes, 6-bit scale and offset for 32.
    Q5_K,
    /// 6-bit codes, 8-bit scale for 16.
    Q6_K,
    /// 8-bit codes, a binary32 scale for 256, and sums: made for activations.
    Q8_K,
    /// Grid of 256 points for 8 values, 7 free signs, 4-bit scale for 32.
    IQ2_XXS,
    /// Grid of 512 points for 8 values, 7 free signs, 4-bit scale for 16.
    IQ2_XS,
    /// Grid of 256 points for 4 values, 7 free signs of 8, 4-bit scale for 32.
    IQ3_XXS,
    /// Grid of 2048 ternary points for 8 values, 3-bit scale and shift for 32.
    IQ1_S,
    /// 4-bit codes into a table, a scale for 32.
    IQ4_NL,
    /// Grid of 512 points for 4 values, 8 signs, 4-bit scale for 32.
    IQ3_S,
    /// Grid of 1024 points for 8 values, 8 signs, 4-bit scale for 16.
    IQ2_S,
    /// 4-bit codes into a table, 6-bit scale for 32.
    IQ4_XS,
    /// Whole numbers of 8 bits.
    I8,
    /// Whole numbers of 16 bits.
    I16,
    /// Whole numbers of 32 bits.
    I32,
    /// Whole numbers of 64 bits.
    I64,
    /// IEEE binary64.
    F64,
    /// Grid of 2048 ternary points for 8 values, 3-bit scale for 16, shift for 8.
    IQ1_M,
    /// The upper half of binary32.
    BF16,
    /// Ternary, five to a byte.
    TQ1_0,
    /// Ternary, four to a byte.
    TQ2_0,
    /// OCP microscaling: E2M1 codes, an E8M0 scale for 32.
    MXFP4,
    /// NVIDIA's: E2M1 codes, a UE4M3 scale for 16. The scale of the whole tensor `X.weight` is a tensor of its own,
    /// `X.scale`, which decoding does not know.
    NVFP4,
    /// A sign each, a scale for 128.
    Q1_0,
    /// 2-bit codes for -1 to 2, a scale for 64.
    Q2_0,
}

impl GgmlType {
    /// The type with this number in GGUF files; `None` for numbers that are unknown or no longer in use.
    pub fn from_id(id: u32) -> Option<GgmlType> {
        Self::ALL.iter().copied().find(|ty| ty.id() == id)
    }

    /// Its number in GGUF files.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Values per block; 1 for types without blocks. A row is a whole number of blocks.
    pub fn block_len(self) -> usize {
        self.descriptor().block_size()
    }

    /// Bytes per block.
    pub const fn block_bytes(self) -> usize {
        match self.descriptor().block_size_bytes() {
            Some(bytes) => bytes,
            None => 0,
        }
    }
}

impl fmt::Display for GgmlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

// The library knows the size of all of them.
const _: () = {
    let mut i = 0;
    while i < GgmlType::ALL.len() {
        assert!(GgmlType::ALL[i].block_bytes() > 0);
        i += 1;
    }
};
