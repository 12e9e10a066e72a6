//! A model that a caller keeps, for other languages: Python, C.
//!
//! | File | Duty |
//! |---|---|
//! | `open` | options by name, and what they open |
//! | `text` | text that continues a prompt |

mod open;
mod text;

pub use open::{KeptModel, KeptModelArgs};
pub use text::{Generated, TextRequest};
