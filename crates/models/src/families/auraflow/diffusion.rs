//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// AuraFlow.
pub const AURA: Diffusion = Diffusion {
    name: "aura",
    models: "AuraFlow",
    order: 60,
    detect: &[
        &["double_layers.3.modX.1.weight"],
        &["joint_transformer_blocks.3.ff_context.out_projection.weight"],
    ],
    refused: &["joint_transformer_blocks.3.ff_context.out_projection.weight"],
    unquantized: &["t_embedder.", "init_x_linear."],
    unquantized_names: &[
        "modF.1.weight",
        "cond_seq_linear.weight",
        "final_linear.weight",
        "positional_encoding",
        "register_tokens",
    ],
    rank: &[("positional_encoding", 3), ("register_tokens", 3)],
    adapter_names: &[adapter_names::AURAFLOW],
    diffusers_names: diffusers_names::AURAFLOW,
    ends: &[&["init_x_linear."], &["cond_seq_linear."], &["final_linear."]],
    parts: &["double_layers", "single_layers"],
    classes: &["AuraFlowTransformer2DModel"],
    ..Diffusion::EMPTY
};
