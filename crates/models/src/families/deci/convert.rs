//! DeciLM and Nemotron 51B, Super 49B, Ultra 253B: llamas whose layers differ from each other or lack parts.
//!
//! Config keys: for Nemotron, heads and lengths by layer, from `block_configs`; for DeciLM, those of every
//! text model with key heads by layer.
//!
//! Transforms: those of llama, with each layer's own heads. A layer may have a matrix instead of attention,
//! no attention, or neither part. RoPE scaling of type `llama3` becomes the computed tensor `rope_freqs`.
//!
//! Source: `DeciModel` in `conversion/deci.py`.

use crate::families::llama::convert::llama;
use crate::prelude::*;

pub const DECI: Arch = Arch {
    name: "deci",
    classes: &[Class::new("DeciLMForCausalLM")],
    example: "nvidia/Llama-3_3-Nemotron-Super-49B-v1",
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[rules::DECODER_ENDS, ATTENTION, FEED_FORWARD],
    keys,
    computed: llama::computed,
    vocab: ROUTE,
    export_name: |hparams, _, name| {
        let bid = name.strip_prefix("model.layers.")?.strip_suffix(".self_attn.o_proj.weight")?;
        let is_matrix = part(hparams, bid.parse().ok()?, "attention").is_some_and(is_linear);
        is_matrix.then(|| format!("model.layers.{bid}.self_attn.linear_attn.weight"))
    },
    from_file,
    harmless: &["hidden_act=silu"],
    ..DECODER
};

/// Nemotron 51B has Llama 3's vocabulary as byte-level BPE, DeciLM 7B Llama 2's as tokenizer.json. Without a size
/// the former is meant.
const ROUTE: Route = Route::new("deci", |writer| {
    if writer.ctx.vocab_size.is_none_or(|n| n == 128_256) {
        writer.gpt2(&BpeStyle::GPT2)
    } else {
        writer.llama_hf()
    }
});

const ATTENDS: Need = Need::If(|hparams, bid| part(hparams, bid, "attention").is_none_or(attends));

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm").need(Need::If(
        |hparams, bid| part(hparams, bid, "attention").is_none_or(|part| attends(part) || is_linear(part)),
    )),
    // Rows n and n + dim / 2 of a head become neighbours, as llama.cpp rotates them.
    TensorRule::part(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q", interleaved).need(ATTENDS),
    TensorRule::part(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k", interleaved).need(ATTENDS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(ATTENDS),
    TensorRule::copy(
        // A matrix that replaces attention has the name of the output projection.
        &["model.layers.{bid}.self_attn.o_proj", "model.layers.{bid}.self_attn.linear_attn"],
        "blk.{bid}.attn_output",
    )
    .need(ATTENDS),
];

const FEEDS: Need =
    Need::If(|hparams, bid| part(hparams, bid, "ffn").is_none_or(|part| !part["ffn_mult"].is_null()));

const FEED_FORWARD: &[TensorRule] = &[
    // A layer without `ffn_mult` has no feed-forward part, and no norm before it.
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm").need(FEEDS),
    TensorRule::copy(&["model.layers.{bid}.mlp.gate_proj"], "blk.{bid}.ffn_gate").need(FEEDS),
    TensorRule::copy(&["model.layers.{bid}.mlp.up_proj"], "blk.{bid}.ffn_up").need(FEEDS),
    TensorRule::copy(&["model.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down").need(FEEDS),
];

/// Entry of `block_configs` for a part of a layer.
fn part<'a>(hparams: &'a Hparams, bid: u64, name: &str) -> Option<&'a Json> {
    hparams.get("block_configs")?.get(usize::try_from(bid).ok()?)?.get(name)
}

/// True if a layer has queries, keys and values.
fn attends(part: &Json) -> bool {
    !part["n_heads_in_group"].is_null()
}

/// True if one matrix replaces attention.
fn is_linear(part: &Json) -> bool {
    part["replace_with_linear"] == true
}

/// Rotary halves interleaved: heads are all of one length, their number is that of the rows.
fn interleaved(hparams: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    let dim = hparams.head_share()?;
    // The elements of a bias are its rows.
    let rows = if shape.n_dims() > 1 { shape.n_rows() } else { shape.n_elems() };
    match rows.checked_div(dim) {
        Some(n_head) if n_head > 0 => Ok(RowMap::RopePermute { n_head }),
        _ => Err(bad("num_attention_heads", &dim.into(), "heads that are shorter than a projection")),
    }
}

/// The rows of a feed-forward part: two thirds of this many widths, rounded up to a multiple of 256.
fn length(multiplier: f64, width: u64) -> u64 {
    // Python truncates: `int(2 * ffn_mult * n_embd / 3)`.
    let length = (2.0 * multiplier * width as f64 / 3.0) as u64;
    length.div_ceil(256).saturating_mul(256)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    match hparams.get("block_configs").and_then(Json::as_array) {
        Some(blocks) => block_keys(hparams, blocks, keys)?,
        None => {
            text_keys(hparams, keys)?;
            keys.counts(
                "attention.head_count_kv",
                hparams,
                &["num_key_value_heads_per_layer", "num_key_value_heads"],
            )?;
        }
    }
    keys.vocab_size(hparams)?;
    keys.set_derived("rope.dimension_count", "hidden_size", hparams.head_dim()?)
}

fn block_keys(hparams: &Hparams, blocks: &[Json], keys: &mut Keys) -> Result<(), ArchError> {
    let (n_layers, heads) = (hparams.n_layers()?, hparams.n_heads()?);
    if blocks.len() as u64 != n_layers {
        return Err(bad("block_configs", &blocks.len().into(), "a block for each layer"));
    }
    let width = hparams.need_u64(&["hidden_size"])?;
    let (mut key_heads, mut all_heads, mut lengths) = (Vec::new(), Vec::new(), Vec::new());
    let count = |count: u64| to_i32("block_configs", &count.into());
    for block in blocks {
        let (attention, ffn) = (&block["attention"], &block["ffn"]);
        let (kv_heads, query_heads) = match &attention["n_heads_in_group"] {
            // Heads without key heads: one matrix instead of attention. Neither: no attention.
            Json::Null => (0, if is_linear(attention) { heads } else { 0 }),
            group => {
                let group = group.as_u64().filter(|group| *group > 0);
                let group =
                    group.ok_or_else(|| bad("block_configs", attention, "heads in a group above 0"))?;
                // A group is the query heads that share one key head.
                (heads / group, heads)
            }
        };
        let multiplier = match &ffn["ffn_mult"] {
            Json::Null => 0.0,
            value => value.as_f64().ok_or_else(|| bad("block_configs", ffn, "a number `ffn_mult`"))?,
        };
        key_heads.push(count(kv_heads)?);
        all_heads.push(count(query_heads)?);
        lengths.push(count(length(multiplier, width))?);
    }
    keys.rope_number("rope.freq_base", hparams.rope(), &["rope_theta"])?;
    keys.set_prefixed("attention.head_count_kv", Value::Array(Array::I32(key_heads)));
    keys.set_prefixed("attention.head_count", Value::Array(Array::I32(all_heads)));
    keys.set_prefixed("feed_forward_length", Value::Array(Array::I32(lengths)));
    keys.needed("block_count", hparams, &["num_hidden_layers"])?;
    keys.needed("context_length", hparams, &["max_position_embeddings"])?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["rms_norm_eps"])?;
    let dim = hparams.head_share()?;
    keys.set_derived("attention.key_length", "hidden_size", dim)?;
    keys.set_derived("attention.value_length", "hidden_size", dim)?;
    keys.file_type_here();
    Ok(())
}

/// Layer structure: key heads by layer for DeciLM, a block per layer for Nemotron.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let Some(key_heads) = file.counts("attention.head_count_kv") else { return };
    let Some(heads) = file.counts("attention.head_count") else {
        config.remove("num_key_value_heads");
        config.insert("num_key_value_heads_per_layer".into(), key_heads.into());
        return;
    };
    let all_heads = heads.iter().max().copied().unwrap_or(0);
    let width = file.count("embedding_length").unwrap_or(0).max(1) as f64;
    let lengths = file.counts("feed_forward_length").unwrap_or_default();
    let blocks = key_heads.iter().zip(&heads).zip(&lengths).map(|((key_heads, heads), length)| {
        let group = heads.checked_div(*key_heads);
        // length = 2 / 3 of this many widths.
        let multiplier = (*length > 0).then(|| 3.0 * *length as f64 / (2.0 * width));
        let is_matrix = group.is_none() && *heads > 0;
        json!({
            "attention": {"n_heads_in_group": group, "no_op": *heads == 0, "replace_with_linear": is_matrix},
            "ffn": {"ffn_mult": multiplier, "no_op": *length == 0, "replace_with_linear": false},
        })
    });
    config.insert("block_configs".into(), blocks.collect());
    config.insert("num_attention_heads".into(), all_heads.into());
    for key in ["num_key_value_heads", "intermediate_size", "head_dim"] {
        config.remove(key);
    }
}
