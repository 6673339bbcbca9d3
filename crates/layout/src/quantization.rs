//! Facts of an architecture that `llama-quantize` depends on and no metadata key states.
//!
//! Source: `load_arch_hparams` of the files in `src/models/`, and `src/llama-quant.cpp` of llama.cpp.

/// Facts of an architecture for the choice of types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quantization {
    /// `general.architecture`.
    pub architecture: &'static str,
    /// Layers, without MTP layers, of the model that the reference treats as a 70B.
    pub layers_of_70b: Option<u32>,
    /// True if such a model also needs grouped-query attention, and not exactly eight experts, to count as a 70B.
    pub only_grouped_70b: bool,
    /// True if a count of one expert means that the model has no experts.
    pub one_expert_is_none: bool,
    /// Layers that the reference counts although they have no tensors.
    pub layers: CountedLayers,
    /// True if stacks of matrices outside of feed-forward parts are not experts.
    pub only_feed_forward_has_experts: bool,
    /// True if the recipes have rules only for this architecture.
    pub has_own_rules: bool,
    /// Parts of the names of tensors that keep their type.
    pub kept: &'static [&'static str],
    /// Reason to keep their type.
    pub kept_because: &'static str,
    /// Parts of the names of tensors that no recipe takes below eight bits.
    pub eight_bits_at_least: &'static [&'static str],
}

/// Number of layers that the reference counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CountedLayers {
    /// The number in `block_count`.
    Blocks,
    /// One more than the blocks without MTP layers.
    OneMore,
    /// The blocks without MTP layers, times the value of this key.
    Repeated(&'static str),
}

impl Quantization {
    /// Facts of most architectures.
    pub const USUAL: Quantization = Quantization {
        architecture: "",
        layers_of_70b: None,
        only_grouped_70b: false,
        one_expert_is_none: false,
        layers: CountedLayers::Blocks,
        only_feed_forward_has_experts: false,
        has_own_rules: false,
        kept: &[],
        kept_because: "",
        eight_bits_at_least: &[],
    };
}

impl Default for &'static Quantization {
    fn default() -> &'static Quantization {
        &Quantization::USUAL
    }
}
