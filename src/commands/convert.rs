//! `gguf-convert SRC [OUT] --type T`: a checkpoint folder to GGUF files of one or several types;
//! with `--to hf`, export.

mod args;

use std::path::Path;

use clap::{ArgMatches, Args as _, FromArgMatches};
use convert::{
    CheckpointInput, NonFinite, RunOptions,
    merge::LoraAdapter,
    recipes::{FileType, Recipe},
};
use source::{Checkpoint, Folder};
use tensor::DType;

use self::args::{ConvertArgs, EXAMPLES, Format, LoraArg};
use crate::{
    commands::{
        Command, architectures,
        convert_calibrated::{self, Calibrated},
        convert_legacy::{self, Legacy},
        convert_lora::{self, Lora},
        convert_to_hf::{self, ToHf},
        shared::{
            call::Call,
            conversion_run::{self, OpenInput, Parts, failure},
            cpu_level::cpu_level,
            hub,
            layout_notes::{Notes, dropped, tell_unasked},
            plan_file::PlannedCall,
            plan_report::stored_as,
            quantize_options::{OtherSettings, byte_order},
            types_help::types_help,
        },
        vocab_only::{self, VocabOnly},
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    binary: "gguf-convert",
    verb: None,
    define: |command| {
        ConvertArgs::augment_args(command)
            .arg_required_else_help(true)
            .after_help(EXAMPLES)
            .after_long_help(types_help(EXAMPLES))
    },
    ui: |matches| Ui { quiet: matches.get_flag("quiet"), verbose: matches.get_flag("verbose") },
    run,
};

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let own = ConvertArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let planned = PlannedCall::new(COMMAND.binary, matches, own.plans.plan.as_deref())?;
    let matches = &planned.matches;
    let args = match &planned.plan {
        None => own,
        // What a machine does of a plan, and how, is its own affair.
        Some(_) => ConvertArgs {
            plans: own.plans,
            threads: own.threads,
            force: own.force,
            quiet: own.quiet,
            verbose: own.verbose,
            ..ConvertArgs::from_arg_matches(matches).map_err(Failure::usage)?
        },
    };
    let parts =
        Parts { wanted: args.plans.wanted(), plan: planned.plan.as_ref(), arguments: &planned.arguments };
    let call = Call::new(COMMAND.binary, matches).reads(args.files()).reads(args.calibration.files());
    let nonfinite = if args.allow_nonfinite { NonFinite::Allow } else { NonFinite::Refuse };
    if args.list_architectures {
        return architectures::list(args.json, ui);
    }
    let is_legacy = source::is_legacy(args.src());
    if args.legacy.any() && !is_legacy {
        return Err(Failure::usage(
            "--config, --eps, --context-length and --rope-base are for files from before GGUF; others say these themselves",
        ));
    }
    if args.calibration.is_wanted() {
        args.check_calibration(is_legacy, &parts)?;
    }
    let run_options = RunOptions::default().threads(args.threads).level(cpu_level()?).nonfinite(nonfinite);
    if let Some(Format::Hf) = args.to {
        return to_hf(&args, &run_options, ui);
    }
    if is_legacy {
        return legacy(&args, call, &parts, &run_options, ui);
    }
    // Of a dry run and of a vocabulary nothing is left on the disk.
    let out = (!args.vocab_only && !args.dry_run).then(|| args.out.as_deref().unwrap_or(Path::new("")));
    let wanted = hub::Wanted { weights: !args.vocab_only, keep: args.keep, out };
    let input = hub::input(args.src(), wanted, ui)?;
    let call = input.name_in(call);
    let folder = input.folder.clone().mistral_format(args.mistral_format).unmasked_zeros(args.unmasked_zeros);
    let folder = &folder;
    match args.base.is_some() || source::is_adapter(folder) {
        _ if args.vocab_only => vocab(&args, folder, ui)?,
        true => lora(&args, folder, call, &parts, &run_options, ui)?,
        false => {
            let adapters = args.lora.iter().map(|lora| hub::input(&lora.adapter, wanted, ui));
            let adapters = adapters.collect::<Result<Vec<hub::Input>, Failure>>()?;
            let call = adapters.iter().fold(call, |call, adapter| adapter.name_in(call));
            to_gguf(&args, (folder, &adapters), call, &parts, &run_options, ui)?;
            adapters.into_iter().try_for_each(|adapter| adapter.finish(ui))?;
        }
    }
    input.finish(ui)
}

fn vocab(args: &ConvertArgs, folder: &Folder, ui: &Ui) -> Result<(), Failure> {
    if args.options.any() {
        return Err(Failure::usage(
            "--vocab-only writes no tensors; options about their types make no sense",
        ));
    }
    let file_type = match &args.recipes()[..] {
        [] => None,
        [recipe] if is_of_converter(recipe) => Some(recipe.file_type),
        _ => return Err(Failure::usage("--vocab-only takes one --type: f32, f16, bf16 or q8_0")),
    };
    let job = VocabOnly {
        input: args.src(),
        folder,
        out: args.out.as_deref(),
        file_type,
        endian: byte_order(args.big_endian),
        options: &args.arch_options(ui)?,
        force: args.force,
        dry_run: args.dry_run,
        json: args.json,
    };
    vocab_only::run(&job, |error| failure(args.src(), error), ui)
}

fn lora(
    args: &ConvertArgs,
    folder: &Folder,
    call: Call,
    parts: &Parts<'_>,
    run_options: &RunOptions,
    ui: &Ui,
) -> Result<(), Failure> {
    if args.mmproj || args.with_mmproj {
        return Err(Failure::usage("an adapter has no projector"));
    }
    if args.options.any() || !args.recipes().into_iter().all(is_of_converter) {
        return Err(Failure::usage(
            "an adapter takes no options about types but --type: f32, f16, bf16 or q8_0",
        ));
    }
    let wanted = hub::Wanted { weights: false, keep: false, out: None };
    let base = args.base.as_deref().map(|base| hub::input(base, wanted, ui)).transpose()?;
    let job = Lora {
        input: args.src(),
        folder,
        base: base.as_ref().map(|base| &base.folder),
        types: &args.recipes(),
        endian: byte_order(args.big_endian),
        arch: &args.arch_options(ui)?,
    };
    let call = base.iter().fold(call, |call, base| base.name_in(call));
    convert_lora::run(&job, &args.run_args(run_options.clone(), &call, parts), ui)
}

fn legacy(
    args: &ConvertArgs,
    call: Call,
    parts: &Parts<'_>,
    run_options: &RunOptions,
    ui: &Ui,
) -> Result<(), Failure> {
    if args.vocab_only || args.base.is_some() || !args.lora.is_empty() || args.fp8_as.is_some() {
        return Err(Failure::usage(
            "a file from before GGUF takes no --vocab-only, --base, --lora and --fp8-as",
        ));
    }
    if args.mmproj || args.with_mmproj {
        return Err(Failure::usage("a file from before GGUF has no projector"));
    }
    let settings = args.options.read(OtherSettings { allow_requantize: true, ..args.other_settings() })?;
    let recipes = args.recipes();
    let types = if args.options.has_recipe() { None } else { Some(&recipes[..]) };
    let job = Legacy {
        input: args.src(),
        args: &args.legacy,
        types,
        settings: &settings,
        arch: &args.arch_options(ui)?,
    };
    let run_args = args.run_args(run_options.clone().nonfinite(settings.nonfinite()), &call, parts);
    convert_legacy::run(&job, &run_args, ui)
}

fn to_hf(args: &ConvertArgs, options: &RunOptions, ui: &Ui) -> Result<(), Failure> {
    if args.options.any() {
        return Err(Failure::usage(
            "--to hf takes tensors as they are; options about their types make no sense",
        ));
    }
    let out = args.out.as_deref().ok_or_else(|| Failure::usage("--to hf needs the folder to write"))?;
    let dtype = match &args.recipes()[..] {
        [] => DType::BF16,
        [recipe] if recipe.default.is_float() => recipe.default,
        _ => return Err(Failure::usage("--to hf takes one --type: f32, f16 or bf16")),
    };
    let job = ToHf {
        input: args.src(),
        out,
        dtype,
        shard_bytes: args.shard_bytes,
        force: args.force,
        dry_run: args.dry_run,
        json: args.json,
        options,
    };
    convert_to_hf::run(&job, ui)
}

/// `adapters` are those of `--lora`, in their order.
fn to_gguf(
    args: &ConvertArgs,
    (folder, adapters): (&Folder, &[hub::Input]),
    call: Call,
    parts: &Parts<'_>,
    run_options: &RunOptions,
    ui: &Ui,
) -> Result<(), Failure> {
    if args.types.is_empty() && !args.options.has_recipe() {
        // What can never be converted is told first, whatever type it were.
        source::open(folder.clone()).map_err(|error| failure(args.src(), convert::Error::Source(error)))?;
        // In the second place `gguf-quantize` takes a type, and this the output.
        let second = args.out.as_deref().and_then(Path::to_str).filter(|out| Recipe::from_name(out).is_ok());
        let hint = second.map(|name| format!("`{name}` stands where the output is wanted: `--type {name}`"));
        return Err(Failure::usage("a --type is needed, as q4_k_m or bf16")
            .hint(hint)
            .hint(["`--type auto` keeps the weights of a checkpoint of 16 bits; `--help` lists the types"]));
    }
    if args.fp8_as.is_some() && !args.recipes().iter().all(|recipe| recipe.default.is_float()) {
        return Err(Failure::usage(
            "--fp8-as goes with --type f32, f16 and bf16; other types quantize all matrices",
        ));
    }
    let settings = args.options.read(args.other_settings())?;
    let adapters = args.lora.iter().zip(adapters).map(|(LoraArg { adapter, scale }, found)| LoraAdapter {
        folder: found.folder.clone(),
        name: adapter.clone(),
        scale: *scale,
        takes_tokenizer: args.lora_tokenizer,
    });
    let adapters: Vec<LoraAdapter> = adapters.collect();
    let input =
        open(args, folder, &adapters, &args.arch_options(ui)?).map_err(|error| failure(args.src(), error))?;
    let (checkpoint, layout) = (input.checkpoint(), input.layout());
    let types = args.recipes_of(checkpoint)?;
    let projector = args.with_mmproj.then(|| projector_type(args, &types)).transpose()?;
    let layouts: Vec<_> = [layout].into_iter().chain(input.projector()).collect();
    if args.fp8_as.is_some() && !layout.tensors.iter().any(|tensor| input.is_of_fp8(tensor)) {
        ui.warning("--fp8-as: no tensor of the checkpoint is FP8");
    }
    let mut notes = Notes::of(&checkpoint.notes, &layouts);
    let unwritten = merged_and_dropped(checkpoint, &dropped(&layouts));
    if !adapters.is_empty() && !unwritten.is_empty() {
        notes.warnings.push(format!(
            "{} tensor(s) that the adapter changes are not written, add --with-mmproj if they are a tower's: {}",
            unwritten.len(),
            tensor::list_names(&unwritten)
        ));
    }
    if !args.lora_tokenizer && has_own_tokenizer(&adapters, checkpoint) {
        notes.notes.push("--lora-tokenizer uses the adapter's tokenizer and chat template".to_owned());
    }
    notes.notes.extend(tell_unasked(layout, args.arch_as.is_some(), ui));
    let open = OpenInput {
        path: args.src(),
        files: Vec::new(),
        format: checkpoint.format,
        architecture: layout.architecture.to_owned(),
        notes,
        dropped: dropped(&layouts),
        stored_as: layouts
            .iter()
            .flat_map(|layout| layout.tensors.iter().map(|tensor| stored_as(checkpoint, &tensor.data)))
            .collect(),
        repacked: match args.repack {
            true => input.repacked().map_err(|error| failure(args.src(), error))?.to_vec(),
            false => Vec::new(),
        },
        input,
    };
    let run_args = args.run_args(run_options.clone().nonfinite(settings.nonfinite()), &call, parts);
    if args.calibration.is_wanted() && !args.dry_run {
        let between = match (args.via, adapters.is_empty()) {
            (Some(via), _) => via.name(),
            (None, true) => convert_calibrated::lossless(open.input.checkpoint()),
            // What is merged is rounded once.
            (None, false) => "f32",
        };
        let job = Calibrated {
            recipes: types,
            between: Recipe::from_name(between).map_err(Failure::new)?,
            settings: args.options.read(OtherSettings { via: None, ..args.other_settings() })?,
            calibration: &args.calibration,
            budget: &args.budget,
            threads: args.threads,
        };
        return convert_calibrated::run(open, job, run_args, ui);
    }
    conversion_run::run_with(open, types, projector, &settings, &run_args, ui)
}

/// The folder with what is wanted of it.
fn open(
    args: &ConvertArgs,
    folder: &Folder,
    adapters: &[LoraAdapter],
    options: &arch::Options,
) -> Result<CheckpointInput, convert::Error> {
    if args.mmproj {
        return CheckpointInput::open_projector(folder.clone(), options);
    }
    let input = CheckpointInput::open_with_adapters(folder.clone(), adapters, options)?;
    if args.with_mmproj { input.with_projector(options) } else { Ok(input) }
}

/// Names of tensors that an adapter has changed and that no file holds.
fn merged_and_dropped(checkpoint: &Checkpoint, dropped: &[arch::Dropped]) -> Vec<String> {
    let is_merged = |name: &str| {
        let stored = checkpoint.tensor(name).and_then(|tensor| tensor.stored.as_ref());
        let description = stored.and_then(|stored| stored.description()).unwrap_or_default();
        description.ends_with("+lora") || description.ends_with("+dora")
    };
    dropped.iter().map(|dropped| dropped.name.clone()).filter(|name| is_merged(name)).collect()
}

/// True if an adapter comes with a tokenizer or chat template that differs from the checkpoint's.
fn has_own_tokenizer(adapters: &[LoraAdapter], checkpoint: &Checkpoint) -> bool {
    let has = |adapter: &LoraAdapter| source::own_tokenizer(&adapter.folder, &checkpoint.files);
    adapters.iter().any(|adapter| has(adapter).is_ok_and(|own| !own.is_empty()))
}

/// Whether the reference's converter writes files of this type itself.
fn is_of_converter(recipe: &Recipe) -> bool {
    recipe.default.is_float() || recipe.file_type == FileType::Q8_0
}

/// The type of the projector beside a model.
fn projector_type(args: &ConvertArgs, types: &[&'static Recipe]) -> Result<&'static Recipe, Failure> {
    match args.mmproj_type.or(types.first().copied().filter(|recipe| is_of_converter(recipe))) {
        Some(recipe) => Ok(recipe),
        None => Recipe::from_name("f16").map_err(Failure::new),
    }
}
