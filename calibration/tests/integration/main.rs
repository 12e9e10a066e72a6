//! Calibration from outside: what it measures against what whole models compute. One program for all of it, since each that is
//! linked costs seconds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod clusters;
mod layers;
mod probe;
