//! `gguf-quantize IN [OUT] TYPE [THREADS]`: a GGUF file to files of other types, called as
//! `llama-quantize` is.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
};

use clap::{ArgMatches, Args, FromArgMatches};
use convert::{
    Error, Importance, NonFinite, PlannedFile, RunOptions,
    imatrix::Imatrix,
    recipes::{Differences, Overrides, Recipe, TensorFacts, TensorType},
};
use gguf::Model;
use tensor::DType;

use crate::{
    commands::{
        Command, cpu_level,
        plan_report::{Origin, Report},
        run_and_tell, types_help,
    },
    failure::{EXIT_INTERRUPTED, Failure},
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
  gguf-quantize --dry-run model-BF16.gguf q2_k

Exit codes: 0 done, 1 failed, 2 wrong call, 130 interrupted. An output has its name only when it is whole.";

#[derive(Debug, Args)]
struct QuantizeArgs {
    /// Input, output, type and threads, as in the usage line.
    #[arg(value_name = "IN [OUT] TYPE [THREADS]", num_args = 2..=4, required = true, hide = true)]
    what: Vec<String>,
    /// Quantize weights that are quantized already, and lose precision twice.
    #[arg(long)]
    allow_requantize: bool,
    /// Leave output.weight as it is.
    #[arg(long)]
    leave_output_tensor: bool,
    /// The type's default dtype for every tensor, no mix.
    #[arg(long)]
    pure: bool,
    /// Importance matrix, GGUF or the older format.
    #[arg(long, value_name = "FILE")]
    imatrix: Option<String>,
    /// Use the importance matrix for tensors whose name holds this, only.
    #[arg(long, value_name = "NAME", requires = "imatrix", conflicts_with = "exclude_weights")]
    include_weights: Vec<String>,
    /// Use the importance matrix for all tensors but those whose name holds this.
    #[arg(long, value_name = "NAME", requires = "imatrix")]
    exclude_weights: Vec<String>,
    /// Dtype of output.weight.
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    output_tensor_type: Option<DType>,
    /// Dtype of the token embeddings.
    #[arg(long, value_name = "DTYPE", value_parser = parse_dtype)]
    token_embedding_type: Option<DType>,
    /// Dtype of all tensors in whose name the regular expression is found; the first that is counts.
    #[arg(long, value_name = "REGEX=DTYPE", value_parser = parse_tensor_type)]
    tensor_type: Vec<TensorType>,
    /// A file of REGEX=DTYPE, divided by white space.
    #[arg(long, value_name = "FILE")]
    tensor_type_file: Option<PathBuf>,
    /// List tensors, dtypes, the reasons for them and sizes; read no weights, write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Replace an output that is there.
    #[arg(short, long)]
    force: bool,
    /// Threads to work with; all cores by default. The bytes do not depend on it.
    #[arg(short = 'j', long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Convert NaNs and infinities instead of refusing them.
    #[arg(long)]
    allow_nonfinite: bool,
    /// The plan or the result as JSON on stdout.
    #[arg(long)]
    json: bool,
    /// Say nothing but errors.
    #[arg(short, long)]
    quiet: bool,
    /// Say more.
    #[arg(short, long)]
    verbose: bool,
}

fn parse_dtype(name: &str) -> Result<DType, String> {
    DType::from_name(name).map_err(|error| error.to_string())
}

fn parse_tensor_type(text: &str) -> Result<TensorType, String> {
    TensorType::parse(text).map_err(|error| error.to_string())
}

/// What the positional arguments say.
struct What {
    input: PathBuf,
    out: Option<PathBuf>,
    recipes: Vec<&'static Recipe>,
    threads: Option<NonZeroUsize>,
}

fn parse_recipes(names: &str) -> Result<Vec<&'static Recipe>, Failure> {
    names.split(',').map(|name| Recipe::from_name(name).map_err(Failure::usage)).collect()
}

/// The same four forms as in the reference. `IN A B` is `IN OUT TYPE` unless only A is a type.
fn parse_what(what: &[String]) -> Result<What, Failure> {
    let threads = |text: &String| {
        let not_a_number = || Failure::usage(format_args!("`{text}` is not a number of threads"));
        text.parse::<NonZeroUsize>().map(Some).map_err(|_| not_a_number())
    };
    let is_number = |text: &String| text.parse::<NonZeroUsize>().is_ok();
    let (out, types, threads) = match what {
        [_, types] => (None, types, None),
        [_, types, number] if is_number(number) && parse_recipes(types).is_ok() => {
            (None, types, threads(number)?)
        }
        [_, out, types] => (Some(out), types, None),
        [_, out, types, number] => (Some(out), types, threads(number)?),
        _ => return Err(Failure::usage("input and type are needed")),
    };
    Ok(What {
        input: PathBuf::from(&what[0]),
        out: out.map(PathBuf::from),
        recipes: parse_recipes(types)?,
        threads,
    })
}

fn run(matches: &ArgMatches, ui: &Ui) -> Result<(), Failure> {
    let args = QuantizeArgs::from_arg_matches(matches).map_err(Failure::usage)?;
    let what = parse_what(&args.what)?;
    let nonfinite = if args.allow_nonfinite { NonFinite::Allow } else { NonFinite::Refuse };
    let options = RunOptions { threads: args.threads.or(what.threads), level: cpu_level()?, nonfinite };
    let failed = |error| about_input(&what.input, error);

    let model = Model::open(&what.input).map_err(|error| match error {
        error @ gguf::Error::Io { .. } => Failure::new(error),
        error => failed(Error::Gguf(error)),
    })?;
    let imatrix = args.imatrix.as_deref().map(|path| open_imatrix(&args, path)).transpose()?;
    let importance = imatrix
        .as_ref()
        .zip(args.imatrix.as_deref())
        .filter(|(imatrix, _)| !imatrix.entries.is_empty())
        .map(|(imatrix, path)| Importance { imatrix, path });
    let overrides = overrides(&args, importance.is_some())?;
    warn_of_patterns(&model, &overrides, ui);

    let mut files: Vec<(PathBuf, PlannedFile)> = Vec::with_capacity(what.recipes.len());
    for recipe in &what.recipes {
        let path = plan_path(&what, &model, recipe).map_err(failed)?;
        if files.iter().any(|(other, _)| *other == path) {
            let n_types = what.recipes.len();
            return Err(failed(Error::OneNameForMany { n_types, path }));
        }
        let inputs: Vec<&Path> = model.shards().iter().map(|(path, _)| path.as_path()).collect();
        convert::check_output_beside(&path, &inputs, args.force || args.dry_run).map_err(failed)?;
        let file = convert::plan_quantized(&model, recipe, &overrides, importance).map_err(failed)?;
        files.push((path, file));
    }

    let tensors: Vec<DType> = model.tensors().map(|(_, tensor)| tensor.dtype).collect();
    let architecture = model.get("general.architecture").and_then(gguf::Value::as_str).unwrap_or("?");
    let origin = Origin {
        input: &what.input,
        format: "GGUF",
        architecture,
        dropped: &[],
        notes: Vec::new(),
        stored_as: &|choice| tensors[choice.tensor].name().to_owned(),
    };
    let report = Report::new(&origin, &files, args.dry_run);
    if args.dry_run {
        return ui.data(&if args.json { report.json()? } else { report.text() });
    }
    for (_, file) in &files {
        convert::check_quantized(&model, file, importance, args.allow_requantize).map_err(failed)?;
    }
    warn_of_loss(&tensors, &files, ui);
    let planned: Vec<PlannedFile> = files.iter().map(|(_, file)| file.clone()).collect();
    let works = convert::quantize_works(&model, &planned, importance).map_err(failed)?;
    run_and_tell(&works, &files, args.force, &options, &report, ui).map_err(failed)?;
    if args.json { ui.data(&report.json()?) } else { Ok(()) }
}

/// A library's error with its advice and the path of the input.
fn about_input(path: &Path, error: Error) -> Failure {
    let hint = error.hint();
    match error {
        // These carry a path of their own, or none would help.
        Error::Gguf(gguf::Error::Io { .. } | gguf::Error::Exists { .. } | gguf::Error::NotAFile { .. })
        | Error::OutputIsInput { .. }
        | Error::NoFolder { .. }
        | Error::UnknownPlaceholder { .. }
        | Error::OneNameForMany { .. } => Failure::new(error),
        Error::Cancelled => Failure { code: EXIT_INTERRUPTED, ..Failure::new(error) },
        error => Failure::at(path, error),
    }
    .hint(hint)
}

fn open_imatrix(args: &QuantizeArgs, path: &str) -> Result<Imatrix, Failure> {
    let failed = |error| Failure::at(Path::new(path), error);
    let mut imatrix = Imatrix::open(Path::new(path)).map_err(failed)?;
    imatrix.include(&args.include_weights);
    imatrix.exclude(&args.exclude_weights);
    imatrix.check_finite().map_err(failed)?;
    Ok(imatrix)
}

fn overrides(args: &QuantizeArgs, has_imatrix: bool) -> Result<Overrides, Failure> {
    let mut tensor_types = args.tensor_type.clone();
    if let Some(path) = &args.tensor_type_file {
        let text = fs::read_to_string(path).map_err(|error| Failure::at(path, error))?;
        tensor_types.extend(TensorType::parse_list(&text).map_err(|error| Failure::at(path, error))?);
    }
    Ok(Overrides {
        pure: args.pure,
        leave_output: args.leave_output_tensor,
        output_type: args.output_tensor_type,
        token_embedding_type: args.token_embedding_type,
        tensor_types,
        has_imatrix,
        // Where the reference ignores an option or aborts, do what was asked for.
        differences: Differences { tensor_types_on_floats: true, checked_options: true },
        ..Overrides::default()
    })
}

/// The model's name for its file: by the convention, from `general.*` keys.
fn plan_path(what: &What, model: &Model, recipe: &Recipe) -> Result<PathBuf, Error> {
    let type_name = recipe.alias_of.unwrap_or(recipe.name);
    let default_name = arch::default_file_name(model.metadata(), type_name);
    convert::output_path(what.out.as_deref(), &default_name, type_name)
}

fn warn_of_patterns(model: &Model, overrides: &Overrides, ui: &Ui) {
    let facts: Vec<TensorFacts<'_>> = model
        .tensors()
        .map(|(_, tensor)| TensorFacts { name: &tensor.name, shape: tensor.shape, dtype: tensor.dtype })
        .collect();
    for index in overrides.unmatched(&facts) {
        let pattern = &overrides.tensor_types[index].pattern;
        ui.warning(&format!("--tensor-type: `{pattern}` is found in no tensor's name"));
    }
}

fn warn_of_loss(tensors: &[DType], files: &[(PathBuf, PlannedFile)], ui: &Ui) {
    for (path, file) in files {
        let twice = file.choices.iter().filter(|choice| {
            let from = tensors[choice.tensor];
            from.is_quantized() && from != choice.dtype
        });
        let n_twice = twice.count();
        if n_twice > 0 {
            ui.warning(&format!(
                "{}: {n_twice} tensors were quantized already; what was lost then stays lost, and more goes",
                path.display()
            ));
        }
    }
}
