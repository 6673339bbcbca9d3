//! DBRX.
//!
//! Config keys: two nested objects, for attention and for experts; a fixed norm epsilon.
//!
//! Transforms: Q, K and V stay one matrix. The experts are the rows of one matrix, which becomes a tensor of
//! three dimensions; their last matrix is stored transposed. The router gets the type of the file, like every
//! other matrix.
//!
//! Source: `DbrxModel` in `conversion/dbrx.py`.

use crate::prelude::*;

pub const DBRX: Arch = Arch {
    name: "dbrx",
    classes: &[Class::new("DbrxForCausalLM")],
    example: "alpindale/dbrx-instruct",
    configs: &[DBRX_CONFIG],
    needs: &["d_model", "n_heads", "n_layers", "attn_config", "ffn_config", "vocab_size"],
    tensors: &[ENDS, LAYERS, EXPERTS],
    keys,
    // `null` leaves the weights as they are.
    built_in: &[BuiltIn::is("ffn_config.moe_normalize_expert_weights", &["1"]).or_off()],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.wte"], "token_embd"),
    TensorRule::copy(&["transformer.norm_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.blocks.{bid}.norm_attn_norm.norm_1"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["transformer.blocks.{bid}.norm_attn_norm.norm_2"], "blk.{bid}.attn_output_norm"),
    TensorRule::copy(&["transformer.blocks.{bid}.norm_attn_norm.attn.Wqkv"], "blk.{bid}.attn_qkv"),
    TensorRule::copy(&["transformer.blocks.{bid}.norm_attn_norm.attn.out_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.blocks.{bid}.ffn.router.layer"], "blk.{bid}.ffn_gate_inp")
        .float(FloatType::OfFile),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.blocks.{bid}.ffn.experts.mlp.w1"], "blk.{bid}.ffn_gate_exps")
        .bare(".weight")
        .shape(BY_EXPERT),
    TensorRule::copy(&["transformer.blocks.{bid}.ffn.experts.mlp.v1"], "blk.{bid}.ffn_up_exps")
        .bare(".weight")
        .shape(BY_EXPERT),
    TensorRule::transposed(
        &["transformer.blocks.{bid}.ffn.experts.mlp.w2"],
        "blk.{bid}.ffn_down_exps",
        |hparams, _| {
            // w2 (experts * f rows, width columns), f = ffn_hidden_size: every f rows are the matrix of an expert, whose
            // output is `h w2`, not `w2 h`. ggml wants (width, f): each matrix is transposed by itself.
            let rows = inner(hparams, "ffn_config", "ffn_hidden_size")?;
            Ok(Transposed { matrix: Matrix { group: rows, start: 0 }, rows, columns: RowMap::Concat })
        },
    )
    .bare(".weight"),
];

/// A dimension for the experts, whose rows follow each other.
const BY_EXPERT: Reshape = Reshape { forward: by_expert, inverse: rules::flat_rows };

fn by_expert(hparams: &Hparams, dims: &[u64]) -> Result<Vec<u64>, ArchError> {
    // (experts * f, width) becomes (experts, f, width); the rows stay where they are.
    let [width, length] =
        [dims.first().copied().unwrap_or(0), inner(hparams, "ffn_config", "ffn_hidden_size")?];
    Ok(vec![width, length, inner(hparams, "ffn_config", "moe_num_experts")?])
}

/// `DbrxConfig`.
const DBRX_CONFIG: ConfigClass = ConfigClass::new("dbrx").adjusted(config);

/// The nested classes have their own defaults.
fn config(map: &mut Map<String, Json>) -> Result<(), String> {
    // `DbrxAttentionConfig` and `DbrxFFNConfig` fill in what the nested objects leave out.
    let inner = [
        ("attn_config", json!({"kv_n_heads": 1, "rope_theta": 10000.0})),
        (
            "ffn_config",
            json!({"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1, "moe_normalize_expert_weights": 1.0}),
        ),
    ];
    for (key, defaults) in inner {
        let mut filled = defaults.as_object().cloned().unwrap_or_default();
        filled.extend(map.get(key).and_then(Json::as_object).cloned().unwrap_or_default());
        map.insert(key.into(), filled.into());
    }
    Ok(())
}

fn value<'a>(hparams: &'a Hparams, object: &str, key: &str) -> Result<&'a Json, ArchError> {
    let value = hparams.get(object).and_then(|object| object.get(key)).filter(|value| !value.is_null());
    value.ok_or_else(|| missing(&format!("{object}.{key}")))
}

/// A count of a nested object.
fn inner(hparams: &Hparams, object: &str, key: &str) -> Result<u64, ArchError> {
    let value = value(hparams, object, key)?;
    value.as_u64().ok_or_else(|| bad(&format!("{object}.{key}"), value, "an integer of 0 or more"))
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Nested keys are recorded with a dot, so that export finds where they belong.
    let count = |keys: &mut Keys, to: &str, object: &str, key: &str| {
        keys.derived_from(to, &[&format!("{object}.{key}")]);
        keys.set_prefixed(to, Value::U32(to_u32(&format!("{object}.{key}"), value(hparams, object, key)?)?));
        Ok::<(), ArchError>(())
    };
    let number = |keys: &mut Keys, to: &str, object: &str, key: &str| {
        keys.derived_from(to, &[&format!("{object}.{key}")]);
        keys.set_prefixed(to, Value::F32(to_f32(&format!("{object}.{key}"), value(hparams, object, key)?)?));
        Ok::<(), ArchError>(())
    };
    keys.set_derived("block_count", "n_layers", hparams.n_layers()?)?;
    keys.needed("context_length", hparams, &["max_seq_len"])?;
    keys.needed("embedding_length", hparams, &["d_model"])?;
    count(keys, "feed_forward_length", "ffn_config", "ffn_hidden_size")?;
    keys.needed("attention.head_count", hparams, &["n_heads"])?;
    count(keys, "attention.head_count_kv", "attn_config", "kv_n_heads")?;
    number(keys, "rope.freq_base", "attn_config", "rope_theta")?;
    number(keys, "attention.clamp_kqv", "attn_config", "clip_qkv")?;
    count(keys, "expert_count", "ffn_config", "moe_num_experts")?;
    count(keys, "expert_used_count", "ffn_config", "moe_top_k")?;
    // Constant in the reference: the norm of `DbrxBlock` is torch's with its default epsilon.
    keys.set_prefixed("attention.layer_norm_epsilon", Value::F32(1e-5));
    keys.file_type_here();
    Ok(())
}
