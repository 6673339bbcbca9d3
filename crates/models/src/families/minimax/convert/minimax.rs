//! MiniMax-Text-01 as transformers spells its config.
//!
//! Config keys: those of MiniMax-Text-01 under other names; kinds of layers as words; heads are rotated completely if the config does
//! not state `rotary_dim`.
//!
//! Transforms: those of MiniMax-Text-01. Decays, which are computed from the number of heads and layers, are left out.
//!
//! Source: `MiniMaxForCausalLM` of transformers 5.24; llama.cpp has no class for it, and its graph of `minimax-01` is the same model.

use crate::families::minimax::convert::minimax_01::MINIMAX_01;
use crate::prelude::*;

pub const MINIMAX: Arch =
    Arch {
        name: "minimax",
        written: Some("minimax-01"),
        classes: &[Class::new("MiniMaxForCausalLM")],
        example: "MiniMaxAI/MiniMax-Text-01-hf",
        configs: &[ConfigClass::new("minimax").adjusted(|map| {
            adjust::kinds(map, "layer_types", |layer| {
                if layer % 2 == 0 { "full_attention" } else { "linear_attention" }
            })
        })],
        needs: DECODER.needs,
        drops: |_, name| {
            let decays = ["slope_rate", "query_decay", "key_decay", "diagonal_decay"];
            let part = name.rsplit_once(".self_attn.").map(|(_, part)| part);
            part.is_some_and(|part| decays.contains(&part)).then_some("computed from the config")
        },
        prepare: |hparams, _| prepare(&hparams),
        caveats: |hparams| {
            let is_partial = hparams.get("rotary_dim").and_then(Json::as_u64) != hparams.head_dim().ok();
            let text =
                "transformers rotates all dimensions of a head; the file states `rotary_dim` of the config";
            (MINIMAX_01.caveats)(hparams).into_iter().chain(is_partial.then(|| text.to_owned())).collect()
        },
        ..MINIMAX_01
    };

/// The keys of MiniMax-Text-01.
fn prepare(hparams: &Hparams) -> Result<Hparams, ArchError> {
    let kinds = hparams.get("layer_types").ok_or_else(|| missing("layer_types"))?;
    let is_full = kinds.as_array().into_iter().flatten().map(|kind| match kind.as_str() {
        Some("full_attention") => Ok(1.into()),
        Some("linear_attention") => Ok(0.into()),
        _ => Err(bad("layer_types", kind, "`full_attention` or `linear_attention`")),
    });
    let mut named = hparams.with("attn_type_list", is_full.collect::<Result<Vec<Json>, _>>()?.into());
    for (part, own) in [("full_attention", "full_attn"), ("linear_attention", "linear_attn"), ("mlp", "mlp")]
    {
        for factor in ["alpha", "beta"] {
            let value = hparams.get(&format!("{own}_{factor}_factor")).cloned().unwrap_or(1.into());
            named = named.with(&format!("layernorm_{part}_{factor}"), value);
        }
    }
    let rotated = hparams.get_u64("rotary_dim")?.map_or_else(|| hparams.head_dim(), Ok)?;
    Ok(named.with("rotary_dim", rotated.into()))
}
