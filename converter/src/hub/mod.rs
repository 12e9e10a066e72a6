//! Models of the HuggingFace hub by name: `org/name`, downloaded into the cache that the hub's own tools use; and files that go
//! there.
//!
//! Names are understood in every build, so that one without the feature `hub` can say what to do. With it, `download` asks the
//! hub for the files of a revision, chooses those that a conversion needs, and gives the folder or GGUF file to open.
//!
//! | File | Duty |
//! |---|---|
//! | `error` | why a model could not be had |
//! | `reference` | names of models, and what may be one |
//! | `settings` | what the environment says, as the hub's own tools understand it |
//! | `watch` | whoever waits for a download |
//! | `digest` | hashes of files, as the hub has them |
//! | `select` | the files that a conversion needs |
//! | `cache` | the folder that all tools of the hub share |
//! | `partial` | a file on its way |
//! | `trouble` | which failures pass by themselves |
//! | `outgoing` | what is sent: text, or a part of a file |
//! | `client` | HTTP, with redirects and a token |
//! | `retry` | when there is another attempt |
//! | `listing` | what a revision holds |
//! | `fetch` | files into the cache |
//! | `model` | from a name to a model on disk |
//! | `repository` | a repository that files go to: how it is asked |
//! | `large` | large files to where a repository keeps them |
//! | `upload` | files into a repository |

mod error;
mod reference;

#[cfg(feature = "hub")]
mod cache;
#[cfg(feature = "hub")]
mod client;
#[cfg(feature = "hub")]
mod digest;
#[cfg(feature = "hub")]
mod fetch;
#[cfg(feature = "hub")]
mod large;
#[cfg(feature = "hub")]
mod listing;
#[cfg(feature = "hub")]
mod model;
#[cfg(feature = "hub")]
mod outgoing;
#[cfg(feature = "hub")]
mod partial;
#[cfg(feature = "hub")]
mod repository;
#[cfg(feature = "hub")]
mod retry;
#[cfg(feature = "hub")]
mod select;
#[cfg(feature = "hub")]
mod settings;
#[cfg(feature = "hub")]
mod trouble;
#[cfg(feature = "hub")]
mod upload;
#[cfg(feature = "hub")]
mod watch;

pub use error::{HubError, Result};
pub use reference::Reference;

#[cfg(feature = "hub")]
pub use model::download;
#[cfg(feature = "hub")]
pub use outgoing::Content;
#[cfg(feature = "hub")]
pub use repository::{Upload, UploadFile};
#[cfg(feature = "hub")]
pub use settings::Settings;
#[cfg(feature = "hub")]
pub use upload::Uploaded;
#[cfg(feature = "hub")]
pub use watch::Watch;
