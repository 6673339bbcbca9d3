//! `gguf-publish SRC DIR`: builds a model repository from a checkpoint.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint, builder::TypedValueParser, parser::ValueSource};
use gguf_toolkit::{
    Recipe,
    arguments::{choice, output_path},
    calibration_text::BUILT_IN,
    publish::{Ladder, PublishOptions, publish},
    sizes::parse_size,
};

use super::{
    Command,
    shared::{call::executable, cpu_level::cpu_level, eval_args::RunArgs, hub::hub_options, values},
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    define: |command| PublishArgs::augment_args(command).arg_required_else_help(true),
    run,
    ..Command::of("gguf-publish")
};

#[derive(Debug, Args)]
struct PublishArgs {
    /// Checkpoint folder, hf://OWNER/MODEL[@REVISION], or GGUF file.
    #[arg(value_hint = ValueHint::AnyPath)]
    src: PathBuf,
    /// Folder to create or update.
    #[arg(value_hint = ValueHint::DirPath, value_parser = output_path())]
    dir: PathBuf,
    /// Set the output type, for example bf16.
    ///
    /// A comma-separated list writes several files. The types of earlier runs are kept.
    #[arg(short = 't', long = "type", value_name = "TYPE", value_delimiter = ',', value_parser = values::file_type(), hide_possible_values = true)]
    types: Vec<&'static Recipe>,
    /// Write a predefined set of types: small or full.
    ///
    /// small (the default) is q3_k_m, q4_k_m, q5_k_m, q6_k and q8_0; full has twelve types from iq2_xxs to q8_0.
    #[arg(long, conflicts_with = "types", value_parser = ladder(), hide_possible_values = true)]
    ladder: Option<Ladder>,
    /// Write the largest type that fits in SIZE.
    ///
    /// SIZE is the memory available for weights and context. A comma-separated list such as 8GB,16GB writes a file for
    /// each size.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, conflicts_with_all = ["types", "ladder"])]
    fit: Vec<u64>,
    /// Include the memory of a context of N tokens in --fit.
    ///
    /// The model card also lists the memory for this context length. Default: 8192, or less if the model was
    /// trained for less.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32), hide_short_help = true)]
    fit_context: Option<u64>,
    /// Optimize types and rounding on these texts.
    ///
    /// Each quantized file is made like `gguf-quantize BASE OUT TYPE --calibrate FILE`. `builtin` instead of a file, or no
    /// value, is a built-in text. Later runs calibrate on the same texts, unless --no-calibrate is given.
    #[arg(long, value_name = "FILE", num_args = 0.., default_missing_value = BUILT_IN, value_hint = ValueHint::FilePath)]
    calibrate: Vec<PathBuf>,
    /// Use N tokens of the calibration texts in total.
    ///
    /// Tokens are taken from each text in turn. Default: 16384.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2048..), hide_short_help = true)]
    calibration_tokens: Option<u32>,
    /// Do not calibrate, although an earlier run did.
    #[arg(long, conflicts_with_all = ["calibrate", "calibration_tokens", "target_size"], hide_short_help = true)]
    no_calibrate: bool,
    /// Choose types so that the file is no larger than SIZE.
    ///
    /// This file is published in addition to those of the types, and requires --calibrate. SIZE is in bytes or has a unit: K, M, G or KB, MB, GB (powers of 1000), or KiB, MiB, GiB. A comma-separated list
    /// adds a file for each size. The size is part of the file name.
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = parse_size, hide_short_help = true)]
    target_size: Vec<u64>,
    /// Remove files of earlier runs, by their type in the card.
    ///
    /// A comma-separated list such as q3_k_m,Q4_K_M-5GB removes several files.
    #[arg(long, value_name = "TYPE", value_delimiter = ',', hide_short_help = true)]
    remove: Vec<String>,
    /// Set the chat template to the contents of FILE.
    ///
    /// Later runs keep this text, even if FILE changes. `source` instead of a file restores the template of the source.
    /// Files with other metadata get new headers; weights and measurements are kept.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, hide_short_help = true)]
    chat_template: Option<PathBuf>,
    /// Set the name of the model.
    ///
    /// The output file and the metadata key general.name are named after it.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    model_name: Option<String>,
    /// Also publish this draft model (repeatable).
    ///
    /// DIR is the checkpoint folder of an EAGLE 3, DFlash or DSpark draft model.
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, hide_short_help = true)]
    draft: Vec<PathBuf>,
    /// Set the type of the unquantized GGUF file that the others are made from.
    ///
    /// Default: the type of the checkpoint if it is f32, f16 or bf16, otherwise bf16.
    #[arg(long, value_name = "TYPE", value_parser = values::file_type(), hide_possible_values = true, hide_short_help = true)]
    base_type: Option<&'static Recipe>,
    /// Collect the importance matrix from these texts.
    ///
    /// A .jsonl file holds chats, which are rendered with the chat template of the model. `builtin` is the built-in text of
    /// --calibrate. Default: the texts of --calibrate, or a smaller built-in text.
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    imatrix_text: Vec<PathBuf>,
    /// Read at most N chunks of --imatrix-text.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), hide_short_help = true)]
    imatrix_chunks: Option<u32>,
    /// Do not use an importance matrix.
    #[arg(long, conflicts_with_all = ["imatrix_text", "imatrix_chunks", "calibrate"], hide_short_help = true)]
    no_imatrix: bool,
    /// Measure the output on these texts.
    ///
    /// Use texts other than those of --imatrix-text. Default: a small built-in text.
    #[arg(long, value_name = "FILE", num_args = 1.., value_hint = ValueHint::FilePath)]
    eval_text: Vec<PathBuf>,
    /// Read at most N chunks of the text.
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    chunks: u32,
    /// Set the context length, in tokens.
    ///
    /// The text is cut into chunks of this length.
    #[arg(short, long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(4..), hide_short_help = true)]
    context: u32,
    /// Omit files that are both larger and worse than another file.
    #[arg(long, hide_short_help = true)]
    drop_dominated: bool,
    /// Limit each shard to SIZE of tensor data.
    ///
    /// The Hub accepts files of up to 50 GB.
    #[arg(long, value_name = "SIZE", default_value = "48GB", value_parser = parse_size, hide_short_help = true)]
    split_max_size: u64,
    /// Name the base model in the card, as OWNER/NAME.
    ///
    /// Default: the repository of an hf:// source.
    #[arg(long, value_name = "REPO", hide_short_help = true)]
    base_model: Option<String>,
    /// Name the published repository in the commands of the card, as OWNER/NAME.
    #[arg(long, value_name = "REPO", hide_short_help = true)]
    repo: Option<String>,
    /// Name the publisher in the card.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    quantized_by: Option<String>,
    /// Remove the types of earlier runs that are not requested again.
    #[arg(long, hide_short_help = true)]
    replace_types: bool,
    /// Overwrite existing outputs.
    ///
    /// Needed if the folder contains files that gguf-publish did not write, or that were changed since the last run.
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    run: RunArgs,
}

fn ladder() -> impl TypedValueParser<Value = Ladder> {
    choice(Ladder::ALL.iter().map(|(ladder, name)| (*name, "", *ladder)))
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args: PublishArgs = Command::args(matches)?;
    let is_given = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
    let options = PublishOptions {
        types: args.types,
        ladder: args.ladder,
        fit: args.fit,
        fit_context: args.fit_context,
        calibrate: args.calibrate,
        calibration_tokens: args.calibration_tokens,
        no_calibrate: args.no_calibrate,
        target_size: args.target_size,
        remove: args.remove,
        chat_template: args.chat_template,
        model_name: args.model_name,
        draft: args.draft,
        base_type: args.base_type,
        imatrix_text: args.imatrix_text,
        imatrix_chunks: args.imatrix_chunks,
        no_imatrix: args.no_imatrix,
        eval_text: args.eval_text,
        chunks: is_given("chunks").then_some(args.chunks),
        context: is_given("context").then_some(args.context),
        drop_dominated: args.drop_dominated,
        split_max_size: is_given("split_max_size").then_some(args.split_max_size),
        base_model: args.base_model,
        repo: args.repo,
        quantized_by: args.quantized_by,
        replace_types: args.replace_types,
        force: args.force,
        threads: args.run.threads,
        activations: args.run.activations,
        level: cpu_level()?,
        executable: Some(executable()),
        ..PublishOptions::new(args.src, args.dir)
    };
    publish(&options, &hub_options(), ui)
}
