//! `gguf-inspect show FILE...`: a summary, and lists of metadata and tensors.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use gguf_toolkit::show::{ShowOptions, Shown, show};

use crate::{
    commands::{
        Command,
        shared::{
            hub::hub_options,
            several::{Report, report_each},
        },
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("show"),
    about: "Summarize GGUF files, list their metadata and tensors",
    define: ShowArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct ShowArgs {
    /// GGUF files, importance matrices, folders with GGUF files, or URLs.
    ///
    /// An importance matrix, in GGUF or in the older format (.dat), is shown with statistics by kind of tensor and by layer, and
    /// with `--full` of each tensor: those of `llama-imatrix --show-statistics`. Any shard of a split model works. A URL starts
    /// with http:// or https://, or is hf://OWNER/MODEL[@REVISION]/FILE. Only its header is downloaded.
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required = true)]
    files: Vec<PathBuf>,
    /// List metadata and tensors.
    #[arg(long, conflicts_with = "json")]
    list: bool,
    /// Print the whole listing.
    ///
    /// Metadata and tensors, with complete arrays and strings, and statistics of each tensor of an importance matrix.
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Write a page with charts to PAGE.
    ///
    /// One self-contained file for a browser: the summary, memory by context, types by layer, prompts, and all metadata and
    /// tensors with a search.
    #[arg(long, value_name = "PAGE", value_hint = ValueHint::FilePath)]
    html: Option<PathBuf>,
    /// Use MODEL as the base.
    ///
    /// The page then has the error of each tensor. MODEL is the GGUF file that FILE was quantized from.
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::FilePath, requires = "html")]
    base: Option<PathBuf>,
    /// Write a Modelfile for Ollama.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    modelfile: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON.
    ///
    /// Arrays and strings are always complete. Several files or a folder give an array.
    #[arg(long)]
    json: bool,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

fn run(args: ShowArgs, ui: &Ui) -> Result<(), Failure> {
    let ShowArgs { files, list, full, html, base, modelfile, force, json, .. } = args;
    let output = html.as_ref().map(|_| "--html").or(modelfile.as_ref().map(|_| "--modelfile"));
    if let Some(output) = output.filter(|_| files.len() > 1 || files[0].is_dir()) {
        return Err(Failure::usage(format!("expected one file for {output}, found several")));
    }
    let hub = hub_options();
    let report = Report { text: Shown::text, verdict: |_| Ok(()), json };
    report_each(&files, &report, ui, |file| {
        let (file, html, base, modelfile) = (file.to_owned(), html.clone(), base.clone(), modelfile.clone());
        show(&ShowOptions { file, list, full, html, base, modelfile, force }, &hub, ui)
    })
}
