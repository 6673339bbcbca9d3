//! Tensors of a checkpoint while codes and scales are replaced by decoded tensors.
//!
//! A method is a list of [`Taker`]s. Each finds its tensors by suffix and type, checks them, and replaces
//! them with one tensor. All takers of a method run in order on the same assembly, so that files with mixed
//! formats need no special handling; tensors that no taker used are an error at the end.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use super::{
    checks::{mismatch, shape_error, wrong_dtype},
    quantized::{Decoded, Quantized},
};
use crate::{
    Dtype, Error, Stored, Tensor,
    codes::{FLOATS, Fold, Strided},
};

pub(crate) type Taker = fn(&mut Assembly<'_>) -> Result<(), Error>;

/// Suffixes of tensors that describe activations or a cache. They are left out, because outputs do not
/// quantize those.
const OF_ACTIVATIONS: &[&str] = &[
    ".input_scale",
    "_input_scale",
    ".input_scale_ub",
    ".output_scale",
    "_output_scale",
    ".activation_scale",
    "_activation_scale",
    "_act_per_tensor_scale",
    ".qscale_act",
    ".k_scale",
    ".v_scale",
    ".q_scale",
    ".kv_scale",
    ".input_global_scale",
    ".k_global_scale",
    ".v_global_scale",
    ".q_global_scale",
    ".input_zero_point",
    ".output_zero_point",
];

/// Suffixes of tensors that are useless without their counterparts.
const OF_CODES: &[&str] = &[
    "_scale_inv",
    ".weight_scale_2",
    ".weight_scale",
    ".qscale_weight",
    ".scale_weight",
    ".weight_zero_point",
    ".weight_global_scale",
    ".weight_shape",
    ".weight_g_idx",
    ".weight_packed",
    "_proj_scale",
    "_proj_weight_scale",
    ".qweight",
    ".qzeros",
    ".g_idx",
    "._data",
    "._scale",
    "._shift",
    "._weight_qdata",
    "._weight_scale",
    "._weight_zero_point",
    "._weight_scale_and_zero",
    "._weight_act_pre_scale",
    "._weight_per_tensor_scale",
    ".pre_quant_scale",
    ".embedding_quantized",
    ".embedding_scale",
];

#[derive(Debug)]
enum Fate {
    Used,
    Becomes(Tensor),
}

/// Tensors of a checkpoint with their outcomes.
#[derive(Debug)]
pub(crate) struct Assembly<'a> {
    pub quantized: &'a Quantized<'a>,
    by_name: HashMap<&'a str, &'a Tensor>,
    fates: HashMap<&'a str, Fate>,
    last: Vec<Tensor>,
    /// Tensors that are left out, by reason.
    left_out: BTreeMap<&'static str, Vec<&'a str>>,
    notes: Vec<String>,
}

pub(crate) fn assemble(quantized: &Quantized<'_>, takers: &[Taker]) -> Result<Decoded, Error> {
    let mut assembly = Assembly::new(quantized);
    for take in takers {
        take(&mut assembly)?;
    }
    assembly.finish()
}

impl<'a> Assembly<'a> {
    pub fn new(quantized: &'a Quantized<'a>) -> Assembly<'a> {
        Assembly {
            quantized,
            by_name: quantized.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect(),
            fates: HashMap::new(),
            last: Vec::new(),
            left_out: BTreeMap::new(),
            notes: Vec::new(),
        }
    }

    /// Tensors that no taker has used yet, in checkpoint order.
    pub fn left(&self) -> Vec<&'a Tensor> {
        let all = self.quantized.tensors.iter();
        all.filter(|tensor| !self.fates.contains_key(tensor.name.as_str())).collect()
    }

    /// The tensor with this name, taken or not.
    pub fn get(&self, name: &str) -> Option<&'a Tensor> {
        self.by_name.get(name).copied()
    }

    /// The part `name`, if it exists; it must have one of `dtypes`.
    pub fn optional(&self, name: &str, dtypes: &[Dtype]) -> Result<Option<&'a Tensor>, Error> {
        match self.get(name) {
            Some(part) if !dtypes.contains(&part.dtype) => {
                let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
                let expected = match &names[..] {
                    [lead @ .., last] if !lead.is_empty() => format!("{} or {last}", lead.join(", ")),
                    names => names.concat(),
                };
                Err(wrong_dtype(part, expected))
            }
            part => Ok(part),
        }
    }

    /// Like [`Assembly::optional`], for a required part.
    pub fn part(&self, codes: &Tensor, name: &str, dtypes: &[Dtype]) -> Result<&'a Tensor, Error> {
        let missing = || Error::PartMissing { tensor: name.to_owned(), codes: codes.name.clone() };
        self.optional(name, dtypes)?.ok_or_else(missing)
    }

    /// Like [`Assembly::part`], for floats.
    pub fn floats(&self, codes: &Tensor, name: &str) -> Result<&'a Tensor, Error> {
        self.part(codes, name, FLOATS)
    }

    /// The part `name`, whose type the caller checks.
    pub fn companion(&self, codes: &Tensor, name: &str) -> Result<&'a Tensor, Error> {
        self.get(name).ok_or_else(|| mismatch(codes, format!("`{name}`"), "no such tensor"))
    }

    /// Takes the factors of `n_columns` columns, if the tensor `name` exists.
    pub fn fold(&mut self, codes: &Tensor, name: &str, n_columns: u64) -> Result<Option<Fold>, Error> {
        let Some(factors) = self.optional(name, FLOATS)? else { return Ok(None) };
        if factors.shape.iter().product::<u64>() != n_columns {
            return Err(shape_error(factors, codes, "a factor for each input"));
        }
        self.used(factors);
        self.note(format!("tensor `{name}` is folded into the columns of its matrix"));
        Ok(Some(Fold { factors: Strided { group_stride: 1, ..Strided::one(factors) }, divides: false }))
    }

    /// Replaces the codes with the tensor `name` of `shape`.
    pub fn put(&mut self, codes: &'a Tensor, name: String, shape: Vec<u64>, stored: Arc<dyn Stored>) {
        self.fates.insert(&codes.name, Fate::Becomes(decoded(codes, name, shape, stored)));
    }

    /// Appends the tensor `name` of `shape` after all others: the reference's position for tensors that were
    /// stored by columns or packed.
    pub fn put_last(&mut self, codes: &'a Tensor, name: String, shape: Vec<u64>, stored: Arc<dyn Stored>) {
        self.used(codes);
        self.last.push(decoded(codes, name, shape, stored));
    }

    /// Marks a tensor as part of another: scales, zeros, a shape.
    pub fn used(&mut self, tensor: &'a Tensor) {
        self.fates.insert(&tensor.name, Fate::Used);
    }

    /// Leaves a tensor out; one note counts those of a reason.
    pub fn leave(&mut self, tensor: &'a Tensor, reason: &'static str) {
        self.used(tensor);
        self.left_out.entry(reason).or_default().push(&tensor.name);
    }

    /// Adds a note, one line.
    pub fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// Returns all tensors; unused ones are unchanged.
    ///
    /// # Errors
    /// [`Error::ScalesWithoutCodes`] and [`Error::CodesWithoutScales`] for unused codes and scales.
    pub fn finish(mut self) -> Result<Decoded, Error> {
        for tensor in self.left() {
            if OF_ACTIVATIONS.iter().any(|ending| tensor.name.ends_with(ending)) {
                self.leave(tensor, "the quantization of activations and caches is not stored in a GGUF file");
                continue;
            }
            let is_part = OF_CODES.iter().any(|ending| tensor.name.ends_with(ending));
            if is_part || tensor.dtype == Dtype::F8_E8M0 {
                return Err(Error::ScalesWithoutCodes { tensor: tensor.name.clone() });
            }
            if tensor.is_code() || matches!(tensor.dtype, Dtype::F8_E4M3 | Dtype::F8_E5M2) {
                return Err(Error::CodesWithoutScales { tensor: tensor.name.clone(), dtype: tensor.dtype });
            }
        }
        let mut tensors = Vec::with_capacity(self.quantized.tensors.len());
        for tensor in self.quantized.tensors {
            match self.fates.remove(tensor.name.as_str()) {
                None => tensors.push(tensor.clone()),
                Some(Fate::Becomes(decoded)) => tensors.push(decoded),
                Some(Fate::Used) => {}
            }
        }
        tensors.append(&mut self.last);
        for (reason, names) in &self.left_out {
            let [first, rest @ ..] = &names[..] else { continue };
            let rest = gguf_types::and_more(rest.len());
            self.notes.push(format!("tensor `{first}`{rest} omitted: {reason}"));
        }
        Ok(Decoded { tensors, notes: self.notes })
    }
}

/// Tensor that `codes` decode to.
fn decoded(codes: &Tensor, name: String, shape: Vec<u64>, stored: Arc<dyn Stored>) -> Tensor {
    let Tensor { part, begin, end, .. } = *codes;
    Tensor { name, dtype: Dtype::F32, shape, part, begin, end, stored: Some(stored) }
}
