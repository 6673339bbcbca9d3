//! BitNet b1.58.
//!
//! Config keys: those of every text model; a linear scaling of the rotation by one.
//!
//! Transforms: matrices are rounded to three values, as the layers do each time they run. Those of a checkpoint that holds
//! rounded matrices stay as they are; the reference rounds them once more, which changes their scale.
//!
//! Source: `BitnetModel` in `conversion/bitnet.py`. Norms inside a layer have other names in transformers, which the reference
//! does not know.

use crate::prelude::*;

pub const BITNET: Arch = Arch {
    name: "bitnet",
    classes: &[Class::new("BitNetForCausalLM"), Class::new("BitnetForCausalLM")],
    example: "microsoft/bitnet-b1.58-2B-4T-bf16",
    configs: &[ConfigClass::new("bitnet")],
    tensors: &[ENDS, rules::PRE_NORMS, LAYERS],
    keys: |hparams, keys| {
        text_keys(hparams, keys)?;
        keys.set_prefixed("rope.scaling.type", "linear".into());
        keys.set_prefixed("rope.scaling.factor", Value::F32(1.0));
        Ok(())
    },
    caveats: |hparams| match hparams.get("hidden_act").and_then(Json::as_str) {
        None | Some("silu") => Vec::new(),
        Some(other) => vec![format!(
            "the activation of the feed-forward part is `{other}`, but llama.cpp uses `silu` for `bitnet`: results will \
                differ from transformers"
        )],
    },
    vocab: Route::SENTENCE_PIECE,
    export: Export::NotExportable("the matrices are rounded to three values"),
    ..DECODER
};

/// llama.cpp computes the output with the embedding.
const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
];

const LAYERS: &[TensorRule] = &[
    matrix(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    matrix(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k"),
    matrix(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v"),
    matrix(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(
        &["model.layers.{bid}.self_attn.attn_sub_norm", "model.layers.{bid}.self_attn.inner_attn_ln"],
        "blk.{bid}.attn_sub_norm",
    ),
    matrix(&["model.layers.{bid}.mlp.gate_proj"], "blk.{bid}.ffn_gate"),
    matrix(&["model.layers.{bid}.mlp.up_proj"], "blk.{bid}.ffn_up"),
    matrix(&["model.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down"),
    TensorRule::copy(
        &["model.layers.{bid}.mlp.ffn_sub_norm", "model.layers.{bid}.mlp.ffn_layernorm"],
        "blk.{bid}.ffn_sub_norm",
    ),
];

const fn matrix(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).element_of(|hparams, _, suffix| {
        let method = hparams.get("quantization_config");
        let rounded =
            method.is_some_and(|method| method.get("quant_method").is_some_and(|name| name == "bitnet"));
        Ok(if rounded || suffix == ".bias" { ElementMap::Identity } else { ElementMap::TERNARY })
    })
}
