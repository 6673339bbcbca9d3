//! `gguf-quantize IN [OUT] TYPE [THREADS]`: a GGUF file to files of other types, called as
//! `llama-quantize` is.

use std::{borrow::Cow, ffi::OsString, num::NonZeroUsize, path::PathBuf};

use clap::{ArgMatches, Args, FromArgMatches};
use convert::{
    Error, RunOptions,
    recipes::{RECIPES, Recipe},
};
use gguf::Model;

use crate::{
    commands::{
        Command,
        shared::{
            calibration::{BudgetArgs, CalibrationArgs},
            call::Call,
            conversion_run::{Parts, RunArgs, failure},
            cpu_level::cpu_level,
            input_kind::{self, Wanted},
            plan_file::{PlanArgs, PlannedCall},
            quantize_options::{OtherSettings, QuantizeOptions, byte_order},
            quantize_run::{self, QuantizeJob},
            suggest::nearest,
            threads::parse_threads,
            types_help::types_help,
            values::{self, type_tip},
            write::check_output_name,
        },
    },
    failure::Failure,
    ui::Ui,
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    binary: "gguf-quantize",
    verb: None,
    define: |command| {
        QuantizeArgs::augment_args(command)
            .arg_required_else_help(true)
            .override_usage("gguf-quantize [OPTIONS] <IN> [OUT] <TYPE> [THREADS]")
            .after_help(EXAMPLES)
            .after_long_help(types_help(EXAMPLES))
    },
    ui: |matches| Ui { quiet: matches.get_flag("quiet"), verbose: matches.get_flag("verbose") },
    run,
};

const EXAMPLES: &str = "\
IN is a GGUF file, or the first shard of a split model. OUT is a file or a folder and may hold
{ftype}; without it the model names a file in the current folder. TYPE is a name in any case or a
number; several, divided by commas, are made from one read; COPY changes no tensor.

Examples:
  gguf-quantize model-BF16.gguf model-Q4_K_M.gguf q4_k_m
  gguf-quantize model-BF16.gguf out/ q4_k_m,q5_k_m,q8_0 8
  gguf-quantize --imatrix imatrix.gguf model-BF16.gguf model-IQ3_XXS.gguf iq3_xxs
  gguf-quantize --tensor-type attn_v=q8_0 --output-tensor-type q6_k model-BF16.gguf x.gguf q4_k_m
  gguf-quantize --prune-layers 20,21 --override-kv general.name=str:Short model-BF16.gguf x.gguf q8_0
  gguf-quantize --split-max-size 2G --missing-imatrix raise-type model-BF16.gguf out/ iq2_m
  gguf-quantize --dry-run --save-recipe mine.json model-BF16.gguf q2_k
  gguf-quantize --recipe mine.json model-BF16.gguf x.gguf
  gguf-quantize model-BF16.gguf model-Q4_K_M.gguf q4_k_m --calibrate chat.txt code.txt wiki.txt
  gguf-quantize model-BF16.gguf small.gguf q4_k_m --calibrate chat.txt --target-size 850MB --save-recipe small.json
  gguf-quantize --resume model-BF16.gguf model-Q4_K_M.gguf q4_k_m
  gguf-quantize model-BF16.gguf model-IQ2_XS.gguf iq2_xs --imatrix im.gguf --save-plan plan.json
  gguf-quantize --plan plan.json --part 3/64
  gguf-quantize --plan plan.json --assemble

Exit codes: 0 done, 1 failed, 2 wrong call, 130 interrupted, 143 terminated, 129 hung up.
An output has its name only when it is whole.";

#[derive(Debug, Args)]
struct QuantizeArgs {
    /// Input, output, type and threads, as in the usage line.
    #[arg(value_name = "IN [OUT] TYPE [THREADS]", num_args = 1..=4, required_unless_present = "plan", hide = true)]
    what: Vec<OsString>,
    /// Set the file type, for example q4_k_m.
    ///
    /// Takes the place of TYPE.
    #[arg(short = 't', long = "type", aliases = ["outtype", "ftype"], value_name = "TYPE", value_delimiter = ',', value_parser = values::output_type(), hide_possible_values = true, conflicts_with = "recipe")]
    types: Vec<&'static Recipe>,
    /// Print the plan without writing anything.
    ///
    /// The plan lists each tensor with its type, the reason for it, and its size. No weights are read.
    #[arg(long)]
    dry_run: bool,
    /// Overwrite existing outputs.
    ///
    /// Discards an interrupted run, too.
    #[arg(long)]
    force: bool,
    /// Resume an interrupted run.
    ///
    /// Finished rows are verified first, and the result is byte-identical. Without an interrupted run, a new one starts.
    #[arg(long, conflicts_with = "dry_run")]
    resume: bool,
    /// Use N threads.
    ///
    /// Default: one per core. The output does not depend on it.
    #[arg(short = 'j', long, value_name = "N", value_parser = parse_threads)]
    threads: Option<NonZeroUsize>,
    /// Quantize tensors that are already quantized.
    ///
    /// They lose precision twice. Use the original weights if you can.
    #[arg(long)]
    allow_requantize: bool,
    /// Write as many shards as the input has.
    ///
    /// Each holds the same tensors as before.
    #[arg(long, conflicts_with_all = ["split_max_size", "split_max_tensors", "recipe"], hide_short_help = true)]
    keep_split: bool,
    /// Write big-endian files, for example for s390x.
    ///
    /// With type COPY, only the byte order changes.
    #[arg(long, hide_short_help = true)]
    big_endian: bool,
    /// Convert NaNs and infinities instead of failing.
    #[arg(long, hide_short_help = true)]
    allow_nonfinite: bool,
    /// Print the result as JSON.
    #[arg(long, hide_short_help = true)]
    json: bool,
    /// Print only errors.
    #[arg(short, long)]
    quiet: bool,
    /// Print more details.
    #[arg(short, long, hide_short_help = true)]
    verbose: bool,
    #[command(flatten)]
    options: QuantizeOptions,
    #[command(flatten)]
    calibration: CalibrationArgs,
    #[command(flatten)]
    budget: BudgetArgs,
    #[command(flatten)]
    plans: PlanArgs,
}

/// What the positional arguments say.
struct What {
    input: PathBuf,
    out: Option<PathBuf>,
    recipes: Vec<&'static Recipe>,
    threads: Option<NonZeroUsize>,
}

fn parse_recipes(names: &str) -> Result<Vec<&'static Recipe>, Failure> {
    names.split(',').map(parse_recipe).collect()
}

fn parse_recipe(name: &str) -> Result<&'static Recipe, Failure> {
    Recipe::from_name(name).map_err(|error| {
        let known: Vec<String> = RECIPES.iter().map(|recipe| recipe.name.to_ascii_lowercase()).collect();
        let near = nearest(name, known.iter().map(String::as_str));
        let near = (!near.is_empty()).then(|| format!("did you mean {}?", near.join(" or ")));
        // A word that can only be a file stands where the type was forgotten.
        if near.is_none() && (name.contains(['/', '\\']) || name.to_ascii_lowercase().ends_with(".gguf")) {
            let message = format!("`{name}` stands where the type is wanted: gguf-quantize IN [OUT] TYPE");
            return Failure::usage(message).hint([format!("types are {}", known.join(", "))]);
        }
        let near = type_tip(name).or(near);
        Failure::usage(error).hint(near).hint([format!("types are {}", known.join(", "))])
    })
}

/// The same four forms as in the reference. `IN A B` is `IN OUT TYPE` unless only A is a type.
/// With `--type` or a recipe file there is no TYPE: `IN`, `IN OUT` or `IN OUT THREADS`.
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
        return Ok(What { input, out, recipes: types.to_vec(), threads });
    }
    let (out, types, threads) = match texts[..] {
        [_, types] => (None, types, None),
        [_, types, number] if is_number(number) && parse_recipes(types).is_ok() => {
            (None, types, threads(number)?)
        }
        [_, out, types] if parse_recipe(out).is_ok() && parse_recipes(types).is_ok() => {
            let message = format!("`{out}` is a type, and so is `{types}`: is `{out}` the output?");
            return Err(Failure::usage(message).hint([
                format!("several types are divided by commas: `{out},{types}`"),
                format!("a file of that name is `./{out}`"),
            ]));
        }
        [_, _, types] => (file(1), types, None),
        [_, _, types, number] => (file(1), types, threads(number)?),
        _ => return Err(Failure::usage("a type is needed behind the input, as q4_k_m or q8_0")),
    };
    Ok(What { input, out, recipes: parse_recipes(types)?, threads })
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let own = QuantizeArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let planned = PlannedCall::new(COMMAND.binary, matches, own.plans.plan.as_deref())?;
    let matches = &planned.matches;
    let args = match &planned.plan {
        None => own,
        // What a machine does of a plan, and how, is its own affair.
        Some(_) => QuantizeArgs {
            plans: own.plans,
            threads: own.threads,
            force: own.force,
            quiet: own.quiet,
            verbose: own.verbose,
            ..QuantizeArgs::from_arg_matches(matches).map_err(Failure::usage)?
        },
    };
    let what = parse_what(&args.what, &args.types, args.options.has_recipe())?;
    let level = cpu_level()?;
    if let Some(out) = &what.out {
        check_output_name(out).map_err(Failure::usage)?;
    }
    let model = Model::open(&what.input).map_err(|error| {
        input_kind::explained(&what.input, Wanted::Gguf, failure(&what.input, Error::Gguf(error)))
    })?;
    input_kind::check_model(&what.input)?;
    let settings = args.options.read(OtherSettings {
        keep_split: args.keep_split,
        allow_requantize: args.allow_requantize,
        allow_nonfinite: args.allow_nonfinite,
        via: None,
        fp8_as: None,
        repack: false,
        endian: byte_order(args.big_endian),
    })?;
    let threads = args.threads.or(what.threads);
    let job = QuantizeJob {
        base: &what.input,
        input: &what.input,
        format: "GGUF",
        recipes: what.recipes,
        settings,
        calibration: &args.calibration,
        budget: &args.budget,
        threads,
        level,
    };
    let types: Vec<&str> = job.recipes.iter().map(|recipe| recipe.name).collect();
    let call = Call::new(COMMAND.binary, matches).argument("TYPE", types.join(","));
    let call = call.reads(args.options.files()).reads(args.calibration.files());
    let options = RunOptions::default().threads(threads).level(level);
    let run_args = RunArgs {
        out: what.out.as_deref(),
        force: args.force,
        dry_run: args.dry_run,
        json: args.json,
        gathers: args.calibration.is_wanted(),
        options: options.nonfinite(job.settings.nonfinite()),
        call,
        parts: Parts {
            wanted: args.plans.wanted(),
            plan: planned.plan.as_ref(),
            arguments: &planned.arguments,
        },
    };
    quantize_run::run(model, job, run_args, ui)
}
