//! The layout of safetensors files, before a weight is read.
//!
//! Source: README of the safetensors repository, version 0.8.0, and the file names of `save_pretrained` in
//! transformers 5.23. Names are in byte order, so that equal tensors give equal files.

use gguf_checkpoint::safetensors_header;
use gguf_layout::export::ExportTensor;
use gguf_types::{DType, ShapeError};
use serde_json::{Map, json};

pub const INDEX: &str = "model.safetensors.index.json";

/// A weights file.
#[derive(Debug, Clone)]
pub struct Shard {
    /// File name.
    pub file: String,
    /// The length of the header, then the header.
    pub header: Vec<u8>,
    /// Bytes of the file.
    pub n_bytes: u64,
    /// Index of each tensor and its first byte in the file.
    pub tensors: Vec<(usize, u64)>,
}

/// Divides tensors into files of at most `shard_bytes` of weights each, in order; a larger tensor gets its
/// own file.
pub fn shards(tensors: &[ExportTensor], dtype: DType, shard_bytes: u64) -> Result<Vec<Shard>, ShapeError> {
    let mut groups: Vec<Vec<(usize, u64)>> = vec![Vec::new()];
    let mut filled = 0u64;
    for (index, tensor) in tensors.iter().enumerate() {
        let n_bytes = tensor.shape.n_bytes(dtype)?;
        if filled > 0 && filled.saturating_add(n_bytes) > shard_bytes {
            groups.push(Vec::new());
            filled = 0;
        }
        filled = filled.saturating_add(n_bytes);
        if let Some(group) = groups.last_mut() {
            group.push((index, n_bytes));
        }
    }
    let n_groups = groups.len();
    groups.into_iter().enumerate().map(|(i, group)| shard(tensors, dtype, group, i + 1, n_groups)).collect()
}

fn shard(
    tensors: &[ExportTensor],
    dtype: DType,
    mut group: Vec<(usize, u64)>,
    number: usize,
    n_shards: usize,
) -> Result<Shard, ShapeError> {
    group.sort_by(|a, b| tensors[a.0].name.cmp(&tensors[b.0].name));
    let written =
        group.iter().map(|(index, _)| (tensors[*index].name.as_str(), &tensors[*index].shape, dtype));
    let header = safetensors_header(&[("format", "pt")], written)?;
    let mut n_bytes = header.len() as u64;
    let place = |(index, tensor_bytes): (usize, u64)| {
        let begin = n_bytes;
        n_bytes = n_bytes.saturating_add(tensor_bytes);
        (index, begin)
    };
    let tensors = group.into_iter().map(place).collect();
    let file = match n_shards {
        1 => "model.safetensors".to_owned(),
        _ => format!("model-{number:05}-of-{n_shards:05}.safetensors"),
    };
    Ok(Shard { file, header, n_bytes, tensors })
}

/// The index of several files; `None` for one file.
pub fn index(tensors: &[ExportTensor], shards: &[Shard]) -> Option<Vec<u8>> {
    if shards.len() < 2 {
        return None;
    }
    let mut map: Vec<(&str, &str)> = shards
        .iter()
        .flat_map(|shard| {
            shard.tensors.iter().map(|(index, _)| (tensors[*index].name.as_str(), shard.file.as_str()))
        })
        .collect();
    map.sort_unstable();
    let total: u64 = shards.iter().map(|shard| shard.n_bytes - shard.header.len() as u64).sum();
    let n_elems: u64 = tensors.iter().map(|tensor| tensor.shape.n_elems()).sum();
    let map: Map<_, _> = map.into_iter().map(|(tensor, file)| (tensor.to_owned(), file.into())).collect();
    let index = json!({"metadata": {"total_parameters": n_elems, "total_size": total}, "weight_map": map});
    Some(format!("{index:#}\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use gguf_types::Shape;

    use super::*;

    fn tensor(name: &str, dims: &[u64]) -> ExportTensor {
        let shape = Shape::new(dims).expect("a small shape");
        ExportTensor { name: name.into(), shape, parts: Vec::new(), values: Vec::new() }
    }

    #[test]
    fn one_file_is_sorted_and_aligned() {
        let tensors = [tensor("b", &[2, 3]), tensor("a", &[5])];
        let shards = shards(&tensors, DType::BF16, 1 << 30).unwrap();
        assert_eq!(shards.len(), 1);
        let shard = &shards[0];
        let text = std::str::from_utf8(&shard.header[8..]).unwrap();
        let expected = r#"{"__metadata__":{"format":"pt"},"a":{"dtype":"BF16","shape":[5],"data_offsets":[0,10]},"b":{"dtype":"BF16","shape":[3,2],"data_offsets":[10,22]}}"#;
        assert_eq!(text.trim_end(), expected);
        assert_eq!(shard.header.len() % 8, 0);
        let start = shard.header.len() as u64;
        assert_eq!(shard.tensors, [(1, start), (0, start + 10)]);
        assert_eq!((shard.file.as_str(), shard.n_bytes), ("model.safetensors", start + 22));
        assert_eq!(index(&tensors, &shards), None);
    }

    #[test]
    fn shards_stay_within_size_limit() {
        let tensors =
            [tensor("a", &[4]), tensor("b", &[100]), tensor("c", &[4]), tensor("d", &[4]), tensor("e", &[1])];
        let shards = shards(&tensors, DType::F32, 32).unwrap();
        let groups: Vec<Vec<usize>> =
            shards.iter().map(|s| s.tensors.iter().map(|(i, _)| *i).collect()).collect();
        assert_eq!(groups, [vec![0], vec![1], vec![2, 3], vec![4]]);
        assert_eq!(shards[3].file, "model-00004-of-00004.safetensors");
        let index = String::from_utf8(index(&tensors, &shards).unwrap()).unwrap();
        let index: serde_json::Value = serde_json::from_str(&index).unwrap();
        assert_eq!(index["metadata"]["total_size"], 4 * 113);
        assert_eq!(index["weight_map"]["d"], "model-00003-of-00004.safetensors");
    }
}
