//! Files of ComfyUI-GGUF's converter, from ours.

use std::path::Path;

use gguf_container::{Array, Endian, File, Plan};
use gguf_models::FAMILIES;
use gguf_types::{DType, Shape};

use super::diffusion::{Row, with_values};

/// Converts our file to that of ComfyUI-GGUF's converter: parameters of bf16 checkpoints that its loader does
/// not decode have BF16 there, and three-dimensional tensors of UNets have rows of 256
/// (docs/reference/differences.md).
pub fn as_the_converter_writes(path: &Path, rows: &[Row]) -> Vec<u8> {
    let file = File::open(path).unwrap();
    let architecture = file.metadata().text("general.architecture").unwrap().unwrap();
    let family = FAMILIES.diffusion(architecture).unwrap();
    let sources = with_values(rows);
    let shape_key = |name: &str| format!("comfy.gguf.orig_shape.{name}");
    let mut metadata = file.metadata().clone();
    let shapes: Vec<String> = metadata.iter().map(|(key, _)| key.clone()).collect();
    shapes.iter().filter(|key| key.starts_with("comfy.")).for_each(|key| drop(metadata.remove(key)));
    let (mut tensors, mut data) = (Vec::new(), Vec::new());
    for tensor in file.tensors() {
        let ((_, dtype, source_shape), source) = sources
            .iter()
            .find(|((name, ..), _)| *name == tensor.name || name.ends_with(&format!(".{}", tensor.name)))
            .unwrap();
        let (n_dims, n_elems) = (tensor.shape.n_dims(), tensor.shape.n_elems());
        let is_decoded = tensor.name.ends_with(".weight") && matches!(source_shape.len(), 2 | 4);
        let is_large = matches!(n_dims, 2..=4) && n_elems > 1024 && !family.keeps_f32(&tensor.name);
        if dtype == "BF16" && is_large && !is_decoded {
            data.push(source.clone())
        } else {
            data.push(file.data(tensor).unwrap().to_vec())
        }
        let dtype = if dtype == "BF16" && is_large && !is_decoded { DType::BF16 } else { tensor.dtype };
        let in_rows = family.reshapes && n_dims == 3 && n_elems % 256 == 0 && n_elems >= 512;
        let stated = file.metadata().get(&shape_key(&tensor.name)).cloned();
        let dims: Vec<i32> = source_shape.iter().map(|dim| *dim as i32).collect();
        let stated = if in_rows { Some(Array::I32(dims).into()) } else { stated };
        if let Some(stated) = stated {
            metadata.set(shape_key(&tensor.name), stated);
        }
        let shape = if in_rows { Shape::new(&[256, n_elems / 256]).unwrap() } else { tensor.shape };
        tensors.push((tensor.name.clone(), shape, dtype));
    }
    Plan::new(&metadata, tensors, Endian::Little, 32).unwrap().to_bytes(&data).unwrap()
}
