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
    ..Diffusion::EMPTY
};
