//! What is done to each value alone.

use qsf_format::Activation;

use super::activation;
use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 256;

/// The text of the kernel that makes `activation(gate) * up`, or `activation(up)` where there is no gate. A row has a gate and an up
/// part of `width` values, or an up part only; results are `width` values, in rows `stride` apart.
pub fn activate(kind: Activation, gated: bool) -> String {
    Template::new(include_str!("activate.wgsl"))
        .number("THREADS", THREADS)
        .when("GATED", gated)
        .word("ACTIVATION", activation::expression(kind, "v"))
        .word("ERROR_FUNCTION", activation::ERROR_FUNCTION)
        .make()
}

/// The text of the kernel that caps values.
pub fn softcap() -> String {
    Template::new(include_str!("softcap.wgsl")).number("THREADS", THREADS).make()
}

/// The text of the kernel that multiplies values.
pub fn scale() -> String {
    Template::new(include_str!("scale.wgsl")).number("THREADS", THREADS).make()
}

/// The text of the kernel that takes queries of attention by way of latents apart.
pub fn split_queries() -> String {
    Template::new(include_str!("split_queries.wgsl")).number("THREADS", THREADS).make()
}

/// The text of the kernel that multiplies what attention gives with the logistic function of gates.
pub fn gate() -> String {
    Template::new(include_str!("gate.wgsl")).number("THREADS", THREADS).make()
}

/// The text of the kernel that lets what a layer gets of a token through by gates.
pub fn per_layer(kind: Activation) -> String {
    Template::new(include_str!("per_layer.wgsl"))
        .number("THREADS", THREADS)
        .word("ACTIVATION", activation::expression(kind, "v"))
        .word("ERROR_FUNCTION", activation::ERROR_FUNCTION)
        .make()
}

/// The text of the kernel that adds weights that are stored apart from their blocks: `starts` has where the columns of each row
/// begin, then the columns; `weights` their values. A thread has an output of a token.
pub fn outliers() -> String {
    Template::new(include_str!("outliers.wgsl")).number("THREADS", THREADS).make()
}
