//! From the values of a pickle to tensors: the names of a state dict and the locations of its storages.
//!
//! ```text
//! {name: _rebuild_tensor_v2(storage, offset, size, stride, ...), ...}
//! storage = ('storage', class, key, location, elements[, view])
//! ```
//!
//! Offset, size and stride count elements. Element (i, j, ..) of a tensor is element offset + i stride[0] + j
//! stride[1] + .. of its storage. Strides matter: a transposed matrix is saved untransposed with its strides
//! exchanged, and several tensors may share one storage.
//!
//! Source: `_rebuild_tensor_v2` and the functions around it in `_utils.py` of torch 2.15.

use std::ops::Range;

use gguf_types::and_more;

use super::{
    globals::Global,
    pickle::{Id, Pickle, Value},
};
use crate::{Dtype, pickle_error::PickleError};

/// Keys that may contain the state dict: Meta and others, Lightning, DeepSpeed, and hand-written loops.
const WRAPPERS: &[&str] = &["model", "state_dict", "module", "model_state_dict"];
/// Maximum number of calls around a tensor: a parameter around a subclass around a tensor.
const MAX_DEPTH: usize = 8;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StorageName<'a> {
    pub key: &'a str,
    /// Type of its elements; `None` for untyped bytes.
    pub dtype: Option<Dtype>,
    /// Number of elements, or of bytes if untyped.
    pub numel: u64,
    /// First element and number of elements of a view, in files of torch 0.3.
    pub view: Option<(u64, u64)>,
}

impl StorageName<'_> {
    /// Bytes of the entire storage.
    pub fn n_bytes(&self) -> Option<u64> {
        match self.dtype {
            Some(dtype) => dtype.n_bytes(self.numel),
            None => Some(self.numel),
        }
    }
}

/// A tensor as described by the pickle.
#[derive(Debug)]
pub(super) struct Pickled<'a> {
    pub name: &'a str,
    pub dtype: Dtype,
    pub storage: StorageName<'a>,
    pub offset: u64,
    pub shape: Vec<u64>,
    pub strides: Vec<u64>,
}

/// Tensors of a pickle in order, and notes about the rest.
#[derive(Debug)]
pub(super) struct StateDict<'a> {
    pub tensors: Vec<Pickled<'a>>,
    pub notes: Vec<String>,
}

/// Finds the state dict of a pickle.
pub(super) fn find<'a>(pickle: &Pickle<'a>) -> Result<StateDict<'a>, PickleError> {
    let none = |found: &str| PickleError::NotAStateDict { found: found.to_owned() };
    let top = pickle.pairs(pickle.top).ok_or_else(|| none("found another value"))?;
    let mut notes = Vec::new();
    // Top-level tensors are the model's; a wrapper does not have any.
    let mut pairs = top;
    if !top.iter().any(|(_, value)| is_tensor(pickle, *value)) {
        let under =
            |key: &str| top.iter().find(|(name, _)| pickle.text(*name) == Some(key)).map(|(_, value)| *value);
        let dict = WRAPPERS.iter().find_map(|key| Some((key, pickle.pairs(under(key)?)?)));
        let (key, inner) = dict.ok_or_else(|| none("found neither tensors nor a known key with tensors"))?;
        let ignored: Vec<&str> =
            top.iter().filter_map(|(name, _)| pickle.text(*name)).filter(|name| name != key).collect();
        if !ignored.is_empty() {
            notes.push(format!("tensors are read from key `{key}`; ignored: {}", listed(&ignored)));
        }
        pairs = inner;
    }
    let mut tensors = Vec::with_capacity(pairs.len());
    let mut skipped = Vec::new();
    for (name, value) in pairs {
        let name = pickle.text(*name).ok_or_else(|| none("found a key that is not a string"))?;
        match tensor(pickle, name, *value)? {
            Some(tensor) => tensors.push(tensor),
            None if is_harmless(pickle, *value) => skipped.push(name),
            None => {
                let problem = "not a tensor, a number or a string".to_owned();
                return Err(PickleError::Tensor { tensor: name.to_owned(), problem });
            }
        }
    }
    if !skipped.is_empty() {
        notes.push(format!("values that are not tensors are ignored: {}", listed(&skipped)));
    }
    Ok(StateDict { tensors, notes })
}

/// The first few names and how many more.
fn listed(names: &[&str]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| format!("`{name}`")).collect();
    format!("{}{}", shown.join(", "), and_more(names.len().saturating_sub(SHOWN)))
}

/// True if a value can be omitted from a model: it contains no tensor.
fn is_harmless(pickle: &Pickle<'_>, value: Id) -> bool {
    // Values may contain each other repeatedly, so each is visited once.
    let mut seen = vec![false; pickle.n_values()];
    let mut left = vec![value];
    while let Some(id) = left.pop() {
        if std::mem::replace(&mut seen[pickle.place(id)], true) {
            continue;
        }
        match pickle.value(id) {
            Value::Call(Global::Other, _) | Value::Global(_) => {}
            Value::Call(..) | Value::Storage(_) => return false,
            Value::Tuple(items) => left.extend(items),
            Value::List(items) => left.extend(items),
            Value::Dict(pairs) => left.extend(pairs.iter().map(|(_, value)| value)),
            Value::None | Value::Bool(_) | Value::Int(_) | Value::Float | Value::Text(_) => {}
        }
    }
    true
}

/// Call that makes a tensor and its arguments, inside wrapping calls.
fn call<'p>(pickle: &'p Pickle<'_>, value: Id) -> Option<(Global, &'p [Id])> {
    let mut id = value;
    for _ in 0..MAX_DEPTH {
        let Value::Call(global, arguments) = pickle.value(id) else { return None };
        let items = pickle.items(*arguments)?;
        match (global, items) {
            (Global::RebuildTensor | Global::RebuildTensorV2 | Global::RebuildTensorV3, _) => {
                return Some((*global, items));
            }
            (Global::Parameter, [inner, ..]) => id = *inner,
            // (function, class, arguments, state)
            (Global::FromType, [function, _, arguments, _]) => match pickle.value(*function) {
                Value::Global(global) => return Some((*global, pickle.items(*arguments)?)),
                _ => return None,
            },
            _ => return None,
        }
    }
    None
}

fn is_tensor(pickle: &Pickle<'_>, value: Id) -> bool {
    call(pickle, value).is_some()
}

/// Tensor described by a value, if it is one.
fn tensor<'a>(pickle: &Pickle<'a>, name: &'a str, value: Id) -> Result<Option<Pickled<'a>>, PickleError> {
    let wrong = |problem: &str| PickleError::Tensor { tensor: name.to_owned(), problem: problem.to_owned() };
    let Some((global, arguments)) = call(pickle, value) else { return Ok(None) };
    let [storage, offset, size, stride, rest @ ..] = arguments else {
        return Err(wrong("fewer than four arguments"));
    };
    let storage = match pickle.value(*storage) {
        Value::Storage(storage) => storage_name(pickle, *storage)
            .ok_or_else(|| wrong("a storage that is not named as torch does"))?,
        _ => return Err(wrong("the first argument is not a storage")),
    };
    // rest = requires_grad, hooks[, metadata], and for the third version requires_grad, hooks, dtype[, metadata].
    let (dtype, metadata) = match global {
        Global::RebuildTensorV3 => match rest.get(2).map(|dtype| pickle.value(*dtype)) {
            Some(Value::Global(Global::Dtype(dtype))) => (Some(*dtype), rest.get(3)),
            _ => return Err(wrong("unknown type")),
        },
        Global::RebuildTensor | Global::RebuildTensorV2 => (storage.dtype, rest.get(2)),
        _ => return Err(wrong("created by an unknown function")),
    };
    // Flags mean that the actual values differ from the stored ones: negated, conjugated.
    if metadata.is_some_and(|id| !matches!(pickle.value(*id), Value::None) && pickle.pairs(*id) != Some(&[]))
    {
        return Err(wrong("it has flags that change its values"));
    }
    let dtype = dtype.ok_or_else(|| wrong("untyped storage without a tensor type"))?;
    let counts = |id: &Id, what: &str| pickle.counts(*id).ok_or_else(|| wrong(&format!("invalid {what}")));
    let (shape, strides) = (counts(size, "dimensions")?, counts(stride, "strides")?);
    if shape.len() != strides.len() {
        return Err(wrong(&format!("{} dimensions and {} strides", shape.len(), strides.len())));
    }
    let offset = pickle.count(*offset).ok_or_else(|| wrong("invalid offset"))?;
    Ok(Some(Pickled { name, dtype, storage, offset, shape, strides }))
}

pub(super) fn storage_name<'a>(pickle: &Pickle<'a>, tuple: Id) -> Option<StorageName<'a>> {
    let [kind, class, key, _, numel, view @ ..] = pickle.items(tuple)? else { return None };
    let Value::Global(Global::Storage(dtype)) = pickle.value(*class) else { return None };
    let view = match view {
        [] => None,
        [view] if matches!(pickle.value(*view), Value::None) => None,
        // (key of the view, offset, elements)
        [view] => match pickle.items(*view)? {
            [_, offset, numel] => Some((pickle.count(*offset)?, pickle.count(*numel)?)),
            _ => return None,
        },
        _ => return None,
    };
    let named = pickle.text(*kind) == Some("storage");
    let (key, numel) = (pickle.text(*key)?, pickle.count(*numel)?);
    named.then_some(StorageName { key, dtype: *dtype, numel, view })
}

/// Layout of a tensor in its storage.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Lie {
    /// Contiguous: these bytes of the file.
    Plain(Range<u64>),
    /// By strides, in these bytes of the storage.
    Strided(Range<u64>),
}

impl Pickled<'_> {
    /// Location of the tensor in a storage at bytes `storage` of the file.
    ///
    /// # Errors
    /// The reason that the tensor is not inside it.
    pub fn place(&mut self, storage: Range<u64>) -> Result<Lie, PickleError> {
        let tensor = self.name.to_owned();
        let wrong = |problem: String| PickleError::Tensor { tensor: tensor.clone(), problem };
        let found = storage.end - storage.start;
        if self.storage.n_bytes() != Some(found) {
            let (key, numel) = (self.storage.key, self.storage.numel);
            let kind = self.storage.dtype.map_or("bytes", Dtype::name);
            return Err(wrong(format!("storage `{key}` of {numel} {kind} has {found} bytes")));
        }
        let item = self.dtype.bits() / 8;
        let mut numel = found / item;
        if let Some((first, n)) = self.storage.view {
            let inside = first.checked_add(n).is_some_and(|end| end <= numel);
            let offset = self.offset.checked_add(first);
            let (true, Some(offset)) = (inside, offset) else {
                return Err(wrong(format!(
                    "a view of {n} elements from {first} on, of a storage of {numel}"
                )));
            };
            (self.offset, numel) = (offset, first + n);
        }
        let n_elems = self.dtype.n_elems_of(&self.shape).ok_or_else(|| {
            wrong(format!("the size of shape {:?} of {} is out of range", self.shape, self.dtype))
        })?;
        if n_elems == 0 {
            return Ok(Lie::Plain(storage.start..storage.start));
        }
        // The last element: offset + sum of (size - 1) stride.
        let last =
            self.shape.iter().zip(&self.strides).try_fold(self.offset, |sum, (size, stride)| {
                sum.checked_add((size - 1).checked_mul(*stride)?)
            });
        if last.is_none_or(|last| last >= numel) {
            return Err(wrong(format!(
                "offset {}, shape {:?} and strides {:?} reach beyond its storage of {numel} elements",
                self.offset, self.shape, self.strides
            )));
        }
        if !self.is_contiguous() {
            return Ok(Lie::Strided(storage));
        }
        // Inside the storage, whose bytes were counted.
        let begin = storage.start + self.offset * item;
        Ok(Lie::Plain(begin..begin + n_elems * item))
    }

    /// True if elements are contiguous in row-major order; strides of dimensions of size one do not matter.
    fn is_contiguous(&self) -> bool {
        let mut expected = 1;
        for (size, stride) in self.shape.iter().zip(&self.strides).rev().filter(|(size, _)| **size != 1) {
            if *stride != expected {
                return false;
            }
            expected *= size;
        }
        true
    }
}
