//! Names of modules in diffusers, for adapters.
//!
//! Source: `convert_ltx_transformer_checkpoint_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Modules of LTX-Video whose names differ.
pub const LTX: &[AdapterName] = &[
    AdapterName::whole("patchify_proj", "proj_in"),
    AdapterName::whole("adaln_single.{rest}", "time_embed.{rest}"),
];
