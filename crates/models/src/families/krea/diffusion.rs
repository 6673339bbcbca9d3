//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

/// Krea 2.
///
/// Source: `ImageArch.zig` of qskousen/ggufy@07c55c0.
pub const KREA2: Diffusion = Diffusion {
    name: "krea2",
    models: "Krea 2",
    order: 170,
    detect: &[&["blocks.0.attn.qknorm.qnorm.scale", "txtfusion.projector.weight"]],
    unquantized: &["txtfusion", "tmlp", "txtmlp", "tproj", "first.", "last.", ".projector"],
    loads: false,
    ends: &[&["first."], &["last."]],
    parts: &["blocks"],
    classes: &["Krea2Transformer2DModel"],
    ..Diffusion::EMPTY
};
