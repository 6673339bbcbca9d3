//! `gguf-convert architectures`: the table of architectures.

use clap::Args;
use gguf_toolkit::{architectures, table::table};
use serde::Serialize;

use super::Command;
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("architectures"),
    about: "List the supported architectures",
    examples: "Examples:\n  gguf-convert architectures\n\nEach line has the classes and a public checkpoint.",
    define: ArchitecturesArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-convert")
};

#[derive(Debug, Args)]
struct ArchitecturesArgs {
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    classes: Vec<&'static str>,
    example: &'static str,
    /// Why files cannot be exported to a folder; none where they can.
    not_exportable: Option<&'static str>,
}

fn run(args: ArchitecturesArgs, ui: &Ui) -> Result<(), Failure> {
    let listed: Vec<Listed> = architectures()
        .iter()
        .map(|arch| Listed {
            name: arch.name,
            classes: arch.classes.iter().map(|class| class.name).collect(),
            example: arch.example,
            not_exportable: arch.export.obstacle(),
        })
        .collect();
    if args.json {
        return ui.json(&listed);
    }
    let mut rows = vec![["architecture", "example", "export", "classes"].map(str::to_owned).to_vec()];
    rows.extend(listed.iter().map(|row| {
        let export = row.not_exportable.map_or("yes".to_owned(), |reason| format!("no: {reason}"));
        vec![row.name.into(), row.example.into(), export, row.classes.join(", ")]
    }));
    ui.data(&table(&rows, &[]))
}
