//! The stack of the module. There is one, which templates of strangers nest on, too: elsewhere these have a thread of 16 MiB. What
//! overflows ends in a trap, as the stack comes first in memory.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-cdylib=-zstack-size={}", 17 << 20);
}
