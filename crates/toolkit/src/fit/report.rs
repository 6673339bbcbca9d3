//! Estimates as a table and as JSON, and the verdict.

use gguf_runtime::memory::Bytes;
use gguf_types::{Words, words};
use serde::{Serialize, Serializer};

use super::{candidate::Candidate, options::FitOptions};
use crate::{
    error::Error,
    events::Events,
    failure::quoted,
    memory::{self, Suited, TypeSize},
    table::{narrow_table, wrapped},
    text::{file_name, human_bytes},
};

/// A model with the memory that it needs.
#[derive(Debug)]
pub struct Entry {
    /// The model.
    pub candidate: Candidate,
    /// Memory with each length of the context.
    pub fits: Vec<Fit>,
    /// The longest context that fits.
    pub longest: Option<u64>,
}

/// One length of the context.
#[derive(Debug, Serialize)]
pub struct Fit {
    pub context: u64,
    pub bytes: Bytes,
    pub total: u64,
    /// `None` if the memory size is unknown.
    pub fits: Option<bool>,
}

/// A model that fits.
#[derive(Debug, Clone, Copy)]
pub struct Best<'a> {
    entry: &'a Entry,
    /// Tokens of context.
    context: u64,
    /// True if more tokens do not fit.
    is_longest: bool,
}

/// Estimates for files.
#[derive(Debug)]
pub struct Fits {
    pub(super) entries: Vec<Entry>,
    pub(super) options: FitOptions,
    /// Sizes of files of other types.
    pub(super) sizes: Vec<TypeSize>,
    /// Bytes per second that this machine reads from memory.
    pub(super) bandwidth: Option<f64>,
}

impl Fits {
    /// Fails if no file fits.
    ///
    /// # Errors
    /// The memory that is too small for every file. A hint names the type that would fit.
    pub fn verdict(&self) -> Result<(), Error> {
        match self.options.memory.filter(|_| self.best().is_none()) {
            Some(memory) => Err(self.nothing_fits(memory)),
            None => Ok(()),
        }
    }

    fn nothing_fits(&self, memory: u64) -> Error {
        let memory = human_bytes(memory);
        let longest = self.entries.iter().filter_map(|entry| Some((entry.longest?, entry)));
        let error = match longest.max_by_key(|(longest, _)| *longest) {
            None => Error::new(format!("no file fits in {memory}")),
            Some((longest, entry)) => {
                let asked = entry.fits.iter().map(|fit| fit.context).min().unwrap_or(0);
                let name = entry.candidate.name();
                let hint = words!("{} fits with {} tokens, use [-context {}]", name, longest, longest);
                return Error::new(format!("no file fits in {memory} with {asked} tokens")).hint([hint]);
            }
        };
        match self.suited() {
            Some(Err(too_large)) if self.entries.iter().any(|entry| entry.candidate.is_checkpoint) => {
                too_large
            }
            Some(Ok(suited)) => error.hint(self.entries.first().map(|entry| advice(entry, &suited))),
            _ => error.hint(self.smallest()),
        }
    }

    /// Hint with the smallest size, if no type fits.
    fn smallest(&self) -> Option<Words> {
        let of_types = self.sizes.iter().map(|size| (size.n_bytes, format!("type, {}", size.file_type)));
        let of_files = self
            .entries
            .iter()
            .map(|Entry { candidate, .. }| (candidate.demand.weights, format!("file, {}", candidate.name())));
        let (n_bytes, name) = of_types.min().or_else(|| of_files.min())?;
        let size = human_bytes(n_bytes);
        Some(words!(
            "the smallest {}, has {} without KV cache and buffers; choose a smaller model",
            name,
            size
        ))
    }

    /// The next step: a conversion to the type that fits, or a chat with the file that fits.
    pub fn next_command(&self) -> Option<Words> {
        let Entry { candidate, .. } = self.best()?.entry;
        // A file on the web has another path.
        let path = Some(&candidate.path).filter(|path| path.starts_with(&self.options.path))?;
        let path = quoted(&path.display().to_string());
        if candidate.is_checkpoint {
            let file_type = candidate.file_type?;
            return Some(words!("next: [gguf-convert {} chat.gguf -type {}]", path, file_type));
        }
        let is_chat = candidate.has_template && candidate.bytes_per_token.is_some();
        is_chat.then(|| words!("next: [gguf-eval chat {}]", path))
    }

    /// The type that a conversion without a type would choose; `None` for several files.
    pub(super) fn suited(&self) -> Option<Result<Suited, Error>> {
        let memory = self.options.memory.filter(|_| !self.sizes.is_empty())?;
        Some(memory::suited(memory, |file_type| {
            let size = self.sizes.iter().find(|size| size.file_type == file_type);
            size.map(|size| size.n_bytes).ok_or_else(|| Error::new("unknown size"))
        }))
    }

    /// The largest file that fits, at the longest of the contexts. Without requested contexts, fewer tokens than in training count.
    /// For a checkpoint, the type that a conversion would choose, if it fits with the requested context.
    pub(super) fn best(&self) -> Option<Best<'_>> {
        let fitting = self.entries.iter().flat_map(|entry| {
            let asked = entry.fits.iter().filter(|fit| fit.fits == Some(true));
            let asked = asked.map(move |fit| Best { entry, context: fit.context, is_longest: false });
            let longest = entry.longest.filter(|_| self.options.context.is_empty());
            asked.chain(longest.map(move |context| {
                let is_longest = entry.fits.iter().all(|fit| fit.fits != Some(true));
                Best { entry, context, is_longest }
            }))
        });
        let fitting: Vec<Best<'_>> = fitting.collect();
        let largest =
            fitting.iter().max_by_key(|best| (best.context, best.entry.candidate.demand.weights))?;
        let chosen = self.suited().and_then(Result::ok).map(|suited| suited.file_type);
        let is_chosen = |best: &&Best<'_>| {
            let Candidate { is_checkpoint, file_type, .. } = &best.entry.candidate;
            let is_long = self.options.context.is_empty() || best.context == largest.context;
            *is_checkpoint && is_long && file_type.is_some() && *file_type == chosen
        };
        let chosen = fitting.iter().filter(is_chosen).max_by_key(|best| best.context);
        Some(*chosen.unwrap_or(largest))
    }

    /// Points out a context that the model was not trained for.
    pub(super) fn note_of_length(&self, events: &dyn Events) {
        let mut noted = None;
        for Entry { candidate, fits, .. } in &self.entries {
            let trained = candidate.demand.context_length as u64;
            let longest = fits.iter().map(|fit| fit.context).max().unwrap_or(0);
            // The types of a checkpoint have the same length.
            if trained > 0 && longest > trained && noted != Some(&candidate.path) {
                let scaling = if candidate.is_scaled { "" } else { ", and the file sets no RoPE scaling" };
                let file = file_name(&candidate.path);
                events.note(format!(
                    "{file}: {longest} tokens exceed the {trained} that the model was trained for{scaling}"
                ));
                noted = Some(&candidate.path);
            }
        }
    }

    /// Upper limit of the tokens per second, if the bandwidth is known and the file fits. It counts only the time that reading the
    /// weights takes; decoding and the latencies of each layer make models below about a billion parameters three times slower.
    fn speed(&self, entry: &Entry) -> Option<f64> {
        let bytes = entry.candidate.bytes_per_token.filter(|_| entry.longest.is_some())?;
        Some(self.bandwidth? / bytes as f64)
    }

    /// A table of the files, and the largest one that fits.
    pub fn text(&self) -> String {
        let has_states = self.entries.iter().flat_map(|entry| &entry.fits).any(|fit| fit.bytes.states > 0);
        let memory = self.options.memory;
        let has_types = self.entries.iter().any(|entry| entry.candidate.file_type.is_some());
        let mut header = vec![if has_types { "type" } else { "file" }, "context", "weights", "KV cache"];
        header.extend(has_states.then_some("states"));
        header.extend(["compute", "total"]);
        header.extend(self.bandwidth.map(|_| "tokens/s"));
        let n_numbers = header.len();
        header.extend(memory.map(|_| "max. context"));
        let mut rows = vec![header.into_iter().map(str::to_owned).collect::<Vec<_>>()];
        for entry in &self.entries {
            for fit in &entry.fits {
                rows.push(self.row(entry, fit, has_states));
            }
        }
        let mut text = narrow_table(&rows, &(1..n_numbers).collect::<Vec<_>>());
        if let Some((memory, best)) = memory.zip(self.best()) {
            let what = match self.entries.len() {
                _ if best.entry.candidate.is_checkpoint => "type for",
                1 => "fits in",
                _ => "largest file that fits in",
            };
            let memory = human_bytes(memory);
            let with = match best {
                Best { entry, .. } if entry.candidate.weights_only => String::new(),
                Best { context, is_longest: true, .. } => format!(" with up to {context} tokens"),
                Best { context, .. } => format!(" with {context} tokens"),
            };
            let at = best.entry.fits.iter().find(|fit| fit.context == best.context);
            let total = at.map_or_else(String::new, |fit| format!(", {}", human_bytes(fit.total)));
            let name = best.entry.candidate.name();
            text += "\n";
            text += &wrapped(&format!("{what} {memory}{with}: {name}{total}"), 2);
        }
        if let Some(bandwidth) = self.bandwidth {
            let bandwidth = human_bytes(bandwidth as u64);
            let limit = format!("tokens/s: at most, as memory is read at {bandwidth} per second");
            text += &wrapped(&(limit + "; models below a billion parameters reach about a third"), 2);
        }
        text
    }

    fn row(&self, entry: &Entry, fit: &Fit, has_states: bool) -> Vec<String> {
        let Bytes { weights, kv, states, compute } = fit.bytes;
        let of_text = |value: String| if entry.candidate.weights_only { "-".to_owned() } else { value };
        let mut row = vec![entry.candidate.name(), of_text(fit.context.to_string())];
        row.extend([human_bytes(weights), of_text(human_bytes(kv))]);
        row.extend(has_states.then(|| of_text(human_bytes(states))));
        row.extend([of_text(human_bytes(compute)), human_bytes(fit.total)]);
        if self.bandwidth.is_some() {
            row.push(self.speed(entry).map_or_else(|| "-".to_owned(), limit));
        }
        if self.options.memory.is_some() {
            let fits = fit.fits == Some(true);
            row.push(match entry.longest {
                Some(longest) if fits => longest.to_string(),
                Some(longest) => format!("{longest} (not {})", fit.context),
                None if fits => "-".to_owned(),
                None if entry.candidate.weights_only => "does not fit".to_owned(),
                None => "none fits".to_owned(),
            });
        }
        row
    }

    /// All estimates.
    pub fn json(&self) -> serde_json::Value {
        let FitOptions { memory, parallel, kv_type, batch, .. } = &self.options;
        let file = |entry: &Entry| {
            let candidate = &entry.candidate;
            serde_json::json!({
                "file": file_name(&candidate.path),
                "type": candidate.file_type,
                "context_length": candidate.demand.context_length,
                "uses": entry.fits,
                "longest_context": entry.longest,
                "weights_only": candidate.weights_only,
                "bytes_per_token": candidate.bytes_per_token,
                "estimated_tokens_per_second": self.speed(entry),
            })
        };
        let best = self.best().map(|Best { entry, context, .. }| {
            let candidate = &entry.candidate;
            serde_json::json!({ "file": file_name(&candidate.path), "type": candidate.file_type, "context": context })
        });
        let suited = self.suited().and_then(Result::ok);
        let suited =
            suited.map(|suited| serde_json::json!({ "type": suited.file_type, "bytes": suited.n_bytes }));
        serde_json::json!({
            "memory": memory,
            "parallel": parallel,
            "kv_type": kv_type.name(),
            "batch": batch,
            "bytes_per_second": self.bandwidth,
            "files": self.entries.iter().map(file).collect::<Vec<_>>(),
            "best": best,
            "suited": suited,
        })
    }
}

/// Serialized as [`Fits::json`].
impl Serialize for Fits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

/// An upper limit with two digits.
fn limit(speed: f64) -> String {
    let unit = 10f64.powf(speed.log10().floor() - 1.0);
    let n_decimals = usize::from(speed < 9.95);
    format!("up to ~{:.n_decimals$}", (speed / unit).round() * unit)
}

/// The type that would fit instead of a file.
fn advice(entry: &Entry, suited: &Suited) -> Words {
    let (file_type, size) = (suited.file_type, human_bytes(suited.n_bytes));
    if entry.candidate.is_float {
        let path = quoted(&entry.candidate.path.display().to_string());
        return words!("type {} has {}: run `[gguf-quantize {} {}]`", file_type, size, path, file_type);
    }
    words!("type {} has {}: convert the original model with [-type {}]", file_type, size, file_type)
}
