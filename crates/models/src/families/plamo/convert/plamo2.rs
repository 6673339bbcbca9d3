//! PLaMo 2: Mamba layers between layers with attention.
//!
//! Config keys: heads by layer, none in Mamba layers; lengths; the state space; with the defaults of the model's code.
//!
//! Transforms: decay from its logarithm; the convolution loses a dimension; norms are stored as their distance from one,
//! or from a smaller number if they end a part. Q, K and V stay one matrix, as do gate and up.
//!
//! Source: `Plamo2Model` in `conversion/plamo.py`.

use crate::families::plamo::convert::plamo3;
use crate::prelude::*;

pub const PLAMO2: Arch = Arch {
    name: "plamo2",
    classes: &[Class::new("Plamo2ForCausalLM"), Class::new("PLaMo2ForCausalLM")],
    example: "pfnet/plamo-2-1b",
    tensors: &[rules::NORM1P_ENDS, plamo3::NORMS, FEED_FORWARD, ATTENTION, MAMBA],
    keys,
    vocab: Route::new("plamo2", |writer| {
        writer.json_lines(&JsonLines { turn_end: "<|plamo:op|>", normal: &[] })
    }),
    from_file,
    ..DECODER
};

const FEED_FORWARD: &[TensorRule] = &[
    // (2 f, in): one matrix for gate and up, by the name of up.
    TensorRule::copy(&["model.layers.layers.{bid}.mlp.gate_up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.layers.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down"),
];

const ATTENDS: Need = Need::If(|hparams, bid| !is_mamba(hparams, bid));
const IS_MAMBA: Need = Need::If(is_mamba);

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.qkv_proj"], "blk.{bid}.attn_qkv").need(ATTENDS),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.o_proj"], "blk.{bid}.attn_output").need(ATTENDS),
    // Parameters whose names have no ending; unlike the norms of layers they are taken as they stand.
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.q_weight"], "blk.{bid}.attn_q_norm")
        .bare(".weight")
        .need(ATTENDS),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.k_weight"], "blk.{bid}.attn_k_norm")
        .bare(".weight")
        .need(ATTENDS),
];

const MAMBA: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.in_proj"], "blk.{bid}.ssm_in").need(IS_MAMBA),
    // (channels, 1, kernel) becomes (channels, kernel).
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.conv1d"], "blk.{bid}.ssm_conv1d")
        .shape(rules::SQUEEZE_CHANNEL)
        .need(IS_MAMBA),
    // One matrix gives B, C and the time step.
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.bcdt_proj"], "blk.{bid}.ssm_x").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.dt_bias"], "blk.{bid}.ssm_dt")
        .bare(".bias")
        .need(IS_MAMBA),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.dt_proj"], "blk.{bid}.ssm_dt").need(IS_MAMBA),
    // A = -exp(A_log).
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .element(ElementMap::MinusExp)
        .need(IS_MAMBA),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.D"], "blk.{bid}.ssm_d").bare("").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.out_proj"], "blk.{bid}.ssm_out").need(IS_MAMBA),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.dt_norm_weight"], "blk.{bid}.ssm_dt_norm")
        .bare("")
        .need(IS_MAMBA),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.B_norm_weight"], "blk.{bid}.ssm_b_norm")
        .bare("")
        .need(IS_MAMBA),
    TensorRule::copy(&["model.layers.layers.{bid}.mixer.C_norm_weight"], "blk.{bid}.ssm_c_norm")
        .bare("")
        .need(IS_MAMBA),
];

/// True if a layer has a state instead of attention: `is_mamba` of the model's code.
fn is_mamba(hparams: &Hparams, bid: u64) -> bool {
    if hparams.get("mamba_enabled") == Some(&Json::Bool(false)) {
        return false;
    }
    // One of every `step` layers attends, the one at step / 2.
    let step = hparams.get("mamba_step").and_then(Json::as_u64).unwrap_or(2).max(1);
    let n_layers = hparams.n_layers().unwrap_or(0);
    // If the model has few layers, the last one attends.
    if n_layers <= step / 2 { bid + 1 != n_layers } else { bid % step != step / 2 }
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let or = |name: &'static str, default: u64| Ok::<_, ArchError>(hparams.get_u64(name)?.unwrap_or(default));
    keys.vocab_size(hparams)?;
    let n_layers = hparams.n_layers()?;
    if n_layers > 10_000 {
        return Err(bad("num_hidden_layers", &n_layers.into(), "at most 10000"));
    }
    if hparams.get("mamba_enabled") != Some(&Json::Bool(false)) {
        for (key, name, default) in [
            ("attention.head_count_kv", "num_key_value_heads", 4),
            ("attention.head_count", "num_attention_heads", 32),
        ] {
            let heads = to_i32(name, &or(name, default)?.into())?;
            let counts = (0..n_layers).map(|bid| if is_mamba(hparams, bid) { 0 } else { heads });
            keys.set_prefixed(key, Value::Array(Array::I32(counts.collect())));
        }
    }
    let head = or("hidden_size_per_head", 128)?;
    let ssm_heads = or("mamba_num_heads", 64)?;
    keys.set_derived("context_length", "max_position_embeddings", or("max_position_embeddings", 2048)?)?;
    keys.set_derived("embedding_length", "hidden_size", or("hidden_size", 4096)?)?;
    keys.set_derived("attention.key_length", "hidden_size_per_head", head)?;
    keys.set_derived("attention.value_length", "hidden_size_per_head", head)?;
    keys.set_derived("block_count", "num_hidden_layers", n_layers)?;
    let epsilon = hparams.get_f64("rms_norm_eps")?.unwrap_or(1e-6);
    keys.set_prefixed("attention.layer_norm_rms_epsilon", Value::F32(epsilon as f32));
    let base = hparams.rope().f64_or("rope_theta", 10_000.0)?;
    keys.set_prefixed("rope.freq_base", Value::F32(base as f32));
    keys.set_derived("ssm.state_size", "mamba_d_state", or("mamba_d_state", 64)?)?;
    keys.set_derived("ssm.conv_kernel", "mamba_d_conv", or("mamba_d_conv", 4)?)?;
    keys.set_derived("ssm.time_step_rank", "mamba_num_heads", ssm_heads)?;
    // inner = heads * head, if a head is as long as those of attention.
    keys.set_derived("ssm.inner_size", "mamba_num_heads", ssm_heads.saturating_mul(head))?;
    keys.set_derived("ssm.group_count", "", 0)?;
    keys.set_derived("feed_forward_length", "intermediate_size", or("intermediate_size", 13312)?)?;
    keys.file_type_here();
    Ok(())
}

/// The step by which layers attend, and the sizes of the state space.
fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let attends = file.flags("attention.head_count_kv").unwrap_or_default();
    let n_layers = attends.len();
    // The smallest step that gives these layers.
    let fits = |step: &usize| {
        let is = |layer: usize| {
            if n_layers <= step / 2 { layer + 1 == n_layers } else { layer % step == step / 2 }
        };
        attends.iter().enumerate().all(|(layer, attends)| *attends == is(layer))
    };
    let step = (2..=2 * n_layers.max(1)).find(fits);
    config.insert("mamba_enabled".into(), step.is_some().into());
    set(config, "mamba_step", step.map(|step| step as u64));
    for (name, key) in
        [("num_attention_heads", "attention.head_count"), ("num_key_value_heads", "attention.head_count_kv")]
    {
        set(config, name, file.count_where(key, &attends, true));
    }
    for (name, key) in [
        ("hidden_size_per_head", "attention.key_length"),
        ("mamba_num_heads", "ssm.time_step_rank"),
        ("mamba_d_state", "ssm.state_size"),
        ("mamba_d_conv", "ssm.conv_kernel"),
    ] {
        set(config, name, file.count(key));
    }
    config.remove("head_dim");
}
