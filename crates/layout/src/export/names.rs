//! The names that configs have for keys.

/// Config names for keys below the architecture's name. All names that the config class has are used, or else
/// the first.
pub(super) const NAMES: &[(&str, &[&str])] = &[
    ("block_count", &["num_hidden_layers", "n_layer", "n_layers", "num_layers"]),
    ("context_length", &["max_position_embeddings", "n_positions", "seq_length", "max_seq_len"]),
    ("embedding_length", &["hidden_size", "n_embd", "d_model", "dim"]),
    ("feed_forward_length", &["intermediate_size", "n_inner", "hidden_dim"]),
    ("attention.head_count", &["num_attention_heads", "n_head", "n_heads"]),
    ("attention.head_count_kv", &["num_key_value_heads", "num_query_groups"]),
    ("attention.key_length", &["head_dim"]),
    ("attention.layer_norm_rms_epsilon", &["rms_norm_eps"]),
    (
        "attention.layer_norm_epsilon",
        &["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps", "rms_norm_eps"],
    ),
    ("attention.sliding_window", &["sliding_window"]),
    ("attention.clamp_kqv", &["clip_qkv"]),
    ("attention.scale", &["attention_multiplier"]),
    ("attn_logit_softcapping", &["attn_logit_softcapping"]),
    ("final_logit_softcapping", &["final_logit_softcapping"]),
    ("logit_scale", &["logit_scale", "logits_scaling"]),
    ("embedding_scale", &["embedding_multiplier", "scale_emb"]),
    ("residual_scale", &["residual_multiplier"]),
    ("use_parallel_residual", &["use_parallel_residual"]),
    ("vocab_size", &["vocab_size"]),
    ("expert_count", &["num_local_experts", "num_experts", "n_routed_experts"]),
    ("expert_used_count", &["num_experts_per_tok"]),
    ("expert_feed_forward_length", &["moe_intermediate_size"]),
    ("expert_shared_feed_forward_length", &["shared_expert_intermediate_size", "shared_intermediate_size"]),
];
