//! Falcon-H1: attention and a state space side by side in every layer.
//!
//! Config keys: those of Mamba 2 with its own values put in their places, and those of attention, from
//! the file as it stands.
//!
//! Transforms: those of Mamba 2. The multipliers of the config are multiplied into the weights in
//! order: five into bands of the input projection's rows.
//!
//! Source: `FalconH1Model` in `conversion/falcon_h1.py`.

use crate::families::mamba::convert::mamba::{count_or, epsilon};
use crate::prelude::*;

pub const FALCON_H1: Arch = Arch {
    name: "falcon-h1",
    classes: &[Class::new("FalconH1ForCausalLM")],
    example: "tiiuae/Falcon-H1-0.5B-Base",
    raw_config: true,
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[ENDS, STATE, ATTENTION],
    keys,
    // The multipliers are in the weights, so those of the config are one, which is what absent ones are.
    from_file: |file, config| {
        let inner = file.count("ssm.inner_size");
        let heads = file.count("ssm.time_step_rank");
        let head = inner.zip(heads).and_then(|(inner, heads)| inner.checked_div(heads));
        set(config, "mamba_d_ssm", inner);
        set(config, "mamba_n_heads", heads);
        set(config, "mamba_d_head", head);
        set(config, "mamba_d_conv", file.count("ssm.conv_kernel"));
        set(config, "mamba_d_state", file.count("ssm.state_size"));
        set(config, "mamba_n_groups", file.count("ssm.group_count"));
        config.insert("mamba_rms_norm".into(), file.layer_has(0, "ssm_norm.weight").into());
        config.insert("model_type".into(), "falcon_h1".into());
    },
    harmless: &["mamba_rms_norm"],
    built_in: &[
        HAS_NO_STEP_LIMIT,
        BuiltIn::unless("attention_bias", "no bias of the output", |_, bias| *bias != Json::Bool(true)),
        // The norm of a state space follows its gate in llama.cpp.
        BuiltIn::unless("mamba_norm_before_gate", "false", |hparams, before| {
            *before != Json::Bool(true) || !hparams.is_true("mamba_rms_norm")
        }),
    ],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd")
        .element_of(|h, _, _| one(h, "embedding_multiplier")),
    TensorRule::copy(&["model.final_layernorm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output")
        .element_of(|h, _, _| one(h, "lm_head_multiplier"))
        .need(Need::Optional),
];

const STATE: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.mamba.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .shape(rules::COLUMN)
        .element(ElementMap::MinusExp),
    TensorRule::copy(&["model.layers.{bid}.mamba.D"], "blk.{bid}.ssm_d").bare("").shape(rules::COLUMN),
    TensorRule::copy(&["model.layers.{bid}.mamba.dt_bias"], "blk.{bid}.ssm_dt").bare(".bias"),
    TensorRule::copy(&["model.layers.{bid}.mamba.conv1d"], "blk.{bid}.ssm_conv1d")
        .shape(rules::SQUEEZE_CHANNEL),
    TensorRule::copy(&["model.layers.{bid}.mamba.in_proj"], "blk.{bid}.ssm_in")
        .element_of(|hparams, _, _| bands(hparams)),
    TensorRule::copy(&["model.layers.{bid}.mamba.norm"], "blk.{bid}.ssm_norm")
        .shape(Reshape {
            forward: |hparams, dims| {
                // llama.cpp normalizes by group: (inner) becomes (groups, inner / groups).
                let groups = count_or(hparams, &["n_groups", "mamba_n_groups"], 1)?;
                Ok(vec![dims.iter().product::<u64>() / groups, groups])
            },
            inverse: rules::flat,
        })
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.mamba.out_proj"], "blk.{bid}.ssm_out")
        .element_of(|h, _, _| one(h, "ssm_out_multiplier")),
];

/// The reference writes the second norm without an ending, and llama.cpp looks for it so.
const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q")
        .element_of(|h, _, suffix| Ok(ElementMap::Scale([of_input(h, suffix)?, 1.0]))),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").element_of(
        |h, _, suffix| {
            // Two products, not one with the product of the factors: torch rounds after each.
            Ok(ElementMap::Scale([factor(h, "key_multiplier")?, of_input(h, suffix)?]))
        },
    ),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v")
        .element_of(|h, _, suffix| Ok(ElementMap::Scale([of_input(h, suffix)?, 1.0]))),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output")
        .element_of(|h, _, _| one(h, "attention_out_multiplier")),
    TensorRule::copy(&["model.layers.{bid}.pre_ff_layernorm.weight"], "blk.{bid}.ffn_norm").bare(""),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.gate_proj"], "blk.{bid}.ffn_gate")
        .element_of(|h, _, _| Ok(ElementMap::Scale([item(h, "mlp_multipliers", 0)?, 1.0]))),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.{bid}.feed_forward.down_proj"], "blk.{bid}.ffn_down")
        .element_of(|h, _, _| Ok(ElementMap::Scale([item(h, "mlp_multipliers", 1)?, 1.0]))),
];

/// The multiplier under a key, or 1.
fn factor(hparams: &Hparams, key: &str) -> Result<f32, ArchError> {
    hparams.get(key).map_or(Ok(1.0), |value| to_f32(key, value))
}

/// The multiplier of the input of attention, which does not reach biases. The reference multiplies them too.
fn of_input(hparams: &Hparams, suffix: &str) -> Result<f32, ArchError> {
    if suffix == ".bias" { Ok(1.0) } else { factor(hparams, "attention_in_multiplier") }
}

fn one(hparams: &Hparams, key: &str) -> Result<ElementMap, ArchError> {
    Ok(ElementMap::Scale([factor(hparams, key)?, 1.0]))
}

/// A multiplier of a list, or 1 without the list.
fn item(hparams: &Hparams, key: &'static str, index: usize) -> Result<f32, ArchError> {
    match hparams.get(key) {
        None => Ok(1.0),
        Some(list) => match list.get(index) {
            Some(value) => to_f32(key, value),
            None => Err(bad(key, list, "a list of multipliers")),
        },
    }
}

/// The rows of the input projection: gate, input, two for the groups of the state, steps.
fn bands(hparams: &Hparams) -> Result<ElementMap, ArchError> {
    // Rows of in_proj: z (gate), x, B, C, dt. Bands of
    //   inner, inner, groups * state, groups * state, heads
    // rows have the multipliers `ssm_multipliers[0 .. 5]`, after all were multiplied by `ssm_in_multiplier`. The last
    // band ends where the matrix does.
    let inner = hparams.need_u64(&["mamba_d_ssm"])?;
    let state = hparams.need_u64(&["mamba_n_groups"])?.saturating_mul(hparams.need_u64(&["mamba_d_state"])?);
    let mut bands = [(0, 1.0); 5];
    let mut end = 0u64;
    for (index, (band, rows)) in bands.iter_mut().zip([inner, inner, state, state, u64::MAX]).enumerate() {
        end = end.saturating_add(rows);
        *band = (end, item(hparams, "ssm_multipliers", index)?);
    }
    Ok(ElementMap::ScaleBands { factor: factor(hparams, "ssm_in_multiplier")?, bands })
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let activation = hparams.get("hidden_act");
    if let Some(other) = activation.filter(|activation| *activation != "silu") {
        return Err(bad("hidden_act", other, "silu"));
    }
    let inner = hparams.need_u64(&["mamba_d_ssm"])?;
    let head = hparams.need_u64(&["mamba_d_head"])?;
    if head == 0 || !inner.is_multiple_of(head) {
        return Err(bad("mamba_d_head", &head.into(), "a divisor of `mamba_d_ssm`"));
    }
    // `Mamba2Model` writes these first, with values of Mamba 2; they are overwritten in their places
    // later.
    keys.needed("context_length", hparams, &["max_position_embeddings"])?;
    keys.needed("embedding_length", hparams, &["hidden_size"])?;
    keys.needed("feed_forward_length", hparams, &["intermediate_size"])?;
    keys.needed("attention.head_count", hparams, &["num_attention_heads"])?;
    keys.set_derived("block_count", "num_hidden_layers", hparams.n_layers()?)?;
    keys.set_derived("ssm.conv_kernel", "mamba_d_conv", count_or(hparams, &["mamba_d_conv"], 4)?)?;
    keys.set_derived("ssm.inner_size", "mamba_d_ssm", inner)?;
    keys.set_derived("ssm.state_size", "mamba_d_state", count_or(hparams, &["mamba_d_state"], 128)?)?;
    // The reference takes `mamba_d_head` here, not `head_dim`.
    keys.set_derived("ssm.time_step_rank", "mamba_d_head", inner / head)?;
    keys.set_derived(
        "ssm.group_count",
        "mamba_n_groups",
        count_or(hparams, &["n_groups", "mamba_n_groups"], 1)?,
    )?;
    epsilon(hparams, keys, 1e-5)?;
    keys.file_type_here();
    keys.vocab_size(hparams)?;
    keys.needed("attention.head_count_kv", hparams, &["num_key_value_heads"])?;
    // transformers states the length of a head if it is not its share of the width.
    keys.set_derived("attention.key_length", "head_dim", hparams.head_dim()?)?;
    keys.set_derived("attention.value_length", "head_dim", hparams.head_dim()?)?;
    // Needed because the config is read as it stands, without the default of transformers.
    if hparams.rope().get("rope_theta").is_none() {
        return Err(missing("rope_theta"));
    }
    keys.rope_number("rope.freq_base", hparams.rope(), &["rope_theta"])
}
