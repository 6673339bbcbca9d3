//! State that a part of a layer keeps per sequence, and the memory for running it: sizes only.

/// State of one part of a layer per sequence, in elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StateSize {
    /// Key of each token, over all heads of the layer.
    pub keys: usize,
    /// Value of each token; 0 if values are a part of the keys (latent attention).
    pub values: usize,
    /// Tokens whose keys and values are visible; all without a sliding window.
    pub window: Option<usize>,
    /// Last rows that a convolution or a token shift needs, independent of the sequence length.
    pub rows: usize,
    /// State of a recurrence, independent of the sequence length.
    pub state: usize,
    /// Floats for each token that llama.cpp's graph of the part has allocated at once, about; its input is not among them.
    pub graph_floats: usize,
    /// Floats of the graph that do not depend on the number of tokens.
    pub fixed_floats: usize,
    /// Floats of the graph for each pair of a token and a token that it can see: scores that are not fused into flash attention.
    pub pair_floats: usize,
    /// True if tokens see the batch, not the cache, although there may be one.
    pub sees_batch: bool,
}
