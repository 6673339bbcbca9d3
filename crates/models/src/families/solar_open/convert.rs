//! Solar Open: GLM 4.5's mixture of experts with its own tokenizer.
//!
//! Config keys: those of GLM 4.5.
//!
//! Transforms: those of GLM 4.5.
//!
//! Source: `SolarOpenModel` in `conversion/glm.py`.

use crate::families::glm::convert::glm4moe::GLM4MOE;
use crate::prelude::*;

pub const SOLAR_OPEN: Arch = Arch {
    name: "solar-open",
    written: Some("glm4moe"),
    classes: &[Class::new("SolarOpenForCausalLM")],
    example: "upstage/Solar-Open-100B",
    configs: &[ConfigClass::new("solar_open")],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    keys: |hparams, keys| {
        (GLM4MOE.keys)(hparams, keys)?;
        // The entire head, unlike in GLM 4.5, if the config does not state a part.
        let rotated = hparams.rotated(hparams.head_dim()?, Some(1.0))?;
        keys.derived_from("rope.dimension_count", &["head_dim"]);
        let theirs = keys.prefixed("rope.dimension_count").cloned();
        keys.depart(&ROTATED, Value::U32(to_u32("head_dim", &rotated.into())?), theirs.as_ref());
        Ok(())
    },
    // Unlike in GLM 4.5, no layers of prediction are looked for.
    prepare: |hparams, _| Ok(hparams),
    vocab: ROUTE,
    ..GLM4MOE
};

/// Rotated part of a head.
pub const ROTATED: Departure = Departure {
    subject: "rope.dimension_count",
    files: "`glm4moe` (Solar Open)",
    reason: "the entire head, as the class of transformers rotates without `partial_rotary_factor`",
};

const ROUTE: Route = Route {
    // Files of GLM 4.5, which has no such token, have the same keys.
    fits: |_, metadata| {
        let tokens = metadata.texts(token_keys::TOKENS).ok().flatten();
        tokens.is_some_and(|tokens| tokens.iter().any(|token| token == b"<|startoftext|>"))
    },
    ..Route::new("solar_open", |writer| {
        writer.gpt2(&BpeStyle {
            by_text: &[
                ("eos", "<|endoftext|>"),
                ("eot", "<|endoftext|>"),
                ("unk", "<unk>"),
                ("bos", "<|startoftext|>"),
            ],
            ..BpeStyle::GPT2
        })
    })
};
