//! The process in which chat templates run: this program once more, which is told so by its first word.

use qsf_format::Failure;
use qsf_runtime::chat_template::{serve_renderer, set_renderer};

use crate::own_process::{OwnProcess, words};

/// The first word of such a process. No option and no path that anybody would give.
const WORD: &str = "::render-chat-template";

/// Renders chat templates, and gives the exit code, if that is what this process is for. Else has it start such a process for
/// each template. To be called before anything else.
pub fn render_if_asked() -> Option<u8> {
    if words().first().is_none_or(|word| word != WORD) {
        set_renderer(|| {
            let mut command = OwnProcess::get()?.again();
            command.arg(WORD);
            Ok(command)
        });
        return None;
    }
    // Nobody reads an error: whoever has asked sees that there is no answer.
    let served = serve_renderer();
    Some(served.map_or(Failure::BadInput.exit_code(), |()| 0))
}
