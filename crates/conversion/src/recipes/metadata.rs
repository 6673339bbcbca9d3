//! Metadata changes of the reference when it writes a file of another type.

use gguf_container::{Array, Metadata, Value};
use gguf_types::DType;

use super::{TensorFacts, compare_names};

/// Version of the block formats (`GGML_QNT_VERSION`, `ggml/include/ggml.h`).
pub const QUANTIZATION_VERSION: u32 = 2;

/// Bit that marks a file type as guessed (`LLAMA_FTYPE_GUESSED`, `include/llama.h`).
pub const GUESSED: u32 = 1024;

/// Key that names the method by which the types of a file were chosen without calibration.
pub const CHOSEN_TYPES_KEY: &str = "gguf_tools.chosen_types";

/// Treatment of text with a zero byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ZeroBytes {
    /// Ends the text, like in the reference, which copies C strings.
    #[default]
    EndText,
    /// Is kept.
    Keep,
}

/// Metadata of the reference's output: the input's keys in order without shard keys, with the quantization
/// version and the file type moved to the end. Overrides of single keys follow, each by
/// [`Metadata::set_last`].
///
/// Source: `llama_model_quantize_impl` in `src/llama-quant.cpp` and `gguf_set_kv` in `ggml/src/gguf.cpp`,
/// llama-cpp-python 0.3.36.
pub fn quantized_metadata(input: &Metadata, file_type: u32, zero_bytes: ZeroBytes) -> Metadata {
    let mut metadata: Metadata = input.clone();
    if zero_bytes == ZeroBytes::EndText {
        for (_, value) in metadata.iter_mut() {
            match value {
                Value::String(text) => text.truncate(text_end(text)),
                Value::Array(Array::String(items)) if items.iter().any(|text| text.contains(&0)) => {
                    *items = items.iter().map(|text| &text[..text_end(text)]).collect();
                }
                _ => {}
            }
        }
    }
    // In this order, each appended at the end, like gguf_set_kv.
    metadata.set_last("general.quantization_version", QUANTIZATION_VERSION);
    metadata.set_last("general.file_type", file_type);
    metadata.retain(|key, _| !matches!(key, "split.no" | "split.count" | "split.tensors.count"));
    metadata
}

/// Metadata of a requantized diffusion model: the input's keys in order, with the quantization version and
/// the file type in their places, or after the architecture. A copy (no `file_type`) keeps both. A file
/// without keys, from stable-diffusion.cpp, gets no keys.
///
/// Source: `gguf_set_val_u32` in llama.cpp b3962, which `tools/lcpp.patch` of city96/ComfyUI-GGUF@795e451 changes.
pub fn diffusion_metadata(input: &Metadata, file_type: Option<u32>) -> Metadata {
    let mut metadata = input.clone();
    metadata.retain(|key, _| !matches!(key, "split.no" | "split.count" | "split.tensors.count"));
    let Some(file_type) = file_type.filter(|_| !metadata.is_empty()) else { return metadata };
    metadata.remove(CHOSEN_TYPES_KEY);
    let mut place = metadata.iter().position(|(key, _)| key == "general.architecture").map_or(0, |at| at + 1);
    for (key, value) in
        [("general.quantization_version", QUANTIZATION_VERSION), ("general.file_type", file_type)]
    {
        match metadata.iter().position(|(found, _)| found == key) {
            Some(at) => {
                metadata.set(key, value);
                place = at + 1;
            }
            None => {
                metadata.set_at(place, key, value);
                place += 1;
            }
        }
    }
    metadata
}

fn text_end(text: &[u8]) -> usize {
    text.iter().position(|&byte| byte == 0).unwrap_or(text.len())
}

/// File type that copying keeps: from the metadata, or else that of the most frequent dtype, with [`GUESSED`]
/// set.
///
/// Source: the constructor of `llama_model_loader`, `src/llama-model-loader.cpp`.
pub fn stored_file_type(metadata: &Metadata, tensors: &[TensorFacts<'_>]) -> u32 {
    let stored = metadata.get("general.file_type").and_then(Value::as_u64);
    if let Some(stored) = stored.and_then(|stored| u32::try_from(stored).ok()) {
        return stored;
    }
    // Without the key, the reference's loader uses the most frequent type. Of two equally frequent dtypes,
    // the one that reaches the count first wins.
    let mut order: Vec<&TensorFacts<'_>> = tensors.iter().collect();
    order.sort_by(|a, b| compare_names(a.name, b.name));
    let (mut counts, mut most, mut dtype) = (std::collections::HashMap::new(), 0u32, DType::F32);
    for tensor in order {
        let count = counts.entry(tensor.dtype).or_insert(0u32);
        *count += 1;
        if *count > most {
            (most, dtype) = (*count, tensor.dtype);
        }
    }
    dtype.file_type() | GUESSED
}

#[cfg(test)]
mod tests {
    use gguf_types::Shape;

    use super::*;

    #[test]
    fn keys_move_to_end_and_shards_are_dropped() {
        let key = |name: &str, value: u32| (name.to_owned(), Value::U32(value));
        let input = Metadata::from([
            key("general.file_type", 1),
            key("split.no", 0),
            key("a", 7),
            key("general.quantization_version", 1),
            key("split.count", 2),
            ("b".to_owned(), Value::String(b"x\0y".to_vec())),
            ("c".to_owned(), Value::Array(Array::String(vec!["\0", "z"].into()))),
        ]);
        let output = quantized_metadata(&input, 15, ZeroBytes::EndText);
        let expected = Metadata::from([
            key("a", 7),
            ("b".to_owned(), "x".into()),
            ("c".to_owned(), Value::Array(Array::String(vec!["", "z"].into()))),
            key("general.quantization_version", 2),
            key("general.file_type", 15),
        ]);
        assert_eq!(output, expected);
        assert_eq!(quantized_metadata(&input, 15, ZeroBytes::Keep).get("b"), input.get("b"));
    }

    #[test]
    fn file_types_are_stored_or_guessed() {
        let shape = Shape::new(&[32]).unwrap();
        let tensor = |name, dtype| TensorFacts { name, shape, dtype };
        let tensors = [tensor("blk.0.a", DType::F32), tensor("a", DType::Q3_K), tensor("b", DType::I32)];
        assert_eq!(stored_file_type(&Metadata::new(), &tensors), 12 | GUESSED);
        let stated = Metadata::from([("general.file_type".to_owned(), Value::U32(7))]);
        assert_eq!(stored_file_type(&stated, &tensors), 7);
    }
}
