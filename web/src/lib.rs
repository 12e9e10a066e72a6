//! QSF in a browser. A page (`page/`) reads files in pieces, this crate checks, describes and runs them.
//!
//! The border is one of numbers: JavaScript writes an argument to memory that [`border`] gives it, calls a function, and reads the
//! answer. No tool generates it; `page/qsf.js` is its other side.
//!
//! | File | Duty |
//! |---|---|
//! | [`border`] | arguments, answers and errors; what the browser gives: random numbers, and where panics go |
//! | [`files`] | a file that arrives, is described and verified; the report on all that were |
//! | [`text`] | a model that is loaded, and text that it generates |
//! | [`exports`] | the functions |

pub mod border;
pub mod exports;
pub mod files;
pub mod text;
