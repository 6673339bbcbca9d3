//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// Wan 2.1 and 2.2.
pub const WAN: Diffusion = Diffusion {
    name: "wan",
    models: "Wan 2.1 and 2.2",
    order: 125,
    detect: &[&["blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "head.modulation"]],
    kept_f32: &[".modulation"],
    unquantized: &[
        "modulation.",
        "patch_embedding.",
        "text_embedding.",
        "time_projection.",
        "time_embedding.",
        "img_emb.",
        "head.",
    ],
    five_dims: true,
    rank: &[".modulation", "img_emb.emb_pos"],
    adapter_names: &[adapter_names::WAN],
    diffusers_names: diffusers_names::WAN,
    ..Diffusion::EMPTY
};
