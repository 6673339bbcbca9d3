//! Names of tensors in diffusers that adapters do not change, for checkpoints in the layout of diffusers.
//!
//! Source: `convert_sd3_transformer_checkpoint_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Norms, positions and the context of Stable Diffusion 3.
pub const SD3: &[AdapterName] = &[
    AdapterName::whole("pos_embed", "pos_embed.pos_embed"),
    AdapterName::whole("context_embedder.weight", "context_embedder.weight"),
    AdapterName::whole("context_embedder.bias", "context_embedder.bias"),
    AdapterName::whole(
        "joint_blocks.{}.x_block.attn.ln_q.weight",
        "transformer_blocks.{}.attn.norm_q.weight",
    ),
    AdapterName::whole(
        "joint_blocks.{}.x_block.attn.ln_k.weight",
        "transformer_blocks.{}.attn.norm_k.weight",
    ),
    AdapterName::whole(
        "joint_blocks.{}.x_block.attn2.ln_q.weight",
        "transformer_blocks.{}.attn2.norm_q.weight",
    ),
    AdapterName::whole(
        "joint_blocks.{}.x_block.attn2.ln_k.weight",
        "transformer_blocks.{}.attn2.norm_k.weight",
    ),
    AdapterName::whole(
        "joint_blocks.{}.context_block.attn.ln_q.weight",
        "transformer_blocks.{}.attn.norm_added_q.weight",
    ),
    AdapterName::whole(
        "joint_blocks.{}.context_block.attn.ln_k.weight",
        "transformer_blocks.{}.attn.norm_added_k.weight",
    ),
];
