//! The convolution of a recurrent mixer. A thread has a channel of a token.

use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 256;

/// A kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Convolve {
    /// Number of channels.
    pub channels: usize,
    /// Tokens that a channel sees, its own included.
    pub taps: usize,
    /// Whether there is a bias, at `job.bias`.
    pub bias: bool,
    /// Whether it is between two gates: rows have the parts B, C and x, and the result is `C * conv(B * x)` (LFM2). Else it goes
    /// through SiLU.
    pub between_gates: bool,
}

impl Convolve {
    /// The text of the kernel.
    pub fn wgsl(self) -> String {
        Template::new(include_str!("convolve.wgsl"))
            .when("BIAS", self.bias)
            .when("BETWEEN_GATES", self.between_gates)
            .number("THREADS", THREADS)
            .number("CHANNELS", self.channels)
            .number("TAPS", self.taps)
            .number("PAST", self.taps.saturating_sub(1))
            .make()
    }
}
