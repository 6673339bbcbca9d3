//! Names of tensors in diffusers that adapters do not change, for checkpoints in the layout of diffusers.
//!
//! Source: `convert_flux_transformer_checkpoint_to_diffusers`, `convert_flux2_transformer_checkpoint_to_diffusers` and
//! `convert_chroma_transformer_checkpoint_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Norms of Flux, and the guidance of Chroma.
pub const FLUX: &[AdapterName] = &[
    AdapterName::whole(
        "double_blocks.{}.img_attn.norm.query_norm.scale",
        "transformer_blocks.{}.attn.norm_q.weight",
    ),
    AdapterName::whole(
        "double_blocks.{}.img_attn.norm.key_norm.scale",
        "transformer_blocks.{}.attn.norm_k.weight",
    ),
    AdapterName::whole(
        "double_blocks.{}.txt_attn.norm.query_norm.scale",
        "transformer_blocks.{}.attn.norm_added_q.weight",
    ),
    AdapterName::whole(
        "double_blocks.{}.txt_attn.norm.key_norm.scale",
        "transformer_blocks.{}.attn.norm_added_k.weight",
    ),
    AdapterName::whole(
        "single_blocks.{}.norm.query_norm.scale",
        "single_transformer_blocks.{}.attn.norm_q.weight",
    ),
    AdapterName::whole(
        "single_blocks.{}.norm.key_norm.scale",
        "single_transformer_blocks.{}.attn.norm_k.weight",
    ),
    AdapterName::whole("distilled_guidance_layer.in_proj.{rest}", "distilled_guidance_layer.in_proj.{rest}"),
    AdapterName::whole(
        "distilled_guidance_layer.out_proj.{rest}",
        "distilled_guidance_layer.out_proj.{rest}",
    ),
    AdapterName::whole(
        "distilled_guidance_layer.layers.{}.in_layer.{rest}",
        "distilled_guidance_layer.layers.{}.linear_1.{rest}",
    ),
    AdapterName::whole(
        "distilled_guidance_layer.layers.{}.out_layer.{rest}",
        "distilled_guidance_layer.layers.{}.linear_2.{rest}",
    ),
    AdapterName::whole("distilled_guidance_layer.norms.{}.scale", "distilled_guidance_layer.norms.{}.weight"),
];
