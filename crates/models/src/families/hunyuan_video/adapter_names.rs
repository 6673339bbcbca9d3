//! Names of modules in diffusers, for adapters.
//!
//! Source: `convert_hunyuan_video_transformer_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::{AdapterName, AdapterRows};

/// Modules of HunyuanVideo.
pub const HUNYUAN_VIDEO: &[AdapterName] = &[
    AdapterName::part("double_blocks.{}.img_attn_qkv", "transformer_blocks.{}.attn.to_q", AdapterRows::Query),
    AdapterName::part("double_blocks.{}.img_attn_qkv", "transformer_blocks.{}.attn.to_k", AdapterRows::Key),
    AdapterName::part("double_blocks.{}.img_attn_qkv", "transformer_blocks.{}.attn.to_v", AdapterRows::Value),
    AdapterName::part(
        "double_blocks.{}.txt_attn_qkv",
        "transformer_blocks.{}.attn.add_q_proj",
        AdapterRows::Query,
    ),
    AdapterName::part(
        "double_blocks.{}.txt_attn_qkv",
        "transformer_blocks.{}.attn.add_k_proj",
        AdapterRows::Key,
    ),
    AdapterName::part(
        "double_blocks.{}.txt_attn_qkv",
        "transformer_blocks.{}.attn.add_v_proj",
        AdapterRows::Value,
    ),
    AdapterName::whole("double_blocks.{}.img_attn_proj", "transformer_blocks.{}.attn.to_out.0"),
    AdapterName::whole("double_blocks.{}.txt_attn_proj", "transformer_blocks.{}.attn.to_add_out"),
    AdapterName::whole("double_blocks.{}.img_mlp.fc1", "transformer_blocks.{}.ff.net.0.proj"),
    AdapterName::whole("double_blocks.{}.img_mlp.fc2", "transformer_blocks.{}.ff.net.2"),
    AdapterName::whole("double_blocks.{}.txt_mlp.fc1", "transformer_blocks.{}.ff_context.net.0.proj"),
    AdapterName::whole("double_blocks.{}.txt_mlp.fc2", "transformer_blocks.{}.ff_context.net.2"),
    AdapterName::whole("double_blocks.{}.img_mod.linear", "transformer_blocks.{}.norm1.linear"),
    AdapterName::whole("double_blocks.{}.txt_mod.linear", "transformer_blocks.{}.norm1_context.linear"),
    AdapterName::part(
        "single_blocks.{}.linear1",
        "single_transformer_blocks.{}.attn.to_q",
        AdapterRows::Square(0),
    ),
    AdapterName::part(
        "single_blocks.{}.linear1",
        "single_transformer_blocks.{}.attn.to_k",
        AdapterRows::Square(1),
    ),
    AdapterName::part(
        "single_blocks.{}.linear1",
        "single_transformer_blocks.{}.attn.to_v",
        AdapterRows::Square(2),
    ),
    AdapterName::part(
        "single_blocks.{}.linear1",
        "single_transformer_blocks.{}.proj_mlp",
        AdapterRows::AfterSquares(3),
    ),
    AdapterName::whole("single_blocks.{}.linear2", "single_transformer_blocks.{}.proj_out"),
    AdapterName::whole("single_blocks.{}.modulation.linear", "single_transformer_blocks.{}.norm.linear"),
    AdapterName::part(
        "txt_in.individual_token_refiner.blocks.{}.self_attn_qkv",
        "context_embedder.token_refiner.refiner_blocks.{}.attn.to_q",
        AdapterRows::Query,
    ),
    AdapterName::part(
        "txt_in.individual_token_refiner.blocks.{}.self_attn_qkv",
        "context_embedder.token_refiner.refiner_blocks.{}.attn.to_k",
        AdapterRows::Key,
    ),
    AdapterName::part(
        "txt_in.individual_token_refiner.blocks.{}.self_attn_qkv",
        "context_embedder.token_refiner.refiner_blocks.{}.attn.to_v",
        AdapterRows::Value,
    ),
    AdapterName::whole(
        "txt_in.individual_token_refiner.blocks.{}.self_attn_proj",
        "context_embedder.token_refiner.refiner_blocks.{}.attn.to_out.0",
    ),
    AdapterName::whole(
        "txt_in.individual_token_refiner.blocks.{}.mlp.fc1",
        "context_embedder.token_refiner.refiner_blocks.{}.ff.net.0.proj",
    ),
    AdapterName::whole(
        "txt_in.individual_token_refiner.blocks.{}.mlp.fc2",
        "context_embedder.token_refiner.refiner_blocks.{}.ff.net.2",
    ),
    AdapterName::whole(
        "txt_in.individual_token_refiner.blocks.{}.adaLN_modulation.1",
        "context_embedder.token_refiner.refiner_blocks.{}.norm_out.linear",
    ),
    AdapterName::whole("final_layer.linear", "proj_out"),
    AdapterName::part("final_layer.adaLN_modulation.1", "norm_out.linear", AdapterRows::SwappedHalves),
];
