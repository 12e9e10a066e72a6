//! A hostile chat template: read, and made to render a conversation.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use qsf_fuzz::must_say_something;
use qsf_runtime::{ChatTemplate, Message};

fuzz_target!(|text: &[u8]| {
    let special = || Some("<s>".to_owned());
    match ChatTemplate::new(text, Path::new("memory"), special(), special()) {
        Ok(template) => {
            let messages = [Message::new("system", "Be brief."), Message::new("user", "Why?\n")];
            for prompt_reply in [false, true] {
                let _ = template.render(&messages, prompt_reply).inspect_err(must_say_something);
            }
        }
        Err(error) => must_say_something(&error),
    }
});
