//! Options of the verbs that run a model.

use std::num::NonZeroUsize;

use clap::{Args, ValueHint, builder::TypedValueParser};
use gguf_toolkit::{Activations, Adapter, RunOptions, arguments::choice};

use super::{cpu_level::cpu_level, threads::parse_threads};
use crate::failure::Failure;

/// Options of the verbs that run a model.
#[derive(Debug, Args)]
pub(in crate::commands) struct RunArgs {
    /// Use N threads.
    ///
    /// Default: one per core, which is also the maximum.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    pub threads: Option<NonZeroUsize>,
    /// Set the precision of activations.
    ///
    /// `f32` (the default) does not round them. `rounded` rounds them as the CPU kernels of llama.cpp do, so that
    /// results can be compared with llama.cpp's.
    #[arg(long, value_name = "KIND", value_parser = activations(), hide_possible_values = true, hide_short_help = true)]
    pub activations: Option<Activations>,
    /// Print only errors.
    #[arg(short, long)]
    pub quiet: bool,
}

/// The option `--lora` of the verbs that run a model.
#[derive(Debug, Default, Args)]
pub(in crate::commands) struct LoraArgs {
    /// Add a LoRA adapter (repeatable).
    ///
    /// ADAPTER is an adapter file for this model, as `gguf-convert adapter` writes it. It is applied while the model
    /// runs, as in llama.cpp. SCALE defaults to 1. If several models run, each gets the adapter.
    #[arg(long, value_name = "ADAPTER[=SCALE]", value_hint = ValueHint::FilePath, hide_short_help = true)]
    lora: Vec<Adapter>,
}

fn activations() -> impl TypedValueParser<Value = Activations> {
    choice(Activations::ALL.iter().map(|kind| (kind.name(), "", *kind)))
}

/// Options for running a model.
///
/// # Errors
/// A CPU level that this machine does not have.
pub(in crate::commands) fn options(run: &RunArgs, adapters: &LoraArgs) -> Result<RunOptions, Failure> {
    cpu_level()?;
    Ok(RunOptions {
        threads: run.threads,
        activations: run.activations.unwrap_or_default(),
        adapters: adapters.lora.clone(),
    })
}
