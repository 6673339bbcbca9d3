//! Seeded data, nasty blocks and golden comparison, for tests only.
//!
//! Data is computed by integer arithmetic and single, exactly rounded f32 operations, so that
//! `scripts/golden/data.py` computes equal bits with numpy.

mod checkpoint;
mod data;
mod golden;
mod levels;
mod metadata;
mod modules;
mod mutate;
mod pickle;
mod safetensors;

pub use checkpoint::{
    audio, audio_names, bf16, checkpoint, checkpoint_names, f16, foreign, foreign_names, form, form_names,
    logits_file, logits_file_names, projector, projector_names, vision, vision_names,
};
pub use data::{Data, Importance, bytes, mix, normal};
pub use golden::{
    QuantCase, Task, check_written, compare_blocks, decoded_sha256, from_hex, golden_path, golden_value,
    read_json, sha256, tokenizer_files,
};
pub use levels::{REQUIRE_LEVELS, require_levels};
pub use metadata::{mutate_metadata, mutated_gguf};
pub use modules::{copy_folder, files, module_order, rust_files};
pub use mutate::{Draw, NASTY, mutants, mutate, number};
pub use pickle::{Pickler, zip};
pub use safetensors::{
    Tensors, place_in_safetensors, read_safetensors, safetensors, safetensors_header, safetensors_with,
};
