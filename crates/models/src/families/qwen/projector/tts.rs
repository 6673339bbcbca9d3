//! Parts of Qwen 3 TTS next to its text model: the encoder of a speaker, the predictor of codes, and the decoder from codes to
//! sound, which is in the folder `speech_tokenizer`.
//!
//! Config keys: `talker_config.code_predictor_config`. The sizes of the other parts are in llama.cpp's code.
//!
//! Transforms: embeddings and heads of codes are stacked. Codebooks are sums divided by counts. The two factors of a snake
//! activation are `exp(alpha)` and `1 / (exp(beta) + 1e-9)`. Kernels over sound are F16 or F32 in every file.
//!
//! Source: `Qwen3TTSSpeakerEncoderModel` in `conversion/qwen3tts.py`.

use gguf_layout::projector::prelude::*;
use gguf_layout::rules::SQUEEZE_ANY;

pub const QWEN3TTS: Projector = Projector {
    name: "qwen3tts",
    classes: &["Qwen3TTSForConditionalGeneration"],
    example: "Qwen/Qwen3-TTS-12Hz-1.7B-Base",
    vision: None,
    audio: Some(Tower { at: &["decoder_config"], file: Some("speech_tokenizer/config.json"), classes: &[] }),
    tensors: &[SPEAKER, CODES, CODE_LAYERS, WAVE, WAVE_LAYERS, UPSAMPLING, DECODER],
    owns: |_, name| {
        ["speaker_encoder.", "talker.code_predictor.", "speech_tokenizer."]
            .iter()
            .any(|start| name.starts_with(start))
            || name == "talker.model.codec_embedding.weight"
    },
    drops: |_, name| match name.strip_prefix("speech_tokenizer.")? {
        name if name.starts_with("encoder.") => {
            Some("part of the audio encoder, which only voice cloning with a transcript uses")
        }
        name if name.ends_with("_codebook.initialized") => Some("only training uses it"),
        _ => None,
    },
    rename,
    prepare,
    first,
    keys,
    ..BASE
};

/// Codes of a frame after the first, each with its codebook.
const N_CODEBOOKS: usize = 15;

const SPEAKER: &[TensorRule] = &[
    TensorRule::copy(&["speaker_encoder.blocks.0.conv"], "a.conv1d.0"),
    stage(&["speaker_encoder.blocks.{bid}.tdnn1.conv"], "a.blk.{bid}.conv_pw1"),
    stage(&["speaker_encoder.blocks.{bid}.tdnn2.conv"], "a.blk.{bid}.conv_pw2"),
    stage(&["speaker_encoder.blocks.{bid}.se_block.conv1"], "a.blk.{bid}.se_conv1"),
    stage(&["speaker_encoder.blocks.{bid}.se_block.conv2"], "a.blk.{bid}.se_conv2"),
    TensorRule::copy(
        &["speaker_encoder.blocks.{bid}.res2net_block.blocks.{xid}.conv"],
        "a.blk.{bid}.res2.{xid}",
    )
    .need(Need::Optional),
    TensorRule::copy(&["speaker_encoder.mfa.conv"], "a.conv_out"),
    TensorRule::copy(&["speaker_encoder.asp.conv"], "a.asp_attn"),
    TensorRule::copy(&["speaker_encoder.asp.tdnn.conv"], "a.asp_tdnn"),
    TensorRule::copy(&["speaker_encoder.fc"], "mm.a.fc"),
];

/// A rule for the three stages after the first convolution.
const fn stage(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|_, number| (1..=3).contains(&number)))
}

const CODES: &[TensorRule] = &[
    TensorRule::copy(&["talker.model.codec_embedding"], "a.gen.code.out_embd"),
    TensorRule::copy(&["talker.code_predictor.model.norm"], "a.gen.code.output_norm"),
    // Only models whose predictor is narrower than the text model.
    TensorRule::copy(&["talker.code_predictor.small_to_mtp_projection"], "a.gen.code.proj_in")
        .need(Need::Optional),
    TensorRule::copy(&["talker.code_predictor.model.codec_embedding.{xid}"], "a.gen.code.embd")
        .rows(RowRule::Fuse(|_| N_CODEBOOKS)),
    TensorRule::copy(&["talker.code_predictor.lm_head.{xid}"], "a.gen.code.head")
        .rows(RowRule::Fuse(|_| N_CODEBOOKS)),
];

const CODE_LAYERS: &[TensorRule] = &[
    code(&["talker.code_predictor.model.layers.{bid}.input_layernorm"], "a.gen.code.blk.{bid}.ln1"),
    code(&["talker.code_predictor.model.layers.{bid}.self_attn.q_proj"], "a.gen.code.blk.{bid}.attn_q"),
    code(&["talker.code_predictor.model.layers.{bid}.self_attn.q_norm"], "a.gen.code.blk.{bid}.attn_q_norm"),
    code(&["talker.code_predictor.model.layers.{bid}.self_attn.k_proj"], "a.gen.code.blk.{bid}.attn_k"),
    code(&["talker.code_predictor.model.layers.{bid}.self_attn.k_norm"], "a.gen.code.blk.{bid}.attn_k_norm"),
    code(&["talker.code_predictor.model.layers.{bid}.self_attn.v_proj"], "a.gen.code.blk.{bid}.attn_v"),
    code(&["talker.code_predictor.model.layers.{bid}.self_attn.o_proj"], "a.gen.code.blk.{bid}.attn_out"),
    code(&["talker.code_predictor.model.layers.{bid}.post_attention_layernorm"], "a.gen.code.blk.{bid}.ln2"),
    code(&["talker.code_predictor.model.layers.{bid}.mlp.gate_proj"], "a.gen.code.blk.{bid}.ffn_gate"),
    code(&["talker.code_predictor.model.layers.{bid}.mlp.up_proj"], "a.gen.code.blk.{bid}.ffn_up"),
    // Its inputs exceed the range of F16.
    code(&["talker.code_predictor.model.layers.{bid}.mlp.down_proj"], "a.gen.code.blk.{bid}.ffn_down")
        .float(FloatType::F32),
];

const fn code(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|hparams, layer| layer < number(hparams, CODE)))
}

const WAVE: &[TensorRule] = &[
    TensorRule::copy(&["wave.quantizer.rvq_first.input_proj"], "a.gen.wav.quant.first.in_proj")
        .shape(SQUEEZE_ANY),
    TensorRule::copy(&["wave.quantizer.rvq_first.output_proj"], "a.gen.wav.quant.first.out_proj")
        .shape(SQUEEZE_ANY),
    books(
        &[
            "wave.quantizer.rvq_first.vq.layers.{xid}._codebook.embedding_sum",
            "wave.quantizer.rvq_first.vq.layers.{xid}._codebook.cluster_usage",
        ],
        "a.gen.wav.quant.first.codebook",
        |_| 1,
    ),
    TensorRule::copy(&["wave.quantizer.rvq_rest.input_proj"], "a.gen.wav.quant.rest.in_proj")
        .shape(SQUEEZE_ANY),
    TensorRule::copy(&["wave.quantizer.rvq_rest.output_proj"], "a.gen.wav.quant.rest.out_proj")
        .shape(SQUEEZE_ANY),
    books(
        &[
            "wave.quantizer.rvq_rest.vq.layers.{xid}._codebook.embedding_sum",
            "wave.quantizer.rvq_rest.vq.layers.{xid}._codebook.cluster_usage",
        ],
        "a.gen.wav.quant.rest.codebook",
        |_| N_CODEBOOKS,
    ),
    TensorRule::copy(&["wave.pre_conv.conv"], "a.gen.wav.pre_conv").float(FloatType::F16),
    TensorRule::copy(&["wave.pre_transformer.input_proj"], "a.gen.wav.tfm.in_proj"),
    TensorRule::copy(&["wave.pre_transformer.output_proj"], "a.gen.wav.tfm.out_proj"),
    TensorRule::copy(&["wave.pre_transformer.norm"], "a.gen.wav.tfm.output_norm"),
    TensorRule::copy(&["wave.dac.entry.conv"], "a.gen.wav.dac.entry").float(FloatType::F16),
    exponential(&["wave.dac.post_snake.alpha"], "a.gen.wav.dac.post_snake"),
    reciprocal(&["wave.dac.post_snake.beta"], "a.gen.wav.dac.post_snake"),
    TensorRule::copy(&["wave.dac.post_conv.conv"], "a.gen.wav.dac.post_conv").float(FloatType::F16),
];

const fn books(
    hf: &'static [&'static str],
    gguf: &'static str,
    n_books: fn(&Hparams) -> usize,
) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".weight").rows(RowRule::Codebooks(n_books))
}

const fn exponential(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".alpha").element(ElementMap::Exp)
}

const fn reciprocal(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".beta").element(ElementMap::InverseExp)
}

const WAVE_LAYERS: &[TensorRule] = &[
    wave(&["wave.pre_transformer.layers.{bid}.input_layernorm"], "a.gen.wav.tfm.blk.{bid}.ln1"),
    wave(&["wave.pre_transformer.layers.{bid}.self_attn.q_proj"], "a.gen.wav.tfm.blk.{bid}.attn_q"),
    wave(&["wave.pre_transformer.layers.{bid}.self_attn.k_proj"], "a.gen.wav.tfm.blk.{bid}.attn_k"),
    wave(&["wave.pre_transformer.layers.{bid}.self_attn.v_proj"], "a.gen.wav.tfm.blk.{bid}.attn_v"),
    wave(&["wave.pre_transformer.layers.{bid}.self_attn.o_proj"], "a.gen.wav.tfm.blk.{bid}.attn_out"),
    wave(&["wave.pre_transformer.layers.{bid}.self_attn_layer_scale.scale"], "a.gen.wav.tfm.blk.{bid}.ls1")
        .bare(".weight"),
    wave(&["wave.pre_transformer.layers.{bid}.post_attention_layernorm"], "a.gen.wav.tfm.blk.{bid}.ln2"),
    wave(&["wave.pre_transformer.layers.{bid}.mlp.gate_proj"], "a.gen.wav.tfm.blk.{bid}.ffn_gate"),
    wave(&["wave.pre_transformer.layers.{bid}.mlp.up_proj"], "a.gen.wav.tfm.blk.{bid}.ffn_up"),
    wave(&["wave.pre_transformer.layers.{bid}.mlp.down_proj"], "a.gen.wav.tfm.blk.{bid}.ffn_down"),
    wave(&["wave.pre_transformer.layers.{bid}.mlp_layer_scale.scale"], "a.gen.wav.tfm.blk.{bid}.ls2")
        .bare(".weight"),
];

const fn wave(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|hparams, layer| layer < number(hparams, WAVE_N)))
}

const UPSAMPLING: &[TensorRule] = &[
    up(&["wave.upsample.{bid}.0.conv"], "a.gen.wav.up.blk.{bid}.conv").float(FloatType::F32),
    up(&["wave.upsample.{bid}.1.dwconv.conv"], "a.gen.wav.up.blk.{bid}.dwconv").float(FloatType::F16),
    up(&["wave.upsample.{bid}.1.norm"], "a.gen.wav.up.blk.{bid}.norm"),
    up(&["wave.upsample.{bid}.1.pwconv1"], "a.gen.wav.up.blk.{bid}.pw1"),
    up(&["wave.upsample.{bid}.1.pwconv2"], "a.gen.wav.up.blk.{bid}.pw2"),
    up(&["wave.upsample.{bid}.1.gamma"], "a.gen.wav.up.blk.{bid}.gamma").bare(""),
];

const fn up(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).need(Need::If(|hparams, layer| layer < number(hparams, UP_N)))
}

const DECODER: &[TensorRule] = &[
    exponential(&["wave.dac.{bid}.snake.alpha"], "a.gen.wav.dac.blk.{bid}.snake").need(OF_DAC),
    reciprocal(&["wave.dac.{bid}.snake.beta"], "a.gen.wav.dac.blk.{bid}.snake").need(OF_DAC),
    TensorRule::copy(&["wave.dac.{bid}.up.conv"], "a.gen.wav.dac.blk.{bid}.conv")
        .float(FloatType::F32)
        .need(OF_DAC),
    exponential(&["wave.dac.{bid}.res.{xid}.act1.alpha"], "a.gen.wav.dac.blk.{bid}.res.{xid}.act1")
        .need(OF_DAC),
    reciprocal(&["wave.dac.{bid}.res.{xid}.act1.beta"], "a.gen.wav.dac.blk.{bid}.res.{xid}.act1")
        .need(OF_DAC),
    TensorRule::copy(&["wave.dac.{bid}.res.{xid}.conv1.conv"], "a.gen.wav.dac.blk.{bid}.res.{xid}.conv1")
        .float(FloatType::F16)
        .need(OF_DAC),
    exponential(&["wave.dac.{bid}.res.{xid}.act2.alpha"], "a.gen.wav.dac.blk.{bid}.res.{xid}.act2")
        .need(OF_DAC),
    reciprocal(&["wave.dac.{bid}.res.{xid}.act2.beta"], "a.gen.wav.dac.blk.{bid}.res.{xid}.act2")
        .need(OF_DAC),
    TensorRule::copy(&["wave.dac.{bid}.res.{xid}.conv2.conv"], "a.gen.wav.dac.blk.{bid}.res.{xid}.conv2")
        .float(FloatType::F16)
        .need(OF_DAC),
];

const OF_DAC: Need = Need::If(|hparams, layer| layer < number(hparams, DAC_N));

/// Keys of the tower's config under which `prepare` puts the number of layers of each part.
const CODE: &str = "n_code_layers";
const WAVE_N: &str = "num_hidden_layers";
const UP_N: &str = "n_upsampling";
const DAC_N: &str = "n_decoder";

fn number(hparams: &Hparams, key: &str) -> u64 {
    hparams.get_u64(key).ok().flatten().unwrap_or(0)
}

/// Names the modules of the decoder by their parts instead of by their indices.
fn rename(_: &Hparams, name: &str) -> Option<String> {
    let rest = name.strip_prefix("speech_tokenizer.decoder.")?;
    let Some(module) = rest.strip_prefix("decoder.") else { return Some(format!("wave.{rest}")) };
    let (place, rest) = module.split_once('.')?;
    let place: u64 = place.parse().ok()?;
    Some(match place {
        0 => format!("wave.dac.entry.{rest}"),
        // Four blocks, as the reference has it too.
        5 => format!("wave.dac.post_snake.{rest}"),
        6 => format!("wave.dac.post_conv.{rest}"),
        _ => {
            let (inner, rest) = rest.strip_prefix("block.")?.split_once('.')?;
            match (place - 1, inner.parse::<u64>().ok()?) {
                (block, 0) => format!("wave.dac.{block}.snake.{rest}"),
                (block, 1) => format!("wave.dac.{block}.up.{rest}"),
                (block, unit) => format!("wave.dac.{block}.res.{}.{rest}", unit - 2),
            }
        }
    })
}

fn predictor(towers: &Towers) -> Result<Hparams, ArchError> {
    let config = towers.whole.get("talker_config").and_then(|talker| talker.get("code_predictor_config"));
    let config = config.and_then(Json::as_object).cloned();
    Ok(Hparams::of_part(config.ok_or_else(|| missing("talker_config.code_predictor_config"))?))
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    let n_code = predictor(towers)?.need_u64(&["num_hidden_layers"])?;
    let audio = towers.audio_mut()?;
    let n_wave = audio.need_u64(&["num_hidden_layers"])?;
    let length = |key: &str| audio.get(key).and_then(Json::as_array).map_or(0, Vec::len) as u64;
    let (n_up, n_dac) = (length("upsampling_ratios"), length("upsample_rates"));
    if n_dac != 4 {
        return Err(bad("decoder_config.upsample_rates", &n_dac.into(), "four rates"));
    }
    for (key, count) in [(CODE, n_code), (UP_N, n_up), (DAC_N, n_dac)] {
        audio.set(key, count.into());
    }
    // The largest number of layers of any part.
    audio.set("n_layers", [4, n_code, n_wave, n_up].into_iter().max().unwrap_or(4).into());
    Ok(())
}

/// Names of the tensors that generate sound, which come first, in the order of computation.
fn first(towers: &Towers) -> Result<Vec<String>, ArchError> {
    /// More layers than any part has.
    const MOST: u64 = 1 << 10;
    let audio = towers.audio()?;
    let mut names = Vec::new();
    let mut push = |name: &str, endings: &[&str]| {
        names.extend(endings.iter().map(|ending| format!("a.gen.wav.{name}{ending}")));
    };
    const BOTH: &[&str] = &[".weight", ".bias"];
    for part in ["first", "rest"] {
        for name in ["in_proj", "out_proj", "codebook"] {
            push(&format!("quant.{part}.{name}"), &[".weight"]);
        }
    }
    push("pre_conv", BOTH);
    push("tfm.in_proj", BOTH);
    push("tfm.out_proj", BOTH);
    push("tfm.output_norm", &[".weight"]);
    for layer in 0..number(audio, WAVE_N).min(MOST) {
        for name in [
            "ln1", "attn_q", "attn_k", "attn_v", "attn_out", "ls1", "ln2", "ffn_gate", "ffn_up", "ffn_down",
            "ls2",
        ] {
            push(&format!("tfm.blk.{layer}.{name}"), &[".weight"]);
        }
    }
    for layer in 0..number(audio, UP_N).min(MOST) {
        for name in ["conv", "dwconv", "norm", "pw1", "pw2"] {
            push(&format!("up.blk.{layer}.{name}"), BOTH);
        }
        push(&format!("up.blk.{layer}.gamma"), &[""]);
    }
    push("dac.entry", BOTH);
    const SNAKE: &[&str] = &[".alpha", ".beta"];
    for block in 0..number(audio, DAC_N).min(MOST) {
        push(&format!("dac.blk.{block}.snake"), SNAKE);
        push(&format!("dac.blk.{block}.conv"), BOTH);
        for unit in 0..3 {
            for number in [1, 2] {
                push(&format!("dac.blk.{block}.res.{unit}.act{number}"), SNAKE);
                push(&format!("dac.blk.{block}.res.{unit}.conv{number}"), BOTH);
            }
        }
    }
    push("dac.post_snake", SNAKE);
    push("dac.post_conv", BOTH);
    Ok(names)
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    const WIDTH: &str = "talker_config.hidden_size";
    let width = towers.whole.get("talker_config").and_then(|talker| talker.get("hidden_size"));
    let width = to_u32(WIDTH, width.ok_or_else(|| missing(WIDTH))?)?;
    keys.file_type_here();
    keys.set_prefixed("has_audio_encoder", Value::Bool(true));
    keys.set_prefixed("audio.projector_type", "qwen3tts_spkenc".into());
    keys.set_prefixed("audio.projection_dim", Value::U32(width));
    // Sizes of the only released speaker encoder; it has no attention.
    for (key, count) in [
        ("audio.num_mel_bins", 128),
        ("audio.block_count", 3),
        ("audio.embedding_length", 1536),
        ("audio.attention.head_count", 1),
        ("audio.feed_forward_length", 1536),
    ] {
        keys.set_prefixed(key, Value::U32(count));
    }
    keys.set_prefixed("audio.attention.layer_norm_epsilon", Value::F32(1e-5));
    keys.set_prefixed("has_gen_audio_encoder", Value::Bool(true));
    keys.set_prefixed("gen.audio.projector_type", "qwen3tts_gen".into());
    keys.set_prefixed("gen.audio.projection_dim", Value::U32(width));
    let predictor = predictor(towers)?;
    for (key, name) in [
        ("gen.audio.embedding_length", "hidden_size"),
        ("gen.audio.feed_forward_length", "intermediate_size"),
        ("gen.audio.block_count", "num_hidden_layers"),
        ("gen.audio.attention.head_count", "num_attention_heads"),
        ("gen.audio.attention.head_count_kv", "num_key_value_heads"),
    ] {
        count(keys, key, &predictor, "talker_config.code_predictor_config", &[name])?;
    }
    let epsilon = predictor.need_f64("rms_norm_eps")? as f32;
    keys.set_prefixed("gen.audio.attention.layer_norm_epsilon", Value::F32(epsilon));
    Ok(())
}
