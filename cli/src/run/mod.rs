//! `qsf-run`: generates text with a model, measures how fast it and its kernels are, or shows the tokens of a text.
//!
//! | File | Duty |
//! |---|---|
//! | `args`, `many_args` | the flags; those of many prompts |
//! | `session` | loads the model |
//! | `outputs` | what is written, and must not be what is read |
//! | `prompt`, `lengths` | the tokens to continue, and how many there will be |
//! | `answer`, `rates` | generates text, and says how fast |
//! | `prompt_lines` | files with a prompt in each line |
//! | `prompts`, `classify`, `results` | `--prompts` and `--classify`, and where their lines go |
//! | `seeds` | what each of many prompts draws with |
//! | `attention`, `attention_args` | `--attention` |
//! | `sampling` | the flags of how tokens are chosen |
//! | `help` | how the help is arranged |
//! | `interactive` | `--interactive` |
//! | `turn_input`, `chat_command` | what is typed, and its commands |
//! | `tokenize` | `--tokenize` |
//! | `system` | `--system` |

mod answer;
mod args;
mod attention;
mod attention_args;
mod chat_command;
mod classify;
mod help;
mod interactive;
mod lengths;
mod many_args;
mod outputs;
mod prompt;
mod prompt_lines;
mod prompts;
mod rates;
mod results;
mod sampling;
mod seeds;
mod session;
mod system;
mod tokenize;
mod turn_input;

use std::process::ExitCode;

use qsf_runtime::RuntimeError;

use self::answer::answer;
use self::attention::write_attention;
use self::classify::classify_prompts;
use self::prompts::answer_prompts;
use self::session::Session;
use self::system::print_system;
use crate::bench::{BenchModel, run_bench, run_kernels};
use crate::command_line::parse;
use crate::exit::exit_with;
use crate::interrupt::cancel_on_interrupt;
use crate::model_args::{Runs, only_on_cpu};
use crate::template_process::render_if_asked;

pub use self::args::RunArgs;
pub use self::interactive::{DEFAULT_CONTEXT, InteractiveArgs, TurnOptions, answer_turns};
pub use self::tokenize::{TokenizeArgs, print_tokens};

/// The whole program.
pub fn main() -> ExitCode {
    ExitCode::from(program())
}

/// The same, within a process that does other things, too; gives the exit code.
pub fn program() -> u8 {
    if let Some(code) = render_if_asked() {
        return code;
    }
    exit_with(cancel_on_interrupt().and_then(|_| run(&parse())))
}

fn run(args: &RunArgs) -> anyhow::Result<()> {
    args.check_lines()?;
    if args.bench.kernel.is_some() {
        return run_kernels(&args.bench, args.device, &args.compute, args.json, &cancel_on_interrupt()?);
    }
    if let (true, Some(path)) = (args.bench.bench, &args.model) {
        let cancel = cancel_on_interrupt()?;
        let RunArgs { compute, device, shortcuts, stream, kv, activations, huge_pages, .. } = args;
        let (device, activations, huge_pages) = (*device, *activations, *huge_pages);
        let sequences = args.many.sequences_to_measure();
        let how =
            BenchModel { path, compute, device, shortcuts, stream, huge_pages, kv, activations, sequences };
        return run_bench(&args.bench, &how, args.json, args.verbose, &cancel);
    }
    let cpu = args.compute.start()?;
    if args.system {
        return print_system(&cpu, args.json);
    }
    let Some(path) = &args.model else {
        return Err(RuntimeError::Request("no model given".into()).into());
    };
    args.activations.check(cpu.isa(), &args.stream)?;
    if args.tokens.tokenize {
        let budget = args.stream.ram_budget;
        return print_tokens(&args.tokens, path, args.input()?.as_mut(), budget, args.json);
    }
    if args.interactive.interactive && args.kv.kv_window.is_some() {
        let why = "--kv-window: not with --interactive, which goes back to where a conversation changes, and needs the positions \
                   before it; a conversation that outgrows its context (-c) forgets its oldest turns";
        return Err(RuntimeError::Request(why.into()).into());
    }
    if !args.has_input() && !args.interactive.interactive {
        let nothing = "nothing to continue: pass -p TEXT, -f FILE (- for stdin), --prompt-ids or --prompts FILE, or -i for a chat";
        return Err(RuntimeError::Request(nothing.into()).into());
    }
    let Some((decoder, session)) = Session::load(args, path, cpu)? else { return Ok(()) };
    let only_on_cpu = only_on_cpu(&args.stream, &args.kv, &args.shortcuts, args.activations);
    if let Some((_, flag)) = args.lines() {
        // Several sequences at once are run by the processor.
        return match args.device.choose(decoder, Some(flag))? {
            Runs::OnCpu(decoder) if args.classes.classify.is_some() => {
                classify_prompts(*decoder, args, session)
            }
            Runs::OnCpu(decoder) => answer_prompts(*decoder, args, session),
            #[cfg(feature = "gpu")]
            Runs::OnGpu(_) => Err(RuntimeError::Request(format!("{flag}: not with --device gpu")).into()),
        };
    }
    if let Some(path) = &args.look.attention {
        return match args.device.choose(decoder, Some("--attention"))? {
            Runs::OnCpu(decoder) => write_attention(&decoder, args, &session, path),
            #[cfg(feature = "gpu")]
            Runs::OnGpu(_) => Err(RuntimeError::Request("--attention: not with --device gpu".into()).into()),
        };
    }
    match args.device.choose(decoder, only_on_cpu)? {
        Runs::OnCpu(decoder) => answer(&*decoder, args, session),
        #[cfg(feature = "gpu")]
        Runs::OnGpu(decoder) => answer(&*decoder, args, session),
    }
}
