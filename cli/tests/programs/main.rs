//! The programs, as a user calls them, on files and servers that are made for the purpose.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

// The same hub that the library's downloads are tested with, which asks more of it.
#[cfg(feature = "hub")]
#[allow(dead_code, reason = "the tests of downloads use the rest")]
#[path = "../../../converter/tests/hub/fake_hub.rs"]
mod fake_hub;
#[cfg(feature = "hub")]
#[path = "../../../converter/tests/hub/server.rs"]
mod server;
#[path = "../../../format-spec/tests/integration/small_file.rs"]
mod small_file;
#[cfg(feature = "hub")]
#[allow(dead_code, reason = "the tests of uploads use the rest")]
#[path = "../../../converter/tests/hub/upload_hub.rs"]
mod upload_hub;

mod documents;
#[cfg(feature = "hub")]
mod hub;
mod inspect;
mod report;
#[cfg(feature = "hub")]
mod upload;
