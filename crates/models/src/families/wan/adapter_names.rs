//! Names of modules in diffusers, for adapters.
//!
//! Source: `convert_wan_transformer_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Modules of Wan.
pub const WAN: &[AdapterName] = &[
    AdapterName::whole("blocks.{}.self_attn.q", "blocks.{}.attn1.to_q"),
    AdapterName::whole("blocks.{}.self_attn.k", "blocks.{}.attn1.to_k"),
    AdapterName::whole("blocks.{}.self_attn.v", "blocks.{}.attn1.to_v"),
    AdapterName::whole("blocks.{}.self_attn.o", "blocks.{}.attn1.to_out.0"),
    AdapterName::whole("blocks.{}.cross_attn.q", "blocks.{}.attn2.to_q"),
    AdapterName::whole("blocks.{}.cross_attn.k", "blocks.{}.attn2.to_k"),
    AdapterName::whole("blocks.{}.cross_attn.v", "blocks.{}.attn2.to_v"),
    AdapterName::whole("blocks.{}.cross_attn.o", "blocks.{}.attn2.to_out.0"),
    AdapterName::whole("blocks.{}.cross_attn.k_img", "blocks.{}.attn2.add_k_proj"),
    AdapterName::whole("blocks.{}.cross_attn.v_img", "blocks.{}.attn2.add_v_proj"),
    AdapterName::whole("blocks.{}.ffn.0", "blocks.{}.ffn.net.0.proj"),
    AdapterName::whole("blocks.{}.ffn.2", "blocks.{}.ffn.net.2"),
    AdapterName::whole("time_embedding.0", "condition_embedder.time_embedder.linear_1"),
    AdapterName::whole("time_embedding.2", "condition_embedder.time_embedder.linear_2"),
    AdapterName::whole("text_embedding.0", "condition_embedder.text_embedder.linear_1"),
    AdapterName::whole("text_embedding.2", "condition_embedder.text_embedder.linear_2"),
    AdapterName::whole("time_projection.1", "condition_embedder.time_proj"),
    AdapterName::whole("img_emb.proj.1", "condition_embedder.image_embedder.ff.net.0.proj"),
    AdapterName::whole("img_emb.proj.3", "condition_embedder.image_embedder.ff.net.2"),
    AdapterName::whole("head.head", "proj_out"),
];
