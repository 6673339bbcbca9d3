//! The commands `plan`, `part` and `assemble`: a conversion in parts, on several machines.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Args, FromArgMatches, ValueHint};
use convert::parts::Place;
use gguf::PartNumber;

use super::{
    conversion_run::Parts,
    plan_file::{self, PlanFile, Wanted},
    threads::parse_threads,
    write::output_parser,
};
use crate::{commands, failure::Failure, ui::Ui};

/// Name of the command that saves a plan.
pub const PLAN: &str = "plan";
/// Name of the command that converts a part.
pub const PART: &str = "part";
/// Name of the command that completes the output.
pub const ASSEMBLE: &str = "assemble";

/// A conversion: the name of its command, and what runs it, whole or in parts.
pub type Conversion = (Option<&'static str>, fn(&ArgMatches, &Parts<'_>, &Ui) -> Result<(), Failure>);

#[derive(Debug, Args)]
struct PlanArgs {
    /// Plan to write.
    ///
    /// A plan fixes options, inputs and all offsets of the output.
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath, value_parser = output_parser())]
    plan: PathBuf,
    /// Arguments of the conversion.
    #[arg(value_name = "ARGUMENT", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    call: Vec<OsString>,
}

#[derive(Debug, Args)]
struct PartArgs {
    /// Plan to execute.
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    plan: PathBuf,
    /// Part K of N.
    #[arg(value_name = "K/N")]
    part: PartNumber,
    /// Write the part to a separate file, OUT.part-K-of-N.
    ///
    /// By default it is written to the temporary file of the output, which all machines must see. Use this option if they share no
    /// folder, or one that does not allow several writers of a file. `assemble` finds these files next to the output.
    #[arg(long)]
    part_files: bool,
    #[command(flatten)]
    run: PlannedRunArgs,
}

#[derive(Debug, Args)]
struct AssembleArgs {
    /// Plan to execute.
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath)]
    plan: PathBuf,
    #[command(flatten)]
    run: PlannedRunArgs,
}

/// Options that are not part of a plan.
#[derive(Debug, Args)]
struct PlannedRunArgs {
    /// Overwrite existing outputs.
    #[arg(long)]
    force: bool,
    /// Use N threads.
    ///
    /// Default: one per core. The output does not depend on it.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    threads: Option<std::num::NonZeroUsize>,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
    /// Print more details.
    #[arg(short, long)]
    verbose: bool,
}

/// Adds arguments and help of `plan`.
pub fn define_plan(command: clap::Command, examples: &'static str) -> clap::Command {
    PlanArgs::augment_args(command)
        .about("Plan a conversion in parts, for several machines")
        .after_help(examples)
        .after_long_help(format!(
            "The arguments after PLAN are those of a conversion, with the name of its command if it has one.\n\n{examples}"
        ))
}

/// Adds arguments and help of `part`.
pub fn define_part(command: clap::Command, examples: &'static str) -> clap::Command {
    PartArgs::augment_args(command)
        .about("Convert one part of a plan")
        .after_help(examples)
        .after_long_help(format!("An interrupted part resumes when it is called again.\n\n{examples}"))
}

/// Adds arguments and help of `assemble`.
pub fn define_assemble(command: clap::Command, examples: &'static str) -> clap::Command {
    AssembleArgs::augment_args(command)
        .about("Check all parts of a plan and complete the output")
        .after_help(examples)
}

/// Amount of output of `plan`: that of its conversion.
pub fn ui_of_plan(matches: &ArgMatches) -> Ui {
    let words = matches.get_many::<OsString>("call").into_iter().flatten();
    let has = |names: [&str; 2]| words.clone().any(|word| names.iter().any(|name| word == name));
    Ui { quiet: has(["-q", "--quiet"]), verbose: has(["-v", "--verbose"]) }
}

/// Saves the plan of a call.
///
/// # Errors
/// A call that cannot be planned.
pub fn save(
    binary: &'static str,
    conversions: &[Conversion],
    matches: &ArgMatches,
    ui: &Ui,
) -> Result<(), Failure> {
    let args = PlanArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let (verb, matches) = commands::parsed(binary, Path::new(""), args.call)?;
    let (_, run) = find(conversions, verb)?;
    for id in ["dry_run", "keep"] {
        if matches.try_get_one::<bool>(id).ok().flatten() == Some(&true) {
            let option = id.replace('_', "-");
            return Err(Failure::usage(format_args!("--{option} does not go with a plan")));
        }
    }
    let arguments = plan_file::arguments_of(binary, verb, &matches)?;
    let parts = Parts { wanted: Wanted::Save(&args.plan), plan: None, arguments: &arguments };
    run(&matches, &parts, ui)
}

/// Converts a part of a plan.
///
/// # Errors
/// Whatever stopped it.
pub fn part(
    binary: &'static str,
    conversions: &[Conversion],
    matches: &ArgMatches,
    ui: &Ui,
) -> Result<(), Failure> {
    let args = PartArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let place = if args.part_files { Place::OwnFile } else { Place::Shared };
    execute(binary, conversions, (&args.plan, Wanted::Part(args.part, place)), &args.run, ui)
}

/// Completes the output of a plan.
///
/// # Errors
/// Whatever is wrong with a part.
pub fn assemble(
    binary: &'static str,
    conversions: &[Conversion],
    matches: &ArgMatches,
    ui: &Ui,
) -> Result<(), Failure> {
    let args = AssembleArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    execute(binary, conversions, (&args.plan, Wanted::Assembly), &args.run, ui)
}

fn execute(
    binary: &'static str,
    conversions: &[Conversion],
    (path, wanted): (&Path, Wanted<'_>),
    run_args: &PlannedRunArgs,
    ui: &Ui,
) -> Result<(), Failure> {
    let plan = PlanFile::open(path, binary)?;
    let mut own = Vec::new();
    own.extend(run_args.force.then(|| "--force".to_owned()));
    own.extend(run_args.threads.map(|n| format!("--threads={n}")));
    let (verb, matches) = plan.enter(path, binary, own)?;
    let (_, run) = find(conversions, verb.as_deref())?;
    let plan = (plan, path.to_owned());
    run(&matches, &Parts { wanted, plan: Some(&plan), arguments: &[] }, ui)
}

/// Runs a call as that of another command.
///
/// # Errors
/// An option that the other command does not have, or whatever stopped it.
pub fn run_as(
    binary: &'static str,
    (verb, conversions): (&'static str, &[Conversion]),
    matches: &ArgMatches,
    parts: &Parts<'_>,
    ui: &Ui,
) -> Result<(), Failure> {
    let words = plan_file::words(binary, None, matches, &[]);
    let words = [OsString::from(verb)].into_iter().chain(words);
    let (verb, matches) = commands::parsed(binary, Path::new(""), words.collect())?;
    let (_, run) = find(conversions, verb)?;
    run(&matches, parts, ui)
}

fn find<'a>(conversions: &'a [Conversion], verb: Option<&str>) -> Result<&'a Conversion, Failure> {
    conversions
        .iter()
        .find(|(name, _)| *name == verb)
        .ok_or_else(|| Failure::usage(format_args!("`{}` does not go with a plan", verb.unwrap_or_default())))
}
