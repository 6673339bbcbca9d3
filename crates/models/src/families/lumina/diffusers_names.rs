//! Names of tensors in diffusers that adapters do not change, for checkpoints in the layout of diffusers.
//!
//! Source: `convert_lumina2_to_diffusers` and `convert_z_image_transformer_checkpoint_to_diffusers` in
//! `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Other tensors of Lumina 2 and Z-Image, many of which have the same names.
pub const LUMINA: &[AdapterName] = &[
    AdapterName::whole("layers.{}.attention.q_norm.weight", "layers.{}.attn.norm_q.weight"),
    AdapterName::whole("layers.{}.attention.k_norm.weight", "layers.{}.attn.norm_k.weight"),
    AdapterName::whole("layers.{}.attention.q_norm.weight", "layers.{}.attention.norm_q.weight"),
    AdapterName::whole("layers.{}.attention.k_norm.weight", "layers.{}.attention.norm_k.weight"),
    AdapterName::whole("layers.{}.ffn_norm1.weight", "layers.{}.ffn_norm1.weight"),
    AdapterName::whole("layers.{}.ffn_norm2.weight", "layers.{}.ffn_norm2.weight"),
    AdapterName::whole("layers.{}.attention_norm2.weight", "layers.{}.norm2.weight"),
    AdapterName::whole("layers.{}.attention_norm1.weight", "layers.{}.norm1.norm.weight"),
    AdapterName::whole("layers.{}.attention_norm1.weight", "layers.{}.attention_norm1.weight"),
    AdapterName::whole("layers.{}.attention_norm2.weight", "layers.{}.attention_norm2.weight"),
    AdapterName::whole("layers.{}.feed_forward.w1.{rest}", "layers.{}.feed_forward.w1.{rest}"),
    AdapterName::whole("layers.{}.feed_forward.w2.{rest}", "layers.{}.feed_forward.w2.{rest}"),
    AdapterName::whole("layers.{}.feed_forward.w3.{rest}", "layers.{}.feed_forward.w3.{rest}"),
    AdapterName::whole("layers.{}.adaLN_modulation.{rest}", "layers.{}.adaLN_modulation.{rest}"),
    AdapterName::whole("noise_refiner.{}.attention.q_norm.weight", "noise_refiner.{}.attn.norm_q.weight"),
    AdapterName::whole("noise_refiner.{}.attention.k_norm.weight", "noise_refiner.{}.attn.norm_k.weight"),
    AdapterName::whole(
        "noise_refiner.{}.attention.q_norm.weight",
        "noise_refiner.{}.attention.norm_q.weight",
    ),
    AdapterName::whole(
        "noise_refiner.{}.attention.k_norm.weight",
        "noise_refiner.{}.attention.norm_k.weight",
    ),
    AdapterName::whole("noise_refiner.{}.ffn_norm1.weight", "noise_refiner.{}.ffn_norm1.weight"),
    AdapterName::whole("noise_refiner.{}.ffn_norm2.weight", "noise_refiner.{}.ffn_norm2.weight"),
    AdapterName::whole("noise_refiner.{}.attention_norm2.weight", "noise_refiner.{}.norm2.weight"),
    AdapterName::whole("noise_refiner.{}.attention_norm1.weight", "noise_refiner.{}.norm1.norm.weight"),
    AdapterName::whole("noise_refiner.{}.attention_norm1.weight", "noise_refiner.{}.attention_norm1.weight"),
    AdapterName::whole("noise_refiner.{}.attention_norm2.weight", "noise_refiner.{}.attention_norm2.weight"),
    AdapterName::whole("noise_refiner.{}.feed_forward.w1.{rest}", "noise_refiner.{}.feed_forward.w1.{rest}"),
    AdapterName::whole("noise_refiner.{}.feed_forward.w2.{rest}", "noise_refiner.{}.feed_forward.w2.{rest}"),
    AdapterName::whole("noise_refiner.{}.feed_forward.w3.{rest}", "noise_refiner.{}.feed_forward.w3.{rest}"),
    AdapterName::whole(
        "noise_refiner.{}.adaLN_modulation.{rest}",
        "noise_refiner.{}.adaLN_modulation.{rest}",
    ),
    AdapterName::whole("context_refiner.{}.attention.q_norm.weight", "context_refiner.{}.attn.norm_q.weight"),
    AdapterName::whole("context_refiner.{}.attention.k_norm.weight", "context_refiner.{}.attn.norm_k.weight"),
    AdapterName::whole(
        "context_refiner.{}.attention.q_norm.weight",
        "context_refiner.{}.attention.norm_q.weight",
    ),
    AdapterName::whole(
        "context_refiner.{}.attention.k_norm.weight",
        "context_refiner.{}.attention.norm_k.weight",
    ),
    AdapterName::whole("context_refiner.{}.ffn_norm1.weight", "context_refiner.{}.ffn_norm1.weight"),
    AdapterName::whole("context_refiner.{}.ffn_norm2.weight", "context_refiner.{}.ffn_norm2.weight"),
    AdapterName::whole("context_refiner.{}.attention_norm2.weight", "context_refiner.{}.norm2.weight"),
    AdapterName::whole("context_refiner.{}.attention_norm1.weight", "context_refiner.{}.norm1.weight"),
    AdapterName::whole(
        "context_refiner.{}.attention_norm1.weight",
        "context_refiner.{}.attention_norm1.weight",
    ),
    AdapterName::whole(
        "context_refiner.{}.attention_norm2.weight",
        "context_refiner.{}.attention_norm2.weight",
    ),
    AdapterName::whole(
        "context_refiner.{}.feed_forward.w1.{rest}",
        "context_refiner.{}.feed_forward.w1.{rest}",
    ),
    AdapterName::whole(
        "context_refiner.{}.feed_forward.w2.{rest}",
        "context_refiner.{}.feed_forward.w2.{rest}",
    ),
    AdapterName::whole(
        "context_refiner.{}.feed_forward.w3.{rest}",
        "context_refiner.{}.feed_forward.w3.{rest}",
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
