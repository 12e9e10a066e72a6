//! What is done to each value alone.

use qsf_format::Activation;

use super::activation::{self, Function};
use super::mat_vec::Inputs;
use super::template::Template;

/// Threads of a workgroup.
pub const THREADS: usize = 256;

/// The text of the kernel that makes `activation(gate) * up`, or `activation(up)` where there is no gate. A row has a gate and an up
/// part of `width` values, or an up part only; results are `width` values, in rows `stride` apart.
pub fn activate(function: Function, gated: bool) -> String {
    Template::new(include_str!("activate.wgsl"))
        .number("THREADS", THREADS)
        .when("GATED", gated)
        .word("ACTIVATION", activation::expression(function, "v"))
        .word("PRODUCT", activation::gated(function, "v", "u"))
        .word("ERROR_FUNCTION", activation::ERROR_FUNCTION)
        .make()
}

/// The text of a kernel that makes `value` of each value `v` and of the number of its job.
fn each(value: &str) -> String {
    Template::new(include_str!("each_value.wgsl")).number("THREADS", THREADS).word("VALUE", value).make()
}

/// The text of the kernel that caps values.
pub fn softcap() -> String {
    each("job.number * tanh(clamp(v / job.number, -15.0, 15.0))")
}

/// The text of the kernel that multiplies values.
pub fn scale() -> String {
    each("v * job.number")
}

/// The text of the kernel that puts the values of each row into another order.
pub fn reorder() -> String {
    Template::new(include_str!("reorder.wgsl")).number("THREADS", THREADS).make()
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
        .word("ACTIVATION", activation::expression(Function::Named(kind), "v"))
        .word("ERROR_FUNCTION", activation::ERROR_FUNCTION)
        .make()
}

/// The text of the kernel that adds outliers: `starts` has where the columns of each row
/// begin, then the columns; `weights` their values. A thread has an output of a token, or, with `experts`, of a choice
/// or a head.
pub fn outliers(experts: Option<Inputs>) -> String {
    let (matrix, output) = match experts {
        None => ("0u", "group.y * job.y_stride"),
        Some(Inputs::OfToken | Inputs::OfChoice) => ("chosen[2u * group.y]", "group.y * job.y_stride"),
        Some(Inputs::EachHead) => ("group.y", "group.z * job.y_stride + group.y * job.y_head"),
    };
    Template::new(include_str!("outliers.wgsl"))
        .number("THREADS", THREADS)
        .when("CHOSEN", experts.is_some_and(Inputs::are_chosen))
        .word("MATRIX", matrix)
        .word("INPUT", Inputs::row(experts))
        .word("OUTPUT", output)
        .make()
}

/// The text of the kernel that adds rows to others, both multiplied.
pub fn add_beside() -> String {
    Template::new(include_str!("add_beside.wgsl")).number("THREADS", THREADS).make()
}

/// The text of the kernel that copies a part of each row to a row of its own.
pub fn copy() -> String {
    Template::new(include_str!("copy.wgsl")).number("THREADS", THREADS).make()
}
