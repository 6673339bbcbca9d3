//! Names of tensors in diffusers that adapters do not change, for checkpoints in the layout of diffusers.
//!
//! Source: `convert_ltx_transformer_checkpoint_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Tensors of LTX-Video, most of which have the same names.
pub const LTX: &[AdapterName] = &[
    AdapterName::whole(
        "transformer_blocks.{}.attn1.q_norm.weight",
        "transformer_blocks.{}.attn1.norm_q.weight",
    ),
    AdapterName::whole(
        "transformer_blocks.{}.attn1.k_norm.weight",
        "transformer_blocks.{}.attn1.norm_k.weight",
    ),
    AdapterName::whole(
        "transformer_blocks.{}.attn2.q_norm.weight",
        "transformer_blocks.{}.attn2.norm_q.weight",
    ),
    AdapterName::whole(
        "transformer_blocks.{}.attn2.k_norm.weight",
        "transformer_blocks.{}.attn2.norm_k.weight",
    ),
    AdapterName::whole("transformer_blocks.{}.scale_shift_table", "transformer_blocks.{}.scale_shift_table"),
    AdapterName::whole("transformer_blocks.{}.attn1.{rest}", "transformer_blocks.{}.attn1.{rest}"),
    AdapterName::whole("transformer_blocks.{}.attn2.{rest}", "transformer_blocks.{}.attn2.{rest}"),
    AdapterName::whole("transformer_blocks.{}.ff.{rest}", "transformer_blocks.{}.ff.{rest}"),
    AdapterName::whole("scale_shift_table", "scale_shift_table"),
    AdapterName::whole("caption_projection.{rest}", "caption_projection.{rest}"),
    AdapterName::whole("proj_out.{rest}", "proj_out.{rest}"),
];
