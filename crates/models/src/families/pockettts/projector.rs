//! Parts of Pocket TTS next to its text model: Mimi's encoder, which reads a voice, the network that makes a latent of a hidden
//! state, and Mimi's decoder, which makes sound of latents.
//!
//! Config keys: sizes of Mimi's encoder, which its decoder shares. The other sizes are in llama.cpp's code.
//!
//! Transforms: queries, keys and values are one matrix in thirds. Kernels over sound are F16 in every file.
//!
//! Source: `PocketTTSMmprojModel` in `conversion/pockettts.py`.

use gguf_layout::projector::prelude::*;
use gguf_layout::rules::{Part, SQUEEZE_ANY};

pub const POCKETTTS: Projector = Projector {
    name: "pockettts",
    classes: &["PocketTTSModel"],
    example: "kyutai/pocket-tts",
    vision: None,
    audio: Some(Tower { at: &["audio_config"], file: None, classes: &[] }),
    tensors: &[LATENTS, FLOW, ENCODER, ENCODER_LAYERS, DECODER, DECODER_LAYERS],
    owns: |_, name| {
        let is_text =
            ["bos_emb", "bos_before_voice", "conditioner.embed.weight", "transformer.", "out_norm."]
                .iter()
                .any(|start| name.strip_prefix("flow_lm.").is_some_and(|rest| rest.starts_with(start)));
        !is_text
    },
    rename: |_, name| named_by_stage(name),
    asks_shape: |name| name.starts_with(FLOW_BLOCKS) || name.starts_with(FLOW_TIMES),
    prepare,
    keys,
    ..BASE
};

const FLOW_BLOCKS: &str = "flow_lm.flow_net.res_blocks.";
const FLOW_TIMES: &str = "flow_lm.flow_net.time_embed.";

/// Stages of the convolutions of Mimi's encoder and decoder.
const N_STAGES: u64 = 3;

const LATENTS: &[TensorRule] = &[
    TensorRule::copy(&["flow_lm.speaker_proj_weight"], "a.speaker_proj").bare(".weight"),
    TensorRule::copy(&["flow_lm.input_linear"], "a.gen.input_linear"),
    TensorRule::copy(&["flow_lm.emb_mean"], "a.gen.emb_mean").bare(""),
    TensorRule::copy(&["flow_lm.emb_std"], "a.gen.emb_std").bare(""),
    TensorRule::copy(&["flow_lm.out_eos"], "a.gen.out_eos"),
];

const FLOW: &[TensorRule] = &[
    TensorRule::copy(&["flow_lm.flow_net.input_proj"], "a.gen.flow.input_proj"),
    TensorRule::copy(&["flow_lm.flow_net.cond_embed"], "a.gen.flow.cond_embd"),
    TensorRule::copy(&["flow_lm.flow_net.final_layer.linear"], "a.gen.flow.final.proj"),
    TensorRule::copy(&["flow_lm.flow_net.final_layer.adaLN_modulation.1"], "a.gen.flow.final.ada"),
    time(&["flow_lm.flow_net.time_embed.{bid}.freqs"], "a.gen.flow.time.{bid}.freqs").bare(""),
    time(&["flow_lm.flow_net.time_embed.{bid}.mlp.0"], "a.gen.flow.time.{bid}.up"),
    time(&["flow_lm.flow_net.time_embed.{bid}.mlp.2"], "a.gen.flow.time.{bid}.down"),
    time(&["flow_lm.flow_net.time_embed.{bid}.mlp.3.alpha"], "a.gen.flow.time.{bid}.norm").bare(""),
    block(&["flow_lm.flow_net.res_blocks.{bid}.in_ln"], "a.gen.flow.blk.{bid}.norm"),
    block(&["flow_lm.flow_net.res_blocks.{bid}.mlp.0"], "a.gen.flow.blk.{bid}.up"),
    block(&["flow_lm.flow_net.res_blocks.{bid}.mlp.2"], "a.gen.flow.blk.{bid}.down"),
    block(&["flow_lm.flow_net.res_blocks.{bid}.adaLN_modulation.1"], "a.gen.flow.blk.{bid}.ada"),
];

const fn time(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|hparams, number| number < count_of(hparams, N_TIMES)))
}

const fn block(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|hparams, number| number < count_of(hparams, N_BLOCKS)))
}

const ENCODER: &[TensorRule] = &[
    kernel(&["mimi.encoder.first.conv"], "a.seanet.conv_in"),
    stage(&["mimi.encoder.stage.{bid}.res.block.1.conv"], "a.seanet.blk.{bid}.res_conv1"),
    stage(&["mimi.encoder.stage.{bid}.res.block.3.conv"], "a.seanet.blk.{bid}.res_conv2"),
    stage(&["mimi.encoder.stage.{bid}.scale.conv"], "a.seanet.blk.{bid}.scale_conv"),
    kernel(&["mimi.encoder.last.conv"], "a.seanet.conv_out"),
    kernel(&["mimi.downsample.conv.conv"], "a.downsample.conv"),
];

const DECODER: &[TensorRule] = &[
    TensorRule::copy(&["mimi.quantizer.output_proj"], "a.gen.wav.quant_out").shape(SQUEEZE_ANY),
    kernel(&["mimi.upsample.convtr.convtr"], "a.gen.wav.upsample"),
    kernel(&["mimi.decoder.first.conv"], "a.gen.wav.seanet.conv_in"),
    stage(&["mimi.decoder.stage.{bid}.scale.convtr"], "a.gen.wav.seanet.blk.{bid}.scale_conv"),
    stage(&["mimi.decoder.stage.{bid}.res.block.1.conv"], "a.gen.wav.seanet.blk.{bid}.res_conv1"),
    stage(&["mimi.decoder.stage.{bid}.res.block.3.conv"], "a.gen.wav.seanet.blk.{bid}.res_conv2"),
    kernel(&["mimi.decoder.last.conv"], "a.gen.wav.seanet.conv_out"),
];

/// A kernel over sound, which llama.cpp convolves in F16 only.
const fn kernel(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).float(FloatType::F16)
}

const fn stage(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    kernel(hf, gguf).need(Need::If(|_, stage| stage < N_STAGES))
}

const ENCODER_LAYERS: &[TensorRule] = &[
    layer(&["mimi.encoder_transformer.transformer.layers.{bid}.norm1"], "a.blk.{bid}.ln1"),
    qkv(&[ENCODER_QKV], "a.blk.{bid}.attn_q", parts::third::<0>),
    qkv(&[ENCODER_QKV], "a.blk.{bid}.attn_k", parts::third::<1>),
    qkv(&[ENCODER_QKV], "a.blk.{bid}.attn_v", parts::third::<2>),
    layer(&["mimi.encoder_transformer.transformer.layers.{bid}.self_attn.out_proj"], "a.blk.{bid}.attn_out"),
    layer(&["mimi.encoder_transformer.transformer.layers.{bid}.layer_scale_1.scale"], "a.blk.{bid}.ls1")
        .bare(".weight"),
    layer(&["mimi.encoder_transformer.transformer.layers.{bid}.norm2"], "a.blk.{bid}.ln2"),
    layer(&["mimi.encoder_transformer.transformer.layers.{bid}.linear1"], "a.blk.{bid}.ffn_up"),
    layer(&["mimi.encoder_transformer.transformer.layers.{bid}.linear2"], "a.blk.{bid}.ffn_down"),
    layer(&["mimi.encoder_transformer.transformer.layers.{bid}.layer_scale_2.scale"], "a.blk.{bid}.ls2")
        .bare(".weight"),
];

const ENCODER_QKV: &str = "mimi.encoder_transformer.transformer.layers.{bid}.self_attn.in_proj";

const DECODER_LAYERS: &[TensorRule] = &[
    layer(&["mimi.decoder_transformer.transformer.layers.{bid}.norm1"], "a.gen.wav.tfm.blk.{bid}.ln1"),
    qkv(&[DECODER_QKV], "a.gen.wav.tfm.blk.{bid}.attn_q", parts::third::<0>),
    qkv(&[DECODER_QKV], "a.gen.wav.tfm.blk.{bid}.attn_k", parts::third::<1>),
    qkv(&[DECODER_QKV], "a.gen.wav.tfm.blk.{bid}.attn_v", parts::third::<2>),
    layer(
        &["mimi.decoder_transformer.transformer.layers.{bid}.self_attn.out_proj"],
        "a.gen.wav.tfm.blk.{bid}.attn_out",
    ),
    layer(
        &["mimi.decoder_transformer.transformer.layers.{bid}.layer_scale_1.scale"],
        "a.gen.wav.tfm.blk.{bid}.ls1",
    )
    .bare(".weight"),
    layer(&["mimi.decoder_transformer.transformer.layers.{bid}.norm2"], "a.gen.wav.tfm.blk.{bid}.ln2"),
    layer(&["mimi.decoder_transformer.transformer.layers.{bid}.linear1"], "a.gen.wav.tfm.blk.{bid}.ffn_up"),
    layer(&["mimi.decoder_transformer.transformer.layers.{bid}.linear2"], "a.gen.wav.tfm.blk.{bid}.ffn_down"),
    layer(
        &["mimi.decoder_transformer.transformer.layers.{bid}.layer_scale_2.scale"],
        "a.gen.wav.tfm.blk.{bid}.ls2",
    )
    .bare(".weight"),
];

const DECODER_QKV: &str = "mimi.decoder_transformer.transformer.layers.{bid}.self_attn.in_proj";

const fn layer(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|hparams, layer| layer < count_of(hparams, N_LAYERS)))
}

const fn qkv(hf: &'static [&'static str], gguf: &'static str, part: Part) -> TensorRule {
    layer(hf, gguf).rows(RowRule::Part(part))
}

/// Keys under which the config of the tower has the numbers of layers of each part.
const N_LAYERS: &str = "num_hidden_layers";
const N_TIMES: &str = "n_flow_times";
const N_BLOCKS: &str = "n_flow_blocks";

fn count_of(hparams: &Hparams, key: &str) -> u64 {
    hparams.get_u64(key).ok().flatten().unwrap_or(0)
}

/// Names of convolutions by their stage instead of by the place of their module.
fn named_by_stage(name: &str) -> Option<String> {
    let (part, rest) = ["encoder", "decoder"]
        .iter()
        .find_map(|part| Some((part, name.strip_prefix(&format!("mimi.{part}.model."))?)))?;
    let (place, rest) = rest.split_once('.')?;
    let place: u64 = place.parse().ok()?;
    // Activations count as layers. A stage of the encoder ends with the convolution that changes the rate, one of
    // the decoder begins with it.
    let (first_res, first_scale) = if *part == "encoder" { (1, 3) } else { (3, 2) };
    let stage_from = |first: u64| {
        let distance = place.checked_sub(first).filter(|distance| distance.is_multiple_of(3))?;
        Some(distance / 3).filter(|stage| *stage < N_STAGES)
    };
    if place == 0 {
        return Some(format!("mimi.{part}.first.{rest}"));
    }
    if place == 3 * N_STAGES + 2 {
        return Some(format!("mimi.{part}.last.{rest}"));
    }
    if let Some(stage) = stage_from(first_scale) {
        return Some(format!("mimi.{part}.stage.{stage}.scale.{rest}"));
    }
    Some(format!("mimi.{part}.stage.{}.res.{rest}", stage_from(first_res)?))
}

/// Counts parts that no size tells.
fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let n_parts = |start: &str| {
        let numbers = towers.shapes.iter().filter_map(|(name, _)| {
            let (number, _) = name.strip_prefix(start)?.split_once('.')?;
            number.parse::<u64>().ok()?.checked_add(1)
        });
        numbers.max().unwrap_or(0)
    };
    let (n_times, n_blocks) = (n_parts(FLOW_TIMES), n_parts(FLOW_BLOCKS));
    let audio = towers.audio_mut()?;
    let n_layers = audio.need_u64(&[N_LAYERS])?;
    audio.set(N_TIMES, n_times.into());
    audio.set(N_BLOCKS, n_blocks.into());
    // The most that any part has.
    audio.set("n_layers", n_layers.max(n_times).max(n_blocks).max(N_STAGES).into());
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    const WIDTH: &str = "hidden_size";
    let width = to_u32(WIDTH, towers.whole.get(WIDTH).ok_or_else(|| missing(WIDTH))?)?;
    let audio = towers.audio()?;
    keys.file_type_here();
    keys.set_prefixed("has_audio_encoder", Value::Bool(true));
    keys.set_prefixed("audio.projector_type", "pockettts_spkenc".into());
    keys.set_prefixed("audio.projection_dim", Value::U32(width));
    let sizes = [
        ("block_count", N_LAYERS),
        ("embedding_length", WIDTH),
        ("feed_forward_length", "intermediate_size"),
        ("attention.head_count", "num_attention_heads"),
    ];
    for (key, name) in sizes {
        count(keys, &format!("audio.{key}"), audio, "audio_config", &[name])?;
    }
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(1e-5));
    // The waveform itself.
    keys.set_prefixed("audio.num_mel_bins", Value::U32(1));

    keys.set_prefixed("has_gen_audio_encoder", Value::Bool(true));
    keys.set_prefixed("gen.audio.projector_type", "pockettts_gen".into());
    keys.set_prefixed("gen.audio.projection_dim", Value::U32(width));
    for (key, name) in [sizes[1], sizes[2], sizes[0], sizes[3]] {
        count(keys, &format!("gen.audio.{key}"), audio, "audio_config", &[name])?;
    }
    keys.set_prefixed("gen.audio.attention.layer_norm_epsilon", Value::F32(1e-5));
    // llama.cpp looks up settings of the voice by the language, which only the name of the folder states.
    keys.set_prefixed("gen.audio.model_variant", towers.folder_name.as_str().into());
    Ok(())
}
