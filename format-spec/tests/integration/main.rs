//! The format from outside: files that are written, read back and damaged. One program for all of them, since each that is
//! linked costs seconds.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod small_file;

mod arriving;
mod clusters;
mod conformance;
mod damage;
mod exits;
mod expansion;
mod round_trip;
mod row_parts;
