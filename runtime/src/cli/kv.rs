//! `--kv-type`: how keys and values of past positions are stored.

use clap::Args;

use crate::cpu::KvTypes;

/// Flag of binaries that run models.
#[derive(Debug, Clone, Args)]
pub struct KvArgs {
    /// Type of the key/value cache: f32, f16, 8bit, 4bit or 2bit, or one for keys and one for values, as in 8bit,4bit
    /// [default: f16; with --ram-budget 8bit,4bit]
    #[arg(long, value_name = "TYPE", help_heading = "Key/value cache")]
    pub kv_type: Option<KvTypes>,
}

impl KvArgs {
    /// The types that were asked for, else f16.
    pub fn types(&self) -> KvTypes {
        self.types_or(KvTypes::F16)
    }

    /// The types that were asked for, else `default`.
    pub fn types_or(&self, default: KvTypes) -> KvTypes {
        self.kv_type.unwrap_or(default)
    }
}
