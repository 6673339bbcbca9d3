//! Names of tensors in diffusers that adapters do not change, for checkpoints in the layout of diffusers.
//!
//! Source: `convert_wan_transformer_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Norms, tables and the patch embedding of Wan.
pub const WAN: &[AdapterName] = &[
    AdapterName::whole("head.modulation", "scale_shift_table"),
    AdapterName::whole("blocks.{}.modulation", "blocks.{}.scale_shift_table"),
    AdapterName::whole("blocks.{}.norm3.{rest}", "blocks.{}.norm2.{rest}"),
    AdapterName::whole("patch_embedding.weight", "patch_embedding.weight"),
    AdapterName::whole("patch_embedding.bias", "patch_embedding.bias"),
    AdapterName::whole("blocks.{}.self_attn.norm_q.weight", "blocks.{}.attn1.norm_q.weight"),
    AdapterName::whole("blocks.{}.self_attn.norm_k.weight", "blocks.{}.attn1.norm_k.weight"),
    AdapterName::whole("blocks.{}.cross_attn.norm_q.weight", "blocks.{}.attn2.norm_q.weight"),
    AdapterName::whole("blocks.{}.cross_attn.norm_k.weight", "blocks.{}.attn2.norm_k.weight"),
    AdapterName::whole("blocks.{}.cross_attn.norm_k_img.weight", "blocks.{}.attn2.norm_added_k.weight"),
    AdapterName::whole("img_emb.proj.0.{rest}", "condition_embedder.image_embedder.norm1.{rest}"),
    AdapterName::whole("img_emb.proj.4.{rest}", "condition_embedder.image_embedder.norm2.{rest}"),
    AdapterName::whole("img_emb.emb_pos", "condition_embedder.image_embedder.pos_embed"),
];
