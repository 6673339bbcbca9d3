//! `gguf-inspect cpu`: the levels of vector instructions that the kernels can use here.

use std::fmt::Write;

use clap::Args;
use gguf_toolkit::quant::{LEVEL_NAMES, LEVEL_VARIABLE, Level};
use serde_json::json;

use crate::{
    commands::{Command, shared::cpu_level::cpu_level},
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("cpu"),
    about: "Show the CPU feature levels of this machine",
    define: CpuArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct CpuArgs {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn run(args: CpuArgs, ui: &Ui) -> Result<(), Failure> {
    let used = cpu_level()?.name();
    let available: Vec<&str> = Level::available().into_iter().map(Level::name).collect();
    if args.json {
        let text = json!({ "used": used, "available": available, "known": LEVEL_NAMES });
        return ui.data(&format!("{text}\n"));
    }
    let mut text = String::new();
    for name in LEVEL_NAMES {
        let state = match (*name == used, available.contains(name)) {
            (true, _) => "in use",
            (false, true) => "available",
            (false, false) => "not supported",
        };
        let _ = writeln!(text, "{name:8} {state}");
    }
    let _ = writeln!(text, "set {LEVEL_VARIABLE} to force a level");
    ui.data(&text)
}
