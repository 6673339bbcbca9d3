//! Names of modules in diffusers, for adapters.
//!
//! Source: `convert_lumina2_to_diffusers` and `convert_z_image_transformer_checkpoint_to_diffusers` in
//! `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::{AdapterName, AdapterRows};

/// Modules of the blocks of Lumina 2 and Z-Image: `layers`, `noise_refiner` and `context_refiner`.
pub const LUMINA: &[AdapterName] = &[
    AdapterName::part("{rest}.attention.qkv", "{rest}.attn.to_q", AdapterRows::Query),
    AdapterName::part("{rest}.attention.qkv", "{rest}.attn.to_k", AdapterRows::Key),
    AdapterName::part("{rest}.attention.qkv", "{rest}.attn.to_v", AdapterRows::Value),
    AdapterName::whole("{rest}.attention.out", "{rest}.attn.to_out.0"),
    AdapterName::whole("{rest}.feed_forward.w1", "{rest}.feed_forward.linear_1"),
    AdapterName::whole("{rest}.feed_forward.w2", "{rest}.feed_forward.linear_2"),
    AdapterName::whole("{rest}.feed_forward.w3", "{rest}.feed_forward.linear_3"),
    AdapterName::whole("layers.{}.adaLN_modulation.1", "layers.{}.norm1.linear"),
    AdapterName::whole("noise_refiner.{}.adaLN_modulation.1", "noise_refiner.{}.norm1.linear"),
    AdapterName::whole("context_refiner.{}.adaLN_modulation.1", "context_refiner.{}.norm1.linear"),
    // Z-Image.
    AdapterName::part("{rest}.attention.qkv", "{rest}.attention.to_q", AdapterRows::Query),
    AdapterName::part("{rest}.attention.qkv", "{rest}.attention.to_k", AdapterRows::Key),
    AdapterName::part("{rest}.attention.qkv", "{rest}.attention.to_v", AdapterRows::Value),
    AdapterName::whole("{rest}.attention.out", "{rest}.attention.to_out.0"),
];
