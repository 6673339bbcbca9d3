//! Rows, keys and names that families of projectors share.

use super::prelude::*;

/// The first, second or third part of a combined query-key-value matrix, or of its bias.
///
/// # Errors
///
/// [`ArchError::TensorShape`] never: a number of rows that is not a multiple of three fits no group.
pub fn third<const PART: u64>(_: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    // Rows of a matrix, elements of a vector; one more where three do not divide them, so that the part is refused.
    let n_rows = if shape.n_dims() > 1 { shape.dim(1) } else { shape.dim(0) };
    let rows = n_rows.div_ceil(3);
    // (3 n, in): rows 0 .. n are queries, n .. 2 n keys, 2 n .. 3 n values.
    Ok(RowMap::Groups { group: 3 * rows, start: PART * rows, rows, n_head: 0 })
}

/// Queries, keys and values of one matrix, and the output projection, of Qwen's towers, whose names begin with `visual.`.
pub const QKV_OF_QWEN: &[TensorRule] = &[
    TensorRule::part(&["visual.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_q", third::<0>),
    TensorRule::part(&["visual.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_k", third::<1>),
    TensorRule::part(&["visual.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_v", third::<2>),
];

/// The kernels of patches of two frames, which become two tensors.
pub const FRAMES: &[TensorRule] = &[
    // (out, in, 2, h, w) as two kernels (out, in, h, w), one for each frame.
    TensorRule::copy(&["visual.patch_embed.proj.weight"], "v.patch_embd")
        .bare(".weight")
        .rows(RowRule::Frame(0)),
    TensorRule::copy(&["visual.patch_embed.proj.weight"], "v.patch_embd")
        .bare(".weight.1")
        .rows(RowRule::Frame(1)),
    TensorRule::copy(&["visual.patch_embed.proj.bias"], "v.patch_embd").bare(".bias").need(Need::Optional),
];

/// Queries, keys and values of Qwen's towers, as one matrix.
pub const FUSED_QKV_OF_QWEN: &[TensorRule] =
    &[TensorRule::copy(&["visual.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_qkv")];

/// A gated feed-forward part of Qwen's towers.
pub const GATED_OF_QWEN: &[TensorRule] = &[
    TensorRule::copy(&["visual.blocks.{bid}.mlp.gate_proj"], "v.blk.{bid}.ffn_gate"),
    TensorRule::copy(&["visual.blocks.{bid}.mlp.up_proj"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["visual.blocks.{bid}.mlp.down_proj"], "v.blk.{bid}.ffn_down"),
];

/// Norms and output projections of the layers of Qwen's towers.
pub const LAYERS_OF_QWEN: &[TensorRule] = &[
    TensorRule::copy(&["visual.blocks.{bid}.norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["visual.blocks.{bid}.norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["visual.blocks.{bid}.attn.proj"], "v.blk.{bid}.attn_out"),
];

/// Names without `prefix`, for towers that checkpoints have with it and without it.
pub fn without(prefix: &str, name: &str) -> Option<String> {
    name.strip_prefix(prefix).map(str::to_owned)
}

/// Sets the key of the projector's kind.
pub fn kind(keys: &mut Keys, kind: &str) {
    keys.set_prefixed("projector_type", kind.into());
}

/// Sets the epsilon of a tower's norms.
///
/// # Errors
///
/// [`ArchError::BadKey`].
pub fn epsilon(keys: &mut Keys, key: &str, config: &Hparams, default: f64) -> Result<(), ArchError> {
    let epsilon = config.get_f64(key)?.unwrap_or(default);
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon as f32));
    Ok(())
}

/// Sets the flag of the activation that a config names.
///
/// # Errors
///
/// [`ArchError::BadKey`] for one that is neither gelu nor silu.
pub fn activation(keys: &mut Keys, config: &Hparams, key: &'static str) -> Result<(), ArchError> {
    let value = config.get(key).cloned().unwrap_or_default();
    match value.as_str() {
        Some("silu") => keys.set_prefixed("use_silu", Value::Bool(true)),
        Some("gelu") => keys.set_prefixed("use_gelu", Value::Bool(true)),
        _ => return Err(bad(key, &value, "gelu or silu")),
    }
    Ok(())
}

/// Sets the number of merged patches per side, from the ratio by which their number falls.
///
/// # Errors
///
/// [`ArchError::BadKey`] for an invalid ratio.
pub fn inverse(keys: &mut Keys, name: &str, ratio: f64) -> Result<(), ArchError> {
    if !(ratio > 0.0 && ratio <= 1.0) {
        return Err(bad(name, &ratio.into(), "a number above 0 and at most 1"));
    }
    // Python truncates: `int(1.0 / ratio)`.
    keys.set_derived("vision.projector.scale_factor", "", (1.0 / ratio) as u64)
}

/// The columns of a matrix of patches, (height, width, channel), as (channel, height, width).
pub fn channels_first(patch: u64) -> RowMap {
    // Column 3 (h patch + w) + c goes to c patch^2 + h patch + w.
    RowMap::TileColumns { groups: patch.saturating_mul(patch), per_group: 3, elems: 1 }
}

/// Reshapes a matrix of patches, (out, 3 patch patch), to kernels (out, 3, patch, patch). Dimensions are row
/// length first.
///
/// # Errors
///
/// None: shapes with another number of elements are refused.
pub fn kernel(dims: &[u64], patch: u64) -> Result<Vec<u64>, ArchError> {
    Ok(vec![patch, patch, 3, dims.get(1).copied().unwrap_or(1)])
}

/// The inverse of [`kernel`].
pub fn unkernel(dims: &[u64]) -> Vec<u64> {
    match dims {
        [width, height, channels, out] => vec![width * height * channels, *out],
        other => other.to_vec(),
    }
}

/// Sets the smallest and the largest number of pixels of an image, in the order of `pairs`: keys, and where the
/// preprocessor has them.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn pixels(keys: &mut Keys, towers: &Towers, pairs: [(&str, &'static str); 2]) -> Result<(), ArchError> {
    for (key, name) in pairs {
        let value = towers.preprocessor.get(name).ok_or_else(|| missing_in(PREPROCESSORS[0], name))?;
        keys.set_prefixed(key, Value::U32(to_u32(name, value)?));
    }
    Ok(())
}

/// One bound.
pub const fn bound(hf: &'static [&'static str], gguf: &'static str, ending: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(ending).shape(SCALAR).need(Need::Optional)
}

/// A number without dimensions as a vector.
const SCALAR: Reshape = Reshape { forward: |_, _| Ok(vec![1]), inverse: |_| Vec::new() };
