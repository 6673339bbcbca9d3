//! Jais: a GPT-2 with a gate, slopes in place of positions, and scaled logits.
//!
//! Config keys: in their own order. The greatest bias of the positions is the slope of the first head, which the checkpoint
//! has as a tensor.
//!
//! Transforms: the projections are Conv1D, whose matrices are stored transposed; their columns become rows. The scales of
//! the embedding and of the logits are multiplied into these matrices.
//!
//! Source: `JaisModel` in `conversion/jais.py`.

use crate::families::gpt2::convert::gpt2::causal_mask;
use crate::prelude::*;

pub const JAIS: Arch = Arch {
    name: "jais",
    classes: &[Class::new("JAISLMHeadModel")],
    example: "inceptionai/jais-family-590m",
    needs: &["n_embd", "n_layer", "n_head", "n_inner"],
    tensors: &[ENDS, LAYERS],
    numbers: &[NumberRule {
        first: Some(max_bias),
        ..NumberRule::new("transformer.relative_pe.slopes", "jais.attention.max_alibi_bias")
    }],
    keys,
    drops: causal_mask,
    rename: |_, name| {
        let is_whole = name.starts_with("transformer.") || name.starts_with("lm_head.");
        (!is_whole).then(|| format!("transformer.{name}"))
    },
    harmless: &["mup_scale_qk_dot_by_d=true", "scale_attn_weights=true"],
    export: Export::NotExportable("the scales of embedding and logits are part of the matrices"),
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.wte"], "token_embd")
        .element_of(|hparams, _, _| scaled(embedding_scale(hparams)?)),
    TensorRule::copy(&["transformer.ln_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").element_of(|hparams, _, _| scaled(logit_scale(hparams)?)),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["transformer.h.{bid}.ln_1"], "blk.{bid}.attn_norm"),
    TensorRule::columns(&["transformer.h.{bid}.attn.c_attn"], "blk.{bid}.attn_qkv"),
    TensorRule::columns(&["transformer.h.{bid}.attn.c_proj"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["transformer.h.{bid}.ln_2"], "blk.{bid}.ffn_norm"),
    TensorRule::columns(&["transformer.h.{bid}.mlp.c_fc"], "blk.{bid}.ffn_up"),
    TensorRule::columns(&["transformer.h.{bid}.mlp.c_fc2"], "blk.{bid}.ffn_gate"),
    TensorRule::columns(&["transformer.h.{bid}.mlp.c_proj"], "blk.{bid}.ffn_down"),
];

fn scaled(factor: f64) -> Result<ElementMap, ArchError> {
    Ok(ElementMap::Scale([factor as f32, 1.0]))
}

fn embedding_scale(hparams: &Hparams) -> Result<f64, ArchError> {
    need_number(hparams, &["mup_embeddings_scale", "embeddings_scale"])
}

fn logit_scale(hparams: &Hparams) -> Result<f64, ArchError> {
    match hparams.get_f64("mup_output_alpha")? {
        Some(alpha) => Ok(alpha * need_number(hparams, &["mup_width_scale"])?),
        None => need_number(hparams, &["width_scale"]),
    }
}

fn need_number(hparams: &Hparams, names: &[&'static str]) -> Result<f64, ArchError> {
    for name in names {
        if let Some(number) = hparams.get_f64(name)? {
            return Ok(number);
        }
    }
    Err(missing(names[0]))
}

/// The greatest bias b of ALiBi. The slope of the first of n heads, n a power of two, is 2^(-b / n).
fn max_bias(hparams: &Hparams, slope: f32) -> Result<f32, ArchError> {
    let n_heads = hparams.need_u64(&["n_head"])?.max(1);
    let power = 1u64 << n_heads.ilog2();
    Ok(-(f64::from(slope).log2() * power as f64).round_ties_even() as f32)
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    for (name, only) in [("activation_function", "swiglu"), ("position_embedding_type", "alibi")] {
        match hparams.get(name) {
            Some(value) if value == only => {}
            Some(value) => return Err(bad(name, value, only)),
            None => return Err(missing(name)),
        }
    }
    // The order of `JaisModel.set_gguf_parameters`, which calls no parent.
    keys.set_derived("block_count", "n_layer", hparams.n_layers()?)?;
    keys.needed("context_length", hparams, &["n_positions"])?;
    keys.needed("embedding_length", hparams, &["n_embd"])?;
    keys.needed("feed_forward_length", hparams, &["n_inner"])?;
    keys.needed("attention.head_count", hparams, &["n_head"])?;
    keys.needed_number("attention.layer_norm_epsilon", hparams, &["layer_norm_epsilon"])?;
    keys.file_type_here();
    Ok(())
}
