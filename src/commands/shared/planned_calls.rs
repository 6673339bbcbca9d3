//! The commands `plan`, `part` and `assemble`: a conversion in parts, on several machines.

use std::{
    env,
    ffi::OsString,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Args, ValueHint};
use gguf_toolkit::{
    PartNumber, Place,
    arguments::output_path,
    convert::{Planned, WorkerOptions},
};

use super::{call::program, cpu_level::cpu_level, hub::hub_options, threads::parse_threads};
use crate::{commands::Command, failure::Failure, ui::Ui};

/// Names of the commands: save a plan, convert a part, complete the output.
pub const VERBS: [&str; 3] = [PLAN, PART, ASSEMBLE];
pub const PLAN: &str = "plan";
pub const PART: &str = "part";
pub const ASSEMBLE: &str = "assemble";

/// A program whose conversions can be planned.
pub trait PlannedProgram {
    /// Its name.
    const BINARY: &str;
}

/// Arguments of the command that saves a plan.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Plan to write.
    ///
    /// A plan fixes options, inputs and all offsets of the output.
    #[arg(value_name = "PLAN", value_hint = ValueHint::FilePath, value_parser = output_path())]
    pub plan: PathBuf,
    /// Arguments of the conversion.
    #[arg(value_name = "ARGUMENT", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub call: Vec<OsString>,
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

/// The command that saves a plan. The table of all commands, which reads the planned call, runs it.
pub const fn plan<P: PlannedProgram>() -> Command {
    Command {
        verb: Some(PLAN),
        about: "Plan a conversion in parts, for several machines",
        define: PlanArgs::augment_args,
        ui: ui_of_plan,
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
            execute::<P>(&args.plan, Step::Part { number: args.part, place }, args.run, ui)
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
            execute::<P>(&args.plan, Step::Assembly, args.run, ui)
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

/// A step of executing a plan.
enum Step {
    Part { number: PartNumber, place: Place },
    Assembly,
}

fn execute<P: PlannedProgram>(path: &Path, step: Step, run: PlannedRunArgs, ui: &Ui) -> Result<(), Failure> {
    let plan = Planned::open_for(program(P::BINARY), path)?;
    env::set_current_dir(plan.folder()).map_err(|error| {
        let message = format!("the plan was made in folder {}: {error}", plan.folder().display());
        Failure::at(path, message).hint(["make the folder available at the same path on every machine"])
    })?;
    let PlannedRunArgs { force, threads, .. } = run;
    let worker = WorkerOptions { force, threads, level: Some(cpu_level()?), hub: hub_options() };
    match step {
        Step::Part { number, place } => plan.part(number, place, &worker, ui),
        Step::Assembly => plan.assemble(&worker, ui).map(drop),
    }
}
