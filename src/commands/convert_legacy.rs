//! `gguf-convert FILE.bin [OUT] --type T`: a LLaMA model of llama.cpp from before GGUF to GGUF files.

use std::path::{Path, PathBuf};

use arch::{Layout, LegacyOptions};
use clap::{Args, ValueHint};
use convert::{Error, LegacyInput, recipes::Recipe};

use crate::{
    commands::shared::{
        conversion_run::{self, OpenInput, RunArgs, failure},
        layout_notes::Notes,
        quantize_options::Settings,
    },
    failure::Failure,
    ui::Ui,
};

/// Options for what files from before GGUF do not contain.
#[derive(Debug, Clone, Default, PartialEq, Args)]
#[command(next_help_heading = "Files from before GGUF (ggml, ggmf, ggjt)")]
pub struct LegacyArgs {
    /// Read config.json and the tokenizer of the model from DIR.
    ///
    /// Without it, the few numbers and the plain texts of tokens in the file are used.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    pub config: Option<PathBuf>,
    /// Set the epsilon of the norms.
    ///
    /// 1e-6 for LLaMA 1, 1e-5 for LLaMA 2. Default: 5e-6, as in the reference.
    #[arg(long, value_name = "NUMBER", value_parser = parse_positive, hide_short_help = true)]
    eps: Option<f32>,
    /// Set the context length, in tokens.
    ///
    /// 2048 for LLaMA 1 (the default), 4096 for LLaMA 2.
    #[arg(short, long, alias = "context-length", value_name = "N", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    context: Option<u32>,
    /// Set the base of the rotary frequencies.
    ///
    /// Default: 10000.
    #[arg(long, value_name = "NUMBER", value_parser = parse_positive, hide_short_help = true)]
    rope_base: Option<f32>,
}

fn parse_positive(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|number: &f32| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "not a number above 0".to_owned())
}

impl LegacyArgs {
    /// Whether any is given.
    pub fn any(&self) -> bool {
        *self != LegacyArgs::default()
    }
}

/// The arguments of this mode.
#[derive(Debug, Clone, Copy)]
pub struct Legacy<'a> {
    /// The first file of the model.
    pub input: &'a Path,
    /// What the file does not say.
    pub args: &'a LegacyArgs,
    /// Types, none where a recipe file says them; where there are none, blocks stay as they are.
    pub types: Option<&'a [&'static Recipe]>,
    /// What is requested beside the types.
    pub settings: &'a Settings,
    /// How to resolve a config.
    pub arch: &'a arch::Options,
}

/// Writes the files.
///
/// # Errors
/// Whatever stopped it, with the path that it is about.
pub fn run(job: &Legacy<'_>, args: &RunArgs<'_>, ui: &Ui) -> Result<(), Failure> {
    let config = job.args.config.as_deref().map(|folder| config(folder, job.arch)).transpose()?;
    let options = LegacyOptions {
        model_name: job.arch.model_name.clone(),
        epsilon: job.args.eps,
        context_length: job.args.context,
        rope_base: job.args.rope_base,
    };
    let input = LegacyInput::open(job.input, &options, config.as_ref());
    let input = input.map_err(|error| failure(job.input, error))?;
    let (model, layout) = (input.model(), input.layout());
    let open = OpenInput {
        path: job.input,
        files: model.paths.clone(),
        format: model.container.name,
        architecture: layout.architecture.to_owned(),
        notes: Notes::of(&[], &[layout]),
        dropped: layout.dropped.clone(),
        stored_as: input.stored_as(),
        repacked: Vec::new(),
        input,
    };
    let types = match job.types {
        None => Vec::new(),
        Some([]) => vec![Recipe::from_name("COPY").map_err(Failure::new)?],
        Some(types) => types.to_vec(),
    };
    conversion_run::run(open, types, job.settings, args, ui)
}

/// Keys and vocabulary of a config folder; weights need not be there.
fn config(folder: &Path, options: &arch::Options) -> Result<Layout, Failure> {
    let failed = |error| failure(folder, error);
    let checkpoint = source::open_without_weights(folder).map_err(|error| failed(Error::Source(error)))?;
    let options = arch::Options { vocab_only: true, ..options.clone() };
    let layout = convert::resolve(&checkpoint, &options).map_err(failed)?;
    match layout.architecture {
        "llama" => Ok(layout),
        other => Err(Failure::at(folder, format_args!("the config is of `{other}`, the file of a `llama`"))),
    }
}
