//! The process in which chat templates run: this program once more, which is told so by its first word.

use std::env;
use std::process::{Command, ExitCode};

use qsf_format::Failure;
use qsf_runtime::chat_template::{serve_renderer, set_renderer};

/// The first word of such a process. No option and no path that anybody would give.
const WORD: &str = "::render-chat-template";

/// Renders chat templates, and gives the exit code, if that is what this process is for. Else has it start such a process for
/// each template. To be called before anything else.
pub fn render_if_asked() -> Option<ExitCode> {
    if env::args_os().nth(1).is_none_or(|word| word != WORD) {
        set_renderer(|| {
            let mut command = Command::new(env::current_exe()?);
            command.arg(WORD);
            Ok(command)
        });
        return None;
    }
    // Nobody reads an error: whoever has asked sees that there is no answer.
    let served = serve_renderer();
    Some(served.map_or(ExitCode::from(Failure::BadInput.exit_code()), |()| ExitCode::SUCCESS))
}
