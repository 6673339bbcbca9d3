//! Towers of MiMo V2.5: a vision tower like that of Qwen 2.5 VL, and an audio tokenizer in a subfolder, whose codes a small
//! transformer reads.
//!
//! Config keys: those of every tower; the kinds of attention of each layer; sizes of `audio_tokenizer/config.json` and of
//! `audio_config`.
//!
//! Transforms: the kernel of patches, which sees two frames, becomes two tensors. Codebooks are stacked, the shorter ones padded
//! with zeros. The embeddings of codes are stacked, too. Kernels over sound stay F32.
//!
//! Source: `MiMoV2VisionAudioModel` in `conversion/mimo.py`.

use crate::families::qwen::projector::qwen2vl;
use gguf_layout::projector::prelude::*;

pub const MIMO2: Projector = Projector {
    name: "mimo2",
    classes: &["MiMoV2ForCausalLM"],
    example: "XiaomiMiMo/MiMo-V2.5",
    audio: Some(Tower { at: &[""], file: Some("audio_tokenizer/config.json"), classes: &[] }),
    tensors: &[
        parts::FRAMES,
        parts::LAYERS_OF_QWEN,
        parts::FUSED_QKV_OF_QWEN,
        parts::GATED_OF_QWEN,
        SINKS,
        qwen2vl::MERGER,
        SOUND,
        SOUND_LAYERS,
        CODES,
    ],
    owns: |_, name| {
        ["visual.", "speech_embeddings.", "audio_encoder.", "audio_tokenizer."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    drops: |_, name| match name.strip_prefix("audio_tokenizer.")? {
        name if name.starts_with("decoder.") => Some("part of a model that generates sound"),
        name if ["_codebook.cluster_size", "_codebook.embed_avg", "_codebook.inited"]
            .iter()
            .any(|end| name.ends_with(end)) =>
        {
            Some("only training uses it")
        }
        _ => None,
    },
    asks_shape: |name| codebook(name).is_some(),
    prepare,
    keys,
    ..BASE
};

/// Attention sinks, in towers that have them.
const SINKS: &[TensorRule] =
    &[TensorRule::copy(&["visual.blocks.{bid}.attn.sinks"], "v.blk.{bid}.attn_sinks")
        .bare("")
        .need(Need::If(|hparams, _| hparams.is_true("use_sink")))];

const SOUND: &[TensorRule] = &[
    kernel(&["audio_tokenizer.encoder.conv1.weight"], "a.conv1d.1"),
    TensorRule::copy(&["audio_tokenizer.encoder.conv1.bias"], "a.conv1d.1").bare(".bias").shape(COLUMN),
    kernel(&["audio_tokenizer.encoder.conv2.weight"], "a.conv1d.2"),
    TensorRule::copy(&["audio_tokenizer.encoder.conv2.bias"], "a.conv1d.2").bare(".bias").shape(COLUMN),
    kernel(&["audio_tokenizer.encoder.down_sample_layer.0.weight"], "a.downsample.conv"),
    TensorRule::copy(&["audio_tokenizer.encoder.down_sample_norm"], "a.downsample.norm"),
    TensorRule::copy(&["audio_tokenizer.encoder.layer_norm"], "a.post_ln"),
];

const fn kernel(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".weight").float(FloatType::F32)
}

const SOUND_LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["audio_tokenizer.encoder.layers.{bid}.self_attn_layer_norm"], "a.blk.{bid}.ln1"),
    TensorRule::copy(&["audio_tokenizer.encoder.layers.{bid}.final_layer_norm"], "a.blk.{bid}.ln2"),
    TensorRule::copy(&["audio_tokenizer.encoder.layers.{bid}.self_attn.q_proj"], "a.blk.{bid}.attn_q"),
    TensorRule::copy(&["audio_tokenizer.encoder.layers.{bid}.self_attn.k_proj"], "a.blk.{bid}.attn_k"),
    TensorRule::copy(&["audio_tokenizer.encoder.layers.{bid}.self_attn.v_proj"], "a.blk.{bid}.attn_v"),
    TensorRule::copy(&["audio_tokenizer.encoder.layers.{bid}.self_attn.out_proj"], "a.blk.{bid}.attn_out"),
    TensorRule::copy(&["audio_tokenizer.encoder.layers.{bid}.fc1"], "a.blk.{bid}.ffn_up"),
    TensorRule::copy(&["audio_tokenizer.encoder.layers.{bid}.fc2"], "a.blk.{bid}.ffn_down"),
];

/// Codebooks, and the transformer that reads a group of codes.
const CODES: &[TensorRule] = &[
    TensorRule::copy(
        &["audio_tokenizer.encoder.quantizer.vq.layers.{xid}._codebook.embed"],
        "a.rvq.codebook",
    )
    .bare(".weight")
    .float(FloatType::F32)
    .rows(RowRule::FusePadded(|hparams| number(hparams, N_CODEBOOKS))),
    TensorRule::copy(&["speech_embeddings.{xid}.weight"], "mm.a.code_embd")
        .bare(".weight")
        .float(FloatType::F32)
        .rows(RowRule::Fuse(|hparams| number(hparams, N_CHANNELS))),
    local(
        &["audio_encoder.input_local_transformer.layers.{bid}.input_layernorm"],
        "mm.a.local_blk.{bid}.ln1",
    ),
    local(
        &["audio_encoder.input_local_transformer.layers.{bid}.post_attention_layernorm"],
        "mm.a.local_blk.{bid}.ln2",
    ),
    local(
        &["audio_encoder.input_local_transformer.layers.{bid}.self_attn.q_proj"],
        "mm.a.local_blk.{bid}.attn_q",
    ),
    local(
        &["audio_encoder.input_local_transformer.layers.{bid}.self_attn.k_proj"],
        "mm.a.local_blk.{bid}.attn_k",
    ),
    local(
        &["audio_encoder.input_local_transformer.layers.{bid}.self_attn.v_proj"],
        "mm.a.local_blk.{bid}.attn_v",
    ),
    local(
        &["audio_encoder.input_local_transformer.layers.{bid}.self_attn.o_proj"],
        "mm.a.local_blk.{bid}.attn_out",
    ),
    local(
        &["audio_encoder.input_local_transformer.layers.{bid}.mlp.gate_proj"],
        "mm.a.local_blk.{bid}.ffn_gate",
    ),
    local(&["audio_encoder.input_local_transformer.layers.{bid}.mlp.up_proj"], "mm.a.local_blk.{bid}.ffn_up"),
    local(
        &["audio_encoder.input_local_transformer.layers.{bid}.mlp.down_proj"],
        "mm.a.local_blk.{bid}.ffn_down",
    ),
    TensorRule::copy(&["audio_encoder.input_local_transformer.norm"], "mm.a.local_norm"),
    TensorRule::copy(&["audio_encoder.projection.mlp.0"], "mm.a.mlp.1"),
    TensorRule::copy(&["audio_encoder.projection.mlp.2"], "mm.a.mlp.2"),
];

const fn local(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|hparams, layer| layer < number(hparams, N_LOCAL) as u64))
}

/// Keys of the vision tower's config under which `prepare` puts counts of the other parts.
const N_CODEBOOKS: &str = "n_codebooks";
const N_CHANNELS: &str = "audio_channels";
const N_LOCAL: &str = "input_local_layers";

fn number(hparams: &Hparams, key: &str) -> usize {
    let count = hparams.get_u64(key).ok().flatten();
    count.and_then(|count| usize::try_from(count).ok()).unwrap_or(0)
}

/// The number of a codebook, by the name of its tensor.
fn codebook(name: &str) -> Option<u64> {
    let rest = name.strip_prefix("audio_tokenizer.encoder.quantizer.vq.layers.")?;
    rest.strip_suffix("._codebook.embed")?.parse().ok()
}

/// Lengths of the codebooks, in their order.
fn codebooks(towers: &Towers) -> Vec<u64> {
    let mut all: Vec<(u64, u64)> =
        towers.shapes.iter().filter_map(|(name, shape)| Some((codebook(name)?, shape.n_rows()))).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, n_codes)| n_codes).collect()
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let n_codebooks = codebooks(towers).len() as u64;
    let sound = towers.whole.get("audio_config").and_then(Json::as_object).cloned();
    let sound = Hparams::of_part(sound.ok_or_else(|| missing("audio_config"))?);
    let vision = towers.vision_mut()?;
    vision.set(N_CODEBOOKS, n_codebooks.into());
    for key in [N_CHANNELS, N_LOCAL] {
        let value = sound.need_u64(&[key])?;
        vision.set(key, value.into());
    }
    for (from, to, default) in [
        ("image_size", "image_size", 560),
        ("num_heads", "num_attention_heads", 32),
        ("depth", "num_hidden_layers", 28),
    ] {
        let value = vision.get_u64(from)?.unwrap_or(default);
        vision.set(to, value.into());
    }
    let audio = towers.audio_mut()?;
    for (from, to) in [
        ("d_model", "hidden_size"),
        ("encoder_ffn_dim", "intermediate_size"),
        ("encoder_attention_heads", "num_attention_heads"),
    ] {
        let value = audio.need_u64(&[from])?;
        audio.set(to, value.into());
    }
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    let (vision, audio) = (towers.vision()?, towers.audio()?);
    keys.set_prefixed("vision.projector_type", "mimovl".into());
    keys.set_prefixed("use_silu", Value::Bool(true));
    let heads = vision.get_u64("num_key_value_heads")?.unwrap_or(8);
    keys.set_derived("vision.attention.head_count_kv", "num_key_value_heads", heads)?;
    count(keys, "vision.spatial_merge_size", vision, "vision_config", &["spatial_merge_size"])?;
    const WINDOW: &str = "vision_config.visual_token_window_size";
    let window = vision.get("visual_token_window_size").ok_or_else(|| missing(WINDOW))?;
    keys.set_prefixed("vision.window_size", Value::U32(to_u32(WINDOW, window)?));
    const KINDS: &str = "vision_config.vit_window_attn_types";
    let kinds = vision.get("vit_window_attn_types").and_then(Json::as_array).ok_or_else(|| missing(KINDS))?;
    let kinds = kinds.iter().map(|kind| to_i32(KINDS, kind)).collect::<Result<_, _>>()?;
    keys.set_prefixed("vision.wa_pattern_mode", Value::Array(Array::I32(kinds)));
    parts::epsilon(keys, "rms_norm_eps", vision, 1e-6)?;
    parts::pixels(
        keys,
        towers,
        [("vision.image_min_pixels", "min_pixels"), ("vision.image_max_pixels", "max_pixels")],
    )?;

    keys.set_prefixed("audio.projector_type", "mimo_audio".into());
    count(keys, "audio.num_mel_bins", audio, "audio_tokenizer/config.json", &["n_mels"])?;
    let epsilon = audio.get_f64("layer_norm_eps")?.unwrap_or(1e-5);
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(epsilon as f32));
    let codebooks = codebooks(towers);
    keys.set_derived("audio.rvq.num_quantizers", "", codebooks.len() as u64)?;
    let sizes =
        codebooks.iter().map(|size| to_i32("codebook", &(*size).into())).collect::<Result<Vec<_>, _>>()?;
    keys.set_prefixed("audio.rvq.codebook_size", Value::Array(Array::I32(sizes)));
    let n_layers = audio.need_u64(&["encoder_layers"])?.min(1 << 16);
    let period = if audio.is_true("hybrid_attention") {
        audio.get_u64("swa_per_block")?.unwrap_or(1).max(1)
    } else {
        1
    };
    // The last layer of each block has full attention.
    let kinds = (0..n_layers).map(|layer| if layer % period < period - 1 { 0 } else { -1 }).collect();
    keys.set_prefixed("audio.wa_pattern_mode", Value::Array(Array::I32(kinds)));
    const SIZE: &str = "audio_tokenizer/config.json: encoder_attn_window_size";
    let size =
        audio.get("encoder_attn_window_size").and_then(|sizes| sizes.get(0)).ok_or_else(|| missing(SIZE))?;
    keys.set_prefixed("audio.window_size", Value::U32(to_u32(SIZE, size)?));
    keys.set_derived("audio.local_block_count", N_LOCAL, vision.need_u64(&[N_LOCAL])?)?;
    let group = towers.whole.get("audio_config").and_then(|config| config.get("group_size"));
    let group = group.ok_or_else(|| missing("audio_config.group_size"))?;
    keys.set_prefixed("audio.local_group_size", Value::U32(to_u32("audio_config.group_size", group)?));
    Ok(())
}
