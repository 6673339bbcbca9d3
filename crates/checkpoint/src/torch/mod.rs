//! Torch pickles: `pytorch_model*.bin`, `adapter_model.bin`, `consolidated.NN.pth`.
//!
//! A pickle describes calls of Python, which are never executed here ([`pickle`]). The result is an index
//! like that of a safetensors file: name, type, shape, bytes of the file. Tensors whose rows are not in order
//! in their storage are read by their strides ([`strided`]).
//!
//! Source for the selection and order of files: `ModelBase.index_tensors` in `conversion/base.py`, llama.cpp
//! as vendored in llama-cpp-python 0.3.36: files by name, tensors of a file in the order of the pickled
//! dictionary.

mod globals;
mod legacy;
pub(crate) mod meta;
mod pickle;
mod state_dict;
mod strided;
mod zip;

use std::{collections::HashMap, ops::Range, path::Path, sync::Arc};

pub(crate) use self::strided::transposed;
use self::{
    state_dict::{Lie, StateDict},
    strided::Strided,
};
use crate::{
    Error, Listing, Part, Span, Tensor, Weights,
    pickle_error::{PickleError, ZipError},
    shards::Shards,
};

/// Position and text of a tar archive's mark: the format of torch before 0.1.10.
const TAR: (Range<usize>, &[u8]) = (257..262, b"ustar");

/// Location of a key's storage in its file.
type Place<'a> = Box<dyn Fn(&str) -> Result<Range<u64>, Error> + 'a>;

pub(crate) fn open(shards: &Shards, dir: &Path, listing: &Listing) -> Result<Weights, Error> {
    let mut notes = Vec::new();
    let (parts, tensors, ignored) = shards.open(dir, listing, |place, part| {
        let (tensors, more) = parse(place, part)?;
        notes.extend(more);
        Ok(tensors)
    })?;
    notes.extend(ignored);
    Ok(Weights { parts, tensors, notes })
}

pub(crate) fn open_file(dir: &Path, listing: &Listing, file: &str) -> Result<Weights, Error> {
    let part = listing.open(dir, file)?;
    let (tensors, notes) = parse(0, &part)?;
    if tensors.is_empty() {
        return Err(Error::NoTensors { file: file.to_owned() });
    }
    Ok(Weights { parts: vec![part], tensors, notes })
}

/// True for the beginning of a file of `torch.save`.
pub(crate) fn is_pickle(start: &[u8]) -> bool {
    start.starts_with(zip::MAGIC) || start.starts_with(legacy::MAGIC)
}

/// Reads the pickle of one file, the weights file with index `part`. Tensors are in its order.
pub(crate) fn parse(part: usize, opened: &Part) -> Result<(Vec<Tensor>, Vec<String>), Error> {
    let file = opened.file.as_str();
    let format = "a torch pickle that is not on disk";
    let bytes: &[u8] = opened.local().ok_or_else(|| Error::NotReadYet { format, file: file.to_owned() })?;
    let in_pickle = |problem: PickleError| Error::Pickle { file: file.to_owned(), problem };
    let in_zip = |problem: ZipError| Error::Zip { file: file.to_owned(), problem };
    let (dict, place): (StateDict<'_>, Place<'_>);
    if bytes.starts_with(zip::MAGIC) {
        let archive = zip::read(bytes).map_err(in_zip)?;
        let range = archive.entry("data.pkl").map_err(in_zip)?;
        let read = pickle::read(&bytes[range.start as usize..range.end as usize]).map_err(in_pickle)?;
        dict = state_dict::find(&read).map_err(in_pickle)?;
        place = Box::new(move |key| archive.entry(&format!("data/{key}")).map_err(in_zip));
    } else if bytes.starts_with(legacy::MAGIC) {
        let legacy = legacy::read(bytes).map_err(in_pickle)?;
        dict = state_dict::find(&legacy.pickle).map_err(in_pickle)?;
        place = Box::new(move |key| {
            let problem = || PickleError::Legacy { problem: format!("storage `{key}` is not listed") };
            legacy.storages.get(key).cloned().ok_or_else(|| in_pickle(problem()))
        });
    } else {
        let found = match bytes {
            _ if bytes.get(TAR.0) == Some(TAR.1) => "a tar archive, the form of torch before 0.1.10",
            // A bare pickle of Python's own module.
            [0x80, ..] => "a pickle without torch's magic number",
            _ => "something else",
        };
        return Err(Error::NotAPickle { file: file.to_owned(), found });
    }
    let mut seen: HashMap<&str, ()> = HashMap::with_capacity(dict.tensors.len());
    let mut tensors = Vec::with_capacity(dict.tensors.len());
    for mut pickled in dict.tensors {
        if seen.insert(pickled.name, ()).is_some() {
            let (first, second) = (file.to_owned(), file.to_owned());
            return Err(Error::DuplicateTensor { tensor: pickled.name.to_owned(), first, second });
        }
        let storage = place(pickled.storage.key)?;
        let lie = pickled.place(storage).map_err(in_pickle)?;
        let state_dict::Pickled { name, dtype, offset, shape, strides, .. } = pickled;
        let name = name.to_owned();
        tensors.push(match lie {
            Lie::Plain(Range { start: begin, end }) => {
                Tensor { name, dtype, shape, part, begin, end, stored: None }
            }
            // The bytes are not in the order of the shape.
            Lie::Strided(bytes) => {
                let storage = Span { part, bytes };
                let strided =
                    Strided { name: name.clone(), dtype, storage, offset, shape: shape.clone(), strides };
                Tensor { name, dtype, shape, part, begin: 0, end: 0, stored: Some(Arc::new(strided)) }
            }
        });
    }
    Ok((tensors, dict.notes.into_iter().map(|note| format!("`{file}`: {note}")).collect()))
}
