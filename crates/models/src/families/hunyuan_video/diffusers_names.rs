//! Names of tensors in diffusers that adapters do not change, for checkpoints in the layout of diffusers.
//!
//! Source: `convert_hunyuan_video_transformer_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Embeddings and norms of HunyuanVideo.
pub const HUNYUAN_VIDEO: &[AdapterName] = &[
    AdapterName::whole("double_blocks.{}.img_attn_q_norm.weight", "transformer_blocks.{}.attn.norm_q.weight"),
    AdapterName::whole("double_blocks.{}.img_attn_k_norm.weight", "transformer_blocks.{}.attn.norm_k.weight"),
    AdapterName::whole(
        "double_blocks.{}.txt_attn_q_norm.weight",
        "transformer_blocks.{}.attn.norm_added_q.weight",
    ),
    AdapterName::whole(
        "double_blocks.{}.txt_attn_k_norm.weight",
        "transformer_blocks.{}.attn.norm_added_k.weight",
    ),
    AdapterName::whole("single_blocks.{}.q_norm.weight", "single_transformer_blocks.{}.attn.norm_q.weight"),
    AdapterName::whole("single_blocks.{}.k_norm.weight", "single_transformer_blocks.{}.attn.norm_k.weight"),
    AdapterName::whole(
        "txt_in.individual_token_refiner.blocks.{}.norm1.{rest}",
        "context_embedder.token_refiner.refiner_blocks.{}.norm1.{rest}",
    ),
    AdapterName::whole(
        "txt_in.individual_token_refiner.blocks.{}.norm2.{rest}",
        "context_embedder.token_refiner.refiner_blocks.{}.norm2.{rest}",
    ),
    AdapterName::whole("txt_in.input_embedder.{rest}", "context_embedder.proj_in.{rest}"),
    AdapterName::whole(
        "txt_in.t_embedder.mlp.0.{rest}",
        "context_embedder.time_text_embed.timestep_embedder.linear_1.{rest}",
    ),
    AdapterName::whole(
        "txt_in.t_embedder.mlp.2.{rest}",
        "context_embedder.time_text_embed.timestep_embedder.linear_2.{rest}",
    ),
    AdapterName::whole("txt_in.c_embedder.{rest}", "context_embedder.time_text_embed.text_embedder.{rest}"),
    AdapterName::whole("img_in.{rest}", "x_embedder.{rest}"),
    AdapterName::whole("time_in.mlp.0.{rest}", "time_text_embed.timestep_embedder.linear_1.{rest}"),
    AdapterName::whole("time_in.mlp.2.{rest}", "time_text_embed.timestep_embedder.linear_2.{rest}"),
    AdapterName::whole("guidance_in.mlp.0.{rest}", "time_text_embed.guidance_embedder.linear_1.{rest}"),
    AdapterName::whole("guidance_in.mlp.2.{rest}", "time_text_embed.guidance_embedder.linear_2.{rest}"),
    AdapterName::whole("vector_in.in_layer.{rest}", "time_text_embed.text_embedder.linear_1.{rest}"),
    AdapterName::whole("vector_in.out_layer.{rest}", "time_text_embed.text_embedder.linear_2.{rest}"),
];
