//! Granite 3, mixtures of experts, with and without a shared one.
//!
//! Config keys: those of Granite, the length of the shared expert.
//!
//! Transforms: those of llama. Experts are stacked already, gate before up in one tensor, which is
//! taken apart; so is the shared expert's.
//!
//! Source: `GraniteMoeModel` in `conversion/granite.py`.

use crate::families::granite::convert::granite;
use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const GRANITEMOE: Arch = Arch {
    name: "granitemoe",
    classes: &[Class::new("GraniteMoeForCausalLM"), Class::new("GraniteMoeSharedForCausalLM")],
    example: "ibm-granite/granite-3.1-3b-a800m-instruct",
    configs: &[ConfigClass::new("granitemoe"), ConfigClass::new("granitemoeshared")],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, EXPERTS, SHARED],
    keys,
    computed: llama::computed,
    vocab: vocab::ROUTE,
    ..DECODER
};

const EXPERTS: &[TensorRule] = &experts(Need::Always);

const SHARED: &[TensorRule] = &shared(HAS_SHARED);

/// Experts that are stacked already, gate before up in one tensor.
pub const fn experts(need: Need) -> [TensorRule; 4] {
    [
        TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.router.layer"], "blk.{bid}.ffn_gate_inp")
            .need(need),
        TensorRule::part(
            &["model.layers.{bid}.block_sparse_moe.input_linear"],
            "blk.{bid}.ffn_gate_exps",
            rules::first_half,
        )
        .need(need),
        TensorRule::part(
            &["model.layers.{bid}.block_sparse_moe.input_linear"],
            "blk.{bid}.ffn_up_exps",
            rules::second_half,
        )
        .need(need),
        TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.output_linear"], "blk.{bid}.ffn_down_exps")
            .need(need),
    ]
}

/// One expert that all tokens pass.
pub const fn shared(need: Need) -> [TensorRule; 3] {
    [
        TensorRule::part(
            &["model.layers.{bid}.shared_mlp.input_linear"],
            "blk.{bid}.ffn_gate_shexp",
            rules::first_half,
        )
        .need(need),
        TensorRule::part(
            &["model.layers.{bid}.shared_mlp.input_linear"],
            "blk.{bid}.ffn_up_shexp",
            rules::second_half,
        )
        .need(need),
        TensorRule::copy(&["model.layers.{bid}.shared_mlp.output_linear"], "blk.{bid}.ffn_down_shexp")
            .need(need),
    ]
}

/// Layers with an expert that all tokens pass; length 0 stands for no expert.
pub const HAS_SHARED: Need = Need::If(|hparams, _| {
    hparams.get("shared_intermediate_size").and_then(Json::as_u64).is_some_and(|length| length > 0)
});

/// The keys.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    granite::keys(hparams, keys)?;
    shared_keys(hparams, keys)
}

/// The length of the expert that all tokens pass, if there is one.
pub fn shared_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    match hparams.get_u64("shared_intermediate_size")? {
        // GraniteMoeShared with length 0 is GraniteMoe.
        None | Some(0) => Ok(()),
        Some(_) => keys.count("expert_shared_feed_forward_length", hparams, &["shared_intermediate_size"]),
    }
}
