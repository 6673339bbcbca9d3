//! Weights that keep the blocks of the checkpoint, with their scales as separate tensors.
//!
//! The reference writes these before everything else, in the order in which it meets them: a matrix at its
//! position, a stack of experts with its last expert. Source: `_generate_nvfp4_tensors`,
//! `_flush_nvfp4_experts`, `_write_scale_tensor` and `prepare_metadata` in `conversion/base.py`;
//! `GptOssModel.repack_mxfp4` in `conversion/gpt_oss.py`.

use std::collections::HashMap;

use gguf_container::{Array, Metadata, Strings, Value};
use gguf_types::{DType, StoredBlocks};

use crate::ArchError;
use crate::config::Hparams;
use crate::input::Input;
use crate::layout::{Data, OutTensor};
use crate::tensors::computed;

/// Puts tensors that stay in blocks before all others but integers, each with its scales; `by_layer` in the order of layers.
///
/// # Errors
///
/// [`ArchError::Shape`] never, as the number of scales is one dimension.
pub fn first(
    tensors: Vec<OutTensor>,
    hparams: &Hparams,
    input: &Input<'_>,
    by_layer: bool,
) -> Result<Vec<OutTensor>, ArchError> {
    if input.stored_blocks.is_empty() {
        return Ok(tensors);
    }
    let places: HashMap<&str, usize> =
        input.tensors.iter().enumerate().map(|(place, tensor)| (tensor.name.as_str(), place)).collect();
    // Without this number the reference does not see which expert is the last: it writes stacks at the end.
    let counts_experts = hparams.find(&["num_local_experts", "num_experts"]).is_some();
    let (mut stored, mut others) = (Vec::new(), Vec::new());
    for tensor in tensors {
        let Some(source_blocks) = blocks_of(&tensor, input) else {
            others.push(tensor);
            continue;
        };
        let sources = sources(&tensor);
        let places = sources.iter().filter_map(|name| places.get(name.as_str()).copied());
        let is_stack = sources.len() > 1;
        let place = if by_layer {
            (layer_of(&tensor.name), None)
        } else if is_stack && !counts_experts {
            (1, places.min())
        } else {
            (0, places.max())
        };
        let group = with_scales(tensor, &source_blocks)?;
        stored.push((place, group));
    }
    // A stable sort: parts of one source stay in the order of the table.
    stored.sort_by_key(|(place, _)| *place);
    let is_integers = |tensor: &OutTensor| matches!(tensor.data, Data::Integers { .. });
    let n_first = others.iter().take_while(|tensor| is_integers(tensor)).count();
    let rest = others.split_off(n_first);
    Ok(others.into_iter().chain(stored.into_iter().flat_map(|(_, group)| group)).chain(rest).collect())
}

/// The layer in the name of a tensor of the file.
fn layer_of(name: &str) -> usize {
    gguf_types::layer_and_part(name).map_or(0, |(layer, _)| layer as usize)
}

fn sources(tensor: &OutTensor) -> &[String] {
    match &tensor.data {
        Data::Rows { sources, .. } => sources,
        _ => &[],
    }
}

/// The blocks of each source of a tensor, if the tensor can have them as they are and has one source or is a stack of
/// matrices of one type.
fn blocks_of<'a>(tensor: &OutTensor, input: &'a Input<'_>) -> Option<Vec<&'a StoredBlocks>> {
    let sources = sources(tensor);
    let source_blocks: Vec<&StoredBlocks> =
        sources.iter().map(|name| input.stored_blocks.get(name)).collect::<Option<_>>()?;
    let dtype = source_blocks.first()?.dtype;
    let is_stack = tensor.shape.n_dims() == 3 && tensor.shape.dim(2) == sources.len() as u64;
    let fits = source_blocks.iter().all(|blocks| blocks.dtype == dtype)
        && (sources.len() == 1 || is_stack)
        && tensor.shape.n_dims() >= 2
        && tensor.moves_blocks(dtype);
    fits.then_some(source_blocks)
}

/// A tensor in blocks, and the scales that are not one.
fn with_scales(mut tensor: OutTensor, source_blocks: &[&StoredBlocks]) -> Result<Vec<OutTensor>, ArchError> {
    let n_matrices = if tensor.shape.n_dims() > 2 { tensor.shape.dim(2) as usize } else { 1 };
    tensor.stored_dtype = source_blocks.first().map(|blocks| blocks.dtype);
    let mut group = Vec::with_capacity(3);
    let scales = |of: fn(&StoredBlocks) -> &[f32]| -> Vec<f32> {
        let all: Vec<f32> = source_blocks.iter().flat_map(|blocks| of(blocks).iter().copied()).collect();
        // One scale of a stack that is one tensor in the checkpoint serves each of its matrices.
        if let [scale] = all[..] { vec![scale; n_matrices] } else { all }
    };
    for (ending, values) in
        [(".scale", scales(|blocks| &blocks.scales)), (".input_scale", scales(|blocks| &blocks.input_scales))]
    {
        if are_ones(&values) {
            continue;
        }
        let name = tensor.name.replace(".weight", ending);
        group.push(computed(&name, &[values.len() as u64], values)?);
    }
    group.insert(0, tensor);
    Ok(group)
}

/// True if scales are practically one, so that the reference leaves them out: `_scale_is_trivial` for one
/// number, `np.allclose(scales, 1.0, atol=1e-6)` with its relative tolerance of 1e-5 for several.
fn are_ones(scales: &[f32]) -> bool {
    match scales {
        [scale] => (f64::from(*scale) - 1.0).abs() < 1e-6,
        scales => scales.iter().all(|scale| (f64::from(*scale) - 1.0).abs() <= 1e-6 + 1e-5),
    }
}

/// The keys that name tensors whose activations are not to be rounded to 4 bits.
pub fn keys(tensors: &[OutTensor], input: &Input<'_>) -> Metadata {
    let is_wide = |tensor: &&OutTensor| {
        let source_blocks = sources(tensor).iter().filter_map(|name| input.stored_blocks.get(name));
        tensor.stored_dtype.is_some() && source_blocks.into_iter().any(|blocks| blocks.wide_activations)
    };
    let mut names: Vec<&str> = tensors.iter().filter(is_wide).map(|tensor| tensor.name.as_str()).collect();
    names.sort_unstable();
    let mut keys = Metadata::new();
    if !names.is_empty() {
        let flags = vec![false; names.len()];
        let names: Strings = names.into_iter().collect();
        keys.set_last("general.tensor_extra.name", Value::Array(Array::String(names)));
        keys.set_last("general.tensor_extra.prec_a4", Value::Array(Array::Bool(flags)));
    }
    keys
}

/// The file type of files with such tensors, by their blocks.
pub fn file_type(tensors: &[OutTensor]) -> Option<(u32, &'static str)> {
    let has = |dtype: DType| tensors.iter().any(|tensor| tensor.stored_dtype == Some(dtype));
    match () {
        () if has(DType::NVFP4) => Some((39, "NVFP4")),
        () if has(DType::MXFP4) => Some((38, "MXFP4_MOE")),
        () => None,
    }
}
