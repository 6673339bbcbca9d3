//! Statistics of one step in a file.
//!
//! A GGUF file without a model. The keys `gguf_tools.moments.*` record model, text and options, and which
//! sums belong to which matrix. The tensors are
//!
//! ```text
//! importance   (n_bytes) i8                  the part of `gguf_runtime::importance::Collector`
//! counts       (2, n_inputs) i64             training tokens, held-out tokens
//! fit.K        (n (n + 1) / 2) f32           input K: row i of its sums from column i on, rows concatenated
//! held.K       (n (n + 1) / 2) f32
//! ```

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use gguf_container::{
    Advice, Array, DEFAULT_ALIGNMENT, Endian, File, Metadata, Output, Strings, TensorInfo, Value,
};
use gguf_runtime::{Part, importance::Collector};
use gguf_types::{DType, Shape};

use super::{
    Input,
    plan::{Matrices, PlannedInput},
};
use crate::{Error, Gram};

/// Version of the file format and of the computation. Files of other versions are refused.
const VERSION: u64 = 1;

const TYPE: &str = "gguf_tools.moments";
const IMPORTANCE: &str = "importance";
const COUNTS: &str = "counts";

/// Bytes that are written at once.
const WRITE_BYTES: usize = 1 << 20;

/// Origin of statistics. All files of a folder agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identity {
    pub model: String,
    /// Digests of the texts, in order.
    pub texts: Vec<String>,
    pub held_every: u64,
    pub with_output: bool,
    pub activations: String,
    pub n_steps: u64,
    /// True for output gradients, false for inputs.
    pub of_outputs: bool,
}

fn key(name: &str) -> String {
    format!("{TYPE}.{name}")
}

impl Identity {
    /// The first difference from `other`: its name, our value, the other value.
    fn difference(&self, other: &Identity) -> Option<(&'static str, String, String)> {
        let fields = |identity: &Identity| {
            [
                ("model", identity.model.clone()),
                ("text", identity.texts.join(" + ")),
                ("share of held-out chunks", identity.held_every.to_string()),
                ("treatment of the output matrix", identity.with_output.to_string()),
                ("kind of activations", identity.activations.clone()),
                ("number of steps", identity.n_steps.to_string()),
                ("kind of statistics", if identity.of_outputs { "outputs" } else { "inputs" }.to_owned()),
            ]
        };
        let mut both = fields(self).into_iter().zip(fields(other));
        both.find(|(a, b)| a.1 != b.1).map(|((quantity, a), (_, b))| (quantity, a, b))
    }

    /// Fails if statistics in `path` have another origin than expected.
    pub fn check(&self, expected: &Identity, path: &Path) -> Result<(), Error> {
        match self.difference(expected) {
            None => Ok(()),
            Some((quantity, found, expected)) => {
                Err(Error::OtherMoments { path: path.to_owned(), quantity, found, expected })
            }
        }
    }

    fn metadata(&self, step: u64) -> Metadata {
        let texts = self.texts.iter().collect::<Strings>();
        let mut metadata = Metadata::from([
            ("general.type".to_owned(), Value::from("moments")),
            (key("version"), Value::U64(VERSION)),
            (key("step"), Value::U64(step)),
            (key("n_steps"), Value::U64(self.n_steps)),
            (key("model"), Value::from(self.model.as_str())),
            (key("texts"), Value::Array(Array::String(texts))),
            (key("held_every"), Value::U64(self.held_every)),
            (key("with_output"), Value::Bool(self.with_output)),
            (key("activations"), Value::from(self.activations.as_str())),
        ]);
        if self.of_outputs {
            metadata.set(key("of_outputs"), Value::Bool(true));
        }
        metadata
    }
}

fn part_text(part: Part) -> String {
    match part {
        Part::Whole => "whole".to_owned(),
        Part::Expert { index, n } => format!("expert {index}/{n}"),
        Part::Head { index, n } => format!("head {index}/{n}"),
    }
}

fn part_of(text: &str) -> Option<Part> {
    if text == "whole" {
        return Some(Part::Whole);
    }
    let (kind, numbers) = text.split_once(' ')?;
    let (index, n) = numbers.split_once('/')?;
    let (index, n) = (index.parse().ok()?, n.parse().ok()?);
    match kind {
        _ if index >= n => None,
        "expert" => Some(Part::Expert { index, n }),
        "head" => Some(Part::Head { index, n }),
        _ => None,
    }
}

/// Number of values in the upper triangle of sums over `n_columns` columns.
fn n_upper(n_columns: usize) -> Option<u64> {
    let n = n_columns as u64;
    n.checked_add(1)?.checked_mul(n).map(|twice| twice / 2)
}

pub struct StepWriter {
    output: Output,
    plan: gguf_container::Plan,
    /// Position of each input in the file.
    places: BTreeMap<Matrices, usize>,
    /// (2, n_inputs).
    counts: Vec<u64>,
}

impl StepWriter {
    /// Starts the file of `step` with the sums of `inputs` and the data of the importance matrix.
    pub(super) fn begin(
        path: &Path,
        identity: &Identity,
        step: usize,
        inputs: &[PlannedInput],
        importance: &[u8],
    ) -> Result<StepWriter, Error> {
        let mut metadata = identity.metadata(step as u64);
        let matrices = || {
            inputs.iter().enumerate().flat_map(|(at, input)| input.of.iter().map(move |matrix| (at, matrix)))
        };
        let tensors: Strings = matrices().map(|(_, (tensor, _))| tensor).collect();
        let parts: Strings = matrices().map(|(_, (_, part))| part_text(*part)).collect();
        let at: Vec<u64> = matrices().map(|(at, _)| at as u64).collect();
        metadata.set(key("matrix.tensor"), Array::String(tensors));
        metadata.set(key("matrix.part"), Array::String(parts));
        metadata.set(key("matrix.input"), Array::U64(at));
        metadata.set(key("columns"), Array::U64(inputs.iter().map(|input| input.n_columns as u64).collect()));
        let shape = |name: &str, dims: &[u64]| {
            Shape::new(dims)
                .map_err(|source| gguf_container::Error::Shape { tensor: name.to_owned(), source })
        };
        let mut planned = Vec::new();
        let mut add = |name: String, dims: &[u64], dtype: DType| -> Result<(), Error> {
            let shape = shape(&name, dims)?;
            planned.push((name, shape, dtype));
            Ok(())
        };
        if !importance.is_empty() {
            add(IMPORTANCE.to_owned(), &[importance.len() as u64], DType::I8)?;
        }
        if !inputs.is_empty() {
            add(COUNTS.to_owned(), &[2, inputs.len() as u64], DType::I64)?;
        }
        for (index, input) in inputs.iter().enumerate() {
            let n = n_upper(input.n_columns).ok_or(gguf_container::Error::FileTooLong)?;
            add(format!("fit.{index}"), &[n], DType::F32)?;
            add(format!("held.{index}"), &[n], DType::F32)?;
        }
        let plan = gguf_container::Plan::new(&metadata, planned, Endian::Little, DEFAULT_ALIGNMENT)?;
        let output = Output::create(path, plan.file_len(), true)?;
        output.write_at(0, plan.header_bytes())?;
        let places = inputs.iter().enumerate().map(|(index, input)| (input.of.clone(), index)).collect();
        let writer = StepWriter { output, plan, places, counts: vec![0; 2 * inputs.len()] };
        if !importance.is_empty() {
            writer.output.write_at(writer.offset(IMPORTANCE)?, importance)?;
        }
        Ok(writer)
    }

    fn offset(&self, name: &str) -> Result<u64, Error> {
        let missing = || Error::NotAddable { problem: format!("unplanned input `{name}`") };
        Ok(self.plan.tensor(name).ok_or_else(missing)?.offset)
    }

    /// Writes the sums of some inputs. Inputs that are never written are zero.
    pub(super) fn inputs(&mut self, inputs: &[Input]) -> Result<(), Error> {
        for input in inputs {
            let Some(index) = self.places.get(&input.of).copied() else { continue };
            for (name, gram) in [("fit", &input.fit), ("held", &input.held)] {
                self.gram(self.offset(&format!("{name}.{index}"))?, gram)?;
            }
            self.counts[2 * index] = input.fit.n_tokens();
            self.counts[2 * index + 1] = input.held.n_tokens();
        }
        Ok(())
    }

    fn gram(&self, mut offset: u64, gram: &Gram) -> Result<(), Error> {
        let (n, mut bytes) = (gram.n_columns(), Vec::with_capacity(WRITE_BYTES));
        for row in 0..n {
            let upper = &gram.sums()[row * n + row..(row + 1) * n];
            bytes.extend(upper.iter().flat_map(|sum| sum.to_le_bytes()));
            if bytes.len() >= WRITE_BYTES || row + 1 == n {
                self.output.write_at(offset, &bytes)?;
                offset += bytes.len() as u64;
                bytes.clear();
            }
        }
        Ok(())
    }

    /// Renames the file to its final name.
    pub(super) fn finish(self) -> Result<(), Error> {
        if !self.counts.is_empty() {
            let counts: Vec<u8> = self.counts.iter().flat_map(|count| count.to_le_bytes()).collect();
            self.output.write_at(self.offset(COUNTS)?, &counts)?;
        }
        Ok(self.output.finish()?)
    }
}

pub(super) fn file_name(step: usize) -> String {
    format!("step-{step:05}.gguf")
}

/// Error for a file that cannot be read or is not GGUF. Adds the path, which not every container error has.
fn unreadable(path: &Path, error: gguf_container::Error) -> Error {
    match error {
        gguf_container::Error::Io { action, source, .. } => {
            Error::Io { action, path: path.display().to_string(), source }
        }
        error => Error::BrokenMoments { path: path.to_owned(), problem: error.to_string() },
    }
}

#[derive(Debug)]
pub(super) struct StepFile {
    path: PathBuf,
    file: File,
    pub identity: Identity,
    pub step: usize,
    pub inputs: Vec<PlannedInput>,
    /// (2, n_inputs).
    counts: Vec<u64>,
}

impl StepFile {
    /// Reads everything except the sums.
    pub fn open(path: &Path) -> Result<StepFile, Error> {
        let broken =
            |problem: &str| Error::BrokenMoments { path: path.to_owned(), problem: problem.to_owned() };
        let file = File::open(path).map_err(|error| unreadable(path, error))?;
        if file.endian() != Endian::Little {
            return Err(broken("unexpected byte order (big-endian)"));
        }
        let metadata = file.metadata();
        let key_error = |error: gguf_container::KeyError| broken(&error.to_string());
        let count = |name: &str| {
            let count = metadata.count(&key(name)).map_err(key_error)?;
            count.ok_or_else(|| broken(&format!("`{}` is missing", key(name))))
        };
        let text = |name: &str| {
            let text = metadata.text(&key(name)).map_err(key_error)?;
            text.ok_or_else(|| broken(&format!("`{}` is missing", key(name))))
        };
        let texts = |name: &str| -> Result<Vec<String>, Error> {
            let texts = metadata.texts(&key(name)).map_err(key_error)?;
            let texts = texts.ok_or_else(|| broken(&format!("`{}` is missing", key(name))))?;
            let utf8 = |text: &[u8]| std::str::from_utf8(text).map(str::to_owned);
            texts.iter().map(utf8).collect::<Result<_, _>>().map_err(|_| broken("a name is not UTF-8"))
        };
        let numbers = |name: &str| match metadata.get(&key(name)) {
            Some(Value::Array(Array::U64(numbers))) => Ok(numbers.as_slice()),
            // An empty list may be of any type.
            Some(Value::Array(array)) if array.is_empty() => Ok(&[][..]),
            _ => Err(broken(&format!("`{}` is not a list of numbers", key(name)))),
        };
        let version = count("version")?;
        if version != VERSION {
            let (found, expected) = (version.to_string(), VERSION.to_string());
            return Err(Error::OtherMoments { path: path.to_owned(), quantity: "version", found, expected });
        }
        let identity = Identity {
            model: text("model")?.to_owned(),
            texts: texts("texts")?,
            held_every: count("held_every")?,
            with_output: metadata.flag(&key("with_output")).map_err(key_error)?.unwrap_or(false),
            activations: text("activations")?.to_owned(),
            n_steps: count("n_steps")?,
            of_outputs: metadata.flag(&key("of_outputs")).map_err(key_error)?.unwrap_or(false),
        };
        let step = count("step")?;
        let step = usize::try_from(step).map_err(|_| broken("step out of range"))?;
        if step as u64 >= identity.n_steps {
            return Err(broken("step out of range"));
        }
        // A renamed file must not pass for another step.
        if path.file_name() != Some(file_name(step).as_ref()) {
            return Err(broken(&format!("step {step} belongs to `{}`", file_name(step))));
        }
        let (tensors, parts, at) = (texts("matrix.tensor")?, texts("matrix.part")?, numbers("matrix.input")?);
        if tensors.len() != parts.len() || tensors.len() != at.len() {
            return Err(broken("lists of matrices differ in length"));
        }
        let width = |columns: &u64| usize::try_from(*columns).map_err(|_| broken("an input is too wide"));
        let planned = |columns: &u64| Ok(PlannedInput { of: Vec::new(), n_columns: width(columns)? });
        let mut inputs = numbers("columns")?.iter().map(planned).collect::<Result<Vec<_>, Error>>()?;
        let mut seen = BTreeSet::new();
        for ((tensor, part), at) in tensors.into_iter().zip(&parts).zip(at) {
            let part = part_of(part).ok_or_else(|| broken("unknown kind of matrix part"))?;
            if !seen.insert((tensor.clone(), part)) {
                return Err(broken("duplicate matrix"));
            }
            let input = usize::try_from(*at).ok().and_then(|at| inputs.get_mut(at));
            input.ok_or_else(|| broken("a matrix has no input"))?.of.push((tensor, part));
        }
        let mut file = StepFile { path: path.to_owned(), identity, step, inputs, counts: Vec::new(), file };
        file.check_shapes()?;
        file.counts = file.read_counts()?;
        Ok(file)
    }

    /// Checks tensor shapes against the columns, before anything is allocated.
    fn check_shapes(&self) -> Result<(), Error> {
        for (index, input) in self.inputs.iter().enumerate() {
            for name in [format!("fit.{index}"), format!("held.{index}")] {
                let missing = || self.broken(format!("missing tensor `{name}`"));
                let tensor = self.file.tensor(&name).ok_or_else(missing)?;
                if tensor.dtype != DType::F32 || Some(tensor.shape.n_elems()) != n_upper(input.n_columns) {
                    return Err(self.broken(format!("tensor `{name}` has an unexpected type or shape")));
                }
            }
        }
        Ok(())
    }

    fn read_counts(&self) -> Result<Vec<u64>, Error> {
        let counts = match self.file.tensor(COUNTS) {
            Some(tensor) if tensor.dtype == DType::I64 && !self.inputs.is_empty() => {
                let data = self.file.data(tensor).map_err(|error| unreadable(&self.path, error))?;
                let count = |word: &[u8; 8]| {
                    let count = u64::try_from(i64::from_le_bytes(*word));
                    count.map_err(|_| self.broken("negative count".to_owned()))
                };
                data.as_chunks::<8>().0.iter().map(count).collect::<Result<Vec<u64>, Error>>()?
            }
            _ => Vec::new(),
        };
        if Some(counts.len()) != self.inputs.len().checked_mul(2) {
            return Err(self.broken("expected two counts per input".to_owned()));
        }
        Ok(counts)
    }

    /// Adds this step to the importance matrix.
    pub fn add_importance_to(&self, collector: &mut Collector) -> Result<(), Error> {
        let bytes = match self.file.tensor(IMPORTANCE) {
            Some(tensor) if tensor.dtype == DType::I8 => self.data(tensor)?,
            Some(_) => return Err(self.broken("tensor `importance` is not i8".to_owned())),
            None => return Ok(()),
        };
        collector.add_part(bytes).map_err(|error| self.broken(error.to_string()))
    }

    fn data(&self, tensor: &TensorInfo) -> Result<&[u8], Error> {
        self.file.data(tensor).map_err(|error| unreadable(&self.path, error))
    }

    pub fn input(&self, index: usize) -> Result<Input, Error> {
        let planned =
            self.inputs.get(index).ok_or_else(|| self.broken(format!("input {index} is missing")))?;
        let of = planned.of.clone();
        let gram = |name: &str, count: usize| self.gram(&format!("{name}.{index}"), planned, count);
        Ok(Input { of, fit: gram("fit", 2 * index)?, held: gram("held", 2 * index + 1)? })
    }

    fn gram(&self, name: &str, planned: &PlannedInput, count: usize) -> Result<Gram, Error> {
        let broken = |problem: &str| self.broken(format!("tensor `{name}` {problem}"));
        let n = planned.n_columns;
        let tensor = self.file.tensor(name).ok_or_else(|| broken("is missing"))?;
        let mut values = self.data(tensor)?.as_chunks::<4>().0;
        let n_sums = n.checked_mul(n).ok_or_else(|| broken("is too wide"))?;
        let mut sums = vec![0.0; n_sums];
        for row in 0..n {
            let (upper, rest) = values.split_at_checked(n - row).ok_or_else(|| broken("is too short"))?;
            values = rest;
            for (sum, value) in sums[row * n + row..(row + 1) * n].iter_mut().zip(upper) {
                *sum = f32::from_le_bytes(*value);
            }
        }
        // Large, and rarely read twice.
        self.file.advise(tensor, Advice::DoneWith);
        if sums.iter().any(|sum| !sum.is_finite()) {
            return Err(broken("has non-finite values"));
        }
        Gram::from_upper(n, self.counts[count], sums).ok_or_else(|| broken("is not square"))
    }

    fn broken(&self, problem: String) -> Error {
        Error::BrokenMoments { path: self.path.clone(), problem }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_round_trip() {
        for part in [Part::Whole, Part::Expert { index: 2, n: 3 }, Part::Head { index: 0, n: 1 }] {
            assert_eq!(part_of(&part_text(part)), Some(part));
        }
        for text in ["", "whole 1/2", "expert", "expert 3/3", "expert -1/3", "head 1", "other 0/1"] {
            assert_eq!(part_of(text), None, "{text}");
        }
    }
}
