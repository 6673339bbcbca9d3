//! Safetensors: a length, a JSON header, then contiguous tensors.
//!
//! ```text
//! byte 0          8            8+n                                    end of file
//!      | n, u64 LE | header, n B | tensor | tensor | ...              |
//! header: {"name": {"dtype": "BF16", "shape": [rows, cols], "data_offsets": [begin, end]}, ...,
//!          "__metadata__": {"format": "pt"}}      offsets count from byte 8+n
//! ```
//!
//! Validity follows the safetensors crate 0.8.0 (`Metadata::validate`): no hole, no overlap, no data after
//! the last tensor. The header is parsed here rather than by that crate because its errors contain no numbers
//! and usually no tensor, and because it accepts duplicate names. A test compares both verdicts.
//!
//! The selection and order of files follow `ModelBase.index_tensors` in `conversion/base.py` and
//! `SafetensorsLocal` in `gguf-py/gguf/utility.py`, llama.cpp as vendored in llama-cpp-python 0.3.36: files
//! by name, tensors of a file by name.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::Path,
};

use gguf_types::{DType, Shape, ShapeError};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error as _, MapAccess, Visitor},
};
use serde_json::{Map, Value as Json, json};

use crate::{Dtype, Error, Listing, Part, Tensor, Weights, shards::Shards};

/// The format's limit on the header, in bytes.
const MAX_HEADER_BYTES: u64 = 100_000_000;
/// Bytes of the header's length.
const LENGTH_BYTES: u64 = 8;

/// Length and header of a file with these tensors (name, shape, type) in this order. Data begins at a
/// multiple of 8, so it can be used in place when mapped.
///
/// # Errors
/// [`ShapeError`] if a size does not fit 63 bits, or their sum does not fit 64 bits.
pub fn safetensors_header<'a>(
    metadata: &[(&str, &str)],
    tensors: impl IntoIterator<Item = (&'a str, &'a Shape, DType)>,
) -> Result<Vec<u8>, ShapeError> {
    let mut entries = Map::new();
    if !metadata.is_empty() {
        entries.insert("__metadata__".to_owned(), metadata.iter().copied().collect::<Json>());
    }
    let mut begin = 0u64;
    for (name, shape, dtype) in tensors {
        let overflow = || ShapeError::Overflow { dims: shape.dims().to_vec() };
        let end = begin.checked_add(shape.n_bytes(dtype)?).ok_or_else(overflow)?;
        let dims: Vec<u64> = shape.dims().iter().rev().copied().collect();
        let entry =
            json!({"dtype": dtype.name().to_uppercase(), "shape": dims, "data_offsets": [begin, end]});
        entries.insert(name.to_owned(), entry);
        begin = end;
    }
    let mut text = Json::Object(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    Ok([&(text.len() as u64).to_le_bytes()[..], &text].concat())
}

/// Reads the headers of all weights files of a folder.
pub(crate) fn open(shards: &Shards, dir: &Path, listing: &Listing) -> Result<Weights, Error> {
    let mut metadata = BTreeMap::new();
    let (mut parts, tensors, ignored) = shards.open(dir, listing, |_, part| {
        let header = read_header(part)?;
        metadata.insert(part.file.clone(), header.metadata);
        Ok(header.tensors)
    })?;
    for part in &mut parts {
        part.metadata = metadata.remove(&part.file).unwrap_or_default();
    }
    Ok(Weights { parts, tensors, notes: ignored.into_iter().collect() })
}

struct Header {
    /// Sorted by name, `part` is 0.
    tensors: Vec<Tensor>,
    /// `__metadata__`.
    metadata: BTreeMap<String, String>,
}

/// Parses and checks the header of one file. Tensors are sorted by name, `part` is 0.
pub(crate) fn parse(part: &Part) -> Result<Vec<Tensor>, Error> {
    Ok(read_header(part)?.tensors)
}

/// True if these more than eight bytes begin with the length of a header and a JSON object.
pub(crate) fn begins(start: &[u8]) -> bool {
    let length = start.first_chunk().map_or(0, |length| u64::from_le_bytes(*length));
    length <= MAX_HEADER_BYTES && start.get(LENGTH_BYTES as usize) == Some(&b'{')
}

/// Like [`parse`], and stores `__metadata__` in the part.
pub(crate) fn parse_with_metadata(part: &mut Part) -> Result<Vec<Tensor>, Error> {
    let Header { tensors, metadata } = read_header(part)?;
    part.metadata = metadata;
    Ok(tensors)
}

fn read_header(part: &Part) -> Result<Header, Error> {
    let (file, file_bytes) = (part.file.as_str(), part.n_bytes());
    // Only the necessary bytes, because the file may be fetched.
    let length = part.slice(0..LENGTH_BYTES.min(file_bytes))?;
    let Some(length) = length.first_chunk::<{ LENGTH_BYTES as usize }>() else {
        return Err(Error::HeaderCut { file: file.to_owned(), expected: LENGTH_BYTES, found: file_bytes });
    };
    let header_bytes = u64::from_le_bytes(*length);
    if header_bytes > MAX_HEADER_BYTES {
        return Err(Error::HeaderTooLarge {
            file: file.to_owned(),
            found: header_bytes,
            limit: MAX_HEADER_BYTES,
        });
    }
    let data_start = LENGTH_BYTES + header_bytes;
    if data_start > file_bytes {
        return Err(Error::HeaderCut { file: file.to_owned(), expected: data_start, found: file_bytes });
    }
    let (mut entries, metadata) = parse_header(file, &part.slice(LENGTH_BYTES..data_start)?)?;

    // By position in the file; each must begin at the end of the previous one.
    entries.sort_by_key(|(_, entry)| entry.data_offsets);
    let mut tensors = Vec::with_capacity(entries.len());
    let mut end_before = 0;
    for (name, entry) in entries {
        let tensor = check_entry(file, name, entry, end_before, data_start)?;
        end_before = tensor.end - data_start;
        tensors.push(tensor);
    }
    if data_start.checked_add(end_before) != Some(file_bytes) {
        let expected = data_start.saturating_add(end_before);
        return Err(Error::FileLength { file: file.to_owned(), expected, found: file_bytes });
    }
    tensors.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Header { tensors, metadata })
}

fn check_entry(
    file: &str,
    tensor: String,
    entry: Entry,
    end_before: u64,
    data_start: u64,
) -> Result<Tensor, Error> {
    let file = file.to_owned();
    let Entry { dtype, shape, data_offsets: (begin, end) } = entry;
    let Some(dtype) = Dtype::from_name(&dtype) else {
        return Err(Error::UnknownDtype { file, tensor, found: dtype });
    };
    let Some(expected) = dtype.n_elems_of(&shape).and_then(|n| dtype.n_bytes(n)) else {
        return Err(Error::BadShape { file, tensor, shape, dtype });
    };
    if begin != end_before {
        return Err(Error::NotContiguous { file, tensor, expected: end_before, found: begin });
    }
    let (true, Some(end_in_file)) = (end.checked_sub(begin) == Some(expected), end.checked_add(data_start))
    else {
        return Err(Error::SizeMismatch { file, tensor, shape, dtype, expected, begin, end });
    };
    Ok(Tensor {
        name: tensor,
        dtype,
        shape,
        part: 0,
        begin: begin + data_start,
        end: end_in_file,
        stored: None,
    })
}

#[derive(Debug, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: (u64, u64),
}

type Written = (Vec<(String, Entry)>, BTreeMap<String, String>);

fn parse_header(file: &str, header: &[u8]) -> Result<Written, Error> {
    let at = RefCell::new(None);
    let mut deserializer = serde_json::Deserializer::from_slice(header);
    let (entries, metadata) = Entries { at: &at }
        .deserialize(&mut deserializer)
        .and_then(|written| deserializer.end().map(|()| written))
        .map_err(|error| Error::Header { file: file.to_owned(), tensor: at.take(), error })?;
    let mut seen = BTreeSet::new();
    for (name, _) in &entries {
        if !seen.insert(name.as_str()) {
            let (first, second) = (file.to_owned(), file.to_owned());
            return Err(Error::DuplicateTensor { tensor: name.clone(), first, second });
        }
    }
    Ok((entries, metadata))
}

/// Parses the entries of a header in order, including duplicate names, and records the current entry.
struct Entries<'a> {
    at: &'a RefCell<Option<String>>,
}

impl<'de> DeserializeSeed<'de> for Entries<'_> {
    type Value = Written;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Entries<'_> {
    type Value = Written;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        let mut metadata = None;
        while let Some(name) = map.next_key::<String>()? {
            *self.at.borrow_mut() = Some(name.clone());
            if name == "__metadata__" {
                if metadata.is_some() {
                    return Err(A::Error::custom("duplicate `__metadata__`"));
                }
                metadata = Some(map.next_value::<Option<BTreeMap<String, String>>>()?.unwrap_or_default());
            } else {
                entries.push((name, map.next_value()?));
            }
            *self.at.borrow_mut() = None;
        }
        Ok((entries, metadata.unwrap_or_default()))
    }
}
