//! EAGLE 3: draft models of one layer, for models of many vendors.
//!
//! Config keys: those of llama; the target layers whose states the draft sees and their width, from the
//! draft's own config or else from the target's.
//!
//! Transforms: those of llama. `d2t` holds, for each token of the draft, the offset of the target's token;
//! the file contains the target's ids. `t2d` is left out.
//!
//! Source: `LlamaModel` in `conversion/llama.py`, for configs with `draft_vocab_size`.

use gguf_types::DType;

use crate::families::llama::convert::llama::{self, LLAMA};
use crate::prelude::*;
use gguf_layout::tensors::rules::IntegerRule;

pub const EAGLE3: Arch = Arch {
    name: "eagle3",
    classes: &[
        Class::new("LlamaForCausalLMEagle3"),
        Class::new("Eagle3LlamaForCausalLM"),
        Class::new("Eagle3Speculator"),
        Class::new("Eagle3DraftModel"),
        // Some releases have no separate class.
        Class::new("LlamaForCausalLM"),
    ],
    fits: Some(|input| {
        let config = &input.config;
        let named = config.get("architectures").and_then(|classes| classes.get(0)).and_then(Json::as_str);
        let layers = config.get("num_hidden_layers");
        // By its class, or by properties of a draft: its own vocabulary and a single layer.
        named.is_some_and(|class| class.to_lowercase().contains("eagle3"))
            || config.get("draft_vocab_size").is_some() && layers.is_some_and(|layers| *layers == 1)
    }),
    example: "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B",
    configs: &[],
    needs: &["draft_vocab_size"],
    tensors: &[ENDS, LAYERS, rules::ATTENTION_PERMUTED, rules::GATED_MLP, &[ids(Hparams::target_vocab_size)]],
    rename: |_, name| {
        let layer = name.strip_prefix("midlayer.").or_else(|| name.strip_prefix("layers.0."))?;
        Some(format!("model.layers.0.{layer}"))
    },
    drops: |_, name| (name == "t2d").then_some("the tokens that draft and target share follow from `d2t`"),
    prepare: |hparams, _| {
        // Written by the library `speculators`, which wraps the config of the layer.
        let hparams = hparams.with_inner("transformer_layer_config")?;
        match hparams.n_layers()? {
            1 => Ok(hparams),
            n_layers => Err(bad("num_hidden_layers", &n_layers.into(), "1, as of a draft of this kind")),
        }
    },
    keys,
    draft: Some(Draft { route_of_target: false, mask: |_| None }),
    export: Export::NotExportable("a draft model is part of another model"),
    ..LLAMA
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens", "embed_tokens"], "token_embd").need(Need::Optional),
    TensorRule::copy(&["model.norm", "norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
    // States of three layers of the target, made one.
    TensorRule::copy(&["fc"], "fc"),
    TensorRule::copy(&["input_norm"], "enc.output_norm").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.hidden_norm"], "blk.{bid}.attn_norm_2"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
];

/// Ids of the target's tokens, of which there are this many.
pub const fn ids(n_tokens: fn(&Hparams) -> Result<u64, ArchError>) -> TensorRule {
    let rule = IntegerRule { dtype: DType::I64, distances: Some(n_tokens), first: false };
    // id of the target = id of the draft + d2t[id of the draft].
    TensorRule::copy(&["d2t"], "d2t").bare("").need(HAS_OWN_VOCABULARY).rows(RowRule::Integers(rule))
}

/// A draft that knows a part of the target's tokens only.
const HAS_OWN_VOCABULARY: Need = Need::If(|hparams, _| {
    let own = hparams.get("draft_vocab_size").and_then(Json::as_u64).filter(|own| *own > 0);
    own.is_some() && own != hparams.get("vocab_size").and_then(Json::as_u64)
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let no_target = |key: &str| missing(&format!("{key} of the target"));
    let stated = hparams.get("eagle_aux_hidden_state_layer_ids").and_then(Json::as_array);
    let layers = match stated.filter(|ids| !ids.is_empty()) {
        Some(ids) => ids
            .iter()
            .map(|id| to_i32("eagle_aux_hidden_state_layer_ids", id))
            .collect::<Result<Vec<i32>, _>>()?,
        // The second, the middle and the third last.
        None => {
            let n_layers =
                hparams.target("num_hidden_layers").ok_or_else(|| no_target("num_hidden_layers"))?;
            let n_layers = to_i32("num_hidden_layers", n_layers)?;
            // For 32 layers: 2, 16 and 29.
            vec![2, n_layers / 2, n_layers - 3]
        }
    };
    keys.set_early("target_layers", Value::Array(Array::I32(layers)));
    let width = hparams.get("target_hidden_size").or_else(|| hparams.target("hidden_size"));
    let width = width.ok_or_else(|| no_target("hidden_size"))?;
    keys.set_early("target_hidden_size", Value::U32(to_u32("target_hidden_size", width)?));
    for key in ["norm_before_residual", "norm_before_fc"] {
        keys.set_early(key, Value::Bool(hparams.is_true(key)));
    }
    llama::keys(hparams, keys)
}
