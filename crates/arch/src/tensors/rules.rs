//! The shape of a tensor table, and the parts that many architectures share.
//!
//! A row says how a tensor is called in the checkpoint and in the file, what happens to its
//! rows, and whether the model can do without it. Patterns leave out `.weight` and `.bias`;
//! `{bid}` stands for the layer and `{xid}` for the expert.

/// One row of a tensor table.
#[derive(Debug, Clone, Copy)]
pub struct TensorRule {
    /// Names in the checkpoint; the first is the one that transformers writes.
    pub hf: &'static [&'static str],
    /// Name in the GGUF file.
    pub gguf: &'static str,
    /// What happens to its rows.
    pub rows: RowRule,
    /// Whether there must be a `.weight`.
    pub need: Need,
}

/// What happens to the rows of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowRule {
    /// Nothing.
    Copy,
    /// Rotary halves are interleaved within each query head, for weight and bias.
    PermuteQ,
    /// Rotary halves are interleaved within each key head, for weight and bias.
    PermuteK,
    /// The matrices of all experts of a layer become one tensor of three dimensions. All rules
    /// with this value form one group: its tensors appear, in the order of the table, where
    /// the last of their sources was met.
    StackExperts,
}

/// Whether a model can do without a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It cannot.
    Always,
    /// It cannot, unless the config has experts.
    Dense,
    /// It cannot, if the config has experts.
    Experts,
    /// It can.
    Optional,
}

impl TensorRule {
    /// A row that copies and that the model needs.
    pub const fn copy(hf: &'static [&'static str], gguf: &'static str) -> TensorRule {
        TensorRule { hf, gguf, rows: RowRule::Copy, need: Need::Always }
    }

    /// This row with another need.
    pub const fn need(self, need: Need) -> TensorRule {
        TensorRule { need, ..self }
    }

    /// This row with something happening to its rows.
    pub const fn rows(self, rows: RowRule) -> TensorRule {
        TensorRule { rows, ..self }
    }
}

/// Embedding, final norm and output of the decoders that name their parts as llama does. The
/// output is absent where it is tied to the embedding; where a tied checkpoint holds it all the
/// same, the reference writes it, and so do we.
pub const DECODER_ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

/// Norms before attention and before the feed-forward part.
pub const PRE_NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.ffn_norm"),
];

/// Separate Q, K, V and output projections whose rotary halves lie apart, as Hugging Face
/// stores llama, and which llama.cpp wants interleaved.
pub const ATTENTION_PERMUTED: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q").rows(RowRule::PermuteQ),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").rows(RowRule::PermuteK),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

/// A gated feed-forward part; absent in layers whose feed-forward part is a mixture.
pub const GATED_MLP: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.mlp.gate_proj"], "blk.{bid}.ffn_gate").need(Need::Dense),
    TensorRule::copy(&["model.layers.{bid}.mlp.up_proj"], "blk.{bid}.ffn_up").need(Need::Dense),
    TensorRule::copy(&["model.layers.{bid}.mlp.down_proj"], "blk.{bid}.ffn_down").need(Need::Dense),
];

/// The mixture of experts of Mixtral: a router, and w1 (gate), w2 (down), w3 (up) an expert.
pub const MIXTRAL_EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.gate"], "blk.{bid}.ffn_gate_inp")
        .need(Need::Experts),
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w1"], "blk.{bid}.ffn_gate_exps")
        .need(Need::Experts)
        .rows(RowRule::StackExperts),
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w2"], "blk.{bid}.ffn_down_exps")
        .need(Need::Experts)
        .rows(RowRule::StackExperts),
    TensorRule::copy(&["model.layers.{bid}.block_sparse_moe.experts.{xid}.w3"], "blk.{bid}.ffn_up_exps")
        .need(Need::Experts)
        .rows(RowRule::StackExperts),
];

/// Fills a pattern in.
pub fn fill(pattern: &str, bid: u64, xid: u64) -> String {
    pattern.replace("{bid}", &bid.to_string()).replace("{xid}", &xid.to_string())
}

/// The layer and expert that `name` has under `pattern`, if it matches. Numbers are decimal
/// without leading zeros; where the pattern has no such place they are 0.
pub fn parse(pattern: &str, name: &str) -> Option<(u64, u64)> {
    let (mut bid, mut xid) = (0, 0);
    let mut rest = name;
    let mut pieces = pattern.split('{');
    rest = rest.strip_prefix(pieces.next()?)?;
    for piece in pieces {
        let (place, literal) = piece.split_once('}')?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, after) = rest.split_at(digits);
        if number.len() > 1 && number.starts_with('0') {
            return None;
        }
        let number = number.parse().ok()?;
        if place == "bid" {
            bid = number;
        } else {
            xid = number;
        }
        rest = after.strip_prefix(literal)?;
    }
    rest.is_empty().then_some((bid, xid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_takes_what_fill_gives_and_nothing_near_it() {
        let pattern = "model.layers.{bid}.moe.experts.{xid}.w1";
        for (bid, xid) in [(0, 0), (7, 10), (123, 4)] {
            assert_eq!(parse(pattern, &fill(pattern, bid, xid)), Some((bid, xid)));
        }
        for name in [
            "model.layers.07.moe.experts.1.w1",
            "model.layers..moe.experts.1.w1",
            "model.layers.1.moe.experts.1.w12",
            "model.layers.1.moe.experts.1",
            "xmodel.layers.1.moe.experts.1.w1",
            "model.layers.99999999999999999999999.moe.experts.1.w1",
        ] {
            assert_eq!(parse(pattern, name), None, "{name}");
        }
        assert_eq!(parse("lm_head", "lm_head"), Some((0, 0)));
        assert_eq!(parse("lm_head", "lm_head2"), None);
    }
}
