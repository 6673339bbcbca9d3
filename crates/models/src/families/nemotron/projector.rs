//! RADIO vision tower of Nemotron Nano VL, and Parakeet audio encoder of Nemotron Nano Omni.
//!
//! Config keys: the size of images and of patches; `sound_config`. The sizes of RADIO are in the model's code.
//!
//! Transforms: the matrix of patches becomes kernels; positions of a larger grid are interpolated to that of the image size;
//! kernels over sound lose their dimension of one and stay F32.
//!
//! Source: `NemotronNanoV2VLModel` in `conversion/nemotron.py`.

use gguf_layout::projector::prelude::*;

pub const NEMOTRON_NANO_VL: Projector = Projector {
    name: "nemotron-nano-vl",
    classes: &["NemotronH_Nano_VL_V2", "RADIOModel"],
    example: "nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL-BF16",
    audio: Some(Tower { at: &["sound_config"], ..VISION }),
    tensors: &[TOWER, LAYERS, SOUND, SOUND_LAYERS],
    owns: |_, name| {
        ["vision_model.", "mlp1.", "sound_encoder.", "sound_projection."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    drops,
    needs_preprocessor: false,
    prepare,
    keys,
    ..BASE
};

const TOWER: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.radio_model.model.patch_generator.embedder"], "v.patch_embd").shape(
        Reshape {
            forward: |hparams, dims| parts::kernel(dims, hparams.need_u64(&["patch_size"])?),
            inverse: parts::unkernel,
        },
    ),
    TensorRule::copy(&["vision_model.radio_model.model.patch_generator.pos_embed"], "v.position_embd")
        .bare(".weight")
        .rows(RowRule::Grid(patches_of_side)),
    TensorRule::copy(&["vision_model.radio_model.model.patch_generator.cls_token.token"], "v.class_embd")
        .bare(""),
    TensorRule::copy(&["mlp1.0"], "mm.model.mlp.0"),
    TensorRule::copy(&["mlp1.1"], "mm.model.mlp.1"),
    TensorRule::copy(&["mlp1.3"], "mm.model.mlp.3"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["vision_model.radio_model.model.blocks.{bid}.norm1"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["vision_model.radio_model.model.blocks.{bid}.norm2"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["vision_model.radio_model.model.blocks.{bid}.attn.qkv"], "v.blk.{bid}.attn_qkv"),
    TensorRule::copy(&["vision_model.radio_model.model.blocks.{bid}.attn.proj"], "v.blk.{bid}.attn_out"),
    TensorRule::copy(&["vision_model.radio_model.model.blocks.{bid}.mlp.fc1"], "v.blk.{bid}.ffn_up"),
    TensorRule::copy(&["vision_model.radio_model.model.blocks.{bid}.mlp.fc2"], "v.blk.{bid}.ffn_down"),
];

/// Tensors of models with an audio encoder.
const SOUND: &[TensorRule] = &[
    sound(&["sound_encoder.encoder.feature_extractor.featurizer.fb"], "a.mel_filters").bare(""),
    sound(&["sound_encoder.encoder.feature_extractor.featurizer.window"], "a.window").bare(""),
    kernel(&["sound_encoder.encoder.subsampling.layers.0"], "a.conv1d.0", FIRST),
    kernel(&["sound_encoder.encoder.subsampling.layers.2"], "a.conv1d.2", FIRST),
    kernel(&["sound_encoder.encoder.subsampling.layers.3"], "a.conv1d.3", FIRST),
    kernel(&["sound_encoder.encoder.subsampling.layers.5"], "a.conv1d.5", FIRST),
    kernel(&["sound_encoder.encoder.subsampling.layers.6"], "a.conv1d.6", FIRST),
    sound(&["sound_encoder.encoder.subsampling.linear"], "a.pre_encode.out"),
    sound(&["sound_projection.norm"], "mm.a.norm_pre"),
    sound(&["sound_projection.linear1"], "mm.a.mlp.1"),
    sound(&["sound_projection.linear2"], "mm.a.mlp.2"),
];

const SOUND_LAYERS: &[TensorRule] = &[
    sound(&["sound_encoder.encoder.layers.{bid}.norm_feed_forward1"], "a.blk.{bid}.ffn_norm"),
    sound(&["sound_encoder.encoder.layers.{bid}.feed_forward1.linear1"], "a.blk.{bid}.ffn_up"),
    sound(&["sound_encoder.encoder.layers.{bid}.feed_forward1.linear2"], "a.blk.{bid}.ffn_down"),
    sound(&["sound_encoder.encoder.layers.{bid}.norm_self_att"], "a.blk.{bid}.ln1"),
    sound(&["sound_encoder.encoder.layers.{bid}.self_attn.q_proj"], "a.blk.{bid}.attn_q"),
    sound(&["sound_encoder.encoder.layers.{bid}.self_attn.k_proj"], "a.blk.{bid}.attn_k"),
    sound(&["sound_encoder.encoder.layers.{bid}.self_attn.v_proj"], "a.blk.{bid}.attn_v"),
    sound(&["sound_encoder.encoder.layers.{bid}.self_attn.o_proj"], "a.blk.{bid}.attn_out"),
    sound(&["sound_encoder.encoder.layers.{bid}.self_attn.relative_k_proj"], "a.blk.{bid}.linear_pos"),
    sound(&["sound_encoder.encoder.layers.{bid}.self_attn.bias_u"], "a.blk.{bid}.pos_bias_u").bare(""),
    sound(&["sound_encoder.encoder.layers.{bid}.self_attn.bias_v"], "a.blk.{bid}.pos_bias_v").bare(""),
    sound(&["sound_encoder.encoder.layers.{bid}.norm_conv"], "a.blk.{bid}.norm_conv"),
    kernel(&["sound_encoder.encoder.layers.{bid}.conv.pointwise_conv1"], "a.blk.{bid}.conv_pw1", POINT),
    kernel(&["sound_encoder.encoder.layers.{bid}.conv.depthwise_conv"], "a.blk.{bid}.conv_dw", DEPTH),
    sound(&["sound_encoder.encoder.layers.{bid}.conv.norm"], "a.blk.{bid}.conv_norm"),
    sound(&["sound_encoder.encoder.layers.{bid}.conv.norm.running_mean"], "a.blk.{bid}.conv_norm_mean")
        .bare(""),
    sound(&["sound_encoder.encoder.layers.{bid}.conv.norm.running_var"], "a.blk.{bid}.conv_norm_var")
        .bare(""),
    kernel(&["sound_encoder.encoder.layers.{bid}.conv.pointwise_conv2"], "a.blk.{bid}.conv_pw2", POINT),
    sound(&["sound_encoder.encoder.layers.{bid}.norm_feed_forward2"], "a.blk.{bid}.ffn_norm_1"),
    sound(&["sound_encoder.encoder.layers.{bid}.feed_forward2.linear1"], "a.blk.{bid}.ffn_up_1"),
    sound(&["sound_encoder.encoder.layers.{bid}.feed_forward2.linear2"], "a.blk.{bid}.ffn_down_1"),
    sound(&["sound_encoder.encoder.layers.{bid}.norm_out"], "a.blk.{bid}.ln2"),
];

const fn sound(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|hparams, _| hparams.is_true(HEARS)))
}

const fn kernel(hf: &'static [&'static str], gguf: &'static str, shape: Reshape) -> TensorRule {
    sound(hf, gguf).float(FloatType::F32).shape(shape)
}

/// A bias (out) as (1, out, 1, 1), kernels as they are.
const FIRST: Reshape = Reshape {
    forward: |_, dims| match dims {
        [n] => Ok(vec![1, 1, *n, 1]),
        _ => Ok(dims.to_vec()),
    },
    inverse: <[u64]>::to_vec,
};

/// A kernel (out, in, 1) as a matrix, a bias like in [`FIRST`].
const POINT: Reshape = Reshape {
    forward: |hparams, dims| match dims {
        [1, rest @ ..] if rest.len() == 2 => Ok(rest.to_vec()),
        _ => (FIRST.forward)(hparams, dims),
    },
    inverse: <[u64]>::to_vec,
};

/// A kernel (out, 1, k) as (1, 1, out, k).
const DEPTH: Reshape = Reshape {
    forward: |_, dims| match dims {
        [k, 1, n] => Ok(vec![*k, *n, 1, 1]),
        _ => Ok(dims.to_vec()),
    },
    inverse: <[u64]>::to_vec,
};

/// Key of the vision tower's config that is true if the model has an audio encoder.
const HEARS: &str = "has_sound";

fn patches_of_side(hparams: &Hparams) -> Result<u64, ArchError> {
    let (size, patch) = (hparams.need_u64(&["image_size"])?, hparams.need_u64(&["patch_size"])?);
    size.checked_div(patch)
        .ok_or_else(|| bad("vision_config.patch_size", &patch.into(), "an integer above 0"))
}

fn drops(_: &Hparams, name: &str) -> Option<&'static str> {
    match name {
        name if name.contains("input_conditioner") => {
            Some("colors are normalized by the preprocessor's numbers")
        }
        name if name.contains("patch_generator.video_embedder") => Some("llama.cpp reads no videos"),
        name if name.contains("conv.norm") && name.contains("num_batches") => Some("a counter of training"),
        name if name.starts_with("vision_model.") && !name.starts_with("vision_model.radio_model.model.") => {
            Some("not part of the tower that llama.cpp computes")
        }
        _ => None,
    }
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let size = towers.whole.get_u64("force_image_size")?.unwrap_or(512);
    let hears = towers.audio.is_some();
    let vision = towers.vision_mut()?;
    // RADIO v2.5-h
    for (key, value) in [
        ("hidden_size", 1280),
        ("intermediate_size", 5120),
        ("num_hidden_layers", 32),
        ("num_attention_heads", 16),
        ("image_size", size),
    ] {
        vision.set(key, value.into());
    }
    vision.set(HEARS, hears.into());
    for (key, values) in [("image_mean", [0.485, 0.456, 0.406]), ("image_std", [0.229, 0.224, 0.225])] {
        if towers.preprocessor.get(key).is_none() {
            towers.preprocessor.set(key, values.to_vec().into());
        }
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    match &towers.audio {
        Some(audio) => {
            count(keys, "audio.num_mel_bins", audio, "sound_config", &["num_mel_bins"])?;
            keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(1e-5));
            count(keys, "audio.subsampling_factor", audio, "sound_config", &["subsampling_factor"])?;
            count(keys, "audio.conv_kernel_size", audio, "sound_config", &["conv_kernel_size"])?;
            keys.set_prefixed("audio.projector_type", "parakeet".into());
            keys.set_prefixed("vision.projector_type", "nemotron_v2_vl".into());
        }
        None => parts::kind(keys, "nemotron_v2_vl"),
    }
    tower_keys(towers, keys)?;
    keys.set_prefixed("vision.attention.layer_norm_epsilon", Value::F32(1e-6));
    keys.set_prefixed("use_gelu", Value::Bool(true));
    parts::inverse(keys, "downsample_ratio", towers.whole.get_f64("downsample_ratio")?.unwrap_or(0.5))
}
