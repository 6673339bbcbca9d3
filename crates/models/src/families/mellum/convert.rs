//! Mellum 2: a mixture of experts with windows.
//!
//! Config keys: those of every text model, the length of the experts, the window and which layers have it.
//!
//! Transforms: experts become one tensor.
//!
//! Source: `MellumModel` in `conversion/mellum.py`.

use crate::prelude::*;

pub const MELLUM: Arch = Arch {
    name: "mellum",
    classes: &[Class::new("MellumForCausalLM")],
    example: "JetBrains/Mellum2-12B-A2.5B-Base",
    configs: &[MELLUM_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
    ],
    keys,
    harmless: &["mlp_layer_types"],
    built_in: &[NORMALIZES_EXPERTS, HAS_ONE_BASE],
    yarn: YarnScales::RotationOfFullLayers,
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.count("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
    // Without a window every layer sees all tokens, and no pattern is written.
    if hparams.get("use_sliding_window") == Some(&Json::Bool(false))
        || hparams.get("sliding_window").is_none()
    {
        return Ok(());
    }
    keys.count("attention.sliding_window", hparams, &["sliding_window"])?;
    let slides = hparams.sliding_layers().ok_or_else(|| missing("layer_types"))?;
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(slides)));
    Ok(())
}

/// `MellumConfig`.
const MELLUM_CONFIG: ConfigClass = ConfigClass::new("mellum").adjusted(|map| {
    adjust::layer_types(map, |_| false)?;
    adjust::dense_then_sparse(map, 0)?;
    if map.get("rope_parameters").is_none_or(Json::is_null) {
        let one = |theta: f64| json!({"rope_type": "default", "rope_theta": theta});
        let both = json!({"full_attention": one(500_000.0), "sliding_attention": one(10_000.0)});
        map.insert("rope_parameters".into(), both);
    }
    Ok(())
});
