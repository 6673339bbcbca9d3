//! Names of modules in diffusers, for adapters.
//!
//! Source: `convert_flux_transformer_checkpoint_to_diffusers` and `convert_flux2_transformer_checkpoint_to_diffusers` in
//! `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::{AdapterName, AdapterRows};

/// Modules of Flux.1, Flux.2 and Chroma.
pub const FLUX: &[AdapterName] = &[
    AdapterName::part("double_blocks.{}.img_attn.qkv", "transformer_blocks.{}.attn.to_q", AdapterRows::Query),
    AdapterName::part("double_blocks.{}.img_attn.qkv", "transformer_blocks.{}.attn.to_k", AdapterRows::Key),
    AdapterName::part("double_blocks.{}.img_attn.qkv", "transformer_blocks.{}.attn.to_v", AdapterRows::Value),
    AdapterName::part(
        "double_blocks.{}.txt_attn.qkv",
        "transformer_blocks.{}.attn.add_q_proj",
        AdapterRows::Query,
    ),
    AdapterName::part(
        "double_blocks.{}.txt_attn.qkv",
        "transformer_blocks.{}.attn.add_k_proj",
        AdapterRows::Key,
    ),
    AdapterName::part(
        "double_blocks.{}.txt_attn.qkv",
        "transformer_blocks.{}.attn.add_v_proj",
        AdapterRows::Value,
    ),
    AdapterName::whole("double_blocks.{}.img_attn.proj", "transformer_blocks.{}.attn.to_out.0"),
    AdapterName::whole("double_blocks.{}.txt_attn.proj", "transformer_blocks.{}.attn.to_add_out"),
    AdapterName::whole("double_blocks.{}.img_mlp.0", "transformer_blocks.{}.ff.net.0.proj"),
    AdapterName::whole("double_blocks.{}.img_mlp.2", "transformer_blocks.{}.ff.net.2"),
    AdapterName::whole("double_blocks.{}.txt_mlp.0", "transformer_blocks.{}.ff_context.net.0.proj"),
    AdapterName::whole("double_blocks.{}.txt_mlp.2", "transformer_blocks.{}.ff_context.net.2"),
    AdapterName::whole("double_blocks.{}.img_mod.lin", "transformer_blocks.{}.norm1.linear"),
    AdapterName::whole("double_blocks.{}.txt_mod.lin", "transformer_blocks.{}.norm1_context.linear"),
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
    AdapterName::whole("single_blocks.{}.modulation.lin", "single_transformer_blocks.{}.norm.linear"),
    AdapterName::whole("img_in", "x_embedder"),
    AdapterName::whole("txt_in", "context_embedder"),
    AdapterName::whole("time_in.in_layer", "time_text_embed.timestep_embedder.linear_1"),
    AdapterName::whole("time_in.out_layer", "time_text_embed.timestep_embedder.linear_2"),
    AdapterName::whole("guidance_in.in_layer", "time_text_embed.guidance_embedder.linear_1"),
    AdapterName::whole("guidance_in.out_layer", "time_text_embed.guidance_embedder.linear_2"),
    AdapterName::whole("vector_in.in_layer", "time_text_embed.text_embedder.linear_1"),
    AdapterName::whole("vector_in.out_layer", "time_text_embed.text_embedder.linear_2"),
    AdapterName::whole("final_layer.linear", "proj_out"),
    AdapterName::part("final_layer.adaLN_modulation.1", "norm_out.linear", AdapterRows::SwappedHalves),
    // Flux.2.
    AdapterName::whole("double_blocks.{}.img_mlp.0", "transformer_blocks.{}.ff.linear_in"),
    AdapterName::whole("double_blocks.{}.img_mlp.2", "transformer_blocks.{}.ff.linear_out"),
    AdapterName::whole("double_blocks.{}.txt_mlp.0", "transformer_blocks.{}.ff_context.linear_in"),
    AdapterName::whole("double_blocks.{}.txt_mlp.2", "transformer_blocks.{}.ff_context.linear_out"),
    AdapterName::whole("single_blocks.{}.linear1", "single_transformer_blocks.{}.attn.to_qkv_mlp_proj"),
    AdapterName::whole("single_blocks.{}.linear2", "single_transformer_blocks.{}.attn.to_out"),
    AdapterName::whole("double_stream_modulation_img.lin", "double_stream_modulation_img.linear"),
    AdapterName::whole("double_stream_modulation_txt.lin", "double_stream_modulation_txt.linear"),
    AdapterName::whole("single_stream_modulation.lin", "single_stream_modulation.linear"),
    AdapterName::whole("time_in.in_layer", "time_guidance_embed.timestep_embedder.linear_1"),
    AdapterName::whole("time_in.out_layer", "time_guidance_embed.timestep_embedder.linear_2"),
    AdapterName::whole("guidance_in.in_layer", "time_guidance_embed.guidance_embedder.linear_1"),
    AdapterName::whole("guidance_in.out_layer", "time_guidance_embed.guidance_embedder.linear_2"),
    // XLabs, `_convert_xlabs_flux_lora_to_diffusers` in `loaders/lora_conversion_utils.py`.
    AdapterName::whole("double_blocks.{}.img_attn.qkv", "double_blocks.{}.processor.qkv_lora1"),
    AdapterName::whole("double_blocks.{}.img_attn.proj", "double_blocks.{}.processor.proj_lora1"),
    AdapterName::whole("double_blocks.{}.txt_attn.qkv", "double_blocks.{}.processor.qkv_lora2"),
    AdapterName::whole("double_blocks.{}.txt_attn.proj", "double_blocks.{}.processor.proj_lora2"),
];
