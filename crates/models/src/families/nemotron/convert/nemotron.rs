//! Nemotron 3 and 4, Minitron.
//!
//! Config keys: those of every text model, `vocab_size`, the norm epsilon a second time,
//! `partial_rotary_factor`, and the factor of rotary scaling.
//!
//! Transforms: one is added to the weights of norms (not to their biases). The feed-forward part
//! has no gate.
//!
//! Source: `NemotronModel` in `conversion/nemotron.py`.

use crate::prelude::*;

/// The row.
pub const NEMOTRON: Arch = Arch {
    name: "nemotron",
    classes: &[Class::new("NemotronForCausalLM")],
    example: "nvidia/Minitron-4B-Base",
    configs: &[NEMOTRON_CONFIG],
    tensors: &[rules::NORM1P_ENDS, NORMS, rules::ATTENTION, rules::UNGATED_MLP],
    keys,
    vocab: ROUTE,
    ..DECODER
};

/// tokenizer.model with fixed ids. Nemotron 3 and 4.
const ROUTE: Route = Route::new("nemotron", |writer| {
    writer.spm(SpmStyle::Plain)?;
    writer.set(token_keys::PAD_ID, 0u32);
    writer.set(token_keys::UNK_ID, 1u32);
    Ok(())
});

const NORMS: &[TensorRule] = &[
    TensorRule::norm1p(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::norm1p(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
];

/// `NemotronConfig` of transformers 5.23.
const NEMOTRON_CONFIG: ConfigClass = ConfigClass {
    model_type: "nemotron",
    fields: &[
        &[
            ("vocab_size", INT, Int(256_000)),
            ("hidden_size", INT, Int(6144)),
            ("intermediate_size", INT, Int(24576)),
            ("num_attention_heads", INT, Int(48)),
            ("num_key_value_heads", INT | NULL, Null),
            ("hidden_act", TEXT, Text("relu2")),
            ("max_position_embeddings", INT, Int(4096)),
            ("initializer_range", FLOAT, Float(0.0134)),
            ("norm_eps", FLOAT, Float(1e-5)),
            ("bos_token_id", INT | NULL, Int(2)),
            ("eos_token_id", INT | NULL | INTS, Int(3)),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("mlp_bias", BOOL, Bool(false)),
        ],
        DECODER_FIELDS,
    ],
    fill: &[Fill::HeadDim],
    adjust: |map| {
        adjust::partial_rotary(map, 0.5);
        Ok(())
    },
    ..BASE
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    // `text_keys` knows the first three spellings, and takes `norm_eps`, which Nemotron says, for the
    // epsilon of RMS norms.
    let epsilon = ["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"];
    keys.needed_number("attention.layer_norm_epsilon", hparams, &epsilon)?;
    keys.derived_from("rope.dimension_count", &["rope_parameters.partial_rotary_factor"]);
    let width = hparams.need_u64(&["hidden_size"])?;
    // `int(partial_rotary_factor * width) // heads`: truncated before the division, which matters for
    // odd widths.
    let rotated = match hparams.get_u64("head_dim")? {
        // The reference rotates a part of the share, transformers a part of the head.
        Some(head_dim) if head_dim != hparams.head_share()? => hparams.rotated(head_dim, None)?,
        _ => hparams.rotated(width, None)? / hparams.n_heads()?.max(1),
    };
    keys.set_derived("rope.dimension_count", "hidden_size", rotated)?;
    // `rope_scaling` is null in Minitron; then the type is stated as none.
    let factor = hparams.get("factor").or(hparams.rope().get("factor"));
    keys.set_prefixed("rope.scaling.type", if factor.is_some() { "linear" } else { "none" }.into());
    if let Some(factor) = factor {
        keys.set_prefixed("rope.scaling.factor", Value::F32(to_f32("factor", factor)?));
    }
    Ok(())
}
