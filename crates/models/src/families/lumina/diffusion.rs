//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// Lumina Image 2 and Z-Image.
pub const LUMINA2: Diffusion = Diffusion {
    name: "lumina2",
    models: "Lumina Image 2 and Z-Image",
    order: 150,
    detect: &[&["cap_embedder.1.weight", "context_refiner.0.attention.qkv.weight"]],
    unquantized: &[
        "t_embedder.",
        "x_embedder.",
        "final_layer.",
        "cap_embedder.",
        "context_refiner.",
        "noise_refiner.",
    ],
    adapter_names: &[adapter_names::LUMINA],
    diffusers_names: diffusers_names::LUMINA,
    rank: &[("x_pad_token", 2), ("cap_pad_token", 2)],
    ends: &[&["x_embedder."], &["cap_embedder."], &["final_layer."]],
    parts: &["layers", "norm_final", "siglip_embedder", "siglip_refiner", "siglip_pad_token"],
    classes: &["Lumina2Transformer2DModel", "ZImageTransformer2DModel"],
    ..Diffusion::EMPTY
};
