//! The form that `torch.save` wrote before torch 1.6, and still writes on request.
//!
//! ```text
//! pickle   the integer 0x1950a86a20f9469cfc6c
//! pickle   the protocol version, 1001
//! pickle   {protocol_version, little_endian, type_sizes}
//! pickle   the state dict; a storage may have a sixth item, a view (torch 0.3)
//! pickle   [key, ...]
//! for each key: elements of the storage (i64), then its bytes
//! ```
//!
//! There is no alignment.
//!
//! Source: `_legacy_save` and `_legacy_load` in `serialization.py` of torch 2.15.

use std::{collections::HashMap, ops::Range};

use super::{
    pickle::{self, Pickle, Value},
    state_dict,
};
use crate::{Dtype, pickle_error::PickleError};

/// The first two pickles. The integer has 80 bits, so it is compared without parsing.
pub(super) const MAGIC: &[u8] =
    &[0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19, b'.'];
const PROTOCOL: &[u8] = &[0x80, 2, b'M', 0xe9, 0x03, b'.'];

/// A legacy file: the pickle of its state dict, and the positions of its storages.
#[derive(Debug)]
pub(super) struct Legacy<'a> {
    pub pickle: Pickle<'a>,
    /// Bytes of the file by key.
    pub storages: HashMap<&'a str, Range<u64>>,
}

/// Reads a file that begins with [`MAGIC`].
pub(super) fn read(bytes: &[u8]) -> Result<Legacy<'_>, PickleError> {
    let wrong = |problem: String| PickleError::Legacy { problem };
    let mut at = MAGIC.len();
    if bytes.get(at..at + PROTOCOL.len()) != Some(PROTOCOL) {
        return Err(wrong("protocol version 1001 was expected after the magic number".to_owned()));
    }
    at += PROTOCOL.len();
    let mut next = || {
        let pickle = pickle::read(&bytes[at..])?;
        at += pickle.end;
        Ok::<_, PickleError>(pickle)
    };
    let (system, state_dict, keys) = (next()?, next()?, next()?);
    let little = system.pairs(system.top).into_iter().flatten();
    let mut little = little.filter(|(key, _)| system.text(*key) == Some("little_endian"));
    if !little.next().is_some_and(|(_, value)| matches!(system.value(*value), Value::Bool(true))) {
        return Err(wrong("big-endian files are not supported".to_owned()));
    }
    let listed = keys.items(keys.top).and_then(|keys_| keys_.iter().map(|key| keys.text(*key)).collect());
    let listed: Vec<&str> = listed.ok_or_else(|| wrong("invalid list of storages".to_owned()))?;
    let storages = storages(bytes, at as u64, &state_dict, &listed)?;
    Ok(Legacy { pickle: state_dict, storages })
}

/// Iterates over the storages after the pickles, from byte `at` on.
fn storages<'a>(
    bytes: &'a [u8],
    mut at: u64,
    state_dict: &Pickle<'a>,
    listed: &[&'a str],
) -> Result<HashMap<&'a str, Range<u64>>, PickleError> {
    let wrong = |problem: String| PickleError::Legacy { problem };
    // The size of elements is only stated where storages are named.
    let mut item_bytes: HashMap<&str, u64> = HashMap::new();
    for name in state_dict.storages().filter_map(|tuple| state_dict::storage_name(state_dict, tuple)) {
        let item = name.dtype.map_or(1, |dtype: Dtype| dtype.bits() / 8);
        if *item_bytes.entry(name.key).or_insert(item) != item {
            return Err(wrong(format!("storage `{}` is named with two types", name.key)));
        }
    }
    let mut storages = HashMap::with_capacity(listed.len());
    for key in listed {
        let item = item_bytes.get(key);
        let item = item.ok_or_else(|| wrong(format!("storage `{key}` is not used by any tensor")))?;
        let count = bytes.get(at as usize..).and_then(<[u8]>::first_chunk::<8>);
        let numel = count.and_then(|count| u64::try_from(i64::from_le_bytes(*count)).ok());
        let end = numel.and_then(|numel| numel.checked_mul(*item)?.checked_add(at + 8));
        let Some(end) = end.filter(|end| *end <= bytes.len() as u64) else {
            let n = bytes.len();
            return Err(wrong(format!(
                "storage `{key}` begins at byte {at} and does not end within the file's {n}"
            )));
        };
        if storages.insert(*key, at + 8..end).is_some() {
            return Err(wrong(format!("duplicate storage `{key}`")));
        }
        at = end;
    }
    if at != bytes.len() as u64 {
        return Err(wrong(format!("the storages end at byte {at}, but the file has {} bytes", bytes.len())));
    }
    Ok(storages)
}
