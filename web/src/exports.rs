//! The functions that JavaScript calls. Each that gives a number gives 0 or a class of error, as exit codes have them; its answer, or
//! what is wrong, is then at [`qsf_answer`].

use std::cell::RefCell;
use std::ops::Range;

use qsf_format::Wanted;
use serde_json::json;

use crate::border::{self, Problem, answer};
use crate::files::Files;
use crate::text::{Generation, Loaded, Request};

/// What an instance holds.
#[derive(Default)]
struct Instance {
    files: Files,
    model: Option<Loaded>,
    generation: Option<Generation>,
}

thread_local! {
    static INSTANCE: RefCell<Instance> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut Instance) -> T) -> T {
    INSTANCE.with_borrow_mut(work)
}

fn range(start: f64, bytes: usize) -> Range<u64> {
    // Whole numbers up to 2^53, and what is none becomes a range that is not there.
    let start = start as u64;
    start..start.saturating_add(bytes as u64)
}

/// To be called first, once.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_start() {
    border::report_panics();
}

/// Room for an argument of so many bytes of UTF-8; NULL when it is too long.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_given(bytes: usize) -> *mut u8 {
    border::room(bytes)
}

/// Where the last answer is.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_answer() -> *const u8 {
    border::last_answer().0
}

/// Bytes of the last answer.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_answer_bytes() -> usize {
    border::last_answer().1
}

/// Begins with the file of the given name. The model before is given up.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_begin(file_bytes: f64) -> u32 {
    answer(|name| {
        with(|instance| {
            (instance.generation, instance.model) = (None, None);
            Ok(instance.files.begin(name, file_bytes as u64).map(|()| String::new())?)
        })
    })
}

/// Answers the range that is to be read next, as `start end`; nothing when there is all that is wanted: what describes the file, or
/// all of it.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_wanted(all: bool) -> u32 {
    let wanted = if all { Wanted::All } else { Wanted::Description };
    answer(|_| {
        let range = with(|instance| instance.files.next_range(wanted))?;
        Ok(range.map_or_else(String::new, |range| format!("{} {}", range.start, range.end)))
    })
}

/// The place for so many bytes of the file; NULL when they are not inside of it.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_place(start: f64, bytes: usize) -> *mut u8 {
    with(|instance| {
        instance.files.room(range(start, bytes)).map_or(std::ptr::null_mut(), |room| room.as_mut_ptr())
    })
}

/// Says that so many bytes are in their place.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_arrived(start: f64, bytes: usize) {
    with(|instance| instance.files.arrived(range(start, bytes)));
}

/// Answers what `qsf-inspect` says of the file.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_describe() -> u32 {
    answer(|_| Ok(with(|instance| instance.files.describe())?))
}

/// Verifies the file. Answers what `qsf-inspect --tensors --verify` says of it.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_verify() -> u32 {
    answer(|_| Ok(with(|instance| instance.files.verify())?))
}

/// Answers the page of `qsf-inspect report` on all files that were verified.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_report() -> u32 {
    answer(|_| Ok(with(|instance| instance.files.report())))
}

/// Loads the model of the file that was verified last, for the given instruction set, or the fastest. Answers what it is.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_load() -> u32 {
    answer(|isa| {
        with(|instance| {
            (instance.generation, instance.model) = (None, None);
            let model = Loaded::new(instance.files.verified()?, isa)?;
            let facts = json!(model.facts()).to_string();
            instance.model = Some(model);
            Ok(facts)
        })
    })
}

/// Runs the prompt of the given request. Answers how many tokens it has.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_prompt() -> u32 {
    answer(|given| {
        let request: Request = serde_json::from_str(given)
            .map_err(|error| Problem::usage(format!("the request cannot be read: {error}")))?;
        with(|instance| {
            instance.generation = None;
            let model = instance.model.as_ref().ok_or_else(|| Problem::usage("no model is loaded"))?;
            let generation = model.begin(&request)?;
            let tokens = generation.prompt();
            instance.generation = Some(generation);
            Ok(tokens.to_string())
        })
    })
}

/// Generates up to so many tokens. Answers their text.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_go_on(steps: usize) -> u32 {
    answer(|_| {
        with(|instance| {
            let Instance { model: Some(model), generation: Some(generation), .. } = instance else {
                return Err(Problem::usage("no text is under way"));
            };
            Ok(model.go_on(generation, steps)?)
        })
    })
}

/// Tokens that were generated so far.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_generated() -> usize {
    with(|instance| instance.generation.as_ref().map_or(0, Generation::generated))
}

/// Whether no more tokens will come.
#[unsafe(no_mangle)]
pub extern "C" fn qsf_is_over() -> bool {
    with(|instance| instance.generation.as_ref().is_none_or(Generation::is_over))
}
