//! `gguf-convert`, from a checkpoint, an adapter or an old file to a GGUF file and back.

mod adapters;
mod by_memory;
mod config_values;
mod dialects;
mod diffusion;
mod diffusion_adapters;
mod export;
mod fp8;
mod ggml_legacy;
mod hub_cache;
mod lora_merge;
mod mmproj;
mod options;
mod outputs;
#[cfg(feature = "remote")]
mod remote;
mod repack;
mod text_encoders;
mod tokenizers;
mod torch;
mod whisper_cpp;
