//! Towers of Gemma 3n: MobileNet V5 for images, a conformer for sound.
//!
//! Config keys: the sizes of both; the size of images and the number of tokens of one.
//!
//! Transforms: the first bias gets dimensions of one. The architecture of MobileNet is in the code of timm and not in the config,
//! so all tensors of blocks are optional.
//!
//! Source: `Gemma3nVisionAudioModel` in `conversion/gemma.py`.

use gguf_layout::projector::prelude::*;

pub const GEMMA3N: Projector = Projector {
    name: "gemma3n",
    classes: &["Gemma3nForConditionalGeneration"],
    example: "google/gemma-3n-E2B-it",
    vision: Some(Tower { classes: &[ConfigClass::new("gemma3n_vision")], ..VISION }),
    audio: Some(Tower { classes: &[ConfigClass::new("gemma3n_audio")], ..AUDIO }),
    tensors: &[ENDS, BLOCKS, SOUND, SOUND_LAYERS],
    owns: |_, name| {
        ["model.embed_vision.", "model.embed_audio.", "model.vision_tower.", "model.audio_tower."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    prepare,
    keys,
    ..BASE
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_vision.embedding"], "mm.embedding"),
    TensorRule::copy(&["model.embed_vision.hard_embedding_norm"], "mm.hard_emb_norm"),
    TensorRule::copy(&["model.embed_vision.soft_embedding_norm"], "mm.soft_emb_norm"),
    TensorRule::copy(&["model.embed_vision.embedding_projection"], "mm.input_projection"),
    TensorRule::copy(&["model.vision_tower.timm_model.conv_stem.conv.weight"], "v.conv_stem.conv")
        .bare(".weight")
        .float(FloatType::F32),
    // (out) as (1, out, 1, 1)
    TensorRule::copy(&["model.vision_tower.timm_model.conv_stem.conv.bias"], "v.conv_stem.conv")
        .bare(".bias")
        .shape(Reshape {
            forward: |_, dims| Ok([&[1, 1], dims, &[1]].concat()),
            inverse: |dims| dims.get(2).copied().into_iter().collect(),
        }),
    TensorRule::copy(&["model.vision_tower.timm_model.conv_stem.bn"], "v.conv_stem.bn"),
    TensorRule::copy(&["model.vision_tower.timm_model.msfa.ffn.pw_exp.conv"], "v.msfa.ffn.pw_exp.conv"),
    TensorRule::copy(&["model.vision_tower.timm_model.msfa.ffn.pw_exp.bn"], "v.msfa.ffn.pw_exp.bn"),
    TensorRule::copy(&["model.vision_tower.timm_model.msfa.ffn.pw_proj.conv"], "v.msfa.ffn.pw_proj.conv"),
    TensorRule::copy(&["model.vision_tower.timm_model.msfa.ffn.pw_proj.bn"], "v.msfa.ffn.pw_proj.bn"),
    TensorRule::copy(&["model.vision_tower.timm_model.msfa.norm"], "v.msfa.norm"),
];

/// Rules for tensors of blocks, whose names are the same in the checkpoint and in the file: the stage, then the block.
macro_rules! blocks {
    ($($name:literal),* $(,)?) => {
        &[$(TensorRule::copy(
            &[concat!("model.vision_tower.timm_model.blocks.{bid}.{xid}.", $name)],
            concat!("v.blk.{bid}.{xid}.", $name),
        )
        .need(Need::Optional)),*]
    };
}

const BLOCKS: &[TensorRule] = blocks![
    "conv_exp",
    "bn1",
    "conv_pwl",
    "bn2",
    "dw_start.conv",
    "dw_start.bn",
    "dw_mid.conv",
    "dw_mid.bn",
    "pw_exp.conv",
    "pw_exp.bn",
    "pw_proj.conv",
    "pw_proj.bn",
    "attn.query.proj",
    "attn.key.proj",
    "attn.value.proj",
    "attn.output.proj",
    "attn.key.down_conv",
    "attn.key.norm",
    "attn.value.down_conv",
    "attn.value.norm",
    "norm",
];

const SCALES: TensorRule = TensorRule::copy(
    &["model.vision_tower.timm_model.blocks.{bid}.{xid}.layer_scale.gamma"],
    "v.blk.{bid}.{xid}.layer_scale.gamma",
)
.bare("")
.need(Need::Optional);

const SOUND: &[TensorRule] = &[
    SCALES,
    TensorRule::copy(&["model.embed_audio.embedding"], "mm.a.embedding"),
    TensorRule::copy(&["model.embed_audio.hard_embedding_norm"], "mm.a.hard_emb_norm"),
    TensorRule::copy(&["model.embed_audio.soft_embedding_norm"], "mm.a.soft_emb_norm"),
    TensorRule::copy(&["model.embed_audio.embedding_projection"], "mm.a.input_projection"),
    TensorRule::copy(&["model.audio_tower.subsample_conv_projection.conv_0.conv"], "a.conv1d.0")
        .float(FloatType::F32),
    TensorRule::copy(&["model.audio_tower.subsample_conv_projection.conv_0.norm"], "a.conv1d.0.norm"),
    TensorRule::copy(&["model.audio_tower.subsample_conv_projection.conv_1.conv"], "a.conv1d.1")
        .float(FloatType::F32),
    TensorRule::copy(&["model.audio_tower.subsample_conv_projection.conv_1.norm"], "a.conv1d.1.norm"),
    // The reference gives it the name of a different matrix.
    TensorRule::copy(&["model.audio_tower.subsample_conv_projection.input_proj_linear"], "a.pre_encode.out")
        .float(FloatType::F16),
];

const SOUND_LAYERS: &[TensorRule] = &[
    layer(&["model.audio_tower.conformer.{bid}.ffw_layer_start.pre_layer_norm"], "a.blk.{bid}.ffn_norm"),
    layer(&["model.audio_tower.conformer.{bid}.ffw_layer_start.ffw_layer_1"], "a.blk.{bid}.ffn_up"),
    layer(&["model.audio_tower.conformer.{bid}.ffw_layer_start.ffw_layer_2"], "a.blk.{bid}.ffn_down"),
    layer(
        &["model.audio_tower.conformer.{bid}.ffw_layer_start.post_layer_norm"],
        "a.blk.{bid}.ffn_post_norm",
    ),
    layer(&["model.audio_tower.conformer.{bid}.attention.pre_attn_norm"], "a.blk.{bid}.ln1"),
    layer(&["model.audio_tower.conformer.{bid}.attention.attn.per_dim_scale"], "a.blk.{bid}.per_dim_scale")
        .bare(""),
    layer(
        &["model.audio_tower.conformer.{bid}.attention.attn.relative_position_embedding.pos_proj"],
        "a.blk.{bid}.linear_pos",
    ),
    layer(&["model.audio_tower.conformer.{bid}.attention.attn.q_proj"], "a.blk.{bid}.attn_q"),
    layer(&["model.audio_tower.conformer.{bid}.attention.attn.k_proj"], "a.blk.{bid}.attn_k"),
    layer(&["model.audio_tower.conformer.{bid}.attention.attn.v_proj"], "a.blk.{bid}.attn_v"),
    layer(&["model.audio_tower.conformer.{bid}.attention.post"], "a.blk.{bid}.attn_out"),
    layer(&["model.audio_tower.conformer.{bid}.attention.post_norm"], "a.blk.{bid}.ln2"),
    layer(&["model.audio_tower.conformer.{bid}.lconv1d.pre_layer_norm"], "a.blk.{bid}.conv_norm"),
    layer(&["model.audio_tower.conformer.{bid}.lconv1d.linear_start"], "a.blk.{bid}.conv_pw1"),
    layer(&["model.audio_tower.conformer.{bid}.lconv1d.depthwise_conv1d"], "a.blk.{bid}.conv_dw")
        .float(FloatType::F32),
    layer(&["model.audio_tower.conformer.{bid}.lconv1d.conv_norm"], "a.blk.{bid}.norm_conv"),
    layer(&["model.audio_tower.conformer.{bid}.lconv1d.linear_end"], "a.blk.{bid}.conv_pw2"),
    layer(&["model.audio_tower.conformer.{bid}.ffw_layer_end.pre_layer_norm"], "a.blk.{bid}.ffn_norm_1"),
    layer(&["model.audio_tower.conformer.{bid}.ffw_layer_end.ffw_layer_1"], "a.blk.{bid}.ffn_up_1"),
    layer(&["model.audio_tower.conformer.{bid}.ffw_layer_end.ffw_layer_2"], "a.blk.{bid}.ffn_down_1"),
    layer(
        &["model.audio_tower.conformer.{bid}.ffw_layer_end.post_layer_norm"],
        "a.blk.{bid}.ffn_post_norm_1",
    ),
    layer(&["model.audio_tower.conformer.{bid}.norm"], "a.blk.{bid}.layer_pre_norm"),
];

const fn layer(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf)
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let size = towers.preprocessor.get("size").and_then(|size| size.get("height"));
    let size = size.map_or(Ok(768), |size| to_u32("size.height", size))?;
    let n_tokens = towers.preprocessor.get_u64("image_seq_length")?.unwrap_or(256);
    // The reference's formula, which has nothing to do with patches.
    let patch = u64::from(size).checked_div(n_tokens);
    let patch = patch.ok_or_else(|| bad("image_seq_length", &n_tokens.into(), "an integer above 0"))?;
    // MobileNet takes colors from 0 to 1.
    towers.preprocessor.set("image_mean", vec![0.0; 3].into());
    towers.preprocessor.set("image_std", vec![1.0; 3].into());
    let vision = towers.vision_mut()?;
    // These keys do not describe MobileNet, but llama.cpp requires them for every tower.
    vision.set("n_layers", 128.into());
    let width = vision.get_u64("intermediate_size")?.unwrap_or(2048);
    vision.set("intermediate_size", width.saturating_mul(4).into());
    let heads = vision.get_u64("num_attention_heads")?.unwrap_or(8);
    vision.set("num_attention_heads", heads.into());
    vision.set("image_size", size.into());
    vision.set("patch_size", patch.into());
    let audio = towers.audio_mut()?;
    for (from, to) in [
        ("conf_num_hidden_layers", "n_layers"),
        ("conf_num_attention_heads", "num_attention_heads"),
        ("input_feat_size", "feat_in"),
    ] {
        let value = audio.need_u64(&[from])?;
        audio.set(to, value.into());
    }
    let width = audio.get_u64("intermediate_size")?.unwrap_or(6144);
    audio.set("intermediate_size", width.into());
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    keys.set_prefixed("vision.projector_type", "gemma3nv".into());
    parts::epsilon(keys, "layer_norm_eps", towers.vision()?, 1e-6)?;
    keys.set_prefixed("audio.projector_type", "gemma3na".into());
    count(keys, "audio.num_mel_bins", towers.audio()?, "audio_config", &["feat_in"])?;
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(1e-5));
    Ok(())
}
