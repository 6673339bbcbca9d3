//! gpt-oss.
//!
//! Config keys: those of every text model, the sliding window, the length of the experts.
//!
//! Transforms: gate and up of the experts, whose rows alternate, are taken apart. Experts in MXFP4
//! are tensors `_blocks` of their values, which stay in blocks; experts in floats are stored transposed.
//!
//! Source: `GptOssModel` in `conversion/gpt_oss.py`.

use crate::prelude::*;

pub const GPT_OSS: Arch = Arch {
    name: "gpt-oss",
    classes: &[Class::new("GptOssForCausalLM")],
    example: "openai/gpt-oss-20b",
    configs: &[GPT_OSS_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::ATTENTION, LAYERS, PACKED_EXPERTS, FLOAT_EXPERTS, ONE_BY_ONE],
    keys,
    prepare: |hparams, tensors| {
        let is_apart = tensors.iter().any(|tensor| tensor.name.contains(".experts.down_projs."));
        Ok(hparams.with(APART, is_apart.into()))
    },
    packed: &[Packed { method: "mxfp4", file_type: (38, "MXFP4_MOE") }],
    window_pattern: every(2),
    harmless: &["layer_types", "rope_parameters.truncate=false"],
    ..DECODER
};

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.sinks"], "blk.{bid}.attn_sinks").bare(".weight"),
    TensorRule::copy(
        &["model.layers.{bid}.mlp.router", "model.layers.{bid}.mlp.router.linear"],
        "blk.{bid}.ffn_gate_inp",
    ),
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.down_proj_bias"], "blk.{bid}.ffn_down_exps")
        .bare(".bias"),
    TensorRule::part(
        &["model.layers.{bid}.mlp.experts.gate_up_proj_bias"],
        "blk.{bid}.ffn_gate_exps",
        // Gate and up alternate element by element: g0 u0 g1 u1 ...
        |_, _| Ok(RowMap::Elements { step: 2, start: 0 }),
    )
    .bare(".bias"),
    TensorRule::part(
        &["model.layers.{bid}.mlp.experts.gate_up_proj_bias"],
        "blk.{bid}.ffn_up_exps",
        |_, _| Ok(RowMap::Elements { step: 2, start: 1 }),
    )
    .bare(".bias"),
];

const PACKED_EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.down_proj_blocks"], "blk.{bid}.ffn_down_exps")
        .rows(RowRule::Blocks(RowMap::Concat))
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.gate_up_proj_blocks"], "blk.{bid}.ffn_gate_exps")
        .rows(RowRule::Blocks(GATE))
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.mlp.experts.gate_up_proj_blocks"], "blk.{bid}.ffn_up_exps")
        .rows(RowRule::Blocks(UP))
        .bare(".weight"),
];

const FLOAT_EXPERTS: &[TensorRule] = &[
    TensorRule::transposed(
        &["model.layers.{bid}.mlp.experts.down_proj"],
        "blk.{bid}.ffn_down_exps",
        |_, shape| Ok(transposed(shape, RowMap::Concat)),
    )
    .bare(".weight")
    .need(Need::Optional),
    TensorRule::transposed(
        &["model.layers.{bid}.mlp.experts.gate_up_proj"],
        "blk.{bid}.ffn_gate_exps",
        |_, shape| Ok(transposed(shape, GATE)),
    )
    .bare(".weight")
    .need(Need::Optional),
    TensorRule::transposed(
        &["model.layers.{bid}.mlp.experts.gate_up_proj"],
        "blk.{bid}.ffn_up_exps",
        |_, shape| Ok(transposed(shape, UP)),
    )
    .bare(".weight")
    .need(Need::Optional),
];

/// True under this name if the experts of a layer are separate tensors, like in 4-bit checkpoints of Unsloth.
const APART: &str = "experts_one_by_one";

/// Experts (2 f, in) and (out, f), with their biases.
const ONE_BY_ONE: &[TensorRule] = &[
    apart(&["model.layers.{bid}.mlp.experts.down_projs.{xid}"], "blk.{bid}.ffn_down_exps", RowMap::Concat),
    apart(&["model.layers.{bid}.mlp.experts.gate_up_projs.{xid}"], "blk.{bid}.ffn_gate_exps", GATE),
    apart(&["model.layers.{bid}.mlp.experts.gate_up_projs.{xid}"], "blk.{bid}.ffn_up_exps", UP),
];

const fn apart(hf: &'static [&'static str; 1], gguf: &'static str, rows: RowMap) -> TensorRule {
    TensorRule::copy(hf, gguf)
        .rows(RowRule::FuseRows(|hparams| hparams.n_experts().unwrap_or(0) as usize, rows))
        .in_layers(|hparams, _| hparams.is_true(APART))
        .need(Need::Optional)
}

const GATE: RowMap = RowMap::Groups { group: 2, start: 0, rows: 1, n_head: 0 };
const UP: RowMap = RowMap::Groups { group: 2, start: 1, rows: 1, n_head: 0 };

/// The matrices of all experts, each transposed.
pub fn transposed(shape: &Shape, columns: RowMap) -> Transposed {
    // (experts, in, out) as transformers stores them: each expert's matrix (in rows, out columns) is
    // transposed.
    let rows = shape.dim(1);
    Transposed { matrix: Matrix { group: rows, start: 0 }, rows, columns }
}

/// `GptOssConfig`.
const GPT_OSS_CONFIG: ConfigClass = ConfigClass::new("gpt_oss").adjusted(config);

/// Every other layer slides; without rotary parameters they are those of the published models.
fn config(map: &mut Map<String, Json>) -> Result<(), String> {
    // Layer 0 slides, layer 1 uses full attention, and so on.
    adjust::layer_types(map, |layer| layer.is_multiple_of(2))?;
    // The default argument of `GptOssConfig`: from 4096 positions to 131072.
    if map.get("rope_parameters").is_none_or(Json::is_null) {
        let yarn = json!({"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "truncate": false, "original_max_position_embeddings": 4096});
        map.insert("rope_parameters".into(), yarn);
    }
    Ok(())
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.needed("attention.sliding_window", hparams, &["sliding_window"])?;
    // All layers are mixtures: `intermediate_size` is the length of an expert.
    keys.needed("expert_feed_forward_length", hparams, &["intermediate_size"])
}
