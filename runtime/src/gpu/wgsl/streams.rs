//! Residual streams beside each other (AltUp, arXiv 2301.13310), as `runtime/src/decoder/streams.rs` has them. A workgroup has a token.

use super::template::Template;

/// Threads of a workgroup.
const THREADS: usize = 256;
/// The smallest mean square that is divided by (`cpu/src/stream_sums.rs`).
const LEAST: f32 = 1e-5;

const FILE: &str = include_str!("streams.wgsl");

/// What is done to streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StreamStep {
    /// A stream beside the first gets the magnitude of it.
    Rescale,
    /// All streams become what a layer predicts of them.
    Predict,
    /// What was predicted is corrected by what the layer has made of the first stream; `normed` is that times a gain.
    Correct,
    /// What is in `projected` is added to all but the first.
    AddToOthers,
    /// A stream goes to `normed`.
    Take,
    /// The first becomes the mean of all, whose parts are in `predicted` with the magnitude of the first.
    Mean,
    /// What attention read is added to `projected`: of a residual of low rank beside it.
    AddRead,
}

impl StreamStep {
    /// Each of them.
    pub const ALL: [StreamStep; 7] = [
        StreamStep::Rescale,
        StreamStep::Predict,
        StreamStep::Correct,
        StreamStep::AddToOthers,
        StreamStep::Take,
        StreamStep::Mean,
        StreamStep::AddRead,
    ];
}

/// A kernel for so many streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Streams {
    pub step: StreamStep,
    pub count: usize,
}

impl Streams {
    /// The text of the kernel.
    pub fn wgsl(self) -> String {
        let part = |name| self.sized(Template::part(FILE, name)).make();
        let step = match self.step {
            StreamStep::Rescale => part("rescale"),
            StreamStep::Predict => part("shares") + &part("predict"),
            StreamStep::Correct => part("shares") + &part("correct"),
            StreamStep::AddToOthers => part("add_to_others"),
            StreamStep::Take => part("take"),
            StreamStep::Mean => part("mean"),
            StreamStep::AddRead => part("add_read"),
        };
        self.sized(Template::new(FILE)).word("STEP", step).make()
    }

    fn sized(self, text: Template) -> Template {
        text.number("THREADS", THREADS)
            .number("HALF", THREADS / 2)
            .number("COUNT", self.count)
            .float("LEAST", LEAST)
    }
}
