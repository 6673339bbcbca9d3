//! MiniCPM 3: latent attention.
//!
//! Config keys: those of every text model in their own order, ranks and lengths of the latent attention.
//!
//! Transforms: factors of `longrope` scaling become the computed tensors `rope_factors_long` and
//! `rope_factors_short`.
//!
//! Source: `MiniCPM3Model` in `conversion/minicpm.py`.

use crate::families::minicpm::convert::minicpm;
use crate::prelude::*;

pub const MINICPM3: Arch = Arch {
    name: "minicpm3",
    classes: &[Class::new("MiniCPM3ForCausalLM")],
    example: "openbmb/MiniCPM3-4B",
    configs: &[MINICPM3_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, ATTENTION, rules::GATED_MLP],
    keys,
    computed: |hparams| minicpm::factors(hparams, hparams.need_u64(&["qk_rope_head_dim"])?),
    vocab: Route::SENTENCE_PIECE,
    // Logits are divided by hidden_size / dim_model_base.
    built_in: &[
        BuiltIn::is("dim_model_base", &["256"]),
        BuiltIn::is("scale_depth", &["1.4"]),
        BuiltIn::is("scale_emb", &["12"]),
    ],
    from_file,
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    // q = q_b norm(q_a x): q_a (rank, in), q_b (heads * (nope + rope), rank).
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_a_proj"], "blk.{bid}.attn_q_a"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_a_layernorm"], "blk.{bid}.attn_q_a_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_b_proj"], "blk.{bid}.attn_q_b"),
    // (rank + rope, in): the latent vector, and the one rotated key that all heads share.
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_proj_with_mqa"], "blk.{bid}.attn_kv_a_mqa"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_a_layernorm"], "blk.{bid}.attn_kv_a_norm"),
    // (heads * (nope + v), rank): stays one matrix.
    TensorRule::copy(&["model.layers.{bid}.self_attn.kv_b_proj"], "blk.{bid}.attn_kv_b"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.file_type_here();
    keys.needed("context_length", hparams, &["max_position_embeddings"])?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.needed("block_count", hparams, &["num_hidden_layers"])?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    keys.needed("attention.head_count_kv", hparams, &["num_key_value_heads"])?;
    keys.needed_number("attention.layer_norm_rms_epsilon", hparams, &["rms_norm_eps"])?;
    keys.vocab_size(hparams)?;
    keys.count("attention.q_lora_rank", hparams, &["q_lora_rank"])?;
    keys.needed("attention.kv_lora_rank", hparams, &["kv_lora_rank"])?;
    let rotated = hparams.need_u64(&["qk_rope_head_dim"])?;
    // A key is a part without positions and a rotated one: nope + rope.
    let length = hparams.need_u64(&["qk_nope_head_dim"])?.saturating_add(rotated);
    keys.set_derived("attention.key_length", "qk_nope_head_dim", length)?;
    keys.needed("rope.dimension_count", hparams, &["qk_rope_head_dim"])
}

fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    file.latent_lengths(config);
    // kv_b: (heads * (nope + v), rank).
    let rows = file.shape("blk.0.attn_kv_b.weight").map(|shape| shape.n_rows());
    let head = rows.zip(file.count("attention.head_count")).and_then(|(rows, heads)| rows.checked_div(heads));
    let plain = config.get("qk_nope_head_dim").and_then(Json::as_u64);
    let values = head.zip(plain).and_then(|(head, plain)| head.checked_sub(plain));
    config.insert("v_head_dim".into(), values.into());
}

/// `MiniCPM3Config`.
const MINICPM3_CONFIG: ConfigClass = ConfigClass::new("minicpm3").adjusted(|map| {
    // The class calls only the rotated part `head_dim`.
    let rotated = map.get("qk_rope_head_dim").cloned().unwrap_or(Json::Null);
    map.insert("head_dim".into(), rotated);
    Ok(())
});
