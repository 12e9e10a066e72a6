//! What the process of a job and that of the batch say to each other: one line of JSON each on the job's stdout, and two words on
//! its stdin. A stdin that ends without a word means that nobody runs the batch any more.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::fingerprint::SeenFile;

/// The conversion may begin.
pub(super) const GO: &str = "go";
/// The conversion is to stop, and to leave nothing half done.
pub(super) const STOP: &str = "stop";

/// What the process of a job says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// It is ready, and waits for [`GO`]: its memory will peak at about so many bytes.
    Needs { bytes: u64 },
    /// Work of `total` units begins.
    Begin { what: String, total: u64 },
    /// So many more units are done.
    Advance { units: u64 },
    /// Something that the user should know.
    Note { text: String },
    /// The file is there; the process ends.
    Finished(Box<Finished>),
    /// There will be no file; the process ends.
    Stopped(Stopped),
}

/// What a conversion made.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Finished {
    pub file: SeenFile,
    /// Limits that it misses.
    pub missed: Vec<String>,
    /// The files of the model, and its folder.
    pub model: Vec<SeenFile>,
    pub weights: u64,
    pub bits_per_weight: f64,
    pub evaluation: Option<Value>,
    pub peak_rss_bytes: Option<u64>,
}

/// Why a conversion made nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Stopped {
    pub error: String,
    pub exit_code: u8,
    /// Whether the same may go well another time.
    pub may_pass: bool,
    pub peak_rss_bytes: Option<u64>,
}
