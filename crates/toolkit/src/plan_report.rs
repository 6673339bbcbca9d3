//! Report of a plan, as text (`--dry-run`) and JSON (`--json`).

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};

use gguf_checkpoint::Checkpoint;
use gguf_container::PlannedTensor;
use gguf_conversion::{Choice, PlannedFile, Repacked, recipes::Reason};
use gguf_models::Data;
use serde::Serialize;

use crate::{
    calibration::Gained,
    error::Error,
    table::{table, wrapped},
    text::{human_bytes, pretty_json, printable},
};

/// The planned or written files.
#[derive(Debug, Serialize)]
pub struct Report {
    input: String,
    format: &'static str,
    architecture: String,
    dry_run: bool,
    outputs: Vec<Output>,
    dropped: Vec<Dropped>,
    notes: Vec<String>,
    /// Gains of each output, with `--calibrate`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<Gained>,
}

#[derive(Debug, Serialize)]
struct Output {
    path: String,
    r#type: &'static str,
    file_type: u32,
    bytes: u64,
    bits_per_weight: f64,
    totals: BTreeMap<&'static str, Total>,
    tensors: Vec<Tensor>,
    /// Kept and decoded tensors, with `--repack`: a line for each kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    repack: Vec<String>,
}

#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Total {
    tensors: u64,
    elements: u64,
    bytes: u64,
}

#[derive(Debug, Serialize)]
struct Tensor {
    name: String,
    /// Row length first.
    shape: Vec<u64>,
    from: String,
    dtype: &'static str,
    offset: u64,
    bytes: u64,
    reason: String,
    /// The dtype that the row length did not allow.
    fallback_from: Option<&'static str>,
    requires_imatrix: bool,
    /// With `--repack`, of quantized weights: `kept`, or why they are decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    repack: Option<String>,
}

#[derive(Debug, Serialize)]
struct Dropped {
    name: String,
    reason: &'static str,
}

/// Source of the files.
pub struct Origin<'a> {
    /// Path of the input.
    pub input: &'a Path,
    /// Its format.
    pub format: &'static str,
    /// Architecture of the model.
    pub architecture: &'a str,
    /// Tensors that have no place in the output.
    pub dropped: &'a [gguf_models::Dropped],
    /// Notes and warnings.
    pub notes: Vec<String>,
    /// Stored format of the source of each tensor.
    pub stored_as: &'a [String],
    /// Outcome of `--repack` for each tensor; empty without it.
    pub repacked: &'a [Repacked],
}

impl Report {
    /// Reports planned files.
    pub fn new(origin: &Origin<'_>, files: &[(PathBuf, &PlannedFile)], dry_run: bool) -> Report {
        let output = |(path, file): &(PathBuf, &PlannedFile)| {
            let mut totals: BTreeMap<&'static str, Total> = BTreeMap::new();
            let tensor = |(choice, planned): (&Choice, &PlannedTensor)| {
                let total = totals.entry(choice.dtype.name()).or_default();
                total.tensors += 1;
                total.elements += planned.shape.n_elems();
                total.bytes += planned.n_bytes;
                Tensor {
                    name: planned.name.clone(),
                    shape: planned.shape.dims().to_vec(),
                    from: origin.stored_as[choice.tensor].clone(),
                    dtype: choice.dtype.name(),
                    offset: planned.offset,
                    bytes: planned.n_bytes,
                    reason: reason(choice),
                    fallback_from: choice.fallback.map(|fallback| fallback.preferred.name()),
                    requires_imatrix: choice.requires_imatrix,
                    repack: origin.repacked.get(choice.tensor).and_then(|made| repack(choice, made)),
                }
            };
            let tensors: Vec<Tensor> = file.choices.iter().zip(file.plan.tensors()).map(tensor).collect();
            Output {
                path: path.display().to_string(),
                r#type: file.recipe.alias_of.unwrap_or(file.recipe.name),
                file_type: file.recipe.file_type.id(),
                bytes: file.plan.file_len(),
                bits_per_weight: file.bits_per_weight(),
                totals,
                repack: repack_lines(&tensors),
                tensors,
            }
        };
        let dropped = origin.dropped.iter();
        Report {
            input: origin.input.display().to_string(),
            format: origin.format,
            architecture: origin.architecture.to_owned(),
            dry_run,
            outputs: files.iter().map(output).collect(),
            dropped: dropped
                .map(|tensor| Dropped { name: tensor.name.clone(), reason: tensor.reason })
                .collect(),
            notes: origin.notes.clone(),
            calibration: Vec::new(),
        }
    }

    /// Returns the report as one JSON object.
    ///
    /// # Errors
    /// A serialization error.
    pub fn json(&self) -> Result<String, Error> {
        pretty_json(self)
    }

    /// A summary of each file, and its tensors if `lists_tensors`.
    pub fn text(&self, lists_tensors: bool) -> String {
        let mut text = String::new();
        for output in &self.outputs {
            // Writing to a string cannot fail.
            let _ = writeln!(
                text,
                "{}: {} of {}\n{} bytes ({}), {:.2} bits/weight\n",
                printable(&output.path),
                output.r#type,
                self.architecture,
                output.bytes,
                human_bytes(output.bytes),
                output.bits_per_weight
            );
            let header = ["dtype", "tensors", "elements", "bytes", ""];
            let mut rows = vec![header.map(str::to_owned).to_vec()];
            for (dtype, total) in &output.totals {
                let Total { tensors, elements, bytes } = total;
                let size = human_bytes(*bytes);
                rows.push(vec![
                    (*dtype).into(),
                    tensors.to_string(),
                    elements.to_string(),
                    bytes.to_string(),
                    size,
                ]);
            }
            text += &table(&rows, &[1, 2, 3, 4]);
            for line in &output.repack {
                text += &wrapped(line, 4);
            }
            if lists_tensors {
                text.push('\n');
                text += &output.tensor_list();
            }
            text.push('\n');
        }
        for dropped in &self.dropped {
            text += &wrapped(&format!("left out: {}: {}", printable(&dropped.name), dropped.reason), 4);
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }

    /// Outcomes of `--repack` for all outputs, as lines.
    pub fn repacks(&self) -> impl Iterator<Item = &String> {
        self.outputs.iter().flat_map(|output| &output.repack)
    }

    /// Row lengths that did not allow the dtype of the recipe: a line for each kind.
    pub fn fallbacks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for output in &self.outputs {
            let mut kinds: BTreeMap<(u64, &str, &str), Vec<&str>> = BTreeMap::new();
            for tensor in &output.tensors {
                if let Some(wanted) = tensor.fallback_from {
                    let row_elems = tensor.shape.first().copied().unwrap_or(1);
                    kinds.entry((row_elems, wanted, tensor.dtype)).or_default().push(&tensor.name);
                }
            }
            for ((row_elems, wanted, dtype), names) in kinds {
                let which = match &names[..] {
                    [only] => format!("tensor `{only}`: a row"),
                    [first, rest @ ..] => format!("tensor `{first}` and {} more: rows", rest.len()),
                    [] => continue,
                };
                lines.push(format!(
                    "{}: {which} of {row_elems} elements cannot be stored as {wanted}; using {dtype}",
                    output.r#type
                ));
            }
        }
        lines
    }
}

impl Output {
    /// A table of the tensors. Reasons stand below it and have numbers, so that rows stay short.
    fn tensor_list(&self) -> String {
        let header = ["name", "shape", "from", "to", "bytes", "why"];
        let (mut rows, mut reasons) = (vec![header.map(str::to_owned).to_vec()], Vec::new());
        for tensor in &self.tensors {
            let why = tensor.why().map_or(String::new(), |why| {
                let known = reasons.iter().position(|reason| *reason == why);
                let index = known.unwrap_or(reasons.len());
                if known.is_none() {
                    reasons.push(why);
                }
                format!("[{}]", index + 1)
            });
            rows.push(vec![
                printable(&tensor.name),
                format!("{:?}", tensor.shape),
                tensor.from.clone(),
                tensor.dtype.into(),
                tensor.bytes.to_string(),
                why,
            ]);
        }
        let mut text = table(&rows, &[4]);
        for (index, reason) in reasons.iter().enumerate() {
            text += if index == 0 { "\n" } else { "" };
            text += &wrapped(&format!("[{}] {reason}", index + 1), 4);
        }
        text
    }
}

impl Tensor {
    /// Reason for the type, unless the file type's default applies.
    fn why(&self) -> Option<String> {
        let is_default = self.reason == Reason::Default.to_string();
        let reason = match self.fallback_from {
            Some(wanted) => {
                Some(format!("row length is not a multiple of the {wanted} block size; {}", self.reason))
            }
            None => (!is_default).then(|| self.reason.clone()),
        };
        let decoded = self.repack.as_deref().filter(|outcome| *outcome != KEPT);
        let decoded = decoded.map(|why| format!("decoded: {why}"));
        match (reason, decoded) {
            (Some(reason), Some(decoded)) => Some(format!("{reason}; {decoded}")),
            (reason, decoded) => reason.or(decoded),
        }
    }
}

/// Label of a tensor whose blocks hold the values of the checkpoint.
const KEPT: &str = "kept";

/// Label of a tensor: kept, or the reason why not.
fn repack(choice: &Choice, made: &Repacked) -> Option<String> {
    match made {
        Repacked::Plain => None,
        Repacked::Kept(_) if choice.reason == Reason::Repacked => Some(KEPT.to_owned()),
        Repacked::Kept(_) => Some(format!("its type is set by another rule ({})", choice.reason)),
        Repacked::Decoded(why) => Some(why.clone()),
    }
}

/// A line for each type that tensors are kept as, and for each reason why others are not.
fn repack_lines(tensors: &[Tensor]) -> Vec<String> {
    let mut kinds: BTreeMap<(bool, &str), Vec<&str>> = BTreeMap::new();
    for tensor in tensors {
        match tensor.repack.as_deref() {
            Some(KEPT) => kinds.entry((false, tensor.dtype)).or_default().push(&tensor.name),
            Some(why) => kinds.entry((true, why)).or_default().push(&tensor.name),
            None => {}
        }
    }
    let line = |((is_decoded, what), names): ((bool, &str), Vec<&str>)| {
        let which = match &names[..] {
            [first, rest @ ..] if !rest.is_empty() => format!("`{first}` and {} more", rest.len()),
            names => names.iter().map(|name| format!("`{name}`")).collect(),
        };
        match is_decoded {
            false => format!("repack: {which} kept, the same values as {what}"),
            true => format!("repack: {which} decoded: {what}"),
        }
    };
    kinds.into_iter().map(line).collect()
}

fn reason(choice: &Choice) -> String {
    match choice.raised_from {
        Some(lacking) => format!("no importance data for {lacking}; {}", choice.reason),
        None => choice.reason.to_string(),
    }
}

/// Stored format of the source of a tensor.
pub fn stored_as(checkpoint: &Checkpoint, data: &Data) -> String {
    match data {
        Data::Computed(_) => "computed".to_owned(),
        Data::Integers { .. } => "integers".to_owned(),
        Data::Product { .. } => "a product".to_owned(),
        Data::Columns { source, .. } => {
            let tensor = checkpoint.tensor(source);
            tensor.map_or_else(String::new, gguf_checkpoint::Tensor::stored_as)
        }
        Data::Rows { sources, .. } => {
            let mut names: Vec<String> = sources
                .iter()
                .filter_map(|name| checkpoint.tensor(name))
                .map(gguf_checkpoint::Tensor::stored_as)
                .collect();
            names.dedup();
            names.join("+")
        }
    }
}
