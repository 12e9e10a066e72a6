//! What a refusal of the server means, and how long to wait for another attempt.

use std::thread;
use std::time::{Duration, Instant};

use super::client::Reply;
use super::error::{HubError, Result};
use super::trouble::Trouble;
use super::watch::Watch;

/// Attempts without any progress before it is given up.
const ATTEMPTS: u32 = 4;
/// The longest wait that a server may ask for.
const MAX_WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// The failure that a status stands for. `page` is the model's page, for those who must accept its licence there.
pub(super) fn status_trouble(reply: &Reply<'_>, page: &str, with_token: bool) -> Trouble {
    let (status, url) = (reply.status, reply.url.clone());
    let code = reply.header("x-error-code").unwrap_or_default();
    match status {
        // Hosts that store files refuse addresses whose signature is too old: the hub makes a new one.
        401 | 403 if !reply.own_host => Trouble::passing(&url, format!("status {status}")),
        404 | 410 => HubError::NotFound { url, status }.into(),
        // The hub answers 401 for what does not exist, so that nobody learns which private models do.
        401 if code == "RepoNotFound" => HubError::NotFound { url, status }.into(),
        401 | 403 => HubError::Refused { url, status, page: page.to_owned(), with_token }.into(),
        408 | 425 | 429 | 500..=599 => {
            let seconds = reply.header("retry-after").and_then(|text| text.parse().ok());
            let wait = seconds.map(|seconds| Duration::from_secs(seconds).min(MAX_WAIT));
            Trouble::Passing { url, problem: format!("status {status}"), wait }
        }
        _ => {
            let expected = "an answer with the file".to_owned();
            HubError::Response { url, expected, found: format!("status {status}") }.into()
        }
    }
}

/// Counts the attempts at one thing.
pub(super) struct Patience<'a> {
    watch: &'a Watch<'a>,
    first_wait: Duration,
    failures: u32,
}

impl<'a> Patience<'a> {
    /// Before the first attempt.
    pub fn new(watch: &'a Watch<'a>, first_wait: Duration) -> Patience<'a> {
        Patience { watch, first_wait, failures: 0 }
    }

    /// The last attempt, though it failed, achieved something.
    pub fn renew(&mut self) {
        self.failures = 0;
    }

    /// Waits before the next attempt.
    ///
    /// # Errors
    /// When there should be none.
    pub fn after(&mut self, trouble: Trouble) -> Result<()> {
        let (url, problem, wait) = match trouble {
            Trouble::Final(error) => return Err(error),
            Trouble::Passing { url, problem, wait } => (url, problem, wait),
        };
        self.failures += 1;
        if self.failures >= ATTEMPTS {
            return Err(HubError::Network { url, problem: format!("{problem}, {ATTEMPTS} times in a row") });
        }
        let wait = wait.unwrap_or(self.first_wait * (1 << (self.failures - 1)));
        (self.watch.notice)(&format!("{url}: {problem}; next attempt in {:.0} s", wait.as_secs_f64().ceil()));
        let until = Instant::now() + wait;
        while Instant::now() < until {
            if self.watch.cancel.is_requested() {
                return Err(HubError::Interrupted);
            }
            thread::sleep(POLL.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }
}
