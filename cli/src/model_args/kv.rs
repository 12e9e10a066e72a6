//! `--kv-type`, `--kv-window`, `--kv-policy`: how keys and values of past positions are kept.

use clap::Args;
use qsf_runtime::cpu::KvTypes;
use qsf_runtime::{KvKeep, KvOptions, KvPolicy};

/// Flag of binaries that run models.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Key/value cache")]
pub struct KvArgs {
    /// Type of the key/value cache: f32, f16, 8bit, 4bit or 2bit, or one for keys and one for values, as in 8bit,4bit;
    /// on a graphics processor f16 or 8bit [default: f16; with --ram-budget 8bit,4bit]
    #[arg(long, value_name = "TYPE")]
    pub kv_type: Option<KvTypes>,
    /// Keep N positions of a text (between N and N + 64, while a prompt is read up to N + 512) in layers that see all of it;
    /// not with --interactive, which forgets the oldest turns instead [default: all]
    #[arg(long, value_name = "N")]
    pub kv_window: Option<usize>,
    /// With --kv-window: keep the first 4 and the last (window), or the last half and those that got most attention (h2o)
    /// [default: window]
    #[arg(long, value_name = "POLICY", requires = "kv_window")]
    pub kv_policy: Option<KvPolicy>,
}

impl KvArgs {
    /// How keys and values are kept, in `default` types where none were asked for.
    pub fn options(&self, default: KvTypes) -> KvOptions {
        let types = self.kv_type.unwrap_or(default);
        let policy = self.kv_policy.unwrap_or_default();
        let keep = self.kv_window.map(|positions| KvKeep { positions, policy });
        KvOptions { keep, ..types.into() }
    }
}
