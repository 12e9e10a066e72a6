//! A matrix unit for bytes, for the thread that attention runs on.

use super::super::byte_unit::AnyByteUnit;
use super::super::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::super::kernels::AmxBytes;
use super::KvTypes;
use super::bytes::takes;

/// The unit, where the processor has one and keys or values are what it takes.
pub(super) struct OwnUnit {
    #[cfg(target_arch = "x86_64")]
    unit: Option<AmxBytes>,
}

impl OwnUnit {
    /// Sets it up until the value is dropped.
    ///
    /// # Safety
    /// There must be no other value of a unit on this thread.
    pub unsafe fn new(isa: Isa, types: KvTypes) -> OwnUnit {
        let wanted = takes(types);
        #[cfg(target_arch = "x86_64")]
        return OwnUnit {
            // SAFETY: the instruction set is the proof that the processor has tiles; the caller promises the rest.
            unit: (wanted && isa.has_byte_tiles()).then(|| unsafe { AmxBytes::new() }),
        };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (isa, wanted);
            OwnUnit {}
        }
    }

    pub fn get(&mut self) -> Option<&mut AnyByteUnit> {
        #[cfg(target_arch = "x86_64")]
        return self.unit.as_mut().map(|unit| unit as &mut AnyByteUnit);
        #[cfg(not(target_arch = "x86_64"))]
        None
    }
}
