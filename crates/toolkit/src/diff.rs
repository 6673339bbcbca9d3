//! Differences between two GGUF files.

use std::{fmt::Write as _, ops::Range, path::PathBuf, sync::atomic::Ordering};

use gguf_container::{Advice, File, Model, Ranks, TensorInfo, Value};
use gguf_imatrix::Sums;
use gguf_quant::Level;
use gguf_types::{DType, Shape};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value as Json, json};

use crate::{
    copy_files::open_model,
    error::Error,
    events::Events,
    importance_table::Similarities,
    line_diff::unified,
    metadata_change::change,
    metadata_json::{entry, is_same, short, side_by_side},
    text::printable,
};

/// Options of a comparison.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiffOptions {
    /// First GGUF file, or any shard of a split model.
    pub a: PathBuf,
    /// Second GGUF file.
    pub b: PathBuf,
    /// Compare only keys, names, shapes and types, without tensor data.
    pub headers: bool,
    /// CPU level of the kernels.
    #[serde(skip, default = "Level::detect")]
    pub level: Level,
}

impl Default for DiffOptions {
    fn default() -> DiffOptions {
        DiffOptions { a: PathBuf::new(), b: PathBuf::new(), headers: false, level: Level::detect() }
    }
}

/// A metadata key whose values differ; `None` on the side that does not have it.
#[derive(Debug, Clone)]
pub struct KeyChange {
    /// The key.
    pub key: String,
    /// Its value in the first file.
    pub a: Option<Value>,
    /// Its value in the second file.
    pub b: Option<Value>,
}

/// A tensor that differs; `None` on the side that does not have it.
#[derive(Debug, Clone)]
pub struct TensorChange {
    /// The tensor.
    pub name: String,
    /// Its type and shape in the first file.
    pub a: Option<(DType, Shape)>,
    /// Its type and shape in the second file.
    pub b: Option<(DType, Shape)>,
    /// Relative error of the values, `sqrt(sum (b - a)^2 / sum a^2)`; `None` if shapes differ or data were not read, NaN
    /// if a type has no decoder.
    pub error: Option<f64>,
}

impl TensorChange {
    fn new(a: Option<&TensorInfo>, b: Option<&TensorInfo>, error: Option<f64>) -> TensorChange {
        let name = a.or(b).map_or_else(String::new, |info| info.name.clone());
        let side = |info: &TensorInfo| (info.dtype, info.shape);
        TensorChange { name, a: a.map(side), b: b.map(side), error }
    }
}

/// Differences between two files.
#[derive(Debug, Clone)]
pub struct Differences {
    /// Keys that differ.
    pub keys: Vec<KeyChange>,
    /// Tensors that differ.
    pub tensors: Vec<TensorChange>,
    /// Similarities of two importance matrices that differ.
    pub importance: Option<Similarities>,
}

/// Compares two files. The order of keys and tensors, the division into shards and the byte order are ignored.
///
/// # Errors
/// A file that cannot be read; an interruption.
///
/// # Examples
/// ```no_run
/// use gguf_toolkit::diff::{DiffOptions, diff};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// let options = DiffOptions { a: "old.gguf".into(), b: "new.gguf".into(), ..DiffOptions::default() };
/// let found = diff(&options, &())?;
/// assert!(found.is_empty(), "{}", found.text());
/// # Ok(())
/// # }
/// ```
pub fn diff(options: &DiffOptions, events: &dyn Events) -> Result<Differences, Error> {
    let (a, b) = (open_model(&options.a)?, open_model(&options.b)?);
    let (keys, tensors) = (keys(&a, &b), tensors(&a, &b, options, events)?);
    let is_matrix =
        |model: &Model| model.metadata().get("general.type").and_then(Value::as_str) == Some("imatrix");
    // Matrices that cannot be read have no similarities; their bytes are still compared.
    let sums = |path: &PathBuf| Sums::open(path).ok();
    let may_differ = !options.headers && !tensors.is_empty() && is_matrix(&a) && is_matrix(&b);
    let matrices = if may_differ { sums(&options.a).zip(sums(&options.b)) } else { None };
    let importance = matrices.map(|(a, b)| Similarities::of(&a, &b));
    Ok(Differences { keys, tensors, importance })
}

impl Differences {
    /// True if the files do not differ.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.tensors.is_empty()
    }

    /// Fails unless the files of `options` are equal.
    ///
    /// # Errors
    /// The number of differences.
    pub fn verdict(&self, options: &DiffOptions) -> Result<(), Error> {
        if self.is_empty() {
            return Ok(());
        }
        let (a, b) = (options.a.display(), options.b.display());
        let (n_keys, n_tensors) = (self.keys.len(), self.tensors.len());
        Err(Error::new(format!("{a} and {b} differ in {n_keys} keys and {n_tensors} tensors")))
    }

    /// Similarities of importance matrices, then a line for each difference: `-` if only the first file has the item, `+` if only
    /// the second, `~` if it differs.
    pub fn text(&self) -> String {
        let mut text = self.importance.as_ref().map_or_else(String::new, Similarities::text);
        for KeyChange { key, a, b } in &self.keys {
            let key = printable(key);
            // Writing to a string cannot fail.
            let _ = match (a, b) {
                (Some(a), None) => writeln!(text, "- {key}: {}", short(a)),
                (None, Some(b)) => writeln!(text, "+ {key}: {}", short(b)),
                (Some(a), Some(b)) => {
                    let texts = a.as_str().zip(b.as_str());
                    match texts.filter(|(a, b)| a.contains('\n') || b.contains('\n')) {
                        Some((a, b)) => write!(text, "~ {key}:\n{}", unified(a, b)),
                        None => writeln!(text, "~ {key}: {}", change(a, b)),
                    }
                }
                (None, None) => Ok(()),
            };
        }
        let described = |(dtype, shape): &(DType, Shape)| format!("{dtype} {shape}");
        for TensorChange { name, a, b, error } in &self.tensors {
            let name = printable(name);
            let error = error.map_or(String::new(), |error| format!(", error {error:.6}"));
            let _ = match (a.as_ref().map(described), b.as_ref().map(described)) {
                (Some(a), None) => writeln!(text, "- {name}: {a}"),
                (None, Some(b)) => writeln!(text, "+ {name}: {b}"),
                (Some(a), Some(b)) if a == b => writeln!(text, "~ {name}: {a}{error}"),
                (Some(a), Some(b)) => writeln!(text, "~ {name}: {a} -> {b}{error}"),
                (None, None) => Ok(()),
            };
        }
        text
    }

    /// All differences.
    pub fn json(&self) -> Json {
        let key = |change: &KeyChange| json!({"key": change.key, "a": change.a.as_ref().map(entry), "b": change.b.as_ref().map(entry)});
        let side = |(dtype, shape): &(DType, Shape)| json!({"dtype": dtype.name(), "shape": shape.dims()});
        let tensor = |change: &TensorChange| {
            let (a, b) = (change.a.as_ref().map(side), change.b.as_ref().map(side));
            match (&a, &b) {
                (Some(_), Some(_)) => json!({"name": change.name, "a": a, "b": b, "error": change.error}),
                _ => json!({"name": change.name, "a": a, "b": b}),
            }
        };
        let mut all = json!({
            "equal": self.is_empty(),
            "keys": self.keys.iter().map(key).collect::<Vec<_>>(),
            "tensors": self.tensors.iter().map(tensor).collect::<Vec<_>>(),
        });
        if let Some(importance) = &self.importance {
            all["importance"] = json!(importance);
        }
        all
    }
}

/// Serialized as [`Differences::json`].
impl Serialize for Differences {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

/// Keys whose values differ. Keys that describe shards are ignored.
fn keys(a: &Model, b: &Model) -> Vec<KeyChange> {
    let is_of_shards = |key: &str| key.starts_with("split.") || key == gguf_container::SLACK_KEY;
    let both = side_by_side(a.metadata(), b.metadata());
    let changed = both.filter(|(key, a, b)| !is_same(*a, *b) && !is_of_shards(key));
    changed.map(|(key, a, b)| KeyChange { key: key.to_owned(), a: a.cloned(), b: b.cloned() }).collect()
}

fn tensors(
    a: &Model,
    b: &Model,
    options: &DiffOptions,
    events: &dyn Events,
) -> Result<Vec<TensorChange>, Error> {
    let cancel = events.cancel();
    let progress = events.progress(if options.headers { 0 } else { a.tensor_bytes() });
    let keeps_ranks = [a, b].into_iter().any(|model| {
        let shapes = model.tensors().map(|(_, info)| (info.name.as_str(), info.shape));
        gguf_models::FAMILIES.ranks(model.metadata(), shapes) == Ranks::Stored
    });
    let mut changes = Vec::new();
    for (file_a, info_a) in a.tensors() {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::interrupted());
        }
        let Some((file_b, info_b)) = b.tensor(&info_a.name) else {
            changes.push(TensorChange::new(Some(info_a), None, None));
            continue;
        };
        let same_values = info_a.shape.matches(info_b.shape.dims());
        // Trailing ones matter in diffusion models only.
        let same_shape = same_values && (!keeps_ranks || info_a.shape == info_b.shape);
        let error = if same_values && !options.headers {
            error_of((file_a, info_a), (file_b, info_b), options.level)?
        } else {
            None
        };
        progress.add(info_a.n_bytes);
        let same_type = info_a.dtype == info_b.dtype;
        // Values of different types may be equal.
        if !same_shape || !same_type || error.is_some() {
            changes.push(TensorChange::new(Some(info_a), Some(info_b), error));
        }
    }
    let only_b = b.tensors().filter(|(_, info)| a.tensor(&info.name).is_none());
    changes.extend(only_b.map(|(_, info)| TensorChange::new(None, Some(info), None)));
    Ok(changes)
}

/// Elements that are compared at a time: whole blocks of every type.
const PIECE_ELEMS: u64 = 1 << 20;

/// Relative error of the values of `b`; `None` if types and bytes are equal, NaN if a type has no decoder.
fn error_of<'a>(
    a: (&'a File, &'a TensorInfo),
    b: (&'a File, &'a TensorInfo),
    level: Level,
) -> Result<Option<f64>, Error> {
    let n_elems = a.1.shape.n_elems();
    let same_type = a.1.dtype == b.1.dtype;
    let has_codecs = gguf_quant::codec(a.1.dtype).is_some() && gguf_quant::codec(b.1.dtype).is_some();
    let pieces = || (0..n_elems).step_by(PIECE_ELEMS as usize).map(|at| at..(at + PIECE_ELEMS).min(n_elems));
    // The blocks of a run of elements, and where they lie.
    let piece = |(file, info): (&'a File, &TensorInfo), elems: &Range<u64>| {
        let bytes = |elems: u64| (elems / info.dtype.block_elems() * info.dtype.block_bytes()) as usize;
        let from = file.range(info).map_err(Error::new)?.start;
        let range = from + bytes(elems.start)..from + bytes(elems.end);
        Ok::<_, Error>((range.clone(), file.endian().to_little(info.dtype, &file.bytes()[range])))
    };
    let done = |range_a, range_b| {
        a.0.bytes().advise(Advice::DoneWith, range_a);
        b.0.bytes().advise(Advice::DoneWith, range_b);
    };
    // Most tensors of two files that are compared are equal, and comparing bytes is much faster than decoding them.
    let mut is_equal = same_type;
    for elems in pieces() {
        if !is_equal {
            break;
        }
        let ((range_a, blocks_a), (range_b, blocks_b)) = (piece(a, &elems)?, piece(b, &elems)?);
        is_equal = blocks_a == blocks_b;
        done(range_a, range_b);
    }
    if is_equal {
        return Ok(None);
    }
    if !has_codecs {
        return Ok(Some(f64::NAN));
    }
    let (mut difference, mut size) = (0f64, 0f64);
    for elems in pieces() {
        let decoded = |dtype, blocks: &[u8]| {
            let mut values = vec![0.0; (elems.end - elems.start) as usize];
            gguf_quant::decode(dtype, level, blocks, &mut values).map_err(Error::new)?;
            Ok::<_, Error>(values)
        };
        let ((range_a, blocks_a), (range_b, blocks_b)) = (piece(a, &elems)?, piece(b, &elems)?);
        let values_a = decoded(a.1.dtype, &blocks_a)?;
        size += values_a.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
        if !(same_type && blocks_a == blocks_b) {
            let values_b = decoded(b.1.dtype, &blocks_b)?;
            let pairs = values_a.iter().zip(&values_b);
            difference += pairs.map(|(a, b)| (f64::from(*b) - f64::from(*a)).powi(2)).sum::<f64>();
        }
        done(range_a, range_b);
    }
    Ok(Some(if difference == 0.0 { 0.0 } else { (difference / size).sqrt() }))
}
