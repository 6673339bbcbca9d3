//! MiniMax-Text-01 and MiniMax-M1: lightning attention in most layers, full attention in every eighth.
//!
//! Config keys: those of every text model, the residual scale, the rotated dimensions. Tokens after the base vocabulary
//! whose embedding is zero are written as suppressed tokens.
//!
//! Transforms: experts become one tensor.
//!
//! The chat template is that of the checkpoint. The reference replaces a template that is only in tokenizer_config.json with a
//! built-in one.
//!
//! Source: `MiniMaxText01Model` in `conversion/minimax.py`.

use crate::prelude::*;

pub const MINIMAX_01: Arch = Arch {
    name: "minimax-01",
    classes: &[Class::new("MiniMaxText01ForCausalLM"), Class::new("MiniMaxM1ForCausalLM")],
    example: "MiniMaxAI/MiniMax-Text-01",
    needs: &[
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "vocab_size",
        "attn_type_list",
        "rotary_dim",
    ],
    zero_rows: Some("model.embed_tokens.weight"),
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, ATTENTION, rules::MIXTRAL_EXPERTS],
    vocab: Route::new("minimax", |writer| {
        writer.gpt2(&BpeStyle::GPT2)?;
        writer.own_template()
    }),
    keys,
    // The values for which llama.cpp computes the same as the model. No release has shared experts.
    harmless: &["hidden_act=silu", "postnorm=true", "shared_intermediate_size=0", "shared_moe_mode"],
    caveats: |hparams| {
        let n_layers = hparams.n_layers().unwrap_or(0);
        let differs = (0..n_layers.min(1 << 16)).any(|layer| is_linear(hparams, layer) == (layer % 8 == 7));
        let text = "llama.cpp uses full attention in every eighth layer; `attn_type_list` differs";
        if differs { vec![text.to_owned()] } else { Vec::new() }
    },
    from_file: |file, config| {
        let kinds = file.layers_with("attn_qkv.weight").into_iter().map(|is_linear| u8::from(!is_linear));
        config.insert("attn_type_list".into(), kinds.collect::<Vec<u8>>().into());
        set(config, "rotary_dim", file.count("rope.dimension_count"));
        for part in ["full_attention", "linear_attention", "mlp"] {
            if let Some(alpha) = file.number("residual_scale") {
                config.insert(format!("layernorm_{part}_alpha"), alpha.into());
            }
            config.insert(format!("layernorm_{part}_beta"), 1.0.into());
        }
    },
    ..DECODER
};

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").need(FULL),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(FULL),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(FULL),
    TensorRule::copy(&["model.layers.{bid}.self_attn.qkv_proj"], "blk.{bid}.attn_qkv").need(LINEAR),
    TensorRule::copy(&["model.layers.{bid}.self_attn.output_gate"], "blk.{bid}.attn_gate").need(LINEAR),
    TensorRule::copy(&["model.layers.{bid}.self_attn.norm"], "blk.{bid}.attn_norm_2").need(LINEAR),
    TensorRule::copy(&["model.layers.{bid}.self_attn.out_proj"], "blk.{bid}.attn_output")
        .in_layers(is_linear),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output")
        .in_layers(|hparams, layer| !is_linear(hparams, layer)),
];

const LINEAR: Need = Need::If(is_linear);
const FULL: Need = Need::If(|hparams, layer| !is_linear(hparams, layer));

/// True for a layer of lightning attention.
fn is_linear(hparams: &Hparams, layer: u64) -> bool {
    let kind =
        usize::try_from(layer).ok().and_then(|layer| hparams.get("attn_type_list")?.get(layer)?.as_u64());
    kind == Some(0)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // Without weights, the ids of generation_config.json.
    let ids = hparams.get(ZERO_ROWS).or_else(|| hparams.get("suppress_tokens"));
    let ids = ids.and_then(Json::as_array).filter(|ids| !ids.is_empty());
    if let Some(ids) = ids {
        let ids = ids.iter().map(|id| to_i32("suppress_tokens", id)).collect::<Result<_, _>>()?;
        keys.set(token_keys::SUPPRESS_TOKENS, Value::Array(Array::I32(ids)));
    }
    let alpha = hparams.need_f64("layernorm_full_attention_alpha")?;
    for (key, expected) in [
        ("layernorm_linear_attention_alpha", alpha),
        ("layernorm_mlp_alpha", alpha),
        ("layernorm_full_attention_beta", 1.0),
        ("layernorm_linear_attention_beta", 1.0),
        ("layernorm_mlp_beta", 1.0),
    ] {
        let found = hparams.need_f64(key)?;
        if found != expected {
            return Err(bad(key, &found.into(), "one alpha for all layers, and betas of 1"));
        }
    }
    keys.derived_from("residual_scale", &["layernorm_full_attention_alpha"]);
    keys.set_prefixed("residual_scale", Value::F32(alpha as f32));
    keys.set_derived("rope.dimension_count", "rotary_dim", hparams.need_u64(&["rotary_dim"])?)
}
