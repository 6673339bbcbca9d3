//! Source tensors that no text model needs, and tensors that stay in single precision.

use crate::layout::FloatType;

/// An output matrix that equals the embedding. Information is lost if it differs.
pub const TIED: &str = "tied to the embedding";

/// Biases that no graph adds. They are lost unless they are zero.
pub const NO_BIAS: &str = "llama.cpp adds no bias here";

/// A part of a classifier's head that no graph computes.
pub const NO_POOLER: &str = "llama.cpp does not compute this part of the head";

/// A vision tower, audio encoder or similar part.
pub const TOWER: &str = "part of an image, sound or speech model";

/// Layers that predict more than the next token.
pub const NO_PREDICTION: &str = "multi-token prediction of this architecture is not converted";

/// Reason to leave out a source tensor in every architecture, if there is one.
///
/// Source: `ModelBase.prepare_tensors` and `TextModel.filter_tensors` in `conversion/base.py`. The reference
/// leaves these out silently.
pub fn reason(name: &str) -> Option<&'static str> {
    const COMPUTED: [(&str, &str); 3] = [
        (".rotary_emb.inv_freq", "rotary frequencies are computed from the config"),
        (".attention.masked_bias", "the causal mask is not a weight"),
        (".attention.bias", "the causal mask is not a weight"),
    ];
    const OTHER_START: [&str; 11] = [
        "mlp",
        "vit.",
        "vpm.",
        "siglip2.",
        "conformer.",
        "merger.",
        "resampler.",
        "sound_encoder.",
        "sound_projection.",
        "speech_embeddings.",
        "speech_tokenizer.",
    ];
    const OTHER_PART: [&str; 17] = [
        "visual.",
        "vision.",
        "audio.",
        "talker.",
        "vision_",
        "audio_",
        "token2wav.",
        "code2wav.",
        "projector.",
        "pre_mm_projector_norm",
        "image_newline",
        "view_seperator",
        "patch_embed",
        "patch_merger.",
        "patch_merge_mlp.",
        "model.connector.",
        "patch_embedding",
    ];
    if let Some((_, reason)) = COMPUTED.iter().find(|(end, _)| name.ends_with(end)) {
        return Some(reason);
    }
    // By parts of names, as the reference has it; a text model with such a name would lose the tensor
    // there too.
    let other = OTHER_START.iter().any(|start| name.starts_with(start))
        || OTHER_PART.iter().any(|part| name.contains(part));
    other.then_some(TOWER)
}

/// True for a matrix of a sentence-transformers module after the model (`2_Dense.linear.weight`).
pub fn is_dense_module(name: &str) -> bool {
    ["1_Dense.", "2_Dense.", "3_Dense."].iter().any(|start| name.starts_with(start))
}

/// Type of an output tensor in the reference's float files, by name: F32 if `keep_f32` is true; patch
/// embedding kernels are at most F16 in F16 files.
///
/// Source: `MmprojModel.tensor_force_quant` in `conversion/base.py`.
pub fn float(name: &str, n_dims: usize) -> FloatType {
    let is_kernel = [".patch_embd.weight", ".patch_merger.weight"].iter().any(|part| name.contains(part));
    match () {
        () if n_dims > 1 && is_kernel => FloatType::F16OrF32,
        () if keep_f32(name, n_dims) => FloatType::F32,
        () => FloatType::OfFile,
    }
}

/// True if the reference converter keeps an output tensor in f32 for any file type: vectors, norms,
/// everything that is not a `.weight`, and a list of small tensors.
///
/// Source: `ModelBase.prepare_tensors` in `conversion/base.py`.
fn keep_f32(name: &str, n_dims: usize) -> bool {
    const BLOCK: [&str; 16] = [
        "ffn_gate_inp",
        "ffn_gate_inp_shexp",
        "ssm_conv1d",
        "ssm_conv1d_q",
        "ssm_conv1d_k",
        "ssm_conv1d_v",
        "shortconv.conv",
        "time_mix_first",
        "time_mix_w1",
        "time_mix_w2",
        "time_mix_decay_w1",
        "time_mix_decay_w2",
        "time_mix_lerp_fused",
        "altup_correct_coef",
        "altup_predict_coef",
        "indexer.proj",
    ];
    // The last four are Whisper's, of which the reference knows nothing.
    const WHOLE: [&str; 8] = [
        "position_embd",
        "token_types",
        "v.position_embd",
        "a.position_embd",
        "enc.pos_embd",
        "dec.pos_embd",
        "enc.conv1d.1",
        "enc.conv1d.2",
    ];
    if n_dims <= 1 || name.ends_with("_norm.weight") {
        return true;
    }
    // `ssm_a`, biases: tensors other than weights are small.
    let Some(base) = name.strip_suffix(".weight") else { return true };
    // `match_model_tensor_name`: the name of the layer's tensor must be exactly one.
    match gguf_types::layer_and_part(base) {
        Some((_, part)) => BLOCK.contains(&part),
        None => WHOLE.contains(&base),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_tensors_stay_f32() {
        for name in [
            "blk.3.ffn_gate_inp.weight",
            "position_embd.weight",
            "blk.0.attn_norm.weight",
            "blk.0.attn_q.bias",
        ] {
            assert!(keep_f32(name, 2), "{name}");
        }
        assert!(keep_f32("blk.0.attn_q.weight", 1));
        assert_eq!(float("mm.patch_merger.weight", 2), FloatType::F16OrF32);
        assert_eq!(float("v.patch_embd.weight.1", 4), FloatType::F16OrF32);
        assert_eq!(float("v.patch_embd.bias", 1), FloatType::F32);
        for name in
            ["blk.3.ffn_gate.weight", "token_embd.weight", "output.weight", "blk.1.ffn_gate_exps.weight"]
        {
            assert!(!keep_f32(name, 2), "{name}");
        }
    }
}
