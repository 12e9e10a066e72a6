//! What `qsf.batch` is made of: a batch whose jobs other machines do, and a job there.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use qsf_cli::batch::{Dispatch, Errand, Program, Record};
use qsf_cli::convert::command;
use qsf_runtime::cpu::threads::default_threads;

use crate::errors::raise;
use crate::values::to_object;
use crate::work::Work;

/// A list of jobs whose processes run on other machines, and the results, which are this process's alone. See qsf.batch.
#[pyclass(module = "qsf._qsf")]
pub struct Batch {
    /// `None` after an error in the middle of it.
    dispatch: Option<Dispatch>,
}

impl Batch {
    fn dispatch(&mut self) -> PyResult<&mut Dispatch> {
        self.dispatch.as_mut().ok_or_else(|| PyRuntimeError::new_err("this batch has ended"))
    }
}

#[pymethods]
impl Batch {
    /// Checks the list, takes hold of out_dir/results.jsonl, and skips what is done. program: what starts the process of a job.
    #[new]
    fn new(
        py: Python<'_>,
        jobs: PathBuf,
        out_dir: PathBuf,
        program: Vec<OsString>,
        retry: u32,
    ) -> PyResult<Batch> {
        let program = program_of(program)?;
        let work = Work::start(move |_, cancel| {
            let cores = default_threads();
            Ok(Dispatch::open(&jobs, &out_dir, &command(), program, cores, retry, cancel)?)
        })?;
        Ok(Batch { dispatch: Some(work.wait(py, |_| Ok(()))?) })
    }

    /// Of each job to do its number, output, bytes of memory and threads, where all machines have `cores` together. Jobs that
    /// cannot even begin have failed then.
    fn demands(&mut self, py: Python<'_>, cores: usize) -> PyResult<Vec<(usize, String, u64, usize)>> {
        self.dispatch()?;
        let mut dispatch = self.dispatch.take();
        let work = Work::start(move |_, cancel| {
            let demands = dispatch.as_mut().context("there is a batch")?.demands(cores, cancel)?;
            Ok((dispatch, demands))
        })?;
        let demands;
        (self.dispatch, demands) = work.wait(py, |_| Ok(()))?;
        Ok(demands
            .into_iter()
            .map(|d| (d.position, d.output.display().to_string(), d.bytes, d.threads))
            .collect())
    }

    /// What run_errand has to be given for a job, as text.
    fn errand(&mut self, py: Python<'_>, position: usize, threads: usize) -> PyResult<String> {
        serde_json::to_string(&self.dispatch()?.errand(position, threads)).map_err(raise(py))
    }

    /// Writes down what run_errand gave, at the try of this number; tells whether the file is there.
    fn take(&mut self, py: Python<'_>, position: usize, tries: u32, record: &str) -> PyResult<bool> {
        let mut record: Record = serde_json::from_str(record).map_err(raise(py))?;
        record.attempts += tries.saturating_sub(1);
        self.dispatch()?.take(position, record).map_err(raise(py))
    }

    /// Writes down that nothing came back of a job after so many tries.
    fn give_up(
        &mut self,
        py: Python<'_>,
        position: usize,
        tries: u32,
        exit_code: u8,
        error: String,
    ) -> PyResult<()> {
        self.dispatch()?.give_up(position, tries, exit_code, error).map_err(raise(py))
    }

    /// Says something on stderr.
    fn note(&mut self, text: &str) -> PyResult<()> {
        self.dispatch()?.note(text);
        Ok(())
    }

    /// What came of all jobs so far: for people, and as a dict.
    fn summary<'py>(&mut self, py: Python<'py>) -> PyResult<(String, Bound<'py, PyAny>)> {
        let summary = self.dispatch()?.summary();
        Ok((summary.to_table(), to_object(py, &summary.to_json())?))
    }
}

/// Does a job that another machine has an errand of, and gives its record.
#[pyfunction]
pub fn run_errand(py: Python<'_>, errand: &str, program: Vec<OsString>) -> PyResult<String> {
    let errand: Errand = serde_json::from_str(errand).map_err(raise(py))?;
    let program = program_of(program)?;
    let work = Work::start(move |_, cancel| Ok(errand.run(&command(), program, cancel)?))?;
    let record = work.wait(py, |_| Ok(()))?;
    serde_json::to_string(&record).map_err(raise(py))
}

/// Is the process of a job: qsf-convert --batch-worker. Gives the exit code.
#[pyfunction]
pub fn job_process(py: Python<'_>, words: Vec<OsString>) -> u8 {
    py.detach(|| qsf_cli::convert::job_process(words))
}

fn program_of(mut words: Vec<OsString>) -> PyResult<Program> {
    if words.is_empty() {
        return Err(PyRuntimeError::new_err("a program has a name"));
    }
    let first = words.split_off(1);
    Ok(Program { path: words.remove(0).into(), first })
}
