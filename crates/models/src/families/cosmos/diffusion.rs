//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

/// Cosmos Predict2.
pub const COSMOS: Diffusion = Diffusion {
    name: "cosmos",
    models: "Cosmos Predict2",
    order: 90,
    detect: &[&["blocks.0.mlp.layer1.weight", "blocks.0.adaln_modulation_cross_attn.1.weight"]],
    ignored: &["_extra_state", "accum_"],
    kept_f32: &["pos_embedder"],
    unquantized: &[
        "p_embedder.",
        "t_embedder.",
        "t_embedding_norm.",
        "x_embedder.",
        "pos_embedder.",
        "final_layer.",
    ],
    ends: &[&["x_embedder."], &["final_layer."]],
    parts: &["extra_pos_embedder", "logvar"],
    classes: &["CosmosTransformer3DModel"],
    ..Diffusion::EMPTY
};

/// Anima.
///
/// Source: `ImageArch.zig` of qskousen/ggufy@07c55c0.
pub const ANIMA: Diffusion = Diffusion {
    name: "anima",
    models: "Anima",
    order: 80,
    detect: &[&[
        "blocks.0.mlp.layer1.weight",
        "blocks.0.adaln_modulation_cross_attn.1.weight",
        "llm_adapter.blocks.0.cross_attn.q_proj.weight",
    ]],
    ignored: &["_extra_state", "accum_"],
    kept_f32: &["pos_embedder"],
    unquantized: &[
        "pos_embedder",
        "llm_adapter",
        "blocks.0.",
        "blocks.1.adaln_modulation",
        "final_layer",
        "t_embedder",
        "x_embedder",
    ],
    loads: false,
    ends: &[&["x_embedder."], &["final_layer."]],
    parts: &["p_embedder", "t_embedding_norm"],
    ..Diffusion::EMPTY
};
