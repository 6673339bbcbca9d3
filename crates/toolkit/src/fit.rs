//! Memory that files need, and the largest file that fits.

use gguf_container::{Model, TensorInfo, Value, parse_shard_file_name};
use gguf_runtime::memory::{Bytes, Demand, Use};
use gguf_types::{DType, words};
use serde::{Deserialize, Serialize, Serializer};
use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    by_name,
    error::Error,
    events::Events,
    failure::failure,
    input_kind::{self, Wanted},
    table::table,
    text::{file_name, human_bytes, printable},
};

/// Options of an estimate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FitOptions {
    /// GGUF file, or a folder of such files.
    pub path: PathBuf,
    /// Memory in bytes.
    pub memory: Option<u64>,
    /// Context lengths in tokens. An empty list uses the length that the model was trained for.
    pub context: Vec<u64>,
    /// Sequences that run in parallel.
    pub parallel: u64,
    /// Type of the KV cache.
    #[serde(with = "by_name::single")]
    pub kv_type: DType,
    /// Tokens that are processed at a time.
    pub batch: u64,
    /// Projectors, draft models and adapters that are loaded too.
    pub with: Vec<PathBuf>,
}

impl Default for FitOptions {
    fn default() -> FitOptions {
        let Use { parallel, batch, kv_type, .. } = Use::default();
        FitOptions {
            path: PathBuf::new(),
            memory: None,
            context: Vec::new(),
            parallel,
            kv_type,
            batch,
            with: Vec::new(),
        }
    }
}

/// A file with the memory that it needs.
#[derive(Debug)]
struct Entry {
    path: PathBuf,
    demand: Demand,
    fits: Vec<Fit>,
    /// The longest context that fits.
    longest: Option<u64>,
    /// True for a diffusion model, of which only the weights are counted.
    is_diffusion: bool,
}

/// One length of the context.
#[derive(Debug, Serialize)]
struct Fit {
    context: u64,
    bytes: Bytes,
    total: u64,
    /// `None` without a memory size in the options.
    fits: Option<bool>,
}

/// Estimates the memory that a file, or each file of a folder, needs.
///
/// # Errors
/// A file that cannot be read or has an unknown memory layout.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::fit::{FitOptions, fit};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = FitOptions { path: "models".into(), memory: Some(16 << 30), ..FitOptions::default() };
/// print!("{}", fit(&options, &())?.text());
/// # Ok(())
/// # }
/// ```
pub fn fit(args: &FitOptions, events: &dyn Events) -> Result<Fits, Error> {
    let others = args.with.iter().map(|path| companion(path, events));
    let others = others.collect::<Result<Vec<Demand>, Error>>()?;
    let used = Use {
        context: 1,
        parallel: args.parallel,
        batch: args.batch,
        kv_type: args.kv_type,
        all_logits: false,
    };
    let is_folder = args.path.is_dir();
    let paths = if is_folder { models_in(&args.path, events)? } else { vec![args.path.clone()] };
    let mut entries = Vec::new();
    for path in paths {
        let model = match open(&path) {
            Ok(model) => model,
            Err(failure) if is_folder => {
                events.warning(failure.to_string());
                continue;
            }
            Err(failure) => return Err(failure),
        };
        if let Some(entry) = of_diffusion(&path, &model, &others, args) {
            let name = file_name(&path);
            events.note(format!("{name}: weights only; what an image or video takes depends on its size"));
            entries.push(entry);
            continue;
        }
        match demand(&path, &model, events) {
            Ok((demand, is_scaled)) => {
                let entry = entry(path, demand, &others, &used, args)?;
                note_of_length(&entry, is_scaled, events);
                entries.push(entry);
            }
            // An unknown file of a folder does not prevent the report of the others.
            Err(failure) if is_folder => events.warning(failure.to_string()),
            Err(failure) => return Err(failure),
        }
    }
    if entries.is_empty() {
        return Err(Error::at(&args.path, "no model with a known memory layout"));
    }
    entries.sort_by_key(|entry| (entry.demand.weights, entry.path.clone()));
    Ok(Fits { entries, options: args.clone() })
}

fn open(path: &Path) -> Result<Model, Error> {
    Model::open(path).map_err(|error| {
        input_kind::explained(path, Wanted::Gguf, failure(path, gguf_conversion::Error::Gguf(error)))
    })
}

/// Memory of a file that is loaded next to a model: a draft model as a whole, of a projector or an adapter the weights.
fn companion(path: &Path, events: &dyn Events) -> Result<Demand, Error> {
    let model = open(path)?;
    let kind = Kind::of(&model);
    let weights = || {
        let weights = model.tensors().map(|(_, info)| info.n_bytes).fold(0, u64::saturating_add);
        Demand { weights, layers: Vec::new(), n_embd: 0, n_vocab: 0, context_length: 0 }
    };
    match kind {
        Kind::Model => Ok(demand(path, &model, events)?.0),
        Kind::Projector => {
            let name = file_name(path);
            events
                .note(format!("{name}: weights only; buffers of the encoder depend on the picture or sound"));
            Ok(weights())
        }
        Kind::Adapter => Ok(weights()),
        Kind::NeverLoaded(what) => {
            let message = format!("expected a projector, draft model or adapter, found {what}");
            Err(Error::at(path, message).hint(["no program loads this file together with a model"]))
        }
    }
}

/// Use of a file when a model runs.
enum Kind {
    Model,
    Projector,
    Adapter,
    NeverLoaded(String),
}

impl Kind {
    fn of(model: &Model) -> Kind {
        let text = |key: &str| model.get(key).and_then(Value::as_str).unwrap_or_default();
        match (text("general.type"), text("general.architecture")) {
            _ if model.get("imatrix.datasets").is_some() => {
                Kind::NeverLoaded("an importance matrix".to_owned())
            }
            ("mmproj", _) | (_, "clip") => Kind::Projector,
            ("adapter", _) | (_, "controlvector") => Kind::Adapter,
            ("" | "model", _) if model.tensors().count() == 0 => {
                Kind::NeverLoaded("a vocabulary without weights".to_owned())
            }
            ("" | "model", _) => Kind::Model,
            (kind, _) => Kind::NeverLoaded(format!("a file of kind `{}`", printable(kind))),
        }
    }
}

/// Points out a context that the model was not trained for.
fn note_of_length(entry: &Entry, is_scaled: bool, events: &dyn Events) {
    let trained = entry.demand.context_length as u64;
    let longest = entry.fits.iter().map(|fit| fit.context).max().unwrap_or(0);
    if trained > 0 && longest > trained {
        let scaling = if is_scaled { "" } else { ", and the file sets no RoPE scaling" };
        events.note(format!(
            "{}: {longest} tokens exceed the {trained} that the model was trained for{scaling}",
            file_name(&entry.path)
        ));
    }
}

/// Memory of a model, and true if its RoPE is scaled. Architectures without a graph are estimated by their keys.
fn demand(path: &Path, model: &Model, events: &dyn Events) -> Result<(Demand, bool), Error> {
    use gguf_runtime::Error as E;
    let is_model = matches!(Kind::of(model), Kind::Model);
    let demand = match Demand::of(&gguf_models::GRAPHS, model) {
        Err(E::UnknownArchitecture { name } | E::DraftAlone { architecture: name }) if is_model => {
            let demand = Demand::by_keys(model).map_err(|error| Error::at(path, error))?;
            let what = if demand.layers.is_empty() {
                "only the weights are counted"
            } else {
                "the KV cache is estimated from the keys of attention"
            };
            let file = file_name(path);
            events.warning(format!("{file}: unknown memory layout of `{}`: {what}", printable(&name)));
            demand
        }
        found => found.map_err(|error| input_kind::explained(path, Wanted::Gguf, Error::at(path, error)))?,
    };
    let architecture = model.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let kind = model.get(&format!("{architecture}.rope.scaling.type")).and_then(Value::as_str);
    Ok((demand, kind.is_some_and(|kind| kind != "none")))
}

/// Models of a folder, with the first shard of split models. Other files are reported.
fn models_in(folder: &Path, events: &dyn Events) -> Result<Vec<PathBuf>, Error> {
    let failed = |error| Error::cannot_open(folder, error);
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let is_later = parse_shard_file_name(&name).is_some_and(|(_, no, _)| no > 1);
        if name.starts_with('.') || is_later || path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        match Model::open(&path).map(|model| Kind::of(&model)) {
            Ok(Kind::Projector) => {
                events.status(words!("{}: projector; use [-with] to add it to a model", name))
            }
            Ok(Kind::Adapter) => events.status(words!("{}: adapter; use [-with] to add it to a model", name)),
            Ok(Kind::NeverLoaded(what)) => events.status(format!("{name}: {what}, not loaded with a model")),
            Ok(Kind::Model) | Err(_) => paths.push(path),
        }
    }
    Ok(paths)
}

/// The weights of a diffusion model.
fn of_diffusion(path: &Path, model: &Model, others: &[Demand], args: &FitOptions) -> Option<Entry> {
    let infos: Vec<TensorInfo> = model.tensors().map(|(_, info)| info.clone()).collect();
    if !input_kind::is_image_model(model.metadata(), &infos) {
        return None;
    }
    let of_others = others.iter().map(|other| other.weights);
    let weights = infos.iter().map(|info| info.n_bytes).chain(of_others).fold(0, u64::saturating_add);
    let demand = Demand { weights, layers: Vec::new(), n_embd: 0, n_vocab: 0, context_length: 0 };
    let bytes = Bytes { weights, kv: 0, states: 0, compute: 0 };
    let fits = args.memory.map(|memory| weights <= memory);
    let fits = vec![Fit { context: 0, bytes, total: weights, fits }];
    Some(Entry { path: path.to_owned(), demand, fits, longest: None, is_diffusion: true })
}

fn entry(
    path: PathBuf,
    demand: Demand,
    others: &[Demand],
    used: &Use,
    args: &FitOptions,
) -> Result<Entry, Error> {
    let trained =
        if demand.context_length > 0 { demand.context_length as u64 } else { Use::default().context };
    let contexts = if args.context.is_empty() { vec![trained] } else { args.context.clone() };
    let failed = |error| Error::at(&path, error);
    let mut fits = Vec::new();
    for context in contexts {
        let bytes = demand.bytes_with(others, &Use { context, ..*used }).map_err(failed)?;
        let total = bytes.total();
        fits.push(Fit { context, bytes, total, fits: args.memory.map(|memory| total <= memory) });
    }
    let longest = args
        .memory
        .map(|memory| demand.longest_context_with(others, used, memory))
        .transpose()
        .map_err(failed)?;
    Ok(Entry { path, demand, fits, longest: longest.flatten(), is_diffusion: false })
}

/// Estimates for files.
#[derive(Debug)]
pub struct Fits {
    entries: Vec<Entry>,
    options: FitOptions,
}

impl Fits {
    /// Fails if no file fits.
    ///
    /// # Errors
    /// The memory that is too small for every file.
    pub fn verdict(&self) -> Result<(), Error> {
        match self.options.memory.filter(|_| best(&self.entries).is_none()) {
            Some(memory) => Err(self.nothing_fits(memory)),
            None => Ok(()),
        }
    }

    fn nothing_fits(&self, memory: u64) -> Error {
        let memory = human_bytes(memory);
        let longest = self.entries.iter().filter_map(|entry| Some((entry.longest?, entry)));
        match longest.max_by_key(|(longest, _)| *longest) {
            None => Error::new(format!("no file fits in {memory}")),
            Some((longest, entry)) => {
                let asked = entry.fits.iter().map(|fit| fit.context).min().unwrap_or(0);
                let hint = words!(
                    "{} fits with {} tokens, use [-context {}]",
                    file_name(&entry.path),
                    longest,
                    longest
                );
                Error::new(format!("no file fits in {memory} with {asked} tokens")).hint([hint])
            }
        }
    }

    /// A table of the files, and the largest one that fits.
    pub fn text(&self) -> String {
        text(&self.entries, &self.options)
    }

    /// All estimates.
    pub fn json(&self) -> serde_json::Value {
        json(&self.entries, &self.options)
    }
}

/// Serialized as [`Fits::json`].
impl Serialize for Fits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

/// The largest file that fits at the longest of the contexts, and that context.
fn best(entries: &[Entry]) -> Option<(&Entry, &Fit)> {
    let fitting = entries.iter().flat_map(|entry| {
        let fitting = entry.fits.iter().filter(|fit| fit.fits == Some(true));
        fitting.map(move |fit| (entry, fit))
    });
    fitting.max_by_key(|(entry, fit)| (fit.context, entry.demand.weights))
}

fn text(entries: &[Entry], args: &FitOptions) -> String {
    let has_states = entries.iter().flat_map(|entry| &entry.fits).any(|fit| fit.bytes.states > 0);
    let mut header = vec!["file", "context", "weights", "KV cache"];
    header.extend(has_states.then_some("states"));
    header.extend(["compute", "total"]);
    header.extend(args.memory.is_some().then_some("longest context"));
    let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
    for entry in entries {
        for fit in &entry.fits {
            let Bytes { weights, kv, states, compute } = fit.bytes;
            let of_text = |value: String| if entry.is_diffusion { "-".to_owned() } else { value };
            let mut row = vec![file_name(&entry.path), of_text(fit.context.to_string())];
            row.extend([human_bytes(weights), of_text(human_bytes(kv))]);
            row.extend(has_states.then(|| of_text(human_bytes(states))));
            row.extend([of_text(human_bytes(compute)), human_bytes(fit.total)]);
            if args.memory.is_some() {
                let longest = entry.longest.map_or_else(|| "none".to_owned(), |longest| longest.to_string());
                let mark = match entry.longest {
                    _ if fit.fits == Some(true) => String::new(),
                    Some(_) => format!(" ({} do not fit)", fit.context),
                    None => " (does not fit)".to_owned(),
                };
                row.push(of_text(longest) + &mark);
            }
            rows.push(row);
        }
    }
    let n_columns = rows[0].len() - usize::from(args.memory.is_some());
    let mut text = table(&rows, &(1..n_columns).collect::<Vec<_>>());
    if let Some((memory, (entry, fit))) = args.memory.zip(best(entries)) {
        text += &format!(
            "\nlargest file that fits in {}{}: {}, {}\n",
            human_bytes(memory),
            if entry.is_diffusion { String::new() } else { format!(" with {} tokens", fit.context) },
            file_name(&entry.path),
            human_bytes(fit.total)
        );
    }
    text
}

fn json(entries: &[Entry], args: &FitOptions) -> serde_json::Value {
    let best = best(entries).map(|(entry, fit)| (file_name(&entry.path), fit.context));
    let files: Vec<_> = entries
        .iter()
        .map(|entry| {
            serde_json::json!({
                "file": file_name(&entry.path),
                "context_length": entry.demand.context_length,
                "uses": entry.fits,
                "longest_context": entry.longest,
            })
        })
        .collect();
    serde_json::json!({
        "memory": args.memory,
        "parallel": args.parallel,
        "kv_type": args.kv_type.name(),
        "batch": args.batch,
        "files": files,
        "best": best.map(|(file, context)| serde_json::json!({ "file": file, "context": context })),
    })
}
