//! Placeholder until the reader lands in the next commit.
fn main() {}
