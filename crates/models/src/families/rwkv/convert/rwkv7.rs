//! RWKV 7 (Goose) in the spellings of flash-linear-attention and of its authors, and its hybrid with Qwen 2
//! (ARWKV).
//!
//! Config keys: in their own order; ranks of the low-rank factors that the config omits follow from the
//! width.
//!
//! Transforms: the vectors that mix a token with the previous one become one tensor. Low-rank factors are
//! stored transposed, unless they have the names of flash-linear-attention. The first layer has no residual
//! values; llama.cpp requires them anyway and gets those of its learning rate.
//!
//! Source: `Rwkv7Model` and `ARwkv7Model` in `conversion/rwkv.py`.

use crate::families::rwkv::convert::rwkv6::{self, endless};
use crate::prelude::*;

/// The row of RWKV 7.
pub const RWKV7: Arch = Arch {
    name: "rwkv7",
    classes: &[Class::new("Rwkv7ForCausalLM"), Class::new("RWKV7ForCausalLM")],
    example: "fla-hub/rwkv7-1.5B-world",
    needs: &["hidden_size", "num_hidden_layers"],
    tensors: &[ENDS, NORMS, TIME_MIX, FACTORS, CHANNEL_MIX],
    keys,
    drops,
    rename,
    vocab: rwkv6::ROUTE,
    export: Export::NotExportable(TWO_SPELLINGS),
    ..DECODER
};

pub const ARWKV7: Arch = Arch {
    name: "arwkv7",
    classes: &[Class::new("RwkvHybridForCausalLM")],
    example: "RWKV-Red-Team/ARWKV-7B-Preview-0.1",
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "head_size"],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, TIME_MIX, FACTORS, rules::GATED_MLP],
    keys: hybrid_keys,
    drops,
    rename,
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    export: Export::NotExportable(TWO_SPELLINGS),
    ..DECODER
};

/// The authors' names, and those of flash-linear-attention.
const TWO_SPELLINGS: &str = "checkpoints have two naming schemes, which the file does not distinguish";

/// `Rwkv7Model.filter_tensors`, and the endings of low-rank factors.
fn rename(_: &Hparams, name: &str) -> Option<String> {
    // The names of the authors and of flash-linear-attention become one set, by the same replacements
    // in the order of `filter_tensors`.
    let name = name
        .replace("blocks", "layers")
        .replace("ffn", "feed_forward")
        .replace("self_attn", "attention")
        .replace("attn", "attention")
        .replace("time_mixer.", "")
        .replace("feed_forward_norm", "ln2")
        .replace("g_norm", "ln_x");
    Some(name.replace("attention_norm", "ln1"))
}

/// The first layer's residual values, which some checkpoints contain and none uses.
fn drops(hparams: &Hparams, name: &str) -> Option<&'static str> {
    let name = rename(hparams, name)?;
    // v0, v1, v2 and v_lora; the projection of the values (v_proj, value) is used.
    let part = name.strip_prefix("model.layers.0.attention.v")?;
    let is_value = part.starts_with("_proj") || part.starts_with("alue");
    (!is_value).then_some("the first layer has no values before it to mix in")
}

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embeddings"], "token_embd"),
    TensorRule::copy(&["model.layers.0.pre_norm", "model.pre_ln"], "token_embd_norm"),
    TensorRule::copy(&["model.norm", "model.ln_out"], "output_norm"),
    TensorRule::copy(&["lm_head", "head"], "output"),
];

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.ln1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.ln2"], "blk.{bid}.attn_norm_2"),
];

const TIME_MIX: &[TensorRule] = &[
    TensorRule::copy(
        &[
            "model.layers.{bid}.attention.x_r",
            "model.layers.{bid}.attention.x_w",
            "model.layers.{bid}.attention.x_k",
            "model.layers.{bid}.attention.x_v",
            "model.layers.{bid}.attention.x_a",
            "model.layers.{bid}.attention.x_g",
        ],
        "blk.{bid}.time_mix_lerp_fused",
    )
    .bare(".weight")
    .rows(RowRule::Fuse(n_mixed)),
    TensorRule::copy(&["model.layers.{bid}.attention.x_x"], "blk.{bid}.time_mix_lerp_fused")
        .bare(".weight")
        .shape(Reshape {
            forward: |hparams, dims| {
                let n = n_mixed(hparams) as u64;
                Ok(vec![dims.iter().product::<u64>() / n, 1, 1, n])
            },
            inverse: <[u64]>::to_vec,
        })
        .need(Need::Optional),
    vector(&["model.layers.{bid}.attention.k_k"], "blk.{bid}.time_mix_k_k"),
    vector(&["model.layers.{bid}.attention.k_a"], "blk.{bid}.time_mix_k_a"),
    vector(&["model.layers.{bid}.attention.r_k"], "blk.{bid}.time_mix_r_k")
        .shape(Reshape { forward: |_, dims| Ok(vec![dims.iter().product()]), inverse: <[u64]>::to_vec }),
    TensorRule::copy(
        &["model.layers.{bid}.attention.r_proj", "model.layers.{bid}.attention.receptance"],
        "blk.{bid}.time_mix_receptance",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.attention.k_proj", "model.layers.{bid}.attention.key"],
        "blk.{bid}.time_mix_key",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.attention.v_proj", "model.layers.{bid}.attention.value"],
        "blk.{bid}.time_mix_value",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.attention.o_proj", "model.layers.{bid}.attention.output"],
        "blk.{bid}.time_mix_output",
    ),
    TensorRule::copy(&["model.layers.{bid}.attention.ln_x"], "blk.{bid}.time_mix_ln").need(Need::Optional),
];

/// Low-rank factors of decay, learning rate, residual values and gate. The first layer's learning rate also
/// serves as its residual values, and comes first.
const FACTORS: &[TensorRule] = &[
    // `Rwkv7Model.modify_tensors`: the first layer's v0, v1, v2 are copies of a0, a1, a2, because the
    // loader wants them.
    bias(&["model.layers.0.attention.a_lora.lora.2.bias"], "blk.0.time_mix_v0").need(Need::Optional),
    as_stored(&["model.layers.0.attention.a_lora.lora.0"], "blk.0.time_mix_v1").need(Need::Optional),
    as_stored(&["model.layers.0.attention.a_lora.lora.2"], "blk.0.time_mix_v2").need(Need::Optional),
    vector(&["model.layers.0.attention.a0"], "blk.0.time_mix_v0").need(Need::Optional),
    transposed(&["model.layers.0.attention.a1"], "blk.0.time_mix_v1").need(Need::Optional),
    transposed(&["model.layers.0.attention.a2"], "blk.0.time_mix_v2").need(Need::Optional),
    bias(&["model.layers.{bid}.attention.w_lora.lora.2.bias"], "blk.{bid}.time_mix_w0"),
    as_stored(&["model.layers.{bid}.attention.w_lora.lora.0"], "blk.{bid}.time_mix_w1"),
    as_stored(&["model.layers.{bid}.attention.w_lora.lora.2"], "blk.{bid}.time_mix_w2"),
    vector(&["model.layers.{bid}.attention.w0"], "blk.{bid}.time_mix_w0").need(Need::Optional),
    transposed(&["model.layers.{bid}.attention.w1"], "blk.{bid}.time_mix_w1").need(Need::Optional),
    transposed(&["model.layers.{bid}.attention.w2"], "blk.{bid}.time_mix_w2").need(Need::Optional),
    bias(&["model.layers.{bid}.attention.a_lora.lora.2.bias"], "blk.{bid}.time_mix_a0"),
    as_stored(&["model.layers.{bid}.attention.a_lora.lora.0"], "blk.{bid}.time_mix_a1"),
    as_stored(&["model.layers.{bid}.attention.a_lora.lora.2"], "blk.{bid}.time_mix_a2"),
    vector(&["model.layers.{bid}.attention.a0"], "blk.{bid}.time_mix_a0").need(Need::Optional),
    transposed(&["model.layers.{bid}.attention.a1"], "blk.{bid}.time_mix_a1").need(Need::Optional),
    transposed(&["model.layers.{bid}.attention.a2"], "blk.{bid}.time_mix_a2").need(Need::Optional),
    bias(&["model.layers.{bid}.attention.v_lora.lora.2.bias"], "blk.{bid}.time_mix_v0"),
    as_stored(&["model.layers.{bid}.attention.v_lora.lora.0"], "blk.{bid}.time_mix_v1"),
    as_stored(&["model.layers.{bid}.attention.v_lora.lora.2"], "blk.{bid}.time_mix_v2"),
    vector(&["model.layers.{bid}.attention.v0"], "blk.{bid}.time_mix_v0").need(Need::Optional),
    transposed(&["model.layers.{bid}.attention.v1"], "blk.{bid}.time_mix_v1").need(Need::Optional),
    transposed(&["model.layers.{bid}.attention.v2"], "blk.{bid}.time_mix_v2").need(Need::Optional),
    as_stored(&["model.layers.{bid}.attention.g_lora.lora.0"], "blk.{bid}.time_mix_g1").need(Need::Optional),
    transposed(&["model.layers.{bid}.attention.g1"], "blk.{bid}.time_mix_g1").need(Need::Optional),
    as_stored(&["model.layers.{bid}.attention.g_lora.lora.2"], "blk.{bid}.time_mix_g2").need(Need::Optional),
    transposed(&["model.layers.{bid}.attention.g2"], "blk.{bid}.time_mix_g2").need(Need::Optional),
];

const CHANNEL_MIX: &[TensorRule] = &[
    vector(&["model.layers.{bid}.feed_forward.x_k"], "blk.{bid}.channel_mix_lerp_k"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.key"], "blk.{bid}.channel_mix_key"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.value"], "blk.{bid}.channel_mix_value"),
];

/// A vector whose name has no ending.
const fn vector(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".weight").shape(rules::SQUEEZE_VECTOR)
}

/// A matrix of flash-linear-attention.
const fn as_stored(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf)
}

/// A bias of flash-linear-attention, which is a weight in the file.
const fn bias(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(".weight")
}

/// A matrix of the authors.
const fn transposed(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::columns(hf, gguf).bare(".weight")
}

/// Vectors that are mixed: without a gate one fewer.
fn n_mixed(hparams: &Hparams) -> usize {
    if hparams.get("wkv_has_gate") == Some(&false.into()) { 5 } else { 6 }
}

/// A rank that follows from the width.
fn rank(width: u64, exponent: f64, factor: f64) -> u64 {
    // Python rounds halves to even.
    ((width as f64).powf(exponent) * factor / 32.0).round_ties_even().max(1.0) as u64 * 32
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["hidden_size"])?;
    let forward = hparams.get_u64("intermediate_size")?.unwrap_or(width.saturating_mul(4));
    endless(keys)?;
    keys.set_derived("embedding_length", "hidden_size", width)?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon", "norm_eps"])?;
    keys.needed("wkv.head_size", hparams, &["head_size", "head_dim"])?;
    // Ranks of a model of width w that does not state them: max(1, round(f w^e / 32)) * 32, with
    //   decay, learning rate  e 0.5  f 1.8     values  e 0.5  f 1.3     gate  e 0.8  f 0.6
    for (key, stated, exponent, factor) in [
        ("attention.decay_lora_rank", ["lora_rank_decay", "decay_low_rank_dim"], 0.5, 1.8),
        ("attention.iclr_lora_rank", ["lora_rank_iclr", "a_low_rank_dim"], 0.5, 1.8),
        (
            "attention.value_residual_mix_lora_rank",
            ["lora_rank_value_residual_mix", "v_low_rank_dim"],
            0.5,
            1.3,
        ),
        ("attention.gate_lora_rank", ["lora_rank_gate", "gate_low_rank_dim"], 0.8, 0.6),
    ] {
        let count = match hparams.find(&stated) {
            Some((name, value)) => {
                value.as_u64().ok_or_else(|| bad(name, value, "an integer of 0 or more"))?
            }
            None => rank(width, exponent, factor),
        };
        keys.set_derived(key, stated[1], count)?;
    }
    keys.set_derived("feed_forward_length", "intermediate_size", forward)?;
    keys.file_type_here();
    keys.set_derived("attention.head_count", "", 0)
}

fn hybrid_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    if let Some(version) = hparams.get("wkv_version").filter(|version| version.as_u64() != Some(7)) {
        return Err(bad("wkv_version", version, "7"));
    }
    endless(keys)?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["rms_norm_eps"])?;
    keys.needed("wkv.head_size", hparams, &["head_size"])?;
    // Constants of `ARwkv7Model`; its configs do not state ranks.
    keys.set_derived("attention.decay_lora_rank", "", 64)?;
    keys.set_derived("attention.iclr_lora_rank", "", 64)?;
    keys.set_derived("attention.value_residual_mix_lora_rank", "", 32)?;
    keys.set_derived("attention.gate_lora_rank", "", if hparams.is_true("wkv_has_gate") { 128 } else { 0 })?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.file_type_here();
    keys.set_derived("token_shift_count", "", 1)?;
    keys.set_derived("attention.head_count", "", 0)
}
