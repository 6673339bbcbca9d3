//! Mamba and Falcon Mamba.
//!
//! Config keys: in their own order, from the raw file, in the spelling of transformers (`hidden_size`) or of
//! the authors (`d_model`); lengths that do not apply to state-space models are 0.
//!
//! Transforms: the decay is stored as a logarithm and becomes minus its exponential; the convolution loses a
//! dimension. An output equal to the embedding is left out.
//!
//! Source: `MambaModel` in `conversion/mamba.py`.

use crate::prelude::*;

pub const MAMBA: Arch = Arch {
    name: "mamba",
    classes: &[
        Class::new("MambaForCausalLM"),
        Class::new("MambaLMHeadModel"),
        Class::new("FalconMambaForCausalLM"),
    ],
    example: "state-spaces/mamba-130m-hf",
    raw_config: true,
    needs: &["vocab_size"],
    tensors: &[ENDS, LAYERS],
    keys,
    vocab: Route::new("mamba", |writer| writer.rounded(None, 8, false)),
    harmless: &["hidden_act=silu", "rms_norm=true"],
    // FalconMamba has further norms inside its layers.
    built_in: &[BuiltIn::unless("mixer_rms_eps", "the epsilon of all other norms", |hparams, inner| {
        let other =
            hparams.find(&["layer_norm_epsilon", "rms_norm_eps"]).and_then(|(_, other)| other.as_f64());
        inner.as_f64().zip(other).is_none_or(|(inner, other)| inner == other || inner.max(other) <= 1e-5)
    })],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["backbone.embeddings", "backbone.embedding"], "token_embd"),
    TensorRule::copy(&["backbone.norm_f"], "output_norm"),
    // The embedding comes before it in every checkpoint, as the reference assumes too.
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional).unless_equal("token_embd"),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["backbone.layers.{bid}.norm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .element(ElementMap::MinusExp),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.D"], "blk.{bid}.ssm_d").bare(""),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.conv1d"], "blk.{bid}.ssm_conv1d")
        .shape(rules::SQUEEZE_CHANNEL),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.in_proj"], "blk.{bid}.ssm_in"),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.x_proj"], "blk.{bid}.ssm_x"),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.dt_proj"], "blk.{bid}.ssm_dt"),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.out_proj"], "blk.{bid}.ssm_out"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let width = hparams.need_u64(&["hidden_size", "d_model"])?;
    let inner = count_or(hparams, &["intermediate_size", "d_inner"], width.saturating_mul(2))?;
    // llama.cpp has the factor two built in; the reference asserts it.
    if inner != width.saturating_mul(2) {
        return Err(bad("intermediate_size", &inner.into(), "twice the width"));
    }
    // A state has no longest context. 2^20 is an arbitrary number that readers need.
    keys.set_derived("context_length", "", 1 << 20)?;
    keys.set_derived("embedding_length", "hidden_size", width)?;
    keys.set_derived("feed_forward_length", "", 0)?;
    keys.set_derived("attention.head_count", "", 0)?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    state_keys(hparams, keys, &["conv_kernel", "d_conv"], inner, &["state_size", "d_state"])?;
    // Delta = softplus(W_dt (W_x x)_dt): the rank of W_dt is ceil(width / 16) unless the config states it.
    let rank = count_or(hparams, &["time_step_rank", "dt_rank"], width.div_ceil(16))?;
    keys.set_derived("ssm.time_step_rank", "time_step_rank", rank)?;
    epsilon(hparams, keys, 1e-5)?;
    keys.derived_from("ssm.dt_b_c_rms", &["model_type"]);
    // Falcon Mamba normalizes B, C and dt without weights; only its type shows this.
    let norms = hparams.get("model_type").is_some_and(|kind| kind == "falcon_mamba");
    keys.set_prefixed("ssm.dt_b_c_rms", Value::Bool(norms));
    keys.file_type_here();
    Ok(())
}

/// Sizes of convolution, inner state and state, each with the default of the first Mamba.
pub fn state_keys(
    hparams: &Hparams,
    keys: &mut Keys,
    conv: &[&'static str],
    inner: u64,
    state: &[&'static str],
) -> Result<(), ArchError> {
    keys.derived_from("ssm.conv_kernel", conv);
    keys.derived_from("ssm.state_size", state);
    keys.set_derived("ssm.conv_kernel", "conv_kernel", count_or(hparams, conv, 4)?)?;
    keys.set_derived("ssm.inner_size", "intermediate_size", inner)?;
    keys.set_derived("ssm.state_size", "state_size", count_or(hparams, state, 16)?)
}

/// The epsilon of the norms, or a default.
pub fn epsilon(hparams: &Hparams, keys: &mut Keys, default: f64) -> Result<(), ArchError> {
    let stated = match hparams.find(&["layer_norm_epsilon", "rms_norm_eps"]) {
        // `or 1e-5` in Python: also an epsilon of 0 gives the default.
        Some((key, _)) => hparams.get_f64(key)?.filter(|epsilon| *epsilon != 0.0),
        None => None,
    };
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(stated.unwrap_or(default) as f32));
    Ok(())
}

/// A count under the first of `names` that the config has, or a default if it is missing or 0.
pub fn count_or(hparams: &Hparams, names: &[&'static str], default: u64) -> Result<u64, ArchError> {
    match hparams.find(names) {
        // `or default` in Python: 0 is as good as absent.
        Some((key, _)) => Ok(hparams.get_u64(key)?.filter(|count| *count != 0).unwrap_or(default)),
        None => Ok(default),
    }
}
