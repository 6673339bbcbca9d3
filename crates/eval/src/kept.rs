//! What a part of a layer keeps of a sequence, and what it takes to run it: counted, without a single value.

/// What one part of a layer keeps of a sequence, in elements.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Kept {
    /// Of the key of each token, over all heads of the layer.
    pub keys: usize,
    /// Of its value; 0 where values are a part of the keys (latent attention).
    pub values: usize,
    /// Tokens whose keys and values are seen; all of them where there is no window.
    pub window: Option<usize>,
    /// Of the last rows that a convolution or a token shift looks back on, however long the sequence is.
    pub rows: usize,
    /// Of the state of a recurrence, however long the sequence is.
    pub state: usize,
    /// Floats for each token that llama.cpp's graph of the part has allocated at once, about; its input is not among them.
    pub graph_floats: usize,
}
