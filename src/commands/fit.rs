//! `gguf-inspect fit FILE|DIR`: how much memory files take when they run, and which of them fit.

use std::{
    fs,
    num::NonZeroU64,
    path::{Path, PathBuf},
};

use clap::{Args, ValueHint};
use eval::memory::{Bytes, Demand, Use};
use gguf::{Model, Value, parse_shard_file_name};
use serde::Serialize;
use tensor::DType;

use crate::{
    commands::{
        Command,
        shared::{
            conversion_run::failure,
            input_kind::{self, Wanted},
            sizes::parse_size,
            table::table,
            values,
        },
    },
    failure::Failure,
    ui::{Ui, human_bytes, pretty_json},
};

/// The row of [`super::COMMANDS`].
pub const COMMAND: Command = Command {
    verb: Some("fit"),
    about: "Estimate memory use and find the files that fit",
    examples: EXAMPLES,
    define: FitArgs::augment_args,
    run: |matches, ui| run(Command::args(matches)?, ui),
    ..Command::of("gguf-inspect")
};

const EXAMPLES: &str = "\
Examples:
  gguf-inspect fit model-Q4_K_M.gguf --memory 16GB
  gguf-inspect fit models/ --memory 24GB --context 32768 --parallel 4
  gguf-inspect fit model-Q4_K_M.gguf --context 8192,32768,131072 --kv-type q8_0

Weights, KV cache and recurrent states are counted as llama.cpp allocates them, including
grouped-query attention, sliding windows and latent attention. Compute buffers are estimated for
flash attention on a single device. Memory used by the driver and by other programs is not included.
--context applies to each of the --parallel sequences. --kv-type is f32, f16, bf16, q8_0, q5_0,
q5_1, q4_0, q4_1 or iq4_nl. 1 GB is 1000 MB and 1 GiB is 1024 MiB. A graphics card sold as 16 GB has
16 GiB.";

#[derive(Debug, Args)]
struct FitArgs {
    /// GGUF file, any shard of a split model, or a folder of files.
    #[arg(value_name = "FILE|DIR", value_hint = ValueHint::AnyPath)]
    path: PathBuf,
    /// Report what fits into SIZE, for example 16GB or 24GiB.
    ///
    /// Prints the longest context that fits for each file and, for a folder, the largest file that fits. The exit code is 1 if
    /// nothing fits.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Set the context length, in tokens.
    ///
    /// A comma-separated list reports several lengths. Default: the length that the model was trained for.
    #[arg(short, long, alias = "ctx", value_name = "N", value_delimiter = ',')]
    context: Vec<NonZeroU64>,
    /// Run N sequences in parallel.
    #[arg(long, value_name = "N", default_value = "1")]
    parallel: NonZeroU64,
    /// Set the type of the KV cache.
    #[arg(long, value_name = "TYPE", default_value = "f16", value_parser = values::kv_type(), hide_possible_values = true)]
    kv_type: DType,
    /// Process N tokens at a time.
    ///
    /// This is llama.cpp's `--ubatch-size`.
    #[arg(long, value_name = "N", default_value = "512")]
    batch: NonZeroU64,
    /// Also load this projector or draft model (repeatable).
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    with: Vec<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

/// A file with what it takes.
struct Entry {
    path: PathBuf,
    demand: Demand,
    fits: Vec<Fit>,
    /// The longest context that fits.
    longest: Option<u64>,
}

/// One length of the context.
#[derive(Serialize)]
struct Fit {
    context: u64,
    bytes: Bytes,
    total: u64,
    /// None where no memory was stated.
    fits: Option<bool>,
}

fn run(args: FitArgs, ui: &Ui) -> Result<(), Failure> {
    let others = args.with.iter().map(|path| weights_of(path)).sum::<Result<u64, Failure>>()?;
    let used = Use {
        context: 1,
        parallel: args.parallel.get(),
        batch: args.batch.get(),
        kv_type: args.kv_type,
        all_logits: false,
    };
    let is_folder = args.path.is_dir();
    let paths = if is_folder { models_in(&args.path, ui)? } else { vec![args.path.clone()] };
    let mut entries = Vec::new();
    for path in paths {
        let demand = open(&path).and_then(|model| demand(&path, &model, others));
        match demand {
            Ok((demand, is_scaled)) => {
                let entry = entry(path, demand, &used, &args)?;
                note_of_length(&entry, is_scaled, ui);
                entries.push(entry);
            }
            // An unknown file of a folder does not prevent the report of the others.
            Err(failure) if is_folder => ui.warning(&failure.message),
            Err(failure) => return Err(failure),
        }
    }
    if entries.is_empty() {
        return Err(Failure::at(&args.path, "no model with a known memory layout"));
    }
    entries.sort_by_key(|entry| (entry.demand.weights, entry.path.clone()));
    ui.data(&if args.json { json(&entries, &args)? } else { text(&entries, &args) })?;
    let verdict = args.memory.filter(|_| best(&entries).is_none());
    verdict
        .map_or(Ok(()), |memory| Err(Failure::new(format_args!("no file fits in {}", human_bytes(memory)))))
}

fn open(path: &Path) -> Result<Model, Failure> {
    Model::open(path).map_err(|error| {
        input_kind::explained(path, Wanted::Gguf, failure(path, convert::Error::Gguf(error)))
    })
}

fn weights_of(path: &Path) -> Result<u64, Failure> {
    Ok(open(path)?.tensors().map(|(_, info)| info.n_bytes).sum())
}

/// Points out a context that the model was not trained for.
fn note_of_length(entry: &Entry, is_scaled: bool, ui: &Ui) {
    let trained = entry.demand.context_length as u64;
    let longest = entry.fits.iter().map(|fit| fit.context).max().unwrap_or(0);
    if trained > 0 && longest > trained {
        let scaling = if is_scaled { "" } else { ", and the file sets no RoPE scaling" };
        ui.note(&format!(
            "{}: {longest} tokens exceed the {trained} that the model was trained for{scaling}",
            name(&entry.path)
        ));
    }
}

/// Memory of a model, and whether its RoPE is scaled.
fn demand(path: &Path, model: &Model, others: u64) -> Result<(Demand, bool), Failure> {
    let mut demand = Demand::of(model)
        .map_err(|error| input_kind::explained(path, Wanted::Gguf, Failure::at(path, error)))?;
    demand.weights = demand.weights.saturating_add(others);
    let architecture = model.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let kind = model.get(&format!("{architecture}.rope.scaling.type")).and_then(Value::as_str);
    Ok((demand, kind.is_some_and(|kind| kind != "none")))
}

/// Models of a folder, with the first shard of split models. Other files are reported.
fn models_in(folder: &Path, ui: &Ui) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error| Failure::cannot_open(folder, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_later = parse_shard_file_name(&name).is_some_and(|(_, no, _)| no > 1);
        if name.starts_with('.') || is_later || path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        let kind = Model::open(&path).ok().and_then(|model| {
            model
                .get("general.type")
                .and_then(Value::as_str)
                .filter(|kind| *kind != "model")
                .map(str::to_owned)
        });
        match kind {
            None => paths.push(path),
            Some(kind) => ui.status(&format!("{name}: `{kind}` file; use --with to add it to a model")),
        }
    }
    Ok(paths)
}

fn entry(path: PathBuf, demand: Demand, used: &Use, args: &FitArgs) -> Result<Entry, Failure> {
    let trained =
        if demand.context_length > 0 { demand.context_length as u64 } else { Use::default().context };
    let contexts = match args.context.is_empty() {
        true => vec![trained],
        false => args.context.iter().map(|context| context.get()).collect(),
    };
    let failed = |error| Failure::at(&path, error);
    let mut fits = Vec::new();
    for context in contexts {
        let bytes = demand.bytes(&Use { context, ..*used }).map_err(failed)?;
        let total = bytes.total();
        fits.push(Fit { context, bytes, total, fits: args.memory.map(|memory| total <= memory) });
    }
    let longest =
        args.memory.map(|memory| demand.longest_context(used, memory)).transpose().map_err(failed)?;
    Ok(Entry { path, demand, fits, longest: longest.flatten() })
}

/// The largest file that fits at the longest of the contexts, and that context.
fn best(entries: &[Entry]) -> Option<(&Entry, &Fit)> {
    let fitting = entries.iter().flat_map(|entry| {
        let fitting = entry.fits.iter().filter(|fit| fit.fits == Some(true));
        fitting.map(move |fit| (entry, fit))
    });
    fitting.max_by_key(|(entry, fit)| (fit.context, entry.demand.weights))
}

fn text(entries: &[Entry], args: &FitArgs) -> String {
    let has_states = entries.iter().flat_map(|entry| &entry.fits).any(|fit| fit.bytes.states > 0);
    let mut header = vec!["file", "context", "weights", "KV cache"];
    header.extend(has_states.then_some("states"));
    header.extend(["compute", "total"]);
    header.extend(args.memory.is_some().then_some("longest context"));
    let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for entry in entries {
        for fit in &entry.fits {
            let Bytes { weights, kv, states, compute } = fit.bytes;
            let mut row = vec![name(&entry.path), fit.context.to_string()];
            row.extend([weights, kv].map(human_bytes));
            row.extend(has_states.then(|| human_bytes(states)));
            row.extend([compute, fit.total].map(human_bytes));
            if args.memory.is_some() {
                let mark = if fit.fits == Some(true) { "" } else { " (does not fit)" };
                let longest = entry.longest.map_or_else(|| "none".to_owned(), |longest| longest.to_string());
                row.push(longest + mark);
            }
            rows.push(row);
        }
    }
    let n_columns = rows[0].len() - usize::from(args.memory.is_some());
    let mut text = table(&rows, &(1..n_columns).collect::<Vec<_>>());
    if let Some((memory, (entry, fit))) = args.memory.zip(best(entries)) {
        text += &format!(
            "\nlargest file that fits in {} with {} tokens: {}, {}\n",
            human_bytes(memory),
            fit.context,
            name(&entry.path),
            human_bytes(fit.total)
        );
    }
    text
}

fn json(entries: &[Entry], args: &FitArgs) -> Result<String, Failure> {
    let best = best(entries).map(|(entry, fit)| (name(&entry.path), fit.context));
    let files: Vec<_> = entries
        .iter()
        .map(|entry| {
            serde_json::json!({
                "file": name(&entry.path),
                "context_length": entry.demand.context_length,
                "uses": entry.fits,
                "longest_context": entry.longest,
            })
        })
        .collect();
    let json = serde_json::json!({
        "memory": args.memory,
        "parallel": args.parallel,
        "kv_type": args.kv_type.name(),
        "batch": args.batch,
        "files": files,
        "best": best.map(|(file, context)| serde_json::json!({ "file": file, "context": context })),
    });
    pretty_json(&json)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
