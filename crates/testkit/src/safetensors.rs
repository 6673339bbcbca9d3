//! Parses and writes safetensors files.

use std::{collections::BTreeMap, ops::Range};

use serde_json::{Map, Value as Json, json};

/// Tensors of a file: type, shape and bytes by name.
pub type Tensors = BTreeMap<String, (String, Vec<u64>, Vec<u8>)>;

/// Header of a file, and the offset of its data.
///
/// # Panics
/// If the file is invalid, like all functions here.
pub fn safetensors_header(file: &[u8]) -> (Map<String, Json>, usize) {
    let (length, rest) = file.split_first_chunk().expect("the length of the header");
    let length = u64::from_le_bytes(*length) as usize;
    (serde_json::from_slice(&rest[..length]).expect("a header"), 8 + length)
}

/// Byte range of a tensor in a file.
pub fn place_in_safetensors(file: &[u8], tensor: &str) -> Range<usize> {
    let (header, start) = safetensors_header(file);
    place(&header[tensor], start)
}

fn place(entry: &Json, start: usize) -> Range<usize> {
    let at = |i: usize| start + entry["data_offsets"][i].as_u64().expect("an offset") as usize;
    at(0)..at(1)
}

/// All tensors of a file.
pub fn read_safetensors(file: &[u8]) -> Tensors {
    let (header, start) = safetensors_header(file);
    let tensors = header.into_iter().filter(|(name, _)| name != "__metadata__");
    let tensor = |(name, entry): (String, Json)| {
        let bytes = file[place(&entry, start)].to_vec();
        let shape = serde_json::from_value(entry["shape"].clone()).expect("a shape");
        (name, (entry["dtype"].as_str().expect("a type").to_owned(), shape, bytes))
    };
    tensors.map(tensor).collect()
}

/// A file with these tensors (name, type, shape, bytes), concatenated.
pub fn safetensors<'a, S: AsRef<[u64]>, B: AsRef<[u8]>>(
    tensors: impl IntoIterator<Item = (&'a str, &'a str, S, B)>,
) -> Vec<u8> {
    safetensors_with(None, tensors)
}

/// Like [`safetensors`], with this `__metadata__`.
pub fn safetensors_with<'a, S: AsRef<[u64]>, B: AsRef<[u8]>>(
    metadata: Option<&Json>,
    tensors: impl IntoIterator<Item = (&'a str, &'a str, S, B)>,
) -> Vec<u8> {
    let (mut header, mut data) = (Map::new(), Vec::new());
    header.extend(metadata.map(|metadata| ("__metadata__".to_owned(), metadata.clone())));
    for (name, dtype, shape, bytes) in tensors {
        let begin = data.len();
        data.extend_from_slice(bytes.as_ref());
        let entry = json!({"dtype": dtype, "shape": shape.as_ref(), "data_offsets": [begin, data.len()]});
        header.insert(name.to_owned(), entry);
    }
    let header = Json::from(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}
