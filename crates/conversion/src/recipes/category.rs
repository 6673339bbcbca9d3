//! Role of a tensor in recipes.

/// Role of a tensor in recipes, derived from its name.
///
/// Source: `tensor_get_category` in `src/llama-quant.cpp`, llama-cpp-python 0.3.36.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Category {
    /// The token embedding, or the embedding of each layer.
    TokenEmbd,
    /// Queries.
    AttnQ,
    /// Values.
    AttnV,
    /// Keys.
    AttnK,
    /// Fused queries, keys and values.
    AttnQkv,
    /// Keys and values from a latent.
    AttnKvB,
    /// The output projection of attention.
    AttnOutput,
    /// Feed-forward up, including experts and shared experts.
    FfnUp,
    /// Feed-forward gate, including experts and shared experts.
    FfnGate,
    /// Feed-forward down, including experts and shared experts.
    FfnDown,
    /// The output matrix.
    Output,
    /// Any other tensor.
    Other,
}

/// Parts of names, in order of precedence.
const PARTS: &[(&str, Category)] = &[
    ("attn_qkv.weight", Category::AttnQkv),
    ("attn_kv_b.weight", Category::AttnKvB),
    ("attn_v.weight", Category::AttnV),
    ("attn_k.weight", Category::AttnK),
    ("attn_q.weight", Category::AttnQ),
    ("attn_output.weight", Category::AttnOutput),
    ("ffn_up", Category::FfnUp),
    ("ffn_gate", Category::FfnGate),
    ("ffn_down", Category::FfnDown),
];

impl Category {
    /// The category of the tensor with this name.
    pub fn of(name: &str) -> Category {
        match name {
            "output.weight" => Category::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Category::TokenEmbd,
            // Names of biases and shared experts contain `ffn_up` too: the reference searches for parts.
            _ => PARTS.iter().find(|(part, _)| name.contains(part)).map_or(Category::Other, |row| row.1),
        }
    }

    /// True for tensors that produce attention values, which lose most at few bits (`category_is_attn_v`).
    pub const fn holds_values(self) -> bool {
        matches!(self, Category::AttnV | Category::AttnQkv | Category::AttnKvB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_determine_categories() {
        for (name, category) in [
            ("output.weight", Category::Output),
            ("token_embd.weight", Category::TokenEmbd),
            ("token_embd_norm.weight", Category::Other),
            ("blk.3.attn_v.weight", Category::AttnV),
            ("blk.3.attn_v.bias", Category::Other),
            ("blk.3.attn_v_b.weight", Category::Other),
            ("enc.blk.0.attn_k.weight", Category::AttnK),
            ("blk.0.ffn_gate_up_exps.weight", Category::FfnGate),
            ("blk.0.ffn_down_shexp.weight", Category::FfnDown),
            ("blk.0.ffn_up.bias", Category::FfnUp),
        ] {
            assert_eq!(Category::of(name), category, "{name}");
        }
    }
}
