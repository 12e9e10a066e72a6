//! `qsf.TextStream`: the pieces of a text that is being generated.

use pyo3::prelude::*;
use qsf_cli::kept_model::Generated;

use crate::work::{Event, Work};

/// What it says of a text.
fn generated_line(found: &Generated) -> String {
    let (prefill, decode) = (found.generation.prefill.as_secs_f64(), found.generation.decode.as_secs_f64());
    let tokens = found.generation.tokens.len();
    format!(
        "prompt: {} tokens in {prefill:.2} s; output: {tokens} tokens in {decode:.2} s\n",
        found.prompt_tokens
    )
}

/// Writes to Python's stderr, which notebooks show.
///
/// # Errors
/// What Python raises.
pub fn say(py: Python<'_>, text: &str) -> PyResult<()> {
    py.import("sys")?.getattr("stderr")?.call_method1("write", (text,)).map(|_| ())
}

/// Pieces of a text that is being generated.
#[pyclass(module = "qsf")]
pub struct TextStream {
    /// `None` when it is over.
    pub(crate) work: Option<Work<Generated>>,
    pub(crate) verbose: bool,
}

#[pymethods]
impl TextStream {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    pub(crate) fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<String>> {
        let Some(work) = &mut self.work else { return Ok(None) };
        loop {
            match work.next(py) {
                Ok(Some(Event::Text(piece))) => return Ok(Some(piece)),
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(raised) => {
                    self.work = None;
                    return Err(raised);
                }
            }
        }
        let finished = work.finish(py);
        self.work = None;
        let found = finished?;
        if self.verbose {
            say(py, &generated_line(&found))?;
        }
        Ok(None)
    }

    /// Ends the generation now.
    pub(crate) fn close(&mut self, py: Python<'_>) {
        if let Some(mut work) = self.work.take() {
            work.stop(py);
        }
    }
}

impl TextStream {
    /// All of the text. `on_token` hears every piece, and ends the text where it returns `False`.
    ///
    /// # Errors
    /// What the work or `on_token` raises.
    pub fn whole(&mut self, py: Python<'_>, on_token: Option<&Bound<'_, PyAny>>) -> PyResult<String> {
        let mut text = String::new();
        while let Some(piece) = self.__next__(py)? {
            text += &piece;
            let Some(on_token) = on_token else { continue };
            let answer = on_token.call1((piece,));
            if answer.as_ref().map_or(true, |answer| matches!(answer.extract::<bool>(), Ok(false))) {
                self.close(py);
                return answer.map(|_| text);
            }
        }
        Ok(text)
    }
}
