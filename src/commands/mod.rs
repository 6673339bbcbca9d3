//! The verbs of all binaries, one file each, and the table of them.

mod architectures;
mod check;
mod compare;
mod convert;
mod convert_lora;
mod convert_to_hf;
mod cpu;
mod embed;
mod eval_model;
mod generate;
mod imatrix;
mod imatrix_report;
mod near_names;
mod perplexity;
mod plan_report;
mod quantize;
mod quantize_options;
mod recipe_file;
mod score;
mod show;
mod table;
mod tokenizer;
mod told;
mod vocab_only;

use std::{path::PathBuf, process::ExitCode};

use ::convert::{Error, PlannedFile, RunOptions, Watch, Work, recipes::RECIPES};
use clap::{Arg, ArgMatches};
use clap_complete::Shell;
use quant::{LEVEL_VARIABLE, Level};

pub use table::table;

use crate::{
    failure::{EXIT_FAILURE, Failure},
    ui::{Ui, cancel_on_interrupt, human_bytes},
};
use plan_report::Report;

/// One verb of one binary.
#[derive(Clone, Copy)]
pub struct Command {
    /// The binary that has it.
    pub binary: &'static str,
    /// Its name; none where it is all that the binary does.
    pub verb: Option<&'static str>,
    /// Adds its arguments and its help.
    pub define: fn(clap::Command) -> clap::Command,
    /// How much it wants to tell, by its arguments.
    pub ui: fn(&ArgMatches) -> Ui,
    /// Does it.
    pub run: fn(&ArgMatches, &Ui) -> Result<(), Failure>,
}

/// A binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binary {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
}

/// Every binary.
pub const BINARIES: &[Binary] = &[
    Binary { name: "gguf-convert", about: "Converts Hugging Face checkpoints to GGUF files, and back." },
    Binary { name: "gguf-quantize", about: "Converts GGUF files to other types." },
    Binary { name: "gguf-inspect", about: "Shows what is in GGUF files." },
    Binary { name: "gguf-eval", about: "Runs GGUF files and measures what they predict." },
];

/// Every verb of every binary.
pub const COMMANDS: &[Command] = &[
    convert::COMMAND,
    quantize::COMMAND,
    show::COMMAND,
    tokenizer::COMMAND,
    cpu::COMMAND,
    perplexity::COMMAND,
    compare::COMMAND,
    check::COMMAND,
    imatrix::COMMAND,
    score::COMMAND,
    generate::COMMAND,
    embed::COMMAND,
];

/// The definition of a binary: help, completions and parsing come from it. None for a name that
/// is not in [`BINARIES`].
pub fn define(binary: &str) -> Option<clap::Command> {
    let binary = BINARIES.iter().find(|have| have.name == binary)?;
    let mut definition =
        clap::Command::new(binary.name).about(binary.about).version(env!("CARGO_PKG_VERSION"));
    for command in COMMANDS.iter().filter(|command| command.binary == binary.name) {
        definition = match command.verb {
            None => (command.define)(definition),
            Some(verb) => {
                definition.arg_required_else_help(true).subcommand((command.define)(clap::Command::new(verb)))
            }
        };
    }
    Some(definition.arg(completions()))
}

/// The option of every binary that prints a shell's completion script.
fn completions() -> Arg {
    Arg::new("completions")
        .long("completions")
        .value_name("SHELL")
        .value_parser(clap::value_parser!(Shell))
        .exclusive(true)
        .help("Print the completion script of a shell, and nothing else")
}

/// The CPU level to run at: the best, or the one that the environment forces.
///
/// # Errors
/// A level that does not exist or that this machine does not have.
fn cpu_level() -> Result<Level, Failure> {
    match std::env::var(LEVEL_VARIABLE) {
        Err(_) => Ok(Level::detect()),
        Ok(name) => Level::from_name(&name).ok_or_else(|| {
            let available: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
            Failure::usage(format_args!("{LEVEL_VARIABLE}: this machine cannot run the level `{name}`"))
                .hint([format!("available are {}", available.join(", "))])
        }),
    }
}

/// Every type that the table of recipes has, for `--help`.
fn types_help(examples: &str) -> String {
    let rows: Vec<Vec<String>> = RECIPES
        .iter()
        .map(|recipe| {
            let number = if recipe.copy { String::new() } else { recipe.file_type.id().to_string() };
            let about = match recipe.alias_of {
                Some(other) => format!("another name of {other}"),
                None if recipe.needs_imatrix => format!("{}; needs an importance matrix", recipe.about),
                None => recipe.about.to_owned(),
            };
            vec![format!("  {}", recipe.name), number, about]
        })
        .collect();
    format!("{examples}\n\nTypes:\n{}", table(&rows, &[1]))
}

/// Writes planned files with a progress bar, Ctrl-C and a line for each file.
///
/// # Errors
/// As the `write` of the crate `convert`.
fn run_and_tell(
    works: &[Work<'_>],
    files: &[(PathBuf, PlannedFile)],
    force: bool,
    options: &RunOptions,
    report: &Report,
    ui: &Ui,
) -> Result<(), Error> {
    for line in report.fallbacks() {
        ui.warning(&line);
    }
    let cancel = cancel_on_interrupt();
    let progress = ui.progress(works.iter().map(|work| work.rows.input_bytes(work.rows.view().n_rows)).sum());
    let watch = Watch { cancel: &cancel, done: &|_, bytes| progress.add(bytes) };
    let outputs: Vec<_> = files.iter().map(|(path, file)| (path.as_path(), &file.plan)).collect();
    ::convert::write(works, &outputs, force, options, watch)?;
    drop(progress);
    for (path, file) in files {
        let (n_bytes, bits) = (file.plan.file_len(), file.bits_per_weight());
        let (path, size) = (path.display(), human_bytes(n_bytes));
        ui.status(&format!("wrote {path}: {n_bytes} bytes ({size}), {bits:.2} bits/weight"));
    }
    Ok(())
}

/// Runs a binary: parse, run, exit code. Wrong calls end in clap, with exit code 2.
pub fn main(binary: &'static str) -> ExitCode {
    let Some(definition) = define(binary) else {
        Ui::default().failure(&Failure::new(format_args!("`{binary}` is not a binary of this package")));
        return ExitCode::from(EXIT_FAILURE);
    };
    let matches = definition.clone().get_matches();
    if let Some(shell) = matches.get_one::<Shell>("completions") {
        let mut script = Vec::new();
        clap_complete::generate(*shell, &mut definition.clone(), binary, &mut script);
        let ui = Ui::default();
        return finish(ui.data(&String::from_utf8_lossy(&script)), &ui);
    }
    let (verb, matches) = match matches.subcommand() {
        Some((verb, inner)) => (Some(verb), inner),
        None => (None, &matches),
    };
    let Some(command) = COMMANDS.iter().find(|command| command.binary == binary && command.verb == verb)
    else {
        Ui::default().failure(&Failure::usage("this verb is not known"));
        return ExitCode::from(crate::failure::EXIT_USAGE);
    };
    let ui = (command.ui)(matches);
    finish((command.run)(matches, &ui), &ui)
}

fn finish(result: Result<(), Failure>, ui: &Ui) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            ui.failure(&failure);
            ExitCode::from(failure.code)
        }
    }
}
