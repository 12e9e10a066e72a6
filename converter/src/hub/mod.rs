//! Models of the HuggingFace hub by name: `org/name`, downloaded into the cache that the hub's own tools use.
//!
//! Names are understood in every build, so that one without the feature `hub` can say what to do. With it, `download` asks the
//! hub for the files of a revision, chooses those that a conversion needs, and gives the folder or GGUF file to open.

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
mod listing;
#[cfg(feature = "hub")]
mod model;
#[cfg(feature = "hub")]
mod partial;
#[cfg(feature = "hub")]
mod retry;
#[cfg(feature = "hub")]
mod select;
#[cfg(feature = "hub")]
mod settings;
#[cfg(feature = "hub")]
mod trouble;
#[cfg(feature = "hub")]
mod watch;

pub use error::{HubError, Result};
pub use reference::Reference;

#[cfg(feature = "hub")]
pub use model::download;
#[cfg(feature = "hub")]
pub use settings::Settings;
#[cfg(feature = "hub")]
pub use watch::Watch;
