//! `--head`: logits of all tokens, or of the likeliest clusters of tokens only.

use std::path::Path;
use std::str::FromStr;

use clap::Args;
use qsf_runtime::source::WeightSource;
use qsf_runtime::{ClusteredHead, Decoder, Result, RuntimeError};
use serde_json::{Value, json};

/// The part of measured positions whose likeliest token must have been in the clusters that are looked at by default.
const CONTAINED: f64 = 0.99;
/// Of more clusters than this part, the whole head is about as fast.
const WORTHWHILE: f64 = 0.5;

/// Flag of binaries that run models.
#[derive(Debug, Clone, Args)]
pub struct HeadArgs {
    /// Logits of all tokens (exact); of those in the clusters that the hidden state points to, of a file made with --clusters:
    /// in so many that 99 % of the likeliest tokens were in them (clusters), or in P (clusters:P)
    #[arg(long, value_name = "HEAD", default_value = "exact", help_heading = "Head")]
    pub head: HeadChoice,
}

/// How logits are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeadChoice {
    /// By the whole head.
    Exact,
    /// By clusters, so many or as many as were measured to suffice.
    Clusters(Option<u32>),
}

impl FromStr for HeadChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<HeadChoice, String> {
        let expected =
            || format!("'{text}' is none of: exact, clusters, clusters:P with a number P of 1 or more");
        match text.split_once(':') {
            None if text == "exact" => Ok(HeadChoice::Exact),
            None if text == "clusters" => Ok(HeadChoice::Clusters(None)),
            Some(("clusters", number)) => {
                let probed = number.parse().ok().filter(|probed| *probed > 0);
                Ok(HeadChoice::Clusters(Some(probed.ok_or_else(expected)?)))
            }
            _ => Err(expected()),
        }
    }
}

/// The clusters that logits are made by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HeadReport {
    clusters: u32,
    probed: u32,
    /// The part of positions whose likeliest token was in so many clusters, and how many positions that was measured on.
    contained: Option<(f64, u32)>,
}

impl HeadReport {
    /// For JSON.
    pub fn to_json(self) -> Value {
        json!({
            "count": self.clusters, "probed": self.probed,
            "share": self.contained.map(|(share, _)| share),
            "positions": self.contained.map(|(_, positions)| positions),
        })
    }

    /// A line for people.
    pub fn line(self) -> String {
        let HeadReport { clusters, probed, .. } = self;
        let mut line = match self.contained {
            Some((share, positions)) => format!(
                "head: {probed} of {clusters} clusters, which held the likeliest token at {:.2} % of {positions} measured positions",
                100.0 * share
            ),
            None => format!(
                "head: {probed} of {clusters} clusters; how many suffice was not measured for that number"
            ),
        };
        if f64::from(probed) > WORTHWHILE * f64::from(clusters) {
            line += "; so many are hardly faster than --head exact";
        }
        line
    }
}

impl HeadChoice {
    /// Makes `decoder` compute logits as chosen, by the clusters of `source`, whose model it runs. Gives the clusters, where
    /// they are in use.
    ///
    /// # Errors
    /// When the model has no clusters, they are damaged, or not as many as are to be looked at.
    pub fn apply(self, decoder: Decoder, source: &dyn WeightSource) -> Result<(Decoder, Option<HeadReport>)> {
        let HeadChoice::Clusters(probed) = self else { return Ok((decoder, None)) };
        let path = source.path();
        let clusters = source.clusters()?.ok_or_else(|| no_clusters(path))?;
        let count = clusters.count() as u32;
        let probed = match probed {
            Some(probed) if probed <= count => probed,
            Some(probed) => {
                let problem = format!("--head clusters:{probed}: {} has {count} clusters", path.display());
                return Err(RuntimeError::Request(problem));
            }
            None => clusters.least_probed(CONTAINED).ok_or_else(|| {
                RuntimeError::Request(format!(
                    "--head clusters: no number of the clusters of {} was measured to hold {} % of the likeliest tokens; \
                     pass one as --head clusters:P",
                    path.display(),
                    100.0 * CONTAINED
                ))
            })?,
        };
        let report = HeadReport {
            clusters: count,
            probed,
            contained: clusters.share(probed).map(|share| (share, clusters.positions)),
        };
        let head = ClusteredHead::new(decoder.model(), &clusters, probed)?;
        Ok((decoder.with_clusters(head), Some(report)))
    }
}

fn no_clusters(path: &Path) -> RuntimeError {
    RuntimeError::Request(format!(
        "--head clusters: {} has no vocabulary clusters; convert the model with --clusters, or use --head exact",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_named_as_documented_and_nothing_else() {
        assert_eq!("exact".parse(), Ok(HeadChoice::Exact));
        assert_eq!("clusters".parse(), Ok(HeadChoice::Clusters(None)));
        assert_eq!("clusters:12".parse(), Ok(HeadChoice::Clusters(Some(12))));
        for wrong in
            ["", "clusters:", "clusters:0", "clusters:-1", "clusters:1.5", "exact:1", "Exact", "cluster"]
        {
            let error = wrong.parse::<HeadChoice>().unwrap_err();
            assert!(error.contains("clusters:P"), "{error}");
        }
    }
}
