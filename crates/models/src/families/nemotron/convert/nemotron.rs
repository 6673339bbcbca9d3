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

pub const NEMOTRON: Arch = Arch {
    name: "nemotron",
    classes: &[Class::new("NemotronForCausalLM")],
    example: "nvidia/Minitron-4B-Base",
    configs: &[ConfigClass::new("nemotron")],
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

/// Rotated part of a head.
pub const ROTATED: Departure = Departure {
    subject: "rope.dimension_count",
    files: "`nemotron`",
    reason: "a part of `head_dim`; the converter takes hidden_size / num_attention_heads for the head size",
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
    let of_share = hparams.rotated(width, None)? / hparams.n_heads()?.max(1);
    let rotated = match hparams.get_u64("head_dim")? {
        Some(head_dim) if head_dim != hparams.head_share()? => hparams.rotated(head_dim, None)?,
        _ => of_share,
    };
    keys.derived_from("rope.dimension_count", &["hidden_size"]);
    let value = |rotated: u64| Ok::<_, ArchError>(Value::U32(to_u32("head_dim", &rotated.into())?));
    keys.depart(&ROTATED, value(rotated)?, Some(&value(of_share)?));
    // `rope_scaling` is null in Minitron; then the type is stated as none.
    let factor = hparams.get("factor").or(hparams.rope().get("factor"));
    match factor {
        None => keys.unscaled_by_default(),
        // The keys of YaRN are already written.
        Some(_) if hparams.rope().kind() == Some("yarn") => {}
        Some(factor) => {
            keys.set_prefixed("rope.scaling.type", "linear".into());
            keys.set_prefixed("rope.scaling.factor", Value::F32(to_f32("factor", factor)?));
        }
    }
    Ok(())
}
