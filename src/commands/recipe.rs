//! `gguf-inspect recipe FILE|ADDRESS`: the recipe of any GGUF file, read from its header alone.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use gguf_toolkit::{arguments::output_path, input_kind::is_address, recipe::recipe_of_file};

use crate::{
    commands::{
        Command,
        shared::{hub::hub_options, outputs::check_outputs},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("recipe"),
    about: "Extract the recipe (tensor types) of a GGUF file",
    define: RecipeArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

#[derive(Debug, Args)]
struct RecipeArgs {
    /// GGUF file, or its URL.
    ///
    /// The URL starts with http:// or https://, or is hf://OWNER/MODEL[@REVISION]/FILE. Only the header is downloaded. Any shard
    /// of a split model works.
    #[arg(value_hint = ValueHint::FilePath)]
    file: String,
    /// Write the result to FILE.
    ///
    /// Default: stdout.
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_path())]
    output: Option<PathBuf>,
    /// Overwrite existing outputs.
    #[arg(long, requires = "output")]
    force: bool,
    /// Show what would be written, without writing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as JSON.
    ///
    /// The object is a report that includes the recipe.
    #[arg(long)]
    json: bool,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
}

fn run(args: RecipeArgs, ui: &Ui) -> Result<(), Failure> {
    if let Some(output) = &args.output {
        let path = Path::new(&args.file);
        let inputs: &[&Path] = if is_address(&args.file) { &[] } else { &[path] };
        check_outputs(&[output], inputs, args.force || args.dry_run)?;
    }
    let found = recipe_of_file(&args.file, &hub_options(), ui)?;
    let is_written = args.output.is_some() && !args.dry_run;
    if let (Some(output), true) = (&args.output, is_written) {
        found.file.save(output)?;
    }
    let summary = found.summary();
    if args.json {
        return ui.json(&found.json(&args.file, args.output.as_deref().filter(|_| is_written))?);
    }
    match &args.output {
        Some(output) if is_written => ui.status(&format!("wrote {}: {summary}", output.display())),
        _ if args.dry_run => return ui.data(&format!("{summary}\n")),
        _ => return ui.data(&found.file.text()?),
    }
    Ok(())
}
