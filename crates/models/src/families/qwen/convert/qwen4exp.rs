//! Qwen 3.8 Flash Next, the text part: Qwen 3.5's mixture with several residual streams instead of norms, an
//! indexer, and n-gram embeddings in one layer.
//!
//! Config keys: those of Qwen 3.5, residual streams, the indexer, n-gram embeddings. The constants for
//! hashing n-grams are tensors of the checkpoint.
//!
//! Transforms: those of Qwen 3.5; queries and keys of the indexer are split, the shards of the embedding
//! joined. The MTP layer follows the others, with the projections of its two inputs in one matrix; it has the
//! streams but no n-gram embeddings.
//!
//! Source: `Qwen4ExpTextModel` in `conversion/qwen4exp.py`; its MTP layer in that of llama.cpp build 11549,
//! which is newer than the pinned one. The config class of transformers 5.23 renames
//! what the reference reads, so the raw config is read.

use crate::families::qwen::convert::{qwen2moe, qwen3next, qwen35};
use crate::prelude::*;

pub const QWEN4EXP: Arch = Arch {
    name: "qwen4exp",
    classes: &[Class::new("Qwen4ExpForConditionalGeneration"), Class::new("Qwen4ExpForCausalLM")],
    example: "Qwen/Qwen3.8-Flash-Next",
    configs: &[],
    raw_config: true,
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[
        ENDS,
        STREAMS,
        qwen3next::FULL_ATTENTION,
        INDEXER,
        qwen35::LINEAR_ATTENTION,
        rules::QWEN_EXPERTS,
        rules::STACKED_EXPERTS,
        qwen2moe::SHARED_EXPERT,
        GROUPS,
        PREDICTION,
    ],
    keys,
    harmless: &["norm_topk_prob=true", "hidden_act=silu", "rope_parameters.mrope_interleaved=true"],
    constants: &[
        ("ple_embedding.layer_multipliers", "layer_multipliers"),
        ("ple_embedding.ngram_heads_offsets", "ngram_heads_offsets"),
        ("ple_embedding.ngram_heads_vocab_sizes", "ngram_heads_vocab_sizes"),
    ],
    rename: |hparams, name| {
        // Parts of names between points are integers in tables.
        if let Some((_, shard)) = name.split_once(".ngram_embedding.shard_") {
            return Some(format!("model.ngram_embedding.{shard}"));
        }
        let name = name.strip_prefix("model.").unwrap_or(name);
        let own = || {
            let rest = name.strip_prefix("mtp.")?;
            let parts = ["fc_embedding.", "fc_hidden.", "hyper_connection_mixer."];
            parts.iter().any(|part| rest.starts_with(part)).then_some(())?;
            Some(format!("model.layers.{}.{rest}", hparams.derived.trunk_layers?))
        };
        qwen3next::rename(hparams, name).or_else(own)
    },
    prepare,
    prediction: Some(qwen3next::PREDICTED_LAYERS),
    export: Export::NotExportable("constants of its embeddings are not stored"),
    built_in: &[NORMALIZES_EXPERTS, ROTATES_ALL_PAIRS],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
    // Merges the streams, instead of a final norm.
    TensorRule::norm1p(&["model.hyper_connection_mixer.hc_norm"], "output_hc_norm").need(IS_TRUNK),
    TensorRule::copy(&["model.hyper_connection_mixer.input_mix_weight_down"], "output_hc_down")
        .need(IS_TRUNK),
    TensorRule::copy(&["model.hyper_connection_mixer.input_mix_weight_up"], "output_hc_up").need(IS_TRUNK),
];

/// Inputs of the MTP layer, and the mixer that merges its streams.
const PREDICTION: &[TensorRule] = &[
    // (out, 2 in): the embedding before the state of the trunk.
    TensorRule::copy(
        &["model.layers.{bid}.fc_embedding", "model.layers.{bid}.fc_hidden"],
        "blk.{bid}.nextn.eh_proj",
    )
    .rows(RowRule::SideBySide)
    .need(PREDICTS),
    TensorRule::norm1p(&["model.layers.{bid}.enorm"], "blk.{bid}.nextn.enorm").need(PREDICTS),
    TensorRule::norm1p(&["model.layers.{bid}.hnorm"], "blk.{bid}.nextn.hnorm").need(PREDICTS),
    TensorRule::norm1p(
        &["model.layers.{bid}.hyper_connection_mixer.hc_norm"],
        "blk.{bid}.nextn.hc_head_norm",
    )
    .need(PREDICTS),
    TensorRule::copy(
        &["model.layers.{bid}.hyper_connection_mixer.input_mix_weight_down"],
        "blk.{bid}.nextn.hc_head_down",
    )
    .need(PREDICTS),
    TensorRule::copy(
        &["model.layers.{bid}.hyper_connection_mixer.input_mix_weight_up"],
        "blk.{bid}.nextn.hc_head_up",
    )
    .need(PREDICTS),
];

const IS_TRUNK: Need = Need::If(|hparams, _| !hparams.derived.is_prediction);
const PREDICTS: Need =
    Need::If(|hparams, bid| hparams.derived.trunk_layers.is_some_and(|trunk| bid >= trunk));

/// Residual streams: how they form the input of each half of a layer, and how its output returns to them.
const STREAMS: &[TensorRule] = &[
    TensorRule::norm1p(&["model.layers.{bid}.attn_hyper_connection.hc_norm"], "blk.{bid}.hc_attn_norm"),
    TensorRule::copy(
        &["model.layers.{bid}.attn_hyper_connection.input_mix_weight_down"],
        "blk.{bid}.hc_attn_down",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.attn_hyper_connection.input_mix_weight_up"],
        "blk.{bid}.hc_attn_up",
    ),
    TensorRule::copy(
        &["model.layers.{bid}.attn_hyper_connection.block_inject_weight"],
        "blk.{bid}.hc_attn_inject",
    ),
    TensorRule::norm1p(&["model.layers.{bid}.mlp_hyper_connection.hc_norm"], "blk.{bid}.hc_ffn_norm"),
    TensorRule::copy(
        &["model.layers.{bid}.mlp_hyper_connection.input_mix_weight_down"],
        "blk.{bid}.hc_ffn_down",
    ),
    TensorRule::copy(&["model.layers.{bid}.mlp_hyper_connection.input_mix_weight_up"], "blk.{bid}.hc_ffn_up"),
    TensorRule::copy(
        &["model.layers.{bid}.mlp_hyper_connection.block_inject_weight"],
        "blk.{bid}.hc_ffn_inject",
    ),
];

const INDEXER: &[TensorRule] = &[
    TensorRule::part(
        // (n_heads head_dim + rows of keys, in): queries above keys.
        &["model.layers.{bid}.self_attn.indexer.index_qk_proj"],
        "blk.{bid}.indexer.q_proj",
        |hparams, shape| {
            Ok(RowMap::Groups { group: rows(shape), start: 0, rows: queries(hparams)?, n_head: 0 })
        },
    )
    .need(IS_INDEXED),
    TensorRule::part(
        &["model.layers.{bid}.self_attn.indexer.index_qk_proj"],
        "blk.{bid}.indexer.k_proj",
        |hparams, _| Ok(RowMap::Slice { start: queries(hparams)? }),
    )
    .need(IS_INDEXED),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.indexer.q_layernorm"], "blk.{bid}.indexer.q_norm")
        .need(IS_INDEXED),
    TensorRule::norm1p(&["model.layers.{bid}.self_attn.indexer.k_layernorm"], "blk.{bid}.indexer.k_norm")
        .need(IS_INDEXED),
];

/// Embeddings of groups of tokens, and how they enter the residual streams.
const GROUPS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.ple.key_proj"], "blk.{bid}.ple_key").need(HAS_GROUPS),
    TensorRule::copy(&["model.layers.{bid}.ple.value_proj"], "blk.{bid}.ple_value").need(HAS_GROUPS),
    TensorRule::norm1p(&["model.layers.{bid}.ple.norm_key"], "blk.{bid}.ple_norm_key").need(HAS_GROUPS),
    TensorRule::norm1p(&["model.layers.{bid}.ple.norm_query"], "blk.{bid}.ple_norm_query").need(HAS_GROUPS),
    TensorRule::norm1p(&["model.layers.{bid}.ple.norm_conv"], "blk.{bid}.ple_norm_conv").need(HAS_GROUPS),
    TensorRule::copy(&["model.layers.{bid}.ple.conv1d"], "blk.{bid}.ple_conv1d")
        // (channels, 1, kernel) as (channels, kernel).
        .shape(rules::SQUEEZE_CHANNEL)
        .need(HAS_GROUPS),
    // Shards cut the embedding by rows: those of shard 0, then those of shard 1, and so on.
    TensorRule::copy(&["model.ngram_embedding.{xid}"], "per_layer_token_embd")
        .rows(RowRule::Append(|hparams| {
            let parts = hparams.get_u64("split_ngram_parts").ok().flatten().unwrap_or(0);
            usize::try_from(parts).unwrap_or(usize::MAX)
        }))
        .need(Need::If(|hparams, _| !layers_with_groups(hparams).is_empty())),
];

const IS_INDEXED: Need = Need::If(|hparams, bid| !qwen3next::is_linear(hparams, bid));
const HAS_GROUPS: Need =
    Need::If(|hparams, bid| layers_with_groups(hparams).contains(&bid.saturating_add(1)));

/// Layers that see embeddings of groups of tokens, counted from one. The MTP layer does not.
fn layers_with_groups(hparams: &Hparams) -> Vec<u64> {
    if hparams.derived.is_prediction {
        return Vec::new();
    }
    let layers = hparams.get("ple_layer_ids").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    layers.iter().filter_map(Json::as_u64).collect()
}

fn rows(shape: &Shape) -> u64 {
    shape.n_rows()
}

/// Rows of queries in the projection of the indexer, before those of keys.
fn queries(hparams: &Hparams) -> Result<u64, ArchError> {
    Ok(hparams.need_u64(&["indexer_n_heads"])?.saturating_mul(hparams.need_u64(&["indexer_head_dim"])?))
}

/// The width of the embeddings of groups is that of their rows.
fn prepare(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let mut hparams = qwen3next::prepare(hparams, tensors)?;
    if let Some(shard) = tensors.iter().find(|tensor| tensor.name.contains(".ngram_embedding.shard_")) {
        hparams = hparams.with("ple_row_dim", shard.shape.row_elems().into());
    }
    Ok(hparams)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    qwen35::shared_keys(hparams, keys)?;
    keys.needed("hyper_connection.count", hparams, &["hc_count"])?;
    keys.needed("hyper_connection.low_rank", hparams, &["hc_lowrank"])?;
    keys.needed("attention.indexer.head_count", hparams, &["indexer_n_heads"])?;
    keys.needed("attention.indexer.key_length", hparams, &["indexer_head_dim"])?;
    keys.needed("attention.indexer.top_k", hparams, &["indexer_budget"])?;
    let n_layers = hparams.n_layers()?;
    let ratio = hparams.get("indexer_compress_ratio").ok_or_else(|| missing("indexer_compress_ratio"))?;
    let ratio = to_i32("indexer_compress_ratio", ratio)?;
    // Keys of that many neighbours are one block of the index.
    let ratios =
        (0..n_layers.min(10_000)).map(|bid| if qwen3next::is_linear(hparams, bid) { 0 } else { ratio });
    keys.set_prefixed("attention.compress_ratios", Value::Array(Array::I32(ratios.collect())));
    let layers = layers_with_groups(hparams);
    if layers.is_empty() {
        return Ok(());
    }
    // The config counts these layers from one, the file from zero.
    let layers = layers.iter().map(|layer| to_i32("ple_layer_ids", &layer.saturating_sub(1).into()));
    keys.set_prefixed("ple.layers", Value::Array(Array::I32(layers.collect::<Result<_, _>>()?)));
    keys.needed("ple.ngram_size", hparams, &["ngram_size"])?;
    keys.needed("ple.heads_per_ngram", hparams, &["heads_per_ngram"])?;
    keys.needed("ple.conv_kernel", hparams, &["ple_conv_kernel_size"])?;
    // Groups do not reach over the end of a text.
    let end = hparams.get("eos_token_id").ok_or_else(|| missing("eos_token_id"))?;
    let end = end.as_array().and_then(|ends| ends.last()).unwrap_or(end);
    keys.set_prefixed("ple.eos_token_id", Value::U32(to_u32("eos_token_id", end)?));
    keys.count("ple.image_token_id", hparams, &["image_token_id"])?;
    keys.count("embedding_length_per_layer_input", hparams, &["ple_row_dim"])?;
    for (key, name) in [
        ("ple.layer_multipliers", "layer_multipliers"),
        ("ple.head_offsets", "ngram_heads_offsets"),
        ("ple.head_vocab_sizes", "ngram_heads_vocab_sizes"),
    ] {
        let numbers = hparams.get(name).and_then(Json::as_array);
        let numbers = numbers.ok_or_else(|| ArchError::MissingTensors { names: vec![name.to_owned()] })?;
        let whole =
            |number: &Json| number.as_u64().ok_or_else(|| bad(name, number, "an integer of 0 or more"));
        let numbers = numbers.iter().map(whole).collect::<Result<Vec<u64>, _>>()?;
        keys.set_prefixed(key, Value::Array(Array::U64(numbers)));
    }
    Ok(())
}
