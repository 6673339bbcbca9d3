//! The decoder's attention as a building block for other graphs.

use super::{attention::Attention, mixer::Mixer, params::DecoderParams, spec::Spec};
use crate::{Error, keys::Keys, ops::Rows, pass::Pass, weights::Weights};

/// The attention of a layer of the shared decoder.
pub struct SelfAttention(Attention);

impl SelfAttention {
    /// Reads the attention of layer `i` with the options of `spec`. Its input rows have `n_in` elements.
    ///
    /// # Errors
    /// The errors of reading a decoder: [`Error::Key`], [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        spec: Spec,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
        n_in: usize,
    ) -> Result<SelfAttention, Error> {
        let mut params = DecoderParams::read(spec, keys, weights)?;
        params.n_attention_in = n_in;
        Ok(SelfAttention(Attention::open(&params, keys, weights, i)?))
    }

    /// `h (n, n_in) -> (n, n_embd)`. Keys and values are kept for layer `index`.
    pub fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        self.0.run(index, h, pass)
    }

    /// Keeps the keys and values of `h` (n, n_in) for later runs of layer `index`, without a query.
    pub fn put(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) {
        self.0.put(index, h, pass);
    }
}
