//! `gguf-inspect recipe FILE|ADDRESS`: the recipe of anyone's GGUF file, taken out of its header alone.

use std::path::{Path, PathBuf};

use clap::{Args, ValueHint};
use serde_json::json;

use gguf_toolkit::recipe::{is_address, recipe_of_file};

use crate::{
    commands::{
        Command,
        shared::{hub::hub_options, outputs::check_outputs, tensor_args::output_parser},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("recipe"),
    about: "Extract the recipe (tensor types) of a GGUF file",
    examples: EXAMPLES,
    define: RecipeArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect recipe model-Q4_K_M.gguf -o mine.json
  gguf-inspect recipe hf://OWNER/MODEL-GGUF/MODEL-UD-Q4_K_XL.gguf -o theirs.json
  gguf-inspect recipe https://example.org/model-00001-of-00003.gguf --dry-run
  gguf-convert MODEL out.gguf --recipe theirs.json

A recipe lists the type of each tensor. gguf-convert and gguf-quantize apply it to models with the
same architecture and number of layers. A GGUF header does not contain the importance matrix. If one
was used, pass yours with --imatrix.";

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
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath, value_parser = output_parser())]
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
    let text = found.file.text()?;
    let is_written = args.output.is_some() && !args.dry_run;
    if let (Some(output), true) = (&args.output, is_written) {
        found.file.save(output)?;
    }
    let summary = found.summary();
    if args.json {
        let recipe_json: serde_json::Value = serde_json::from_str(&text).map_err(Failure::new)?;
        let report = json!({
            "file": args.file, "type": found.recipe.name, "n_tensors": found.n_tensors(), "dtypes": found.dtypes,
            "imatrix": found.imatrix, "output": args.output.as_ref().filter(|_| is_written), "recipe": recipe_json,
        });
        return ui.json(&report);
    }
    match &args.output {
        Some(output) if is_written => ui.status(&format!("wrote {}: {summary}", output.display())),
        _ if args.dry_run => return ui.data(&format!("{summary}\n")),
        _ => return ui.data(&text),
    }
    Ok(())
}
