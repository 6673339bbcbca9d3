//! Names of modules in diffusers, for adapters.
//!
//! Source: `convert_auraflow_transformer_checkpoint_to_diffusers` in `loaders/single_file_utils.py` of diffusers 0.39.

use gguf_layout::{AdapterName, AdapterRows};

/// Modules of AuraFlow.
pub const AURAFLOW: &[AdapterName] = &[
    AdapterName::whole("double_layers.{}.mlpX.c_fc1", "joint_transformer_blocks.{}.ff.linear_1"),
    AdapterName::whole("double_layers.{}.mlpX.c_fc2", "joint_transformer_blocks.{}.ff.linear_2"),
    AdapterName::whole("double_layers.{}.mlpX.c_proj", "joint_transformer_blocks.{}.ff.out_projection"),
    AdapterName::whole("double_layers.{}.mlpC.c_fc1", "joint_transformer_blocks.{}.ff_context.linear_1"),
    AdapterName::whole("double_layers.{}.mlpC.c_fc2", "joint_transformer_blocks.{}.ff_context.linear_2"),
    AdapterName::whole(
        "double_layers.{}.mlpC.c_proj",
        "joint_transformer_blocks.{}.ff_context.out_projection",
    ),
    AdapterName::whole("double_layers.{}.attn.w2q", "joint_transformer_blocks.{}.attn.to_q"),
    AdapterName::whole("double_layers.{}.attn.w2k", "joint_transformer_blocks.{}.attn.to_k"),
    AdapterName::whole("double_layers.{}.attn.w2v", "joint_transformer_blocks.{}.attn.to_v"),
    AdapterName::whole("double_layers.{}.attn.w2o", "joint_transformer_blocks.{}.attn.to_out.0"),
    AdapterName::whole("double_layers.{}.attn.w1q", "joint_transformer_blocks.{}.attn.add_q_proj"),
    AdapterName::whole("double_layers.{}.attn.w1k", "joint_transformer_blocks.{}.attn.add_k_proj"),
    AdapterName::whole("double_layers.{}.attn.w1v", "joint_transformer_blocks.{}.attn.add_v_proj"),
    AdapterName::whole("double_layers.{}.attn.w1o", "joint_transformer_blocks.{}.attn.to_add_out"),
    AdapterName::whole("double_layers.{}.modX.1", "joint_transformer_blocks.{}.norm1.linear"),
    AdapterName::whole("double_layers.{}.modC.1", "joint_transformer_blocks.{}.norm1_context.linear"),
    AdapterName::whole("single_layers.{}.mlp.c_fc1", "single_transformer_blocks.{}.ff.linear_1"),
    AdapterName::whole("single_layers.{}.mlp.c_fc2", "single_transformer_blocks.{}.ff.linear_2"),
    AdapterName::whole("single_layers.{}.mlp.c_proj", "single_transformer_blocks.{}.ff.out_projection"),
    AdapterName::whole("single_layers.{}.attn.w1q", "single_transformer_blocks.{}.attn.to_q"),
    AdapterName::whole("single_layers.{}.attn.w1k", "single_transformer_blocks.{}.attn.to_k"),
    AdapterName::whole("single_layers.{}.attn.w1v", "single_transformer_blocks.{}.attn.to_v"),
    AdapterName::whole("single_layers.{}.attn.w1o", "single_transformer_blocks.{}.attn.to_out.0"),
    AdapterName::whole("single_layers.{}.modCX.1", "single_transformer_blocks.{}.norm1.linear"),
    AdapterName::whole("cond_seq_linear", "context_embedder"),
    AdapterName::whole("final_linear", "proj_out"),
    AdapterName::part("modF.1", "norm_out.linear", AdapterRows::SwappedHalves),
];
