//! Memory that files need, the largest file that fits, and the type that would fit.

mod candidate;
mod checkpoint;
mod options;
mod report;

use std::{
    fs,
    path::{Path, PathBuf},
};

use gguf_container::{Model, parse_shard_file_name};
use gguf_conversion::{Conversion, ModelInput, OutputRequest, Request};
use gguf_runtime::memory::{Bytes, Demand, Use};
use gguf_types::words;

use self::{
    candidate::{Candidate, Found, Kind, companion},
    report::{Entry, Fit},
};
pub use self::{options::FitOptions, report::Fits};
use crate::{
    container_file::open_model,
    error::Error,
    events::Events,
    failure::failure,
    hub::{HubOptions, is_hub_address},
    input_kind::{is_address, is_like_a_hub_name},
    memory::{self, TypeSize},
    remote_headers::HollowFiles,
};

/// Estimates the memory that a file, each file of a folder, or each type of a checkpoint needs.
///
/// Without a memory size in the options, that of this machine counts, and the speed is estimated from the bandwidth of its memory,
/// which is measured for a fraction of a second.
///
/// # Errors
/// An input that cannot be read or has an unknown memory layout.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::{
///     fit::{FitOptions, fit},
///     hub::HubOptions,
/// };
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = FitOptions { path: "models".into(), memory: Some(16 << 30), ..FitOptions::default() };
/// print!("{}", fit(&options, &HubOptions::default(), &())?.text());
/// # Ok(())
/// # }
/// ```
pub fn fit(args: &FitOptions, hub: &HubOptions, events: &dyn Events) -> Result<Fits, Error> {
    let others = args.with.iter().map(|path| companion(path, events));
    let others = others.collect::<Result<Vec<Demand>, Error>>()?;
    let options = FitOptions { memory: args.memory.or_else(memory::total), ..args.clone() };
    // Exists until its sizes by type are known.
    let mut hollow = None;
    let found = match source_of(&args.path) {
        Source::Checkpoint => checkpoint::found(&args.path, hub, events)?,
        Source::Folder => in_folder(&args.path, events)?,
        Source::Address => {
            let files = HollowFiles::fetch(&args.path.to_string_lossy(), hub, events)?;
            let path = hollow.insert(files).path();
            Found { candidates: vec![Candidate::open(&path, events)?], ..Found::default() }
        }
        Source::File => Found { candidates: vec![Candidate::open(&args.path, events)?], ..Found::default() },
    };
    if found.candidates.is_empty() {
        return Err(Error::at(&args.path, "no model with a known memory layout"));
    }
    let entries = found.candidates.into_iter().map(|candidate| entry(candidate, &others, &options));
    let mut fits = Fits {
        entries: entries.collect::<Result<_, Error>>()?,
        sizes: found.sizes,
        bandwidth: None,
        options,
    };
    let is_checkpoint = !fits.sizes.is_empty();
    fits.note_of_length(events);
    let is_float = fits.entries.iter().any(|entry| entry.candidate.is_float);
    if let [Entry { candidate, .. }] = &fits.entries[..]
        && !candidate.is_checkpoint
        && (is_float || fits.best().is_none())
    {
        match sizes(&candidate.path) {
            Ok(sizes) => fits.sizes = sizes,
            Err(failure) => events.detail(format!("no advice about types: {failure}")),
        }
    }
    if let Some(Ok(suited)) = fits.suited().filter(|_| is_checkpoint || is_float) {
        events.note(suited.words());
    }
    if args.memory.is_none() && fits.entries.iter().any(|entry| entry.candidate.bytes_per_token.is_some()) {
        fits.bandwidth = Some(memory::bandwidth());
    }
    fits.entries.sort_by_key(|entry| (entry.candidate.demand.weights, entry.candidate.path.clone()));
    Ok(fits)
}

/// Kind of an input.
enum Source {
    File,
    Folder,
    Checkpoint,
    /// A GGUF file on the web.
    Address,
}

fn source_of(path: &Path) -> Source {
    let text = path.to_str().unwrap_or_default();
    let is_gguf = text.split(['?', '#']).next().is_some_and(|path| path.ends_with(".gguf"));
    if is_address(text) && is_gguf {
        Source::Address
    } else if is_hub_address(text) || is_like_a_hub_name(path) {
        Source::Checkpoint
    } else if path.is_dir() {
        let is_gguf = |path: PathBuf| path.extension().is_some_and(|extension| extension == "gguf");
        let mut entries = fs::read_dir(path).into_iter().flatten().flatten();
        if entries.any(|entry| is_gguf(entry.path())) { Source::Folder } else { Source::Checkpoint }
    } else {
        Source::File
    }
}

/// Models of a folder, with the first shard of split models. Other files are reported.
fn in_folder(folder: &Path, events: &dyn Events) -> Result<Found, Error> {
    let failed = |error| Error::cannot_open(folder, error);
    let mut found = Found::default();
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
            // An unknown file does not prevent the report of the others.
            Ok(Kind::Model) | Err(_) => match Candidate::open(&path, events) {
                Ok(candidate) => found.candidates.push(candidate),
                Err(failure) => events.warning(failure.to_string()),
            },
        }
    }
    Ok(found)
}

/// Sizes of the files that a GGUF file can be quantized to.
fn sizes(path: &Path) -> Result<Vec<TypeSize>, Error> {
    let input = ModelInput::new(gguf_models::FAMILIES, open_model(path)?);
    let mut request = Request::default();
    request.allow_requantize = true;
    let size = |(file_type, recipe)| {
        let conversion =
            Conversion::new(&input).outputs([OutputRequest::by_rules(recipe)]).request(request.clone());
        Ok(TypeSize {
            file_type,
            n_bytes: memory::n_bytes(&conversion).map_err(|error| failure(path, error))?,
        })
    };
    memory::types().map(size).collect()
}

fn entry(candidate: Candidate, others: &[Demand], options: &FitOptions) -> Result<Entry, Error> {
    let demand = &candidate.demand;
    let fits = |total| options.memory.map(|memory| total <= memory);
    if candidate.weights_only {
        let weights = others.iter().map(|other| other.weights).fold(demand.weights, u64::saturating_add);
        let bytes = Bytes { weights, kv: 0, states: 0, compute: 0 };
        let fits = vec![Fit { context: 0, bytes, total: weights, fits: fits(weights) }];
        return Ok(Entry { candidate, fits, longest: None });
    }
    let used = Use {
        context: 1,
        parallel: options.parallel,
        batch: options.batch,
        kv_type: options.kv_type,
        all_logits: false,
    };
    let trained =
        if demand.context_length > 0 { demand.context_length as u64 } else { Use::default().context };
    let contexts = if options.context.is_empty() { vec![trained] } else { options.context.clone() };
    let failed = |error| Error::at(&candidate.path, error);
    let mut found = Vec::new();
    for context in contexts {
        let bytes = demand.bytes_with(others, &Use { context, ..used }).map_err(failed)?;
        let total = bytes.total();
        found.push(Fit { context, bytes, total, fits: fits(total) });
    }
    let longest = options.memory.map(|memory| demand.longest_context_with(others, &used, memory));
    let longest = longest.transpose().map_err(failed)?.flatten();
    Ok(Entry { candidate, fits: found, longest })
}
