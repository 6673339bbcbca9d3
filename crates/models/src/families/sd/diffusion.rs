//! Recognition of checkpoints, and their tensors that keep a high precision.

use gguf_layout::Diffusion;

use super::{adapter_names, diffusers_names};

/// Parts of the names of tensors of a UNet that are never quantized, in both layouts.
const UNET: &[&str] = &[
    "class_embedding.",
    "time_embedding.",
    "add_embedding.",
    "time_embed.",
    "label_emb.",
    "conv_in.",
    "conv_out.",
];

/// First parts of the names of tensors of UNets.
const UNET_PARTS: &[&str] = &[
    "input_blocks",
    "middle_block",
    "output_blocks",
    "out",
    "down_blocks",
    "mid_block",
    "up_blocks",
    "conv_norm_out",
];

/// The first and the last convolution.
const UNET_NAMES: &[&str] = &["input_blocks.0.0.weight", "out.2.weight"];

/// Stable Diffusion 1.x and 2.x.
pub const SD1: Diffusion = Diffusion {
    name: "sd1",
    models: "Stable Diffusion 1.x and 2.x",
    order: 140,
    detect: &[
        &["down_blocks.0.downsamplers.0.conv.weight"],
        &[
            "input_blocks.3.0.op.weight",
            "input_blocks.6.0.op.weight",
            "input_blocks.9.0.op.weight",
            "output_blocks.2.1.conv.weight",
            "output_blocks.5.2.conv.weight",
            "output_blocks.8.2.conv.weight",
        ],
    ],
    unquantized: UNET,
    unquantized_names: UNET_NAMES,
    reshapes: true,
    adapter_names: &[adapter_names::UNET_BLOCKS, adapter_names::UNET_RESNETS],
    ends: &[&["input_blocks.0.0.", "conv_in."], &["out.2.", "conv_out."]],
    parts: UNET_PARTS,
    uneven_blocks: true,
    classes: &["UNet2DConditionModel"],
    ..Diffusion::EMPTY
};

/// Stable Diffusion XL.
pub const SDXL: Diffusion = Diffusion {
    name: "sdxl",
    models: "Stable Diffusion XL and Stable Video Diffusion",
    order: 130,
    detect: &[
        &["down_blocks.0.downsamplers.0.conv.weight", "add_embedding.linear_1.weight"],
        &[
            "input_blocks.3.0.op.weight",
            "input_blocks.6.0.op.weight",
            "output_blocks.2.2.conv.weight",
            "output_blocks.5.2.conv.weight",
        ],
        &["label_emb.0.0.weight"],
    ],
    unquantized: UNET,
    unquantized_names: UNET_NAMES,
    reshapes: true,
    adapter_names: &[adapter_names::UNET_BLOCKS, adapter_names::UNET_RESNETS],
    ends: &[&["input_blocks.0.0.", "conv_in."], &["out.2.", "conv_out."]],
    parts: UNET_PARTS,
    uneven_blocks: true,
    classes: &["UNet2DConditionModel", "UNetSpatioTemporalConditionModel"],
    ..Diffusion::EMPTY
};

/// Stable Diffusion 3 and 3.5.
pub const SD3: Diffusion = Diffusion {
    name: "sd3",
    models: "Stable Diffusion 3 and 3.5",
    order: 50,
    detect: &[&["transformer_blocks.0.attn.add_q_proj.weight"], &["joint_blocks.0.x_block.attn.qkv.weight"]],
    refused: &["transformer_blocks.0.attn.add_q_proj.weight"],
    unquantized: &[
        "final_layer.",
        "time_text_embed.",
        "context_embedder.",
        "t_embedder.",
        "y_embedder.",
        "x_embedder.",
    ],
    unquantized_names: &["proj_out.weight", "pos_embed"],
    rank: &[("pos_embed", 3)],
    adapter_names: &[adapter_names::SD3],
    diffusers_names: diffusers_names::SD3,
    ends: &[&["x_embedder."], &["context_embedder."], &["final_layer."]],
    uneven_blocks: true,
    classes: &["SD3Transformer2DModel"],
    ..Diffusion::EMPTY
};
