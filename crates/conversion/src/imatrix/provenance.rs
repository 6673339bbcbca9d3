//! Keys of a quantized file about its importance matrix.

use gguf_container::{Metadata, Value};

use super::Imatrix;

/// Longest text that the reference keeps.
const REFERENCE_TEXT_BYTES: usize = 127;

/// Keys in the order in which they are set, after all others and after overrides of single keys: the path as
/// given by the user, the first dataset if any, the number of entries after filters, and the number of chunks
/// if known. `None` if the matrix has no entries.
///
/// `path` is `None` for a matrix that was never a file; the key is then omitted.
///
/// With `whole_texts`, texts longer than 127 bytes are kept. The reference truncates them; if it cuts a
/// character, we reproduce that.
///
/// Source: `llama_quantize` in `tools/quantize/quantize.cpp`, which passes counts as integers that are then
/// stored as u32.
pub fn provenance(imatrix: &Imatrix, path: Option<&str>, whole_texts: bool) -> Metadata {
    let mut keys = Metadata::new();
    if imatrix.entries.is_empty() {
        return keys;
    }
    let text = |text: &str| {
        let bytes = text.as_bytes();
        // The reference keeps a C string, which ends at the first zero byte.
        let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let n_bytes = if whole_texts { bytes.len() } else { bytes.len().min(REFERENCE_TEXT_BYTES) };
        Value::String(bytes[..n_bytes].to_vec())
    };
    if let Some(path) = path {
        keys.set("quantize.imatrix.file", text(path));
    }
    if let Some(dataset) = imatrix.datasets.first() {
        keys.set("quantize.imatrix.dataset", text(dataset));
    }
    let n_entries = u32::try_from(imatrix.entries.len()).unwrap_or(u32::MAX);
    keys.set("quantize.imatrix.entries_count", Value::U32(n_entries));
    if let Some(n_chunks) = u32::try_from(imatrix.n_chunks).ok().filter(|n_chunks| *n_chunks > 0) {
        keys.set("quantize.imatrix.chunks_count", Value::U32(n_chunks));
    }
    keys
}
