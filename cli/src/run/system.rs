//! `--system`: threads, instruction sets, and the kernels chosen for each type.

use std::env::consts::{ARCH, OS};

use qsf_runtime::cpu::threads::{Pinning, physical_cores};
use qsf_runtime::cpu::{Cpu, Isa};
use serde_json::{Value, json};

use crate::console::{print, print_json, table};
use crate::json_document::document;
use crate::model_args::{adapters_json, adapters_text};

/// Prints what `cpu` computes with, and which graphics processors there are.
pub(super) fn print_system(cpu: &Cpu, as_json: bool) -> anyhow::Result<()> {
    let available: Vec<&str> = Isa::available().into_iter().map(Isa::name).collect();
    let kernels = cpu.kernels().entries();
    let (threads, pinned) = (cpu.threads(), cpu.pool().pinning() == Pinning::Cores);
    let cores = physical_cores().map(<[usize]>::len);
    if as_json {
        let kernels: Vec<Value> =
            kernels.map(|k| json!({"type": k.quant, "activations": k.path, "kernel": k.kernel})).collect();
        let value = json!({
            "arch": ARCH, "os": OS, "threads": threads,
            "physical_cores": cores, "pinned": pinned, "isa_available": available, "isa": cpu.isa().name(), "kernels": kernels,
            "adapters": adapters_json(),
        });
        print_json(&document("system", value))?;
        return Ok(());
    }
    let mut out = format!(
        "{} {}, {threads} threads{}, {} physical cores\ninstruction sets: {} (in use: {})\n",
        ARCH,
        OS,
        if pinned { " (pinned)" } else { "" },
        cores.map_or("an unknown number of".to_owned(), |cores| cores.to_string()),
        available.join(", "),
        cpu.isa().name()
    );
    out += &format!("{}\n", adapters_text());
    out += &table(
        &["type", "activations", "kernel"],
        3,
        kernels.map(|k| vec![k.quant.to_string(), k.path.to_string(), k.kernel.to_string()]),
    );
    print(&out)?;
    Ok(())
}
