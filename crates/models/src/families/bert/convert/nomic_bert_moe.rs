//! Nomic embeddings 2: every other layer has a mixture of experts.
//!
//! Config keys: those of Nomic embeddings 1; how often a mixture comes, experts that are used.
//!
//! Transforms: experts of a layer follow each other in one matrix, which becomes three dimensions; the second of their two
//! matrices is transposed. The bias that all experts of a layer share is left out, like the reference.
//!
//! Source: `NomicBertModel` in `conversion/bert.py`.

use crate::families::bert::convert::nomic_bert::{self, NOMIC_BERT};
use crate::prelude::*;

pub const NOMIC_BERT_MOE: Arch = Arch {
    name: "nomic-bert-moe",
    fits: Some(|input| {
        input.config.get("moe_every_n_layers").and_then(Json::as_u64).is_some_and(|every| every > 0)
    }),
    example: "nomic-ai/nomic-embed-text-v2-moe",
    tensors: &[nomic_bert::EMBEDDINGS, nomic_bert::LAYERS, DENSE, EXPERTS],
    keys: |hparams, keys| {
        nomic_bert::keys_of(hparams, keys, true)?;
        // Positions of XLM-RoBERTa's tokenizer start after the padding position.
        let length = hparams.need_u64(&["max_position_embeddings"])?;
        let before = hparams.get_u64("pad_token_id")?.unwrap_or(0).saturating_add(1);
        keys.set_derived("context_length", "max_position_embeddings", length.saturating_sub(before))?;
        keys.needed("moe_every_n_layers", hparams, &["moe_every_n_layers"])?;
        keys.needed("expert_used_count", hparams, &["moe_top_k"])
    },
    drops: |hparams, name| {
        let bias = name.contains("mlp.experts.bias");
        bias.then_some(drops::NO_BIAS).or_else(|| (NOMIC_BERT.drops)(hparams, name))
    },
    export: Export::NotExportable("the bias of its experts is not stored"),
    ..NOMIC_BERT
};

const DENSE: &[TensorRule] = &[
    TensorRule::copy(&["encoder.layers.{bid}.mlp.fc1"], "blk.{bid}.ffn_up").need(IS_DENSE),
    TensorRule::copy(&["encoder.layers.{bid}.mlp.fc2"], "blk.{bid}.ffn_down").need(IS_DENSE),
];

const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["encoder.layers.{bid}.mlp.router.layer"], "blk.{bid}.ffn_gate_inp").need(MIXES),
    TensorRule::copy(&["encoder.layers.{bid}.mlp.experts.mlp.w1"], "blk.{bid}.ffn_up_exps")
        .bare(".weight")
        .shape(BY_EXPERT)
        .need(MIXES),
    // Stored like w1, (inner, width) for each expert, so this one has to be turned.
    TensorRule::transposed(&["encoder.layers.{bid}.mlp.experts.mlp.w2"], "blk.{bid}.ffn_down_exps", turned)
        .bare(".weight")
        .need(MIXES),
];

/// A dimension for the experts, whose rows follow each other.
const BY_EXPERT: Reshape = Reshape {
    forward: |hparams, dims| {
        let rows = hparams.need_u64(&["n_inner", "intermediate_size"])?.max(1);
        // Fastest first: [width, experts * inner] becomes [width, inner, experts].
        Ok(vec![dims.first().copied().unwrap_or(0), rows, dims.iter().skip(1).product::<u64>() / rows])
    },
    inverse: rules::flat_rows,
};

/// (inner, width) of each expert becomes (width, inner).
fn turned(hparams: &Hparams, _: &Shape) -> Result<Transposed, ArchError> {
    let rows = hparams.need_u64(&["n_inner", "intermediate_size"])?;
    Ok(Transposed { matrix: Matrix { group: rows, start: 0 }, rows, columns: RowMap::Concat })
}

const MIXES: Need = Need::If(is_mixture);
const IS_DENSE: Need = Need::If(|hparams, bid| !is_mixture(hparams, bid));

/// The second of every N layers is a mixture.
fn is_mixture(hparams: &Hparams, bid: u64) -> bool {
    let every = hparams.get_u64("moe_every_n_layers").ok().flatten().unwrap_or(0);
    // With 2: layers 1, 3, 5 and so on. With 0: none.
    bid.checked_rem(every) == Some(1)
}
