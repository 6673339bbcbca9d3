//! Names of tensors in diffusers that adapters do not change, for checkpoints in the layout of diffusers.
//!
//! Source: `convert_lumina2_to_diffusers` and `convert_z_image_transformer_checkpoint_to_diffusers` in
//! `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Other tensors of Lumina 2 and Z-Image, many of which have the same names.
pub const LUMINA: &[AdapterName] = &[
    // The blocks of `layers`, `noise_refiner` and `context_refiner`.
    AdapterName::whole("{rest}.attention.q_norm.weight", "{rest}.attn.norm_q.weight"),
    AdapterName::whole("{rest}.attention.k_norm.weight", "{rest}.attn.norm_k.weight"),
    AdapterName::whole("{rest}.attention.q_norm.weight", "{rest}.attention.norm_q.weight"),
    AdapterName::whole("{rest}.attention.k_norm.weight", "{rest}.attention.norm_k.weight"),
    AdapterName::whole("{rest}.ffn_norm1.weight", "{rest}.ffn_norm1.weight"),
    AdapterName::whole("{rest}.ffn_norm2.weight", "{rest}.ffn_norm2.weight"),
    AdapterName::whole("{rest}.attention_norm1.weight", "{rest}.attention_norm1.weight"),
    AdapterName::whole("{rest}.attention_norm2.weight", "{rest}.attention_norm2.weight"),
    AdapterName::whole("{rest}.attention_norm1.weight", "{rest}.norm1.norm.weight"),
    AdapterName::whole("{rest}.attention_norm2.weight", "{rest}.norm2.weight"),
    AdapterName::whole("{rest}.feed_forward.w1.weight", "{rest}.feed_forward.w1.weight"),
    AdapterName::whole("{rest}.feed_forward.w2.weight", "{rest}.feed_forward.w2.weight"),
    AdapterName::whole("{rest}.feed_forward.w3.weight", "{rest}.feed_forward.w3.weight"),
    AdapterName::whole("context_refiner.{}.attention_norm1.weight", "context_refiner.{}.norm1.weight"),
    AdapterName::whole("layers.{}.adaLN_modulation.{rest}", "layers.{}.adaLN_modulation.{rest}"),
    AdapterName::whole(
        "noise_refiner.{}.adaLN_modulation.{rest}",
        "noise_refiner.{}.adaLN_modulation.{rest}",
    ),
    AdapterName::whole("x_embedder.{rest}", "x_embedder.{rest}"),
    AdapterName::whole("cap_embedder.{rest}", "time_caption_embed.caption_embedder.{rest}"),
    AdapterName::whole("t_embedder.mlp.0.{rest}", "time_caption_embed.timestep_embedder.linear_1.{rest}"),
    AdapterName::whole("t_embedder.mlp.2.{rest}", "time_caption_embed.timestep_embedder.linear_2.{rest}"),
    AdapterName::whole("final_layer.adaLN_modulation.1.{rest}", "norm_out.linear_1.{rest}"),
    AdapterName::whole("final_layer.linear.{rest}", "norm_out.linear_2.{rest}"),
    AdapterName::whole("final_layer.{rest}", "all_final_layer.2-1.{rest}"),
    AdapterName::whole("x_embedder.{rest}", "all_x_embedder.2-1.{rest}"),
    AdapterName::whole("cap_embedder.{rest}", "cap_embedder.{rest}"),
    AdapterName::whole("t_embedder.{rest}", "t_embedder.{rest}"),
    AdapterName::whole("cap_pad_token", "cap_pad_token"),
    AdapterName::whole("x_pad_token", "x_pad_token"),
];
