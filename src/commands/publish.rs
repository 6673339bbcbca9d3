//! `gguf-publish SRC DIR`: builds a model repository from a checkpoint.

use std::{ffi::OsStr, path::PathBuf};

use clap::{Arg, ArgMatches, Args, ValueHint, parser::ValueSource};
use gguf_toolkit::{
    arguments::output_path,
    publish::{PublishOptions, publish},
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
#[command(mut_args(with_tips))]
struct PublishArgs {
    /// Checkpoint folder, hf://OWNER/MODEL[@REVISION], or GGUF file.
    #[arg(value_hint = ValueHint::AnyPath)]
    src: PathBuf,
    /// Folder to create or update.
    #[arg(value_hint = ValueHint::DirPath, value_parser = output_path())]
    dir: PathBuf,
    #[command(flatten)]
    options: PublishOptions,
    #[command(flatten)]
    run: RunArgs,
}

/// Adds the tips about names of types to the options that the toolkit defines.
fn with_tips(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "types" | "base_type" => arg.value_parser(values::file_type()).hide_possible_values(true),
        _ => arg,
    }
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let PublishArgs { src, dir, options, run } = Command::args(matches)?;
    let types = ["types", "base_type"].into_iter().filter_map(|id| matches.get_raw(id)).flatten();
    values::renamed(types.filter_map(OsStr::to_str)).iter().for_each(|note| ui.note(note));
    // Values of an earlier run come before the defaults.
    let is_given = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
    let options = PublishOptions {
        src,
        dir,
        chunks: options.chunks.filter(|_| is_given("chunks")),
        context: options.context.filter(|_| is_given("context")),
        split_max_size: options.split_max_size.filter(|_| is_given("split_max_size")),
        threads: run.threads,
        activations: run.activations,
        level: Some(cpu_level()?),
        executable: Some(executable()),
        ..options
    };
    publish(&options, &hub_options(), ui)
}
