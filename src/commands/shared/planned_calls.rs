//! The commands `plan`, `part` and `assemble`: a conversion in parts, on several machines.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Args, ValueHint};
use gguf_toolkit::{
    PartNumber, Place,
    convert::{NewPlan, OpenPlan, Parts, plan_file::PlanFile},
};

use super::{
    plan_args::{arguments_of, enter, words},
    tensor_args::output_parser,
    threads::parse_threads,
};
use crate::{
    commands::{self, Command},
    failure::Failure,
    ui::Ui,
};

/// Names of the commands: save a plan, convert a part, complete the output.
pub const VERBS: [&str; 3] = [PLAN, PART, ASSEMBLE];
pub const PLAN: &str = "plan";
pub const PART: &str = "part";
pub const ASSEMBLE: &str = "assemble";

/// A conversion: the name of its command, and the function that runs it, whole or in parts.
pub type Conversion = (Option<&'static str>, fn(&ArgMatches, Parts<'_>, &Ui) -> Result<(), Failure>);

/// A program whose conversions can be planned.
pub trait PlannedProgram {
    /// Its name.
    const BINARY: &str;
    /// The conversions that a plan can hold.
    const CONVERSIONS: &[Conversion];
}

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
    /// Default: one per core. The output does not depend on the number of threads.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    threads: Option<std::num::NonZeroUsize>,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
    /// Print more details.
    #[arg(short, long)]
    verbose: bool,
}

/// The command that saves a plan.
pub const fn plan<P: PlannedProgram>() -> Command {
    Command {
        verb: Some(PLAN),
        about: "Plan a conversion in parts, for several machines",
        define: PlanArgs::augment_args,
        ui: ui_of_plan,
        run: |matches, ui| save::<P>(Command::args(matches)?, ui),
        ..Command::of(P::BINARY)
    }
}

/// The command that converts a part of a plan.
pub const fn part<P: PlannedProgram>() -> Command {
    Command {
        verb: Some(PART),
        about: "Convert one part of a plan",
        define: PartArgs::augment_args,
        run: |matches, ui| {
            let args: PartArgs = Command::args(matches)?;
            let place = if args.part_files { Place::OwnFile } else { Place::Shared };
            execute::<P>(&args.plan, Step::Part { number: args.part, place }, &args.run, ui)
        },
        ..Command::of(P::BINARY)
    }
}

/// The command that checks all parts of a plan and completes the output.
pub const fn assemble<P: PlannedProgram>() -> Command {
    Command {
        verb: Some(ASSEMBLE),
        about: "Check all parts of a plan and complete the output",
        define: AssembleArgs::augment_args,
        run: |matches, ui| {
            let args: AssembleArgs = Command::args(matches)?;
            execute::<P>(&args.plan, Step::Assembly, &args.run, ui)
        },
        ..Command::of(P::BINARY)
    }
}

/// Amount of output of `plan`: that of its conversion.
fn ui_of_plan(matches: &ArgMatches) -> Ui {
    let words = matches.get_many::<OsString>("call").into_iter().flatten();
    let has = |names: [&str; 2]| words.clone().any(|word| names.iter().any(|name| word == name));
    Ui { quiet: has(["-q", "--quiet"]), verbose: has(["-v", "--verbose"]) }
}

/// Saves the plan of a call, or fails if it cannot be planned.
fn save<P: PlannedProgram>(args: PlanArgs, ui: &Ui) -> Result<(), Failure> {
    let (verb, matches) = commands::parsed(P::BINARY, Path::new(""), args.call)?;
    let (_, run) = find::<P>(verb)?;
    for id in ["dry_run", "keep"] {
        if commands::command::is_set(&matches, id) {
            let option = id.replace('_', "-");
            return Err(Failure::usage(format_args!("--{option} cannot be used with a plan")));
        }
    }
    let arguments = arguments_of(P::BINARY, verb, &matches)?;
    let folder = std::env::current_dir().map_err(|error| Failure::cannot_open(Path::new("."), error))?;
    let plan = NewPlan { path: &args.plan, folder: &folder, arguments: &arguments };
    run(&matches, Parts::Plan(plan), ui)
}

/// A step of executing a plan.
enum Step {
    Part { number: PartNumber, place: Place },
    Assembly,
}

fn execute<P: PlannedProgram>(
    path: &Path,
    step: Step,
    run_args: &PlannedRunArgs,
    ui: &Ui,
) -> Result<(), Failure> {
    let plan = PlanFile::open(path, P::BINARY)?;
    let mut own = Vec::new();
    own.extend(run_args.force.then(|| "--force".to_owned()));
    own.extend(run_args.threads.map(|n| format!("--threads={n}")));
    let (verb, matches) = enter(&plan, path, P::BINARY, own)?;
    let (_, run) = find::<P>(verb.as_deref())?;
    let plan = OpenPlan { file: &plan, path };
    let parts = match step {
        Step::Part { number, place } => Parts::Part { plan, number, place },
        Step::Assembly => Parts::Assembly(plan),
    };
    run(&matches, parts, ui)
}

/// Runs a call as one of another command.
///
/// # Errors
/// An option that the other command does not have; the errors of that command.
pub fn run_as<P: PlannedProgram>(
    verb: &'static str,
    matches: &ArgMatches,
    parts: Parts<'_>,
    ui: &Ui,
) -> Result<(), Failure> {
    let words = words(P::BINARY, None, matches, &[]);
    let words = [OsString::from(verb)].into_iter().chain(words);
    let (verb, matches) = commands::parsed(P::BINARY, Path::new(""), words.collect())?;
    let (_, run) = find::<P>(verb)?;
    run(&matches, parts, ui)
}

fn find<P: PlannedProgram>(verb: Option<&str>) -> Result<&'static Conversion, Failure> {
    P::CONVERSIONS.iter().find(|(name, _)| *name == verb).ok_or_else(|| {
        Failure::usage(format_args!("`{}` cannot be used with a plan", verb.unwrap_or_default()))
    })
}
