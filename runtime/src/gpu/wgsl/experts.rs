//! What experts read and what they made: how tokens that chose the same come together, weighted inputs, and results of a token added up.

use super::template::Template;

/// Threads of a workgroup of the kernels for values.
pub const THREADS: usize = 64;
/// Threads of the workgroup that makes tiles.
const TILE_THREADS: usize = 256;
/// More experts than these are not brought together: they do not fit into the memory of a workgroup.
pub const MOST_TILED: usize = 1024;

/// The text of the kernel that adds up what experts made of a token, each with its weight where `weighted` is set.
pub fn gather(weighted: bool) -> String {
    Template::new(include_str!("gather.wgsl")).number("THREADS", THREADS).word("WEIGHTED", weighted).make()
}

/// The text of the kernel that multiplies inputs with the weight of each choice.
pub fn weigh() -> String {
    Template::new(include_str!("weigh.wgsl")).number("THREADS", THREADS).make()
}

/// The text of the kernel that adds what all tokens go through; where it is `gated`, times the logistic function of the token's output
/// of a router.
pub fn add_shared(gated: bool) -> String {
    Template::new(include_str!("add_shared.wgsl")).number("THREADS", THREADS).when("GATED", gated).make()
}

/// The text of the kernel that makes tiles: of each, an expert, and then the choices of it that are multiplied together, `size` at most
/// ([`NONE`] behind the last).
pub fn tiles(experts: usize, size: usize) -> String {
    Template::new(include_str!("tiles.wgsl"))
        .number("THREADS", TILE_THREADS)
        .number("EXPERTS", experts)
        .number("SIZE", size)
        .number("NONE", NONE as usize)
        .make()
}

/// No choice, or no expert.
pub const NONE: u32 = u32::MAX;

/// Tiles that there may be of so many choices: each expert can have one that is not full.
pub fn most_tiles(choices: usize, experts: usize, size: usize) -> usize {
    (choices + (size - 1) * experts.min(choices)) / size
}
