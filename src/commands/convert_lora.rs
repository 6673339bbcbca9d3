//! `gguf-convert adapter DIR [OUT] --base MODEL`: a LoRA adapter as PEFT or mlx-lm saves it to an adapter file.

use std::path::PathBuf;

use clap::{ArgMatches, Args, ValueHint};
use gguf_checkpoint::{Checkpoint, Folder};
use gguf_conversion::{AdapterInput, Error, recipes::Recipe};
use gguf_toolkit::{
    conversion_run::{self, OpenInput, Parts, failure},
    layout_notes::Notes,
    plan_report::stored_as,
    settings::Settings,
};

use super::{
    Command,
    convert::{
        args::{KeepArgs, PlainArgs, TypeArgs},
        is_of_converter,
    },
    shared::{
        call::call_of,
        conversion::print,
        hub,
        output_args::{OutputArgs, ResumeArgs},
        tensor_args::{byte_order, output_parser},
    },
};
use crate::{failure::Failure, ui::Ui};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("adapter"),
    about: "Convert a LoRA adapter to a GGUF adapter file",
    examples: EXAMPLES,
    define: AdapterArgs::augment_args,
    run: |matches, ui| run(matches, &Parts::all(), ui),
    ..Command::of("gguf-convert")
};

const EXAMPLES: &str = "\
Examples:
  gguf-convert adapter my-adapter adapter.gguf --base Llama-3.2-1B
  gguf-convert adapter my-adapter out/ --base Llama-3.2-1B --type f16

To merge an adapter into its base model, use
`gguf-convert MODEL --lora ADAPTER`.";

#[derive(Debug, Args)]
#[command(mut_arg("types", |arg| arg.long_help("Set the output type, for example bf16.\n\nOne of f32 (the default), f16, bf16 and q8_0.")))]
struct AdapterArgs {
    /// Adapter folder or hf://OWNER/ADAPTER[@REVISION].
    ///
    /// The format is that of PEFT (adapter_config.json, adapter_model.safetensors) or mlx-lm (adapters.safetensors).
    #[arg(value_hint = ValueHint::AnyPath)]
    dir: PathBuf,
    /// Output file or folder; {ftype} stands for the file type.
    #[arg(value_hint = ValueHint::AnyPath, value_parser = output_parser())]
    out: Option<PathBuf>,
    /// Use MODEL as the base.
    ///
    /// MODEL is the folder of the base model. The folder needs only config.json; if it also has weights, shapes are
    /// checked. Default: the base model named in the adapter, if that is a local folder.
    #[arg(long, value_name = "MODEL", value_hint = ValueHint::DirPath)]
    base: Option<PathBuf>,
    #[command(flatten)]
    types: TypeArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    keep: KeepArgs,
    /// Set the name of the model.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    model_name: Option<String>,
    /// Treat the checkpoint as this architecture.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    arch_as: Option<String>,
    #[command(flatten)]
    plain: PlainArgs,
}

/// Converts the adapter, or does what a plan needs of that.
///
/// # Errors
/// Invalid options, an input that cannot be read, an output that cannot be written, an interruption.
pub fn run(matches: &ArgMatches, parts: &Parts<'_>, ui: &Ui) -> Result<(), Failure> {
    let args = Command::args::<AdapterArgs>(matches)?;
    let mut types = args.types.recipes();
    if !types.iter().all(|recipe| is_of_converter(recipe)) {
        return Err(Failure::usage("expected --type f32, f16, bf16 or q8_0 for an adapter"));
    }
    if types.is_empty() {
        types.push(Recipe::from_name("F32").map_err(Failure::new)?);
    }
    let failed = |error| failure(&args.dir, error);
    let wanted = hub::Wanted { weights: true, keep: args.keep.keep, out: None };
    let input = hub::input(&args.dir, wanted, ui)?;
    let base = args
        .base
        .as_deref()
        .map(|base| hub::input(base, hub::Wanted { weights: false, keep: false, out: None }, ui));
    let base = base.transpose()?;
    let call = input.name_in(call_of(COMMAND.binary, COMMAND.verb, matches));
    let call = base.iter().fold(call, |call, base| base.name_in(call));

    let arch = gguf_models::Options {
        model_name: args.model_name.clone(),
        arch_as: args.arch_as.clone(),
        ..gguf_models::Options::default()
    };
    let adapter =
        gguf_checkpoint::open_adapter(input.folder.clone()).map_err(|error| failed(Error::Source(error)))?;
    let base = base_of(&args, base.as_ref().map(|base| &base.folder), &adapter)?;
    // Weights are not needed; if they are there, shapes are compared.
    let base = gguf_checkpoint::open(base.clone())
        .or_else(|_| gguf_checkpoint::open_without_weights(base.clone()))
        .map_err(Error::Source)
        .and_then(|base| gguf_conversion::normalized(base, &arch))
        .map_err(|error| failure(base.path(), error))?;
    let adapter = AdapterInput::new(input.folder.path(), adapter, &base, &arch).map_err(failed)?;
    let (stored, layout) = (adapter.adapter(), adapter.layout());
    let mut notes = Notes::of(&stored.notes, &[layout]);
    if !layout.warnings.is_empty() {
        notes
            .notes
            .push("to merge all pairs, use `gguf-convert BASE --lora ADAPTER --with-mmproj`".to_owned());
    }
    let open = OpenInput {
        path: &args.dir,
        files: Vec::new(),
        format: stored.format,
        architecture: layout.architecture.to_owned(),
        notes,
        dropped: layout.dropped.clone(),
        stored_as: layout.tensors.iter().map(|tensor| stored_as(stored, &tensor.data)).collect(),
        repacked: Vec::new(),
        input: adapter,
    };
    let nonfinite = args.plain.nonfinite();
    let run_args = args.output.run(args.out.as_deref(), &args.resume, nonfinite, call, parts)?;
    let settings = Settings::of_byte_order(byte_order(args.plain.big_endian));
    let outcome = conversion_run::run(open, types, &settings, &run_args, ui)?;
    print(outcome, args.output.format(&args.resume), ui)?;
    input.finish(ui)
}

/// The folder of the base model: as named, or as the adapter names it, if that is a folder here.
fn base_of(args: &AdapterArgs, base: Option<&Folder>, adapter: &Checkpoint) -> Result<Folder, Failure> {
    let named =
        adapter.config.get("base_model_name_or_path").and_then(|name| name.as_str()).unwrap_or_default();
    if let Some(base) = base {
        if !gguf_checkpoint::is_adapter(base) || base.path().join("config.json").is_file() {
            return Ok(base.clone());
        }
        let message = match named {
            "" => format!("{}, expected its base model", adapter.format),
            named => format!("{}, expected its base model `{named}`", adapter.format),
        };
        let is_mlx = adapter.format == gguf_checkpoint::MLX_ADAPTER;
        let fuse = is_mlx.then_some("to merge the two, use `mlx_lm.fuse`");
        let hint = "pass the base model's folder with --base; config.json is enough";
        return Err(Failure::at(base.path(), message).hint([hint]).hint(fuse));
    }
    let folder = PathBuf::from(named);
    if !named.is_empty() && folder.join("config.json").is_file() {
        return Ok(Folder::at(folder));
    }
    let message = match named {
        "" => "missing config of the base model".to_owned(),
        named => format!("missing config of the base model `{named}`"),
    };
    Err(Failure::at(&args.dir, message).hint(["pass its folder with --base; config.json is enough"]))
}
