//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// Wan 2.1 and 2.2.
pub const WAN: Diffusion = Diffusion {
    name: "wan",
    models: "Wan 2.1 and 2.2",
    order: 125,
    detect: &[&["blocks.0.self_attn.norm_q.weight", "text_embedding.2.weight", "head.modulation"]],
    // The motion encoder of Wan Animate has its own layers (`comfy/ldm/wan/model_animate.py`).
    kept_f32: &[".modulation", "motion_encoder."],
    unquantized: &[
        "modulation.",
        "patch_embedding.",
        "text_embedding.",
        "time_projection.",
        "time_embedding.",
        "img_emb.",
        "head.",
        "motion_encoder.",
    ],
    five_dims: true,
    rank: &[(".modulation", 3), ("img_emb.emb_pos", 3)],
    adapter_names: &[adapter_names::WAN],
    diffusers_names: diffusers_names::WAN,
    ends: &[&["patch_embedding."], &["text_embedding."], &["head.head."]],
    parts: &[
        "vace_blocks",
        "vace_patch_embedding",
        "ref_conv",
        "control_adapter",
        "pose_patch_embedding",
        "face_adapter",
        "face_encoder",
        "casual_audio_encoder",
        "cond_encoder",
        "audio_injector",
        "trainable_cond_mask",
        "frame_packer",
        "audio_proj",
    ],
    classes: &[
        "WanModel",
        "VaceWanModel",
        "WanModel_S2V",
        "WanAnimateModel",
        "WanTransformer3DModel",
        "WanVACETransformer3DModel",
        "WanAnimateTransformer3DModel",
        "SkyReelsV2Transformer3DModel",
        "ChronoEditTransformer3DModel",
    ],
    ..Diffusion::EMPTY
};
