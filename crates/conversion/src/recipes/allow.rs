//! Tensors that keep their dtype.

use gguf_layout::Quantization;
use gguf_types::Shape;

use super::{KeepReason, Overrides};

/// Parts of names of tensors that no recipe changes, with a description.
///
/// Source: `tensor_allows_quantization` in `src/llama-quant.cpp`, llama-cpp-python 0.3.36.
const SENSITIVE_PARTS: &[(&str, &str)] = &[
    ("_norm.weight", "a norm"),
    ("ffn_gate_inp.weight", "an expert router"),
    ("ffn_gate_tid2eid.weight", "a table of token to expert"),
    ("altup", "a small projection"),
    ("laurel", "a small projection"),
    ("per_layer_model_proj", "a small projection"),
    ("ssm_conv1d", "a short convolution"),
    ("shortconv.conv.weight", "a short convolution"),
    ("indexer.k_proj.weight", "a small projection of the indexer"),
    ("indexer.q_proj.weight", "a small projection of the indexer"),
    ("time_mix_first.weight", "a small matrix of the time mix"),
    ("time_mix_w0.weight", "a small matrix of the time mix"),
    ("time_mix_w1.weight", "a small matrix of the time mix"),
    ("time_mix_w2.weight", "a small matrix of the time mix"),
    ("time_mix_v0.weight", "a small matrix of the time mix"),
    ("time_mix_v1.weight", "a small matrix of the time mix"),
    ("time_mix_v2.weight", "a small matrix of the time mix"),
    ("time_mix_a0.weight", "a small matrix of the time mix"),
    ("time_mix_a1.weight", "a small matrix of the time mix"),
    ("time_mix_a2.weight", "a small matrix of the time mix"),
    ("time_mix_g1.weight", "a small matrix of the time mix"),
    ("time_mix_g2.weight", "a small matrix of the time mix"),
    ("time_mix_decay_w1.weight", "a small matrix of the time mix"),
    ("time_mix_decay_w2.weight", "a small matrix of the time mix"),
    ("time_mix_lerp_fused.weight", "a small matrix of the time mix"),
    ("attn_rel_b.weight", "a relative position bias"),
    (".position_embd", "a position embedding"),
    ("sam.pos_embd", "a position embedding"),
    ("sam.neck.", "part of an image encoder"),
    ("sam.net_", "part of an image encoder"),
    (".rel_pos", "a relative position table"),
    (".patch_embd", "a patch embedding"),
    (".patch_merger", "a patch merger"),
    ("a.rvq.codebook", "an audio codebook"),
    ("mm.a.code_embd", "an audio codebook"),
];

const SENSITIVE_NAMES: &[(&str, &str)] = &[
    ("position_embd.weight", "a position embedding"),
    ("token_types.weight", "an embedding of token types"),
];

/// Reason to keep the tensor's dtype, or `None` if a recipe may choose.
pub fn keep_reason(
    facts: &Quantization,
    name: &str,
    shape: &Shape,
    overrides: &Overrides,
) -> Option<KeepReason> {
    if overrides.only_copy {
        return Some(KeepReason::Copy);
    }
    if shape.n_dims_effective() < 2 {
        return Some(KeepReason::Vector);
    }
    if !ends_with_weight(name) {
        return Some(KeepReason::NotAWeight);
    }
    if overrides.leave_output && name == "output.weight" {
        return Some(KeepReason::OutputOnRequest);
    }
    let whole = SENSITIVE_NAMES.iter().find(|(whole, _)| *whole == name).map(|row| row.1);
    let part = || SENSITIVE_PARTS.iter().find(|(part, _)| name.contains(part)).map(|row| row.1);
    let own = || facts.kept.iter().any(|part| name.contains(part)).then_some(facts.kept_because);
    whole.or_else(part).or_else(own).map(KeepReason::Sensitive)
}

/// The reference compares the position of the last `weight` with the length minus six, unsigned. In a name of
/// five bytes both wrap around to the same number, so it counts as well.
fn ends_with_weight(name: &str) -> bool {
    name.ends_with("weight") || name.len() == 5
}

#[cfg(test)]
mod tests {
    use gguf_models::FAMILIES;

    use super::*;

    #[test]
    fn reasons_to_keep_a_type_match_reference() {
        let matrix = Shape::new(&[256, 4]).unwrap();
        let vector = Shape::new(&[256, 1, 1]).unwrap();
        let plain = Overrides::default();
        let verdict = |name: &str| keep_reason(FAMILIES.quantization("llama"), name, &matrix, &plain);
        assert_eq!(verdict("blk.0.attn_q.weight"), None);
        assert_eq!(verdict("blk.0.ffn_gate_inp_shexp.weight"), None);
        assert_eq!(verdict("blk.0.ffn_gate_inp.weight"), Some(KeepReason::Sensitive("an expert router")));
        assert_eq!(verdict("blk.0.attn_q.bias"), Some(KeepReason::NotAWeight));
        assert_eq!(verdict("blk.0.weight_scale"), Some(KeepReason::NotAWeight));
        assert_eq!(verdict("x.y.z"), None);
        assert_eq!(verdict("position_embd.weight"), Some(KeepReason::Sensitive("a position embedding")));
        assert_eq!(
            keep_reason(FAMILIES.quantization("llama"), "blk.0.attn_q.weight", &vector, &plain),
            Some(KeepReason::Vector)
        );
        assert_eq!(verdict("blk.0.attn_k_b.weight"), None);
        assert!(
            keep_reason(FAMILIES.quantization("glm5-next"), "blk.0.attn_k_b.weight", &matrix, &plain)
                .is_some()
        );
        let leave = Overrides { leave_output: true, ..Overrides::default() };
        assert_eq!(
            keep_reason(FAMILIES.quantization("llama"), "output.weight", &matrix, &leave),
            Some(KeepReason::OutputOnRequest)
        );
        let copy = Overrides { only_copy: true, ..Overrides::default() };
        assert_eq!(
            keep_reason(FAMILIES.quantization("llama"), "blk.0.attn_q.weight", &matrix, &copy),
            Some(KeepReason::Copy)
        );
    }
}
