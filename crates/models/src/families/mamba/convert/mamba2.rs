//! Mamba 2 and Mamba-Codestral.
//!
//! Config keys: like those of Mamba, with heads and groups.
//!
//! Transforms: like those of Mamba; decay and skip connection become columns, the norm is divided into
//! groups.
//!
//! Source: `Mamba2Model` in `conversion/mamba.py`.

use crate::families::mamba::convert::mamba::{count_or, epsilon};
use crate::prelude::*;

pub const MAMBA2: Arch = Arch {
    name: "mamba2",
    classes: &[Class::new("Mamba2ForCausalLM")],
    example: "mistralai/Mamba-Codestral-7B-v0.1",
    raw_config: true,
    needs: &["vocab_size"],
    tensors: &[ENDS, LAYERS],
    keys,
    rename: |_, name| {
        let inner = name.strip_prefix("model.")?;
        (inner.starts_with("backbone") || inner.starts_with("lm_head")).then(|| inner.to_owned())
    },
    vocab: Route::new("mamba2", |writer| writer.rounded(None, 16, true)),
    harmless: &["hidden_act=silu"],
    built_in: &[HAS_NO_STEP_LIMIT],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["backbone.embeddings", "backbone.embedding"], "token_embd"),
    TensorRule::copy(&["backbone.norm_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["backbone.layers.{bid}.norm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .shape(rules::COLUMN)
        .element(ElementMap::MinusExp),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.D"], "blk.{bid}.ssm_d").bare("").shape(rules::COLUMN),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.dt_bias"], "blk.{bid}.ssm_dt").bare(".bias"),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.conv1d"], "blk.{bid}.ssm_conv1d")
        .shape(rules::SQUEEZE_CHANNEL),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.in_proj"], "blk.{bid}.ssm_in"),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.norm"], "blk.{bid}.ssm_norm").shape(Reshape {
        forward: |hparams, dims| {
            // llama.cpp normalizes by group: (inner) becomes (groups, inner / groups).
            let groups = count_or(hparams, &["n_groups"], 1)?;
            Ok(vec![dims.iter().product::<u64>() / groups, groups])
        },
        inverse: rules::flat,
    }),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.out_proj"], "blk.{bid}.ssm_out"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    // Mamba-Codestral of mistral.ai spells it `dim`, the authors of Mamba `d_model`.
    let width = hparams.need_u64(&["dim", "d_model", "hidden_size"])?;
    let width = count_or(hparams, &["hidden_size", "d_model", "dim"], width)?;
    let expanded = count_or(hparams, &["mamba_expand", "expand"], 2)?.saturating_mul(width);
    let inner = count_or(hparams, &["mamba_d_ssm", "intermediate_size", "d_inner"], expanded)?;
    let head = count_or(hparams, &["mamba_d_head", "head_dim"], 64)?;
    // llama.cpp computes one from the other.
    if inner != expanded {
        return Err(bad("intermediate_size", &inner.into(), "`expand` times the width"));
    }
    if !inner.is_multiple_of(head) {
        return Err(bad("head_dim", &head.into(), "a divisor of the inner size"));
    }
    keys.set_derived("context_length", "", 1 << 20)?;
    keys.set_derived("embedding_length", "hidden_size", width)?;
    keys.set_derived("feed_forward_length", "", 0)?;
    keys.set_derived("attention.head_count", "", 0)?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.set_derived("ssm.conv_kernel", "conv_kernel", count_or(hparams, &["conv_kernel", "d_conv"], 4)?)?;
    keys.set_derived("ssm.inner_size", "intermediate_size", inner)?;
    keys.set_derived("ssm.state_size", "state_size", count_or(hparams, &["state_size", "d_state"], 128)?)?;
    // In Mamba 2 this is the number of heads, each of which has one time step.
    keys.set_derived("ssm.time_step_rank", "head_dim", inner / head)?;
    keys.set_derived("ssm.group_count", "n_groups", count_or(hparams, &["n_groups"], 1)?)?;
    epsilon(hparams, keys, 1e-5)?;
    keys.file_type_here();
    Ok(())
}
