//! What a sum of damages says of the divergence of the whole file, on text like the one that it is fitted to.
//!
//! Damages are measured on few and short pieces of the text, in which a model knows less of what is before a token than in a text.
//! Against that, errors of matrices in one model are more than their sum, and matrices are fitted to chance in a short text. How
//! the divergence and the sum relate was measured of files of three models (docs/measurements/quality.md, "Predictions of
//! `--dry-run`").

/// What part of the sum of damages the divergence was at least.
const LEAST: f64 = 0.43;
/// And at most, with a text of any length.
const MOST: f64 = 0.85;
/// And besides, for each column of the widest matrix and token of the text.
const FITTED_TO_CHANCE: f64 = 2.0;

/// What is known of a divergence in nats per token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DivergenceEstimate {
    /// The best guess.
    pub mean: f64,
    /// What at least nine of ten files exceed.
    pub low: f64,
    /// What at most one of ten files exceeds.
    pub high: f64,
}

impl DivergenceEstimate {
    /// That of a file whose matrices, `columns` wide at most, do so much `damage` and are fitted to `tokens`.
    pub(super) fn of(damage: f64, columns: usize, tokens: usize) -> DivergenceEstimate {
        let low = LEAST * damage;
        let high = damage * (MOST + FITTED_TO_CHANCE * columns as f64 / tokens as f64);
        DivergenceEstimate { mean: (low * high).sqrt(), low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_were_measured_are_within_their_bounds() {
        for File { damage, columns, tokens, measured } in FILES {
            let found = DivergenceEstimate::of(damage, columns, tokens);
            for &measured in measured {
                assert!(found.low <= measured && measured <= found.high, "{found:?} for {measured}");
            }
            assert!(found.mean > found.low && found.mean < found.high, "{found:?}");
        }
    }

    struct File {
        damage: f64,
        /// Of the widest matrix.
        columns: usize,
        tokens: usize,
        /// The divergence on other texts.
        measured: &'static [f64],
    }

    const fn file(damage: f64, columns: usize, tokens: usize, measured: &'static [f64]) -> File {
        File { damage, columns, tokens, measured }
    }

    const FILES: [File; 8] = [
        file(0.48954, 384, 8192, &[0.3319, 0.41701]),
        file(0.24007, 384, 8192, &[0.14497, 0.18228]),
        file(0.0534, 384, 8192, &[0.03404, 0.04274]),
        file(0.52946, 384, 8192, &[0.28026, 0.34178]),
        file(0.12914, 384, 8192, &[0.06697, 0.08597]),
        file(0.5459, 384, 8192, &[0.29699, 0.37996]),
        file(0.01697, 1536, 8192, &[0.00912, 0.01088]),
        file(0.16387, 1536, 131_072, &[0.07479]),
    ];
}
