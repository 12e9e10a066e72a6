//! Which failures pass by themselves.

use std::io;
use std::time::Duration;

use qsf_format::printable::message;

use super::error::HubError;

/// Why an attempt failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// Another attempt may succeed.
    Passing {
        /// What was asked for.
        url: String,
        /// What happened.
        problem: String,
        /// How long the server asked to wait.
        wait: Option<Duration>,
    },
    /// It will fail again.
    Final(HubError),
}

impl From<HubError> for Trouble {
    fn from(error: HubError) -> Trouble {
        Trouble::Final(error)
    }
}

impl Trouble {
    /// A failure that another attempt may not meet.
    pub fn passing(url: &str, problem: impl Into<String>) -> Trouble {
        Trouble::Passing { url: url.to_owned(), problem: problem.into(), wait: None }
    }
}

/// The failure of a connection. A certificate that is wrong will be so again in a second. A name that is not found, or a host that
/// refuses, may be back soon where the hub was `reached` before; else this machine has no network, and its user wants to know.
pub(super) fn network_trouble(url: &str, error: &ureq::Error, reached: bool) -> Trouble {
    use io::ErrorKind;
    let (problem, passing) = match error {
        ureq::Error::Io(e) => {
            let passing = match e.kind() {
                ErrorKind::InvalidData => false,
                ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::UnexpectedEof => true,
                _ => reached,
            };
            (message(e), passing)
        }
        ureq::Error::Timeout(_) | ureq::Error::Protocol(_) => (message(error), true),
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => (message(error), reached),
        other => (message(other), false),
    };
    let url = url.to_owned();
    if passing {
        Trouble::Passing { url, problem, wait: None }
    } else {
        Trouble::Final(HubError::Network { url, problem })
    }
}
