//! Names of tensors in diffusers that adapters do not change, for checkpoints in the layout of diffusers.
//!
//! Source: `convert_auraflow_transformer_checkpoint_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::AdapterName;

/// Positions, registers and the embedding of time of AuraFlow.
pub const AURAFLOW: &[AdapterName] = &[
    AdapterName::whole("register_tokens", "register_tokens"),
    AdapterName::whole("positional_encoding", "pos_embed.pos_embed"),
    AdapterName::whole("init_x_linear.{rest}", "pos_embed.proj.{rest}"),
    AdapterName::whole("t_embedder.mlp.0.{rest}", "time_step_proj.linear_1.{rest}"),
    AdapterName::whole("t_embedder.mlp.2.{rest}", "time_step_proj.linear_2.{rest}"),
];
