//! `gguf-inspect verify FILE... [--against SRC]`: checks of files, alone or against its source.

use std::{num::NonZeroUsize, path::PathBuf};

use clap::{Args, ValueHint, builder::TypedValueParser};
use gguf_toolkit::{
    Adapter,
    arguments::choice,
    verify::{Program, Report as FileReport, Tone, VerifyOptions, Which, verify},
};

use crate::{
    commands::{
        Command,
        shared::{
            cpu_level::cpu_level,
            hub::hub_options,
            several::{Report, report_each},
            threads::parse_threads,
        },
    },
    failure::Failure,
    ui::{ERROR, GOOD, Ui, WARNING},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("verify"),
    about: "Check that files are valid, or that they match their source",
    define: VerifyArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct VerifyArgs {
    /// GGUF files, or folders with GGUF files.
    ///
    /// Any shard of a split model works; all shards are checked. For a Modelfile of Ollama, its lines, the file of its FROM line and
    /// its adapters are checked, and TEMPLATE and PARAMETER stop are compared with those that `gguf-inspect show --modelfile` writes.
    #[arg(value_name = "FILE", value_hint = ValueHint::AnyPath, required = true)]
    files: Vec<PathBuf>,
    /// Compare with SRC.
    ///
    /// SRC is what the file was made from: a checkpoint folder, hf://OWNER/MODEL[@REVISION] or a GGUF file. Every
    /// tensor is converted again and compared. Special tokens, metadata keys and the prompts that the two chat
    /// templates render are compared too. An adapter file is compared with the model that it belongs to, or, with --lora, with
    /// the folder that it was made from.
    #[arg(long, value_name = "SRC", value_hint = ValueHint::AnyPath)]
    against: Option<PathBuf>,
    /// Add a LoRA adapter (repeatable).
    ///
    /// ADAPTER is an adapter that was merged into SRC: an adapter file if SRC is a GGUF file, or the folder or
    /// hf://OWNER/ADAPTER[@REVISION] of an adapter if SRC is a checkpoint. SCALE defaults to 1. For an adapter file, ADAPTER is
    /// the folder that it was made from.
    #[arg(long, value_name = "ADAPTER[=SCALE]", value_hint = ValueHint::AnyPath, requires = "against", hide_short_help = true)]
    lora: Vec<Adapter>,
    /// Use the tokenizer of the adapter (requires --lora).
    #[arg(long, requires = "lora", hide_short_help = true)]
    lora_tokenizer: bool,
    /// Run only CHECK.
    ///
    /// Several checks are separated by commas.
    #[arg(long, value_name = "CHECK", value_delimiter = ',', value_parser = checks())]
    only: Vec<Which>,
    /// Check for PROGRAM.
    ///
    /// Reports what PROGRAM does with the file. Several programs are separated by commas. These checks replace the check "loader". Ollama replaces some chat templates with its own; the check compares the prompts.
    #[arg(long = "for", value_name = "PROGRAM", value_delimiter = ',', ignore_case = true, value_parser = choice(Program::ALL.iter().map(|(program, name, about)| (*name, *about, *program))))]
    programs: Vec<Program>,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
    /// Print the result as JSON.
    ///
    /// Several files or a folder give an array.
    #[arg(long)]
    json: bool,
    /// Use N threads.
    ///
    /// Default: one per core.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

fn checks() -> impl TypedValueParser<Value = Which> {
    choice(Which::ALL.iter().map(|(check, name, about)| {
        (*name, if *check == Which::Source { "Comparison with --against" } else { *about }, *check)
    }))
}

fn run(args: VerifyArgs, ui: &Ui) -> Result<(), Failure> {
    let options = VerifyOptions {
        against: args.against,
        adapters: args.lora,
        lora_tokenizer: args.lora_tokenizer,
        only: args.only,
        programs: args.programs,
        strict: args.strict,
        threads: args.threads,
        level: cpu_level()?,
        ..VerifyOptions::default()
    };
    let hub = hub_options();
    let report = Report {
        text: if args.quiet {
            |report: &FileReport| report.failures_with(styled)
        } else {
            |report: &FileReport| report.text_with(styled)
        },
        verdict: FileReport::verdict,
        json: args.json,
    };
    report_each(&args.files, &report, ui, |file| {
        verify(&VerifyOptions { file: file.to_owned(), ..options.clone() }, &hub, ui)
    })
}

/// A word in the color of its meaning.
pub(super) fn styled(tone: Tone, word: &str) -> String {
    let style = match tone {
        Tone::Good => GOOD,
        Tone::Warning => WARNING,
        Tone::Error => ERROR,
        Tone::Plain => return word.to_owned(),
    };
    format!("{style}{word}{style:#}")
}
