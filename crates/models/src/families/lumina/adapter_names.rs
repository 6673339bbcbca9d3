//! Names of modules in diffusers, for adapters.
//!
//! Source: `convert_lumina2_to_diffusers` and `convert_z_image_transformer_checkpoint_to_diffusers` in
//! `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::{AdapterName, AdapterRows};

/// Modules of Lumina 2 and Z-Image.
pub const LUMINA: &[AdapterName] = &[
    AdapterName::part("layers.{}.attention.qkv", "layers.{}.attn.to_q", AdapterRows::Query),
    AdapterName::part("layers.{}.attention.qkv", "layers.{}.attn.to_k", AdapterRows::Key),
    AdapterName::part("layers.{}.attention.qkv", "layers.{}.attn.to_v", AdapterRows::Value),
    AdapterName::whole("layers.{}.attention.out", "layers.{}.attn.to_out.0"),
    AdapterName::whole("layers.{}.feed_forward.w1", "layers.{}.feed_forward.linear_1"),
    AdapterName::whole("layers.{}.feed_forward.w2", "layers.{}.feed_forward.linear_2"),
    AdapterName::whole("layers.{}.feed_forward.w3", "layers.{}.feed_forward.linear_3"),
    AdapterName::whole("layers.{}.adaLN_modulation.1", "layers.{}.norm1.linear"),
    // Z-Image.
    AdapterName::part("layers.{}.attention.qkv", "layers.{}.attention.to_q", AdapterRows::Query),
    AdapterName::part("layers.{}.attention.qkv", "layers.{}.attention.to_k", AdapterRows::Key),
    AdapterName::part("layers.{}.attention.qkv", "layers.{}.attention.to_v", AdapterRows::Value),
    AdapterName::whole("layers.{}.attention.out", "layers.{}.attention.to_out.0"),
    AdapterName::part("context_refiner.{}.attention.qkv", "context_refiner.{}.attn.to_q", AdapterRows::Query),
    AdapterName::part("context_refiner.{}.attention.qkv", "context_refiner.{}.attn.to_k", AdapterRows::Key),
    AdapterName::part("context_refiner.{}.attention.qkv", "context_refiner.{}.attn.to_v", AdapterRows::Value),
    AdapterName::whole("context_refiner.{}.attention.out", "context_refiner.{}.attn.to_out.0"),
    AdapterName::whole("context_refiner.{}.feed_forward.w1", "context_refiner.{}.feed_forward.linear_1"),
    AdapterName::whole("context_refiner.{}.feed_forward.w2", "context_refiner.{}.feed_forward.linear_2"),
    AdapterName::whole("context_refiner.{}.feed_forward.w3", "context_refiner.{}.feed_forward.linear_3"),
    AdapterName::whole("context_refiner.{}.adaLN_modulation.1", "context_refiner.{}.norm1.linear"),
    // Z-Image.
    AdapterName::part(
        "context_refiner.{}.attention.qkv",
        "context_refiner.{}.attention.to_q",
        AdapterRows::Query,
    ),
    AdapterName::part(
        "context_refiner.{}.attention.qkv",
        "context_refiner.{}.attention.to_k",
        AdapterRows::Key,
    ),
    AdapterName::part(
        "context_refiner.{}.attention.qkv",
        "context_refiner.{}.attention.to_v",
        AdapterRows::Value,
    ),
    AdapterName::whole("context_refiner.{}.attention.out", "context_refiner.{}.attention.to_out.0"),
    AdapterName::part("noise_refiner.{}.attention.qkv", "noise_refiner.{}.attn.to_q", AdapterRows::Query),
    AdapterName::part("noise_refiner.{}.attention.qkv", "noise_refiner.{}.attn.to_k", AdapterRows::Key),
    AdapterName::part("noise_refiner.{}.attention.qkv", "noise_refiner.{}.attn.to_v", AdapterRows::Value),
    AdapterName::whole("noise_refiner.{}.attention.out", "noise_refiner.{}.attn.to_out.0"),
    AdapterName::whole("noise_refiner.{}.feed_forward.w1", "noise_refiner.{}.feed_forward.linear_1"),
    AdapterName::whole("noise_refiner.{}.feed_forward.w2", "noise_refiner.{}.feed_forward.linear_2"),
    AdapterName::whole("noise_refiner.{}.feed_forward.w3", "noise_refiner.{}.feed_forward.linear_3"),
    AdapterName::whole("noise_refiner.{}.adaLN_modulation.1", "noise_refiner.{}.norm1.linear"),
    // Z-Image.
    AdapterName::part(
        "noise_refiner.{}.attention.qkv",
        "noise_refiner.{}.attention.to_q",
        AdapterRows::Query,
    ),
    AdapterName::part("noise_refiner.{}.attention.qkv", "noise_refiner.{}.attention.to_k", AdapterRows::Key),
    AdapterName::part(
        "noise_refiner.{}.attention.qkv",
        "noise_refiner.{}.attention.to_v",
        AdapterRows::Value,
    ),
    AdapterName::whole("noise_refiner.{}.attention.out", "noise_refiner.{}.attention.to_out.0"),
];
