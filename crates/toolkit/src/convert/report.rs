//! Report of planned or written files, as text and JSON.

use std::{
    collections::BTreeMap,
    fmt::Write,
    path::{Path, PathBuf},
};

use gguf_checkpoint::Checkpoint;
use gguf_container::PlannedTensor;
use gguf_conversion::{Choice, PlannedFile, Repacked, recipes::Reason};
use gguf_layout::Data;
use gguf_types::{DType, Words};
use serde::{Serialize, Serializer};

use crate::{
    calibration::Gained,
    error::Error,
    settings::Settings,
    table::{table, wrapped},
    text::{human_bytes, pretty_json, printable},
    totals::Total,
};

/// The planned or written files.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Path of the input.
    pub input: String,
    /// Format of the input.
    pub format: &'static str,
    /// Architecture of the model.
    pub architecture: String,
    /// True if the files were only planned.
    pub dry_run: bool,
    /// The files.
    pub outputs: Vec<OutputFile>,
    /// Tensors of the input that no file contains.
    pub dropped: Vec<DroppedTensor>,
    /// Notes and warnings.
    pub notes: Vec<String>,
    /// Gains of each output from calibration; empty without it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub calibration: Vec<Gained>,
    /// For a file type with fallbacks, its name and what gives a smaller file.
    #[serde(skip)]
    pub(super) advice: Vec<(String, Words)>,
}

/// A planned or written file.
#[derive(Debug, Clone, Serialize)]
pub struct OutputFile {
    /// Its path.
    #[serde(serialize_with = "shown")]
    pub path: PathBuf,
    /// Name of its file type.
    #[serde(rename = "type")]
    pub file_type: &'static str,
    /// Number of its file type, as `general.file_type` stores it.
    #[serde(rename = "file_type")]
    pub file_type_id: u32,
    /// Length in bytes.
    #[serde(rename = "bytes")]
    pub n_bytes: u64,
    /// Bits stored for each weight, scales included.
    pub bits_per_weight: f64,
    /// Sums over the tensors of each dtype, by its name.
    pub totals: BTreeMap<&'static str, Total>,
    /// The tensors, in the order of the file.
    pub tensors: Vec<OutputTensor>,
    /// Kept and decoded tensors of a quantized checkpoint: a line for each kind. Empty unless keeping was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub repack: Vec<String>,
}

/// A tensor of a planned or written file.
#[derive(Debug, Clone, Serialize)]
pub struct OutputTensor {
    /// Its name.
    pub name: String,
    /// Its shape, row length first.
    pub shape: Vec<u64>,
    /// Stored format of its source.
    pub from: String,
    /// Its dtype.
    #[serde(with = "crate::by_name::single")]
    pub dtype: DType,
    /// Offset in the data of the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    #[serde(rename = "bytes")]
    pub n_bytes: u64,
    /// Reason for the dtype.
    pub reason: String,
    /// Name of the dtype that the row length did not allow.
    pub fallback_from: Option<&'static str>,
    /// True if the dtype requires importance data.
    pub requires_imatrix: bool,
    /// Outcome of keeping quantized weights: `kept`, or the reason why they are decoded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repack: Option<String>,
}

/// A tensor of the input that no file contains.
#[derive(Debug, Clone, Serialize)]
pub struct DroppedTensor {
    /// Its name.
    pub name: String,
    /// Reason for leaving it out.
    pub reason: &'static str,
}

fn shown<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
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
    pub dropped: &'a [gguf_layout::Dropped],
    /// Notes and warnings.
    pub notes: Vec<String>,
    /// Stored format of the source of each tensor.
    pub stored_as: &'a [String],
    /// Outcome of keeping quantized weights for each tensor; empty if it was not requested.
    pub repacked: &'a [Repacked],
    /// Settings that the types were chosen by.
    pub settings: &'a Settings,
}

impl Report {
    /// Reports planned files.
    pub fn new(origin: &Origin<'_>, files: &[(PathBuf, &PlannedFile)], dry_run: bool) -> Report {
        let output = |(path, file): &(PathBuf, &PlannedFile)| {
            let mut totals: BTreeMap<&'static str, Total> = BTreeMap::new();
            let tensor = |(choice, planned): (&Choice, &PlannedTensor)| {
                let reason = origin.settings.reason(choice, &planned.name);
                let made = origin.repacked.get(choice.tensor);
                totals.entry(choice.dtype.name()).or_default().add(planned.shape, planned.n_bytes);
                OutputTensor {
                    name: planned.name.clone(),
                    shape: planned.shape.dims().to_vec(),
                    from: origin.stored_as[choice.tensor].clone(),
                    dtype: choice.dtype,
                    offset: planned.offset,
                    n_bytes: planned.n_bytes,
                    repack: made.and_then(|made| repack(choice, &reason, made)),
                    reason: match choice.raised_from {
                        Some(lacking) => format!("no importance data for {lacking}; {reason}"),
                        None => reason,
                    },
                    fallback_from: choice.fallback.map(|fallback| fallback.preferred.name()),
                    requires_imatrix: choice.requires_imatrix,
                }
            };
            let tensors: Vec<OutputTensor> =
                file.choices.iter().zip(file.plan.tensors()).map(tensor).collect();
            OutputFile {
                path: path.clone(),
                file_type: file.recipe.canonical_name(),
                file_type_id: file.recipe.file_type.id(),
                n_bytes: file.plan.file_len(),
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
                .map(|tensor| DroppedTensor { name: tensor.name.clone(), reason: tensor.reason })
                .collect(),
            notes: origin.notes.clone(),
            calibration: Vec::new(),
            advice: Vec::new(),
        }
    }

    /// Paths of the files.
    pub fn paths(&self) -> Vec<PathBuf> {
        self.outputs.iter().map(|output| output.path.clone()).collect()
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
                printable(&output.path.display().to_string()),
                output.file_type,
                self.architecture,
                output.n_bytes,
                human_bytes(output.n_bytes),
                output.bits_per_weight
            );
            let header = ["dtype", "tensors", "elements", "bytes", ""];
            let mut rows = vec![header.map(str::to_owned).to_vec()];
            rows.extend(output.totals.iter().map(|(dtype, total)| total.row(dtype)));
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

    /// Outcomes of keeping quantized weights for all outputs, as lines.
    pub fn repacks(&self) -> impl Iterator<Item = &String> {
        self.outputs.iter().flat_map(|output| &output.repack)
    }

    /// Row lengths that did not allow the dtype of the recipe: a line for each kind, and one about the size of the file.
    pub fn fallbacks(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for output in &self.outputs {
            let mut kinds: BTreeMap<(u64, &str, &str), Vec<&str>> = BTreeMap::new();
            for tensor in &output.tensors {
                if let Some(wanted) = tensor.fallback_from {
                    let row_elems = tensor.shape.first().copied().unwrap_or(1);
                    kinds.entry((row_elems, wanted, tensor.dtype.name())).or_default().push(&tensor.name);
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
                    output.file_type
                ));
            }
            lines.extend(output.cost_of_fallbacks().map(|cost| {
                let advice = self.advice.iter().find(|(name, _)| *name == output.file_type);
                advice.map_or_else(|| cost.clone(), |(_, advice)| format!("{cost}; {advice}"))
            }));
        }
        lines
    }
}

impl OutputFile {
    /// Size that fallbacks add. None without fallbacks.
    fn cost_of_fallbacks(&self) -> Option<String> {
        let (mut n_elems, mut n_bits, mut wanted_bits) = (0.0, 0.0, 0.0);
        for tensor in &self.tensors {
            let Some(Ok(wanted)) = tensor.fallback_from.map(DType::from_name) else { continue };
            let elems: f64 = tensor.shape.iter().map(|dim| *dim as f64).product();
            n_elems += elems;
            n_bits += tensor.n_bytes as f64 * 8.0;
            wanted_bits += elems * wanted.bits_per_elem();
        }
        if n_elems == 0.0 {
            return None;
        }
        let all_elems: u64 = self.totals.values().map(|total| total.elements).sum();
        let added = n_bits - wanted_bits;
        Some(format!(
            "{}: fallbacks add {:.2} bits/weight ({})",
            self.file_type,
            added / all_elems.max(1) as f64,
            human_bytes((added / 8.0) as u64)
        ))
    }

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
                tensor.dtype.name().to_owned(),
                tensor.n_bytes.to_string(),
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

impl OutputTensor {
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
fn repack(choice: &Choice, reason: &str, made: &Repacked) -> Option<String> {
    match made {
        Repacked::Plain => None,
        Repacked::Kept(_) if choice.reason == Reason::Repacked => Some(KEPT.to_owned()),
        Repacked::Kept(_) => Some(format!("its type is set by another rule ({reason})")),
        Repacked::Decoded(why) => Some(why.clone()),
    }
}

/// A line for each type that tensors are kept as, and for each reason why others are not.
fn repack_lines(tensors: &[OutputTensor]) -> Vec<String> {
    let mut kinds: BTreeMap<(bool, &str), Vec<&str>> = BTreeMap::new();
    for tensor in tensors {
        match tensor.repack.as_deref() {
            Some(KEPT) => kinds.entry((false, tensor.dtype.name())).or_default().push(&tensor.name),
            Some(why) => kinds.entry((true, why)).or_default().push(&tensor.name),
            None => {}
        }
    }
    let line = |((is_decoded, what), names): ((bool, &str), Vec<&str>)| {
        let which = match &names[..] {
            [first, rest @ ..] if !rest.is_empty() => format!("`{first}` and {} more", rest.len()),
            names => names.iter().map(|name| format!("`{name}`")).collect(),
        };
        if is_decoded {
            format!("repack: {which} decoded: {what}")
        } else {
            format!("repack: {which} kept, the same values as {what}")
        }
    };
    kinds.into_iter().map(line).collect()
}

/// Stored format of the source of a tensor.
pub fn stored_as(checkpoint: &Checkpoint, data: &Data) -> String {
    match data {
        Data::Computed(_) => "computed".to_owned(),
        Data::Integers { .. } => "integers".to_owned(),
        Data::Combined { .. } | Data::Extended { .. } | Data::SideBySide { .. } => {
            "several tensors".to_owned()
        }
        Data::Columns { source, .. } | Data::Scattered { source, .. } => {
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
