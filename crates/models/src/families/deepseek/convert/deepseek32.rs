//! DeepSeek 3.2: DeepSeek 3 with an indexer that chooses what a query attends to.
//!
//! Config keys: those of DeepSeek 2, the layers of multi-token prediction, heads of the indexer and how many it chooses.
//!
//! Transforms: those of DeepSeek 2; layers of multi-token prediction follow the others.
//!
//! Source: `DeepseekV32Model` in `conversion/deepseek.py`.

use crate::families::deepseek::convert::deepseek2::{self, DEEPSEEK2};
use crate::families::glm::convert::glm4_moe_lite::is_mixture;
use crate::families::glm::convert::glm4moe;
use crate::prelude::*;

/// The row.
pub const DEEPSEEK32: Arch = Arch {
    name: "deepseek32",
    classes: &[Class::new("DeepseekV32ForCausalLM")],
    example: "deepseek-ai/DeepSeek-V3.2-Exp",
    configs: &[DEEPSEEK_V32_CONFIG],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        deepseek2::ATTENTION,
        &indexer(|_, _| true),
        &rules::gated_mlp(Need::If(|hparams, bid| !is_mixture(hparams, bid))),
        &rules::qwen_experts(Need::If(is_mixture)),
        &rules::shared_experts(Need::If(is_mixture)),
        deepseek2::CORRECTION,
        glm4moe::PREDICTION,
    ],
    keys: |hparams, keys| {
        deepseek2::keys(hparams, keys)?;
        keys.count("nextn_predict_layers", hparams, &[glm4moe::PREDICTED])?;
        indexer_keys(hparams, keys)
    },
    // All layers choose what they attend to.
    harmless: &["layer_types"],
    drops: deepseek2::drop_tied,
    prepare: glm4moe::count_predicted,
    prediction: Some(glm4moe::PREDICTED_LAYERS),
    vocab: Route::GPT2,
    ..DEEPSEEK2
};

/// The indexer, which chooses the positions that a query attends to.
pub const fn indexer(layers: InLayers) -> [TensorRule; 4] {
    [
        TensorRule::copy(&["model.layers.{bid}.self_attn.indexer.wq_b"], "blk.{bid}.indexer.attn_q_b")
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.indexer.wk"], "blk.{bid}.indexer.attn_k")
            .in_layers(layers),
        // Weight and bias.
        TensorRule::copy(&["model.layers.{bid}.self_attn.indexer.k_norm"], "blk.{bid}.indexer.k_norm")
            .in_layers(layers),
        TensorRule::copy(&["model.layers.{bid}.self_attn.indexer.weights_proj"], "blk.{bid}.indexer.proj")
            .in_layers(layers),
    ]
}

/// Heads of the indexer, and how many positions it chooses.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn indexer_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    keys.needed("attention.indexer.head_count", hparams, &["index_n_heads"])?;
    keys.needed("attention.indexer.key_length", hparams, &["index_head_dim"])?;
    keys.needed("attention.indexer.top_k", hparams, &["index_topk"])
}

/// `DeepseekV32Config` of transformers 5.23.
const DEEPSEEK_V32_CONFIG: ConfigClass = ConfigClass {
    model_type: "deepseek_v32",
    fields: &[
        &[
            ("vocab_size", INT, Int(129_280)),
            ("hidden_size", INT, Int(7168)),
            ("intermediate_size", INT, Int(18432)),
            ("num_hidden_layers", INT, Int(61)),
            ("num_attention_heads", INT, Int(128)),
            ("num_key_value_heads", INT, Int(128)),
            ("q_lora_rank", INT, Int(1536)),
            ("v_head_dim", INT, Int(128)),
            ("qk_nope_head_dim", INT, Int(128)),
            ("n_group", INT, Int(8)),
            ("topk_group", INT, Int(4)),
            ("max_position_embeddings", INT, Int(163_840)),
            ("rms_norm_eps", FLOAT, Float(1e-6)),
            ("index_n_heads", INT, Int(64)),
        ],
        SPARSE_FIELDS,
        DECODER_FIELDS,
    ],
    renamed: &[("num_local_experts", "n_routed_experts"), ("num_mtp_layers", glm4moe::PREDICTED)],
    adjust: |map| {
        // Where both are stated, `num_experts` wins over `n_routed_experts`.
        if let Some(experts) = map.get("num_experts").filter(|experts| !experts.is_null()).cloned() {
            map.insert("n_routed_experts".into(), experts);
        }
        layer_kinds(map)
    },
    ..BASE
};

/// Fields that the classes of DeepSeek 3.2 and GLM 5 have with the same default.
pub const SPARSE_FIELDS: &[Field] = &[
    ("moe_intermediate_size", INT, Int(2048)),
    ("n_shared_experts", INT, Int(1)),
    ("n_routed_experts", INT, Int(256)),
    ("output_router_logits", BOOL, Bool(false)),
    ("routed_scaling_factor", FLOAT, Float(2.5)),
    ("kv_lora_rank", INT, Int(512)),
    ("qk_rope_head_dim", INT, Int(64)),
    ("num_experts_per_tok", INT, Int(8)),
    ("norm_topk_prob", BOOL, Bool(true)),
    ("bos_token_id", INT | NULL, Int(0)),
    ("eos_token_id", INT | NULL | INTS, Int(1)),
    ("mlp_layer_types", NULL | TEXTS, Null),
    ("attention_bias", BOOL, Bool(false)),
    ("attention_dropout", INT | FLOAT, Float(0.0)),
    ("index_topk", INT, Int(2048)),
    ("index_head_dim", INT, Int(128)),
    ("mlp_bias", BOOL, Bool(false)),
    ("head_dim", INT, Int(64)),
    ("first_k_dense_replace", INT, Int(3)),
    ("layer_types", NULL | TEXTS, Null),
];

/// Kinds of layers if the file does not list them; the class calls the rotated part of a head its size.
pub fn layer_kinds(map: &mut Map<String, Json>) -> Result<(), String> {
    let dense = adjust::count(map, "first_k_dense_replace").unwrap_or(0);
    // At the default of 3 layers 0, 1 and 2 are dense.
    adjust::kinds(map, "mlp_layer_types", |layer| if layer < dense { "dense" } else { "sparse" })?;
    adjust::kinds(map, "layer_types", |_| "indexed_attention")?;
    deepseek2::rotated_part(map)
}
