//! How fast a text was generated.

use std::io::Write;

use qsf_runtime::generate::Generation;

/// Speeds of one generation; nothing where too little happened to speak of a speed.
pub(super) struct Rates {
    load_seconds: f64,
    pub prefill: Option<f64>,
    pub decode: Option<f64>,
}

impl Rates {
    pub fn new(prompt: &[u32], result: &Generation, load_seconds: f64) -> Rates {
        let rate =
            |tokens: usize, seconds: f64| (tokens > 0 && seconds > 0.0).then(|| tokens as f64 / seconds);
        Rates {
            load_seconds,
            prefill: rate(prompt.len(), result.prefill.as_secs_f64()),
            decode: rate(result.tokens.len().saturating_sub(1), result.decode.as_secs_f64()),
        }
    }

    pub fn report(
        &self,
        prompt: &[u32],
        result: &Generation,
        seed: u64,
        mut out: impl Write,
    ) -> std::io::Result<()> {
        let rate = |r: Option<f64>| r.map_or("-".to_owned(), |r| format!("{r:.1}"));
        writeln!(
            out,
            "load {:.2} s; prompt {} tokens at {} tokens/s; output {} tokens at {} tokens/s; seed {seed}",
            self.load_seconds,
            prompt.len(),
            rate(self.prefill),
            result.tokens.len(),
            rate(self.decode)
        )
    }
}
