//! `gguf-quantize IN [OUT] TYPE [THREADS]`: a GGUF file to files of other types, with the
//! arguments of `llama-quantize`.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    num::NonZeroUsize,
    path::PathBuf,
};

use clap::{Arg, ArgMatches, Args};
use gguf_toolkit::{Quantize, Recipe, suggest::nearest};

use crate::{
    commands::{
        Command,
        shared::{
            conversion::Conversion,
            hub::hub_options,
            output_args::{OutputArgs, ResumeArgs},
            outputs::check_output_name,
            planned_calls::PlannedProgram,
            threads::parse_threads,
            types_help::types_help,
            values::{self, type_tip},
        },
    },
    failure::Failure,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    define: |command| {
        QuantizeArgs::augment_args(command)
            .arg_required_else_help(true)
            .args_conflicts_with_subcommands(true)
            .subcommand_negates_reqs(true)
            .override_usage(
                "gguf-quantize [OPTIONS] <IN> [OUT] <TYPE> [THREADS]\n       gguf-quantize <COMMAND>",
            )
            .after_long_help(types_help(COMMAND.binary))
    },
    conversion: Some(conversion),
    run: |matches, ui| conversion(matches)?.run(ui),
    ..Command::of("gguf-quantize")
};

/// The program, for its plans.
pub struct Planning;

impl PlannedProgram for Planning {
    const BINARY: &str = COMMAND.binary;
}

/// An input's own shards exclude limits of shards, which other commands have, too.
fn without_limits(arg: Arg) -> Arg {
    if arg.get_id().as_str().starts_with("split_max") { arg.conflicts_with("keep_split") } else { arg }
}

#[derive(Debug, Args)]
#[command(mut_args(without_limits))]
struct QuantizeArgs {
    /// Input, output, type and threads, as in the usage line.
    #[arg(value_name = "IN [OUT] TYPE [THREADS]", num_args = 1..=4, required = true, hide = true)]
    what: Vec<OsString>,
    /// Set the output type, for example bf16.
    ///
    /// Replaces the argument TYPE.
    #[arg(short = 't', long = "type", aliases = ["outtype", "ftype"], value_name = "TYPE", value_delimiter = ',', value_parser = values::output_type(), hide_possible_values = true)]
    types: Vec<&'static Recipe>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    resume: ResumeArgs,
    #[command(flatten)]
    quantize: Quantize,
}

/// The positional arguments.
struct What {
    input: PathBuf,
    out: Option<PathBuf>,
    recipes: Vec<&'static Recipe>,
    threads: Option<NonZeroUsize>,
    /// The types as they were given.
    names: String,
}

fn parse_recipes(names: &str) -> Result<Vec<&'static Recipe>, Failure> {
    names.split(',').map(parse_recipe).collect()
}

fn parse_recipe(name: &str) -> Result<&'static Recipe, Failure> {
    Recipe::from_name(name).map_err(|error| {
        let known: Vec<String> =
            gguf_toolkit::types().iter().map(|recipe| recipe.name.to_ascii_lowercase()).collect();
        let near = nearest(name, known.iter().map(String::as_str));
        let near = (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")));
        // A file name in this place means that the type is missing.
        if near.is_none() && (name.contains(['/', '\\']) || name.to_ascii_lowercase().ends_with(".gguf")) {
            let message = format!("expected a type, found `{name}`: gguf-quantize IN [OUT] TYPE");
            return Failure::usage(message).hint([format!("types are {}", known.join(", "))]);
        }
        let near = type_tip(name).or(near);
        Failure::usage(error).hint(near).hint([format!("types are {}", known.join(", "))])
    })
}

/// Parses the same four forms as the reference. `IN A B` is `IN OUT TYPE` unless only A is a type. With
/// `--type` or a recipe file there is no TYPE: `IN`, `IN OUT` or `IN OUT THREADS`.
fn parse_what(what: &[OsString], types: &[&'static Recipe], has_recipe: bool) -> Result<What, Failure> {
    // File names may be any bytes; types and numbers are text.
    let texts: Vec<Cow<'_, str>> = what.iter().map(|word| word.to_string_lossy()).collect();
    let threads = |text: &str| parse_threads(text).map(Some).map_err(Failure::usage);
    let is_number = |text: &str| text.parse::<NonZeroUsize>().is_ok();
    let input = what.first().map(PathBuf::from).unwrap_or_default();
    let file = |at: usize| what.get(at).map(PathBuf::from);
    let texts: Vec<&str> = texts.iter().map(AsRef::as_ref).collect();
    if has_recipe || !types.is_empty() {
        let (out, threads) = match texts[..] {
            [_] => (None, None),
            [_, _] => (file(1), None),
            [_, _, number] => (file(1), threads(number)?),
            _ => return Err(Failure::usage("expected IN [OUT] [THREADS] with --type or --recipe")),
        };
        return Ok(What { input, out, recipes: types.to_vec(), threads, names: String::new() });
    }
    let (out, types, threads) = match texts[..] {
        [_, types] => (None, types, None),
        [_, types, number] if is_number(number) && parse_recipes(types).is_ok() => {
            (None, types, threads(number)?)
        }
        [_, out, types] if parse_recipe(out).is_ok() && parse_recipes(types).is_ok() => {
            let message = format!("`{out}` and `{types}` are both types; expected an output file");
            return Err(Failure::usage(message).hint([
                format!("to write several types, separate them with commas: `{out},{types}`"),
                format!("to use that name for a file, write `./{out}`"),
            ]));
        }
        [_, _, types] => (file(1), types, None),
        [_, _, types, number] => (file(1), types, threads(number)?),
        _ => {
            let failure = Failure::usage("missing type after the input, for example q4_k_m or q8_0");
            let input = input.display();
            return Err(failure.hint([
                format!("to write 4 bits per weight, run `gguf-quantize {input} q4_k_m`"),
                format!("`gguf-inspect fit {input}` finds the type for the memory of this machine"),
            ]));
        }
    };
    Ok(What { input, out, recipes: parse_recipes(types)?, threads, names: types.to_owned() })
}

fn conversion(matches: &ArgMatches) -> Result<Conversion, Failure> {
    let mut args = Command::args::<QuantizeArgs>(matches)?;
    let what = parse_what(&args.what, &args.types, args.quantize.replay.recipe.is_some())?;
    args.resume.threads = args.resume.threads.or(what.threads);
    let words = matches.get_raw("types").into_iter().flatten().filter_map(OsStr::to_str);
    let notes = values::renamed(words.chain([what.names.as_str()]));
    let format = args.output.format(&args.resume);
    let output = args.output.options(what.out, &args.resume)?;
    if let Some(out) = &output.out {
        check_output_name(out).map_err(Failure::usage)?;
    }
    let options = Quantize {
        source: what.input,
        types: what.recipes.into_iter().map(Into::into).collect(),
        output,
        hub: hub_options(),
        ..args.quantize
    };
    Ok(Conversion { notes, ..COMMAND.converts(options, format) })
}
