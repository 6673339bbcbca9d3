//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// LTX-Video.
pub const LTXV: Diffusion = Diffusion {
    name: "ltxv",
    models: "LTX-Video",
    order: 110,
    detect: &[&[
        "adaln_single.emb.timestep_embedder.linear_2.weight",
        "transformer_blocks.27.scale_shift_table",
        "caption_projection.linear_2.weight",
    ]],
    kept_f32: &["scale_shift_table"],
    unquantized: &[
        "adaln_single.",
        "caption_projection.",
        "patchify_proj.",
        "proj_out.",
        "scale_shift_table",
    ],
    adapter_names: &[adapter_names::LTX],
    diffusers_names: diffusers_names::LTX,
    ends: &[&["patchify_proj."], &["proj_out."]],
    parts: &["transformer_blocks"],
    classes: &["LTXVideoTransformer3DModel"],
    ..Diffusion::EMPTY
};

/// LTX-2.
///
/// Source: `ImageArch.zig` of qskousen/ggufy@07c55c0.
pub const LTX2: Diffusion = Diffusion {
    name: "ltxv",
    models: "LTX-2",
    order: 100,
    detect: &[&[
        "adaln_single.emb.timestep_embedder.linear_2.weight",
        "transformer_blocks.47.scale_shift_table",
        "patchify_proj.weight",
    ]],
    kept_f32: &["scale_shift_table"],
    unquantized: &[
        "scale_shift_table",
        "_norm.weight",
        ".bias",
        "adaln_single",
        "caption_projection.",
        "patchify_proj.",
        "proj_out.",
        "learnable_registers",
    ],
    needs_config: true,
    ends: &[&["patchify_proj."], &["proj_out."]],
    parts: &[
        "transformer_blocks",
        "audio_adaln_single",
        "audio_patchify_proj",
        "audio_proj_out",
        "audio_caption_projection",
        "audio_scale_shift_table",
        "av_ca_video_scale_shift_adaln_single",
        "av_ca_audio_scale_shift_adaln_single",
        "av_ca_a2v_gate_adaln_single",
        "av_ca_v2a_gate_adaln_single",
        "video_embeddings_connector",
        "audio_embeddings_connector",
        "keyframes_abs_pos_embedding",
    ],
    classes: &["LTX2VideoTransformer3DModel"],
    ..Diffusion::EMPTY
};
