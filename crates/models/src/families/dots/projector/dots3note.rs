//! Towers of dots3-note: one of images, whose later layers are mixtures of experts, and one of sound.
//!
//! Config keys: those of every tower; the number of experts of each layer; the smallest and the largest image.
//!
//! Transforms: experts are stacked; gate and up of the audio encoder are split. Routers and kernels over sound stay F32.
//!
//! Source: `Dots3NoteMmprojModel` in `conversion/dots3.py`.

use gguf_layout::projector::prelude::*;
use gguf_layout::rules::{first_half, second_half};

pub const DOTS3NOTE: Projector = Projector {
    name: "dots3note",
    classes: &["Dots3NoteForCausalLM", "Dots3NoteForConditionalGeneration"],
    example: "rednote-hilab/dots3.note",
    audio: Some(AUDIO),
    tensors: &[TOWER, LAYERS, DENSE, EXPERTS, SOUND, SOUND_LAYERS],
    owns: |_, name| name.starts_with("vision_encoder.") || name.starts_with("audio_encoder."),
    prepare,
    keys,
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["vision_encoder.patch_embed.proj"], "v.patch_embd"),
    TensorRule::copy(&["vision_encoder.patch_embed.norm"], "v.pre_ln"),
    TensorRule::copy(&["vision_encoder.post_trunk_norm"], "mm.post_norm"),
    TensorRule::copy(&["vision_encoder.adapter.ln_q"], "mm.input_norm"),
    TensorRule::copy(&["vision_encoder.adapter.mlp.0"], "mm.0"),
    TensorRule::copy(&["vision_encoder.adapter.mlp.2"], "mm.2"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision_encoder.blocks.{bid}.norm_1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_encoder.blocks.{bid}.norm_2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision_encoder.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_qkv"),
    TensorRule::copy(&["vision_encoder.blocks.{bid}.attn.proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vision_encoder.blocks.{bid}.attn.q_norm"], "v.blk.{bid}.attn_q_norm"),
    TensorRule::copy(&["vision_encoder.blocks.{bid}.attn.k_norm"], "v.blk.{bid}.attn_k_norm"),
];

/// fc2(silu(fc1 x) fc3 x)
const DENSE: &[TensorRule] = &[
    TensorRule::copy(&["vision_encoder.blocks.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_gate").need(IS_DENSE),
    TensorRule::copy(&["vision_encoder.blocks.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down").need(IS_DENSE),
    TensorRule::copy(&["vision_encoder.blocks.{bid}.mlp.fc3"], "v.blk.{bid}.ffn_up").need(IS_DENSE),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["vision_encoder.blocks.{bid}.mlp.gate_weight"], "v.blk.{bid}.ffn_gate_inp")
        .bare(".weight")
        .float(FloatType::F32)
        .need(IS_MIXTURE),
    TensorRule::copy(&["vision_encoder.blocks.{bid}.mlp.router_bias"], "v.blk.{bid}.exp_probs_b")
        .bare(".weight")
        .need(IS_MIXTURE),
    stack(&["vision_encoder.blocks.{bid}.mlp.experts.{xid}.fc1"], "v.blk.{bid}.ffn_gate_exps"),
    stack(&["vision_encoder.blocks.{bid}.mlp.experts.{xid}.fc2"], "v.blk.{bid}.ffn_down_exps"),
    stack(&["vision_encoder.blocks.{bid}.mlp.experts.{xid}.fc3"], "v.blk.{bid}.ffn_up_exps"),
];

const fn stack(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf)
        .rows(RowRule::FuseInLayer(|hparams, layer| n_experts(hparams, layer) as usize))
        .need(IS_MIXTURE)
}

const IS_DENSE: Need = Need::If(|hparams, layer| n_experts(hparams, layer) == 0);
const IS_MIXTURE: Need = Need::If(|hparams, layer| n_experts(hparams, layer) > 0);

/// Number of experts of a layer of the vision tower; 0 for a dense layer.
fn n_experts(hparams: &Hparams, layer: u64) -> u64 {
    let layer = usize::try_from(layer).ok();
    let count = layer.and_then(|layer| hparams.get(PYRAMID)?.get(layer)?.as_i64());
    count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
}

const PYRAMID: &str = "pyramid_num_routed";

const SOUND: &[TensorRule] = &[
    kernel(&["audio_encoder.dots_encoder.speech_encoder.conv2d1"], "a.conv2d.1"),
    kernel(&["audio_encoder.dots_encoder.speech_encoder.conv2d2"], "a.conv2d.2"),
    kernel(&["audio_encoder.dots_encoder.speech_encoder.conv2d3"], "a.conv2d.3"),
    kernel(&["audio_encoder.dots_encoder.speech_encoder.conv_out"], "a.conv_out"),
    TensorRule::copy(&["audio_encoder.dots_encoder.speech_encoder.layer_norm"], "a.post_ln"),
    TensorRule::copy(&["audio_encoder.audio_adapter.proj.0"], "mm.a.norm_pre"),
    TensorRule::copy(&["audio_encoder.audio_adapter.proj.1"], "mm.a.mlp.1"),
    TensorRule::copy(&["audio_encoder.audio_adapter.proj.3"], "mm.a.mlp.3"),
];

const fn kernel(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).float(FloatType::F32)
}

const SOUND_LAYERS: &[TensorRule] = &[
    TensorRule::copy(
        &["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.self_attn_layer_norm"],
        "a.blk.{bid}.ln1",
    ),
    TensorRule::copy(
        &["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.final_layer_norm"],
        "a.blk.{bid}.ln2",
    ),
    TensorRule::copy(
        &["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.self_attn.q_proj"],
        "a.blk.{bid}.attn_q",
    ),
    TensorRule::copy(
        &["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.self_attn.k_proj"],
        "a.blk.{bid}.attn_k",
    ),
    TensorRule::copy(
        &["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.self_attn.v_proj"],
        "a.blk.{bid}.attn_v",
    ),
    TensorRule::copy(
        &["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.self_attn.out_proj"],
        "a.blk.{bid}.attn_out",
    ),
    // (2 n, width): gate, then up.
    TensorRule::part(
        &["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.fc1"],
        "a.blk.{bid}.ffn_gate",
        first_half,
    ),
    TensorRule::part(
        &["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.fc1"],
        "a.blk.{bid}.ffn_up",
        second_half,
    ),
    TensorRule::copy(&["audio_encoder.dots_encoder.speech_encoder.layers.{bid}.fc2"], "a.blk.{bid}.ffn_down"),
];

/// Copies sizes to the usual keys, and refuses values that llama.cpp's graph does not support.
fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let vision = towers.vision_mut()?;
    require(vision, "vision_config", "adapter_type", None, &"patch_merger".into())?;
    for (key, default, expected) in [
        ("pre_pixel_shuffle", None, true.into()),
        ("router_scoring_func", Some("sigmoid".into()), "sigmoid".into()),
        ("router_scale", Some(1.0.into()), 1.0.into()),
        ("temporal_patch_size", Some(1.into()), 1.into()),
        ("use_bias", Some(false.into()), false.into()),
        ("use_qk_norm", None, true.into()),
    ] {
        require(vision, "vision_config", key, default, &expected)?;
    }
    // `hidden_size` is the width of the adapter's output.
    let width = vision.need_u64(&["embed_dim"])?;
    vision.set("hidden_size", width.into());
    // Images may have any size.
    vision.set("image_size", 0.into());

    let audio = towers.audio_mut()?;
    for (key, default, expected) in [
        ("use_conv2d_stem", None, true.into()),
        ("use_rope", None, true.into()),
        ("use_rms_norm", None, true.into()),
        ("use_causal", Some(false.into()), false.into()),
        ("merge_factor", Some(1.into()), 1.into()),
        ("chunk_seconds", None, 60.into()),
    ] {
        require(audio, "audio_config", key, default, &expected)?;
    }
    let rope = audio.get("rope_parameters").and_then(Json::as_object).cloned().unwrap_or_default();
    let rope = Hparams::of_part(rope);
    require(&rope, "audio_config.rope_parameters", "partial_rotary_factor", None, &0.5.into())?;
    require(&rope, "audio_config.rope_parameters", "rope_theta", None, &10000.0.into())?;
    let inner = audio.get("whisper_config").and_then(Json::as_object).cloned();
    let inner = Hparams::of_part(inner.ok_or_else(|| missing("audio_config.whisper_config"))?);
    require(&inner, "audio_config.whisper_config", "activation_function", None, &"swiglu".into())?;
    for (from, to) in [
        ("d_model", "hidden_size"),
        ("encoder_ffn_dim", "intermediate_size"),
        ("encoder_attention_heads", "num_attention_heads"),
        ("encoder_layers", "num_hidden_layers"),
        ("num_mel_bins", "num_mel_bins"),
    ] {
        audio.set(to, inner.need_u64(&[from])?.into());
    }
    Ok(())
}

/// Fails unless the value is the expected one.
fn require(
    config: &Hparams,
    place: &str,
    key: &'static str,
    default: Option<Json>,
    expected: &Json,
) -> Result<(), ArchError> {
    let found = config.get(key).cloned().or(default).unwrap_or_default();
    // 1 and 1.0 are the same number.
    let same = match (found.as_f64(), expected.as_f64()) {
        (Some(found), Some(expected)) => found == expected,
        _ => found == *expected,
    };
    if same { Ok(()) } else { Err(bad(&format!("{place}.{key}"), &found, "the value of dots3.note")) }
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let (vision, audio) = (towers.vision()?, towers.audio()?);
    keys.set_prefixed("vision.projector_type", "dots3note_v".into());
    keys.set_prefixed("use_silu", Value::Bool(true));
    let epsilon = vision.need_f64("rms_norm_eps")? as f32;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(epsilon));
    count(keys, "vision.spatial_merge_size", vision, "vision_config", &["spatial_merge_size"])?;
    // The keys of images are in a part of the preprocessor's config.
    let inner = towers.preprocessor.get("vision_config").and_then(Json::as_object).cloned();
    let inner = inner.map(Hparams::of_part);
    for (key, name) in [("vision.image_min_pixels", "min_pixels"), ("vision.image_max_pixels", "max_pixels")]
    {
        let value =
            inner.as_ref().and_then(|inner| inner.get(name)).or_else(|| towers.preprocessor.get(name));
        let value = value.ok_or_else(|| missing_in(PREPROCESSORS[0], name))?;
        keys.set_prefixed(key, Value::U32(to_u32(name, value)?));
    }
    let counts = vision.get(PYRAMID).and_then(Json::as_array);
    let counts = counts.ok_or_else(|| missing("vision_config.pyramid_num_routed"))?;
    let counts: Vec<i32> = counts
        .iter()
        .map(|count| to_i32("vision_config.pyramid_num_routed", count).map(|count| count.max(0)))
        .collect::<Result<_, _>>()?;
    keys.set_prefixed("vision.expert_count_per_layer", Value::Array(Array::I32(counts)));
    let used = vision.need_f64("capacity_factor")? as u64;
    keys.set_derived("vision.expert_used_count", "capacity_factor", used)?;

    keys.set_prefixed("audio.projector_type", "dots3note_a".into());
    count(keys, "audio.num_mel_bins", audio, "audio_config.whisper_config", &["num_mel_bins"])?;
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(1e-6));
    Ok(())
}
