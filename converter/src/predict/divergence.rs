//! What a sum of damages says of the divergence of the whole file, on text like the one that it is fitted to.
//!
//! The sum is too low. Types are chosen by damages that happen to be measured low, errors of matrices in one model are more than
//! their sum, and matrices are fitted to chance in a short text. How much too low was measured of files of three models
//! (docs/measurements/quality.md, "Predictions of `--dry-run`").

/// How much larger than the sum of damages the divergence was at most, with a text of any length.
const LARGER: f64 = 1.4;
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
        let (low, high) = (damage, damage * (LARGER + FITTED_TO_CHANCE * columns as f64 / tokens as f64));
        DivergenceEstimate { mean: (low * high).sqrt(), low, high }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_that_were_measured_are_within_their_bounds() {
        // Damage, columns of the widest matrix, tokens, and the divergence on other text.
        for (damage, columns, tokens, measured) in FILES {
            let found = DivergenceEstimate::of(damage, columns, tokens);
            assert!(found.low <= measured && measured <= found.high, "{found:?} for {measured}");
            assert!(found.mean > found.low && found.mean < found.high, "{found:?}");
        }
    }

    const FILES: [(f64, usize, usize, f64); 15] = [
        (0.40702, 384, 8192, 0.49578),
        (0.20928, 384, 8192, 0.26985),
        (0.04173, 384, 8192, 0.05389),
        (0.33526, 384, 8192, 0.39367),
        (0.07602, 384, 8192, 0.09089),
        (0.20395, 384, 2048, 0.33574),
        (0.20335, 384, 32_768, 0.26254),
        (0.07408, 384, 32_768, 0.08272),
        (0.10735, 384, 8192, 0.12137),
        (0.01952, 1536, 8192, 0.03189),
        (0.04297, 1536, 8192, 0.05988),
        (0.00386, 1536, 8192, 0.00587),
        (0.04275, 1536, 8192, 0.06808),
        (0.01989, 1536, 65_536, 0.0236),
        (0.07736, 1536, 65_536, 0.0911),
    ];
}
