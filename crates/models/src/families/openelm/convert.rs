//! OpenELM: layers of different widths.
//!
//! Config keys: heads and lengths by layer.
//!
//! Transforms: gate and up are one matrix, which is taken apart; Q, K and V stay one.
//!
//! Source: `OpenELMModel` in `conversion/openelm.py`.

use crate::prelude::*;

pub const OPENELM: Arch = Arch {
    name: "openelm",
    classes: &[Class::new("OpenELMForCausalLM")],
    example: "apple/OpenELM-270M",
    needs: &["model_dim", "num_transformer_layers", "head_dim", "vocab_size"],
    tensors: &[ENDS, LAYERS],
    keys,
    prepare: |hparams, _| {
        let n_layers = hparams.need_u64(&["num_transformer_layers"])?;
        Ok(hparams.with("num_hidden_layers", n_layers.into()))
    },
    vocab: Route::SENTENCE_PIECE,
    from_file,
    harmless: &["normalize_qk_projections", "rope_max_length"],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.token_embeddings"], "token_embd"),
    TensorRule::copy(&["transformer.norm"], "output_norm"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.layers.{bid}.attn_norm"], "blk.{bid}.attn_norm"),
    // Rows of queries, keys and values together: llama.cpp splits them by the counts of heads of each layer.
    TensorRule::copy(&["transformer.layers.{bid}.attn.qkv_proj"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["transformer.layers.{bid}.attn.q_norm"], "blk.{bid}.attn_q_norm"),
    TensorRule::copy(&["transformer.layers.{bid}.attn.k_norm"], "blk.{bid}.attn_k_norm"),
    TensorRule::copy(&["transformer.layers.{bid}.attn.out_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.layers.{bid}.ffn_norm"], "blk.{bid}.ffn_norm"),
    // (2 f, in): gate above up; f differs from layer to layer.
    TensorRule::part(&["transformer.layers.{bid}.ffn.proj_1"], "blk.{bid}.ffn_gate", rules::first_half),
    TensorRule::part(&["transformer.layers.{bid}.ffn.proj_1"], "blk.{bid}.ffn_up", rules::second_half),
    TensorRule::copy(&["transformer.layers.{bid}.ffn.proj_2"], "blk.{bid}.ffn_down"),
];

/// Rows of a feed-forward part: this many widths, rounded to the nearest multiple of the divisor but by no more than a tenth
/// downwards.
fn length(multiplier: f64, width: f64, divisor: f64) -> f64 {
    let exact = multiplier * width;
    // `trunc` and `floor` stand for Python's `int(wanted + divisor / 2) // divisor`.
    let rounded = ((exact + divisor / 2.0).trunc() / divisor).floor() * divisor;
    let rounded = rounded.max(divisor);
    if rounded < 0.9 * exact { rounded + divisor } else { rounded }
}

fn by_layer(hparams: &Hparams, name: &'static str) -> Result<Vec<Json>, ArchError> {
    let value = hparams.get(name).ok_or_else(|| missing(name))?;
    let listed = value.as_array().filter(|list| list.len() as u64 == hparams.n_layers().unwrap_or(0));
    listed.cloned().ok_or_else(|| bad(name, value, "a number for each layer"))
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let counts = |name: &'static str| -> Result<Value, ArchError> {
        let counts =
            by_layer(hparams, name)?.iter().map(|count| to_i32(name, count)).collect::<Result<_, _>>()?;
        Ok(Value::Array(Array::I32(counts)))
    };
    let width = hparams.need_f64("model_dim")?;
    let divisor = hparams.need_u64(&["ffn_dim_divisor"])?;
    if divisor == 0 {
        return Err(bad("ffn_dim_divisor", &0.into(), "an integer above 0"));
    }
    let name = "ffn_multipliers";
    let rows = |multiplier: &Json| {
        let number = multiplier.as_f64().ok_or_else(|| bad(name, multiplier, "a number"))?;
        to_i32(name, &(length(number, width, divisor as f64) as u64).into())
    };
    let lengths = by_layer(hparams, name)?.iter().map(rows).collect::<Result<Vec<i32>, _>>()?;
    keys.needed("block_count", hparams, &["num_transformer_layers"])?;
    keys.needed("context_length", hparams, &["max_context_length"])?;
    keys.needed("embedding_length", hparams, &["model_dim"])?;
    keys.set_prefixed("feed_forward_length", Value::Array(Array::I32(lengths)));
    // Lists, as the lengths are: layers differ in heads, too.
    keys.set_prefixed("attention.head_count", counts("num_query_heads")?);
    keys.set_prefixed("attention.head_count_kv", counts("num_kv_heads")?);
    keys.needed_number("rope.freq_base", hparams, &["rope_freq_constant"])?;
    // A constant of the model's code.
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(1e-6));
    keys.needed("rope.dimension_count", hparams, &["head_dim"])?;
    keys.head_lengths(hparams)?;
    keys.file_type_here();
    Ok(())
}

/// Lists by layer under the model's own names. Multipliers are chosen to give the lengths in the file; their
/// values before rounding are unknown and not needed.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let width = file.count("embedding_length").unwrap_or(0).max(1);
    let lengths = file.counts("feed_forward_length").unwrap_or_default();
    // The largest power of two that divides every length.
    let divisor = lengths.iter().map(|length| 1u64 << length.trailing_zeros().min(8)).min().unwrap_or(1);
    let multipliers = lengths.iter().map(|length| *length as f64 / width as f64).collect();
    config.insert("ffn_multipliers".into(), multipliers);
    config.insert("ffn_dim_divisor".into(), divisor.into());
    for (name, key) in
        [("num_query_heads", "attention.head_count"), ("num_kv_heads", "attention.head_count_kv")]
    {
        config.extend(file.counts(key).map(|counts| (name.to_owned(), counts.into())));
    }
    for (name, key) in [
        ("num_transformer_layers", "block_count"),
        ("max_context_length", "context_length"),
        ("model_dim", "embedding_length"),
        ("head_dim", "rope.dimension_count"),
    ] {
        set(config, name, file.count(key));
    }
    let base = config.remove("rope_theta").unwrap_or_default();
    config.insert("rope_freq_constant".into(), base);
    for key in [
        "hidden_size",
        "intermediate_size",
        "max_position_embeddings",
        "num_attention_heads",
        "num_hidden_layers",
        "num_key_value_heads",
        "partial_rotary_factor",
        "rms_norm_eps",
        "rope_parameters",
        "rope_scaling",
    ] {
        config.remove(key);
    }
}
