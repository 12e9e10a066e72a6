//! `qsf-inspect report`: a page about files, and a model card.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use qsf_format::printable::printable;
use qsf_format::{FormatError, PartialFile, human_bytes};
use qsf_inspection::report::{CardFields, card, page, read_files};
use qsf_runtime::file_identity::FileIdentity;
use qsf_runtime::progress::{Cancel, Progress};
use qsf_runtime::{Result, RuntimeError};
use serde_json::{Value, json};

use crate::console::{print, print_json};
use crate::interrupt::cancel_on_interrupt;
use crate::json_document::document;
use crate::own_files::OwnFiles;
use crate::progress::ProgressLine;
use crate::upload::{Parcel, UploadArgs};

/// What to report on, and where to.
#[derive(Debug, Clone, Args)]
#[command(group(ArgGroup::new("written_card").args(["card", "upload"]).multiple(true)))]
pub struct ReportArgs {
    /// QSF or GGUF files to report on
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Write the page here: one HTML file that loads nothing
    #[arg(short = 'o', long = "output", alias = "out", value_name = "FILE")]
    out: PathBuf,
    /// Write a model card here, in the form of the HuggingFace hub
    #[arg(long, value_name = "FILE")]
    card: Option<PathBuf>,
    /// Name this model of the hub on the card as what the files were made from
    #[arg(long, value_name = "NAME", requires = "written_card")]
    base_model: Option<String>,
    /// Name this license on the card, as the hub names it (apache-2.0)
    #[arg(long, value_name = "NAME", requires = "written_card")]
    license: Option<String>,
    /// Replace page and card if they exist; with --upload also files of the repository, but not its card
    #[arg(long)]
    force: bool,
    /// Print one JSON object with what the page shows
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    upload: UploadArgs,
}

impl ReportArgs {
    /// A page about `files`, which is written to `out`.
    pub fn new(files: Vec<PathBuf>, out: PathBuf, force: bool) -> ReportArgs {
        let upload = UploadArgs::default();
        ReportArgs { files, out, card: None, base_model: None, license: None, force, json: true, upload }
    }

    /// The same with a card, which names what the files were made from, and their license.
    #[must_use]
    pub fn with_card(self, card: PathBuf, base_model: Option<String>, license: Option<String>) -> ReportArgs {
        ReportArgs { card: Some(card), base_model, license, ..self }
    }
}

/// Verifies the files and writes page and card.
///
/// # Errors
/// When a file cannot be read or is damaged, an output exists, cannot be written or is a file to read, or the user interrupts.
pub fn write_report(args: &ReportArgs) -> anyhow::Result<()> {
    let (said, value) = write_pages(args, &ProgressLine::default(), &cancel_on_interrupt()?)?;
    if args.json {
        print_json(&value)?;
    } else {
        print(&printable(&said))?;
    }
    Ok(())
}

/// What `qsf-inspect report --json` prints, of `args` by which the page is written.
///
/// # Errors
/// As [`write_report`].
pub fn report_json(args: &ReportArgs, progress: &dyn Progress, cancel: &Cancel) -> anyhow::Result<Value> {
    write_pages(args, progress, cancel).map(|(_, value)| value)
}

/// Writes page and card; gives what is said of them, and the document.
fn write_pages(
    args: &ReportArgs,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<(String, Value)> {
    check_names(args)?;
    // Claimed before anything is read, so that hours of hashing do not end in a refusal.
    let (page_target, page_file) = PartialFile::create(&args.out, args.force)?;
    let card_output = args.card.as_deref().map(|path| PartialFile::create(path, args.force)).transpose()?;
    let upload = args.upload.prepare(&args.files, args.force, progress, cancel)?;
    let files = read_files(&args.files, progress, cancel)?;
    let page = page(&files);
    let mut said = written(&args.out, &page);
    publish(page_target, page_file, &page)?;
    let fields = CardFields { base_model: args.base_model.as_deref(), license: args.license.as_deref() };
    let card = card(&files, &fields);
    if let Some((card_target, card_file)) = card_output {
        said += &written(card_target.path(), &card);
        publish(card_target, card_file, &card)?;
    }
    let mut value = json!({
        "path": args.out.display().to_string(),
        "card_path": args.card.as_ref().map(|path| path.display().to_string()),
        "files": files.into_iter().map(|file| file.json).collect::<Vec<_>>(),
    });
    if let Some(upload) = upload {
        let sent = upload.send(&Parcel { files: args.files.clone(), page, card }, progress, cancel)?;
        said += &sent.to_text();
        value["uploaded"] = sent.to_json();
    }
    Ok((said, document("report", value)))
}

/// Page and card of one file, to be uploaded with it.
///
/// # Errors
/// When it cannot be read or is damaged, or the user interrupts.
pub fn parcel_of(
    file: &Path,
    base_model: Option<&str>,
    progress: &dyn Progress,
    cancel: &Cancel,
) -> anyhow::Result<Parcel> {
    let paths = vec![file.to_owned()];
    let files = read_files(&paths, progress, cancel)?;
    let card = card(&files, &CardFields { base_model, license: None });
    Ok(Parcel { page: page(&files), card, files: paths })
}

/// No file is given twice, and no output is one of those to read or the other output.
fn check_names(args: &ReportArgs) -> Result<()> {
    let known: Vec<FileIdentity> = args.files.iter().map(|file| FileIdentity::of(file)).collect();
    for (i, file) in args.files.iter().enumerate() {
        if known[..i].iter().any(|before| before.is(&known[i])) {
            return Err(RuntimeError::Request(format!("{}: this file is given twice", file.display())));
        }
    }
    OwnFiles::default()
        .reads("FILE", &args.files)
        .writes("-o", [&args.out])
        .writes("--card", &args.card)
        .check()
}

/// Writes `text` to the file, and gives it its name.
fn publish(mut target: PartialFile, mut file: File, text: &str) -> Result<()> {
    file.write_all(text.as_bytes()).map_err(|e| FormatError::io(target.partial(), "write", e))?;
    target.publish(&file)?;
    Ok(())
}

/// What is said of an output.
fn written(path: &Path, text: &str) -> String {
    format!("{}: written, {}\n", path.display(), human_bytes(text.len() as u64))
}
