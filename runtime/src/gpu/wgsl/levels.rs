//! The levels of a learned type, where all threads find them quickly.

use super::template::Template;

/// Declares the levels of a learned type; nothing without any.
pub fn table(levels: &[f32]) -> String {
    if levels.is_empty() {
        return String::new();
    }
    let list: Vec<String> = levels.iter().map(|level| format!("{level:?}")).collect();
    Template::new(include_str!("table.wgsl"))
        .number("LEVELS", levels.len())
        .word("LIST", list.join(", "))
        .make()
}

/// Statements by which `threads` threads put the levels where all of them find them quickly.
pub fn fill_table(levels: &[f32], threads: usize) -> String {
    if levels.is_empty() {
        return String::new();
    }
    Template::part(include_str!("table.wgsl"), "fill")
        .number("LEVELS", levels.len())
        .number("THREADS", threads)
        .make()
}
