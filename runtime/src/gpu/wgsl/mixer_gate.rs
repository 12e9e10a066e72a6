//! What a recurrence gives is gated, and normalized in parts. A workgroup has a part of a token.

use super::template::Template;

/// Threads of a workgroup, at least and at most.
const LEAST_THREADS: usize = 64;
const MAX_THREADS: usize = 256;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MixerGate {
    /// Values of a token.
    pub width: usize,
    /// Values of a part.
    pub part: usize,
    /// When a part is normalized.
    pub norm: GateNorm,
    /// Whether gates go through a sigmoid; else through SiLU.
    pub sigmoid: bool,
}

/// When what is gated is normalized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GateNorm {
    /// Never.
    None,
    /// Before the gate.
    Before,
    /// Behind it.
    Behind,
}

impl MixerGate {
    /// Parts of a token.
    pub fn parts(&self) -> usize {
        self.width.div_ceil(self.part)
    }

    /// The text of the kernel.
    pub fn wgsl(self) -> String {
        let threads = self.part.next_power_of_two().clamp(LEAST_THREADS, MAX_THREADS);
        Template::new(include_str!("mixer_gate.wgsl"))
            .when("NORM", self.norm != GateNorm::None)
            .when("GATE_FIRST", self.norm == GateNorm::Behind)
            .when("GATE_LAST", self.norm == GateNorm::Before)
            .when("SIGMOID", self.sigmoid)
            .number("THREADS", threads)
            .number("HALF", threads / 2)
            .number("PART", self.part)
            .number("WIDTH", self.width)
            .float("MEAN_OF", self.part as f32)
            .make()
    }
}
