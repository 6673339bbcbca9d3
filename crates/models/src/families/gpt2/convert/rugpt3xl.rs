//! ruGPT-3 XL: a GPT-2 whose checkpoints name tensors as llama does.
//!
//! Config keys: those of every text model.
//!
//! Transforms: Q, K and V become one matrix, and their biases one vector.
//!
//! Source: `RuGPT3XLModel` in `conversion/gpt2.py`.

use crate::prelude::*;

pub const RUGPT3XL: Arch = Arch {
    name: "rugpt3xl",
    written: Some("gpt2"),
    classes: &[Class::new("RuGPT3XLForCausalLM")],
    example: "evilfreelancer/ruGPT3XL",
    tensors: &[rules::DECODER_ENDS, POSITIONS, rules::PRE_NORMS, ATTENTION, rules::UNGATED_MLP],
    export: Export::NotExportable("exported as GPT-2, whose files have the same tensors"),
    ..DECODER
};

const POSITIONS: &[TensorRule] = &[TensorRule::copy(&["model.embed_positions"], "position_embd")];

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(
        &[
            "model.layers.{bid}.self_attn.q_proj",
            "model.layers.{bid}.self_attn.k_proj",
            "model.layers.{bid}.self_attn.v_proj",
        ],
        "blk.{bid}.attn_qkv",
    )
    .rows(RowRule::Append(|_| 3)),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];
