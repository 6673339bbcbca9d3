//! The parts of a layer that let tokens see earlier ones: attention, state spaces, recurrences,
//! convolutions.

mod conv;
mod delta_net;
mod kda;
mod mamba;
mod mamba2;
mod mamba_by_head;
mod matrix;
mod rwkv4;
mod rwkv6;
mod rwkv7;
mod scan;
mod shift;
mod short_conv;

use crate::{Error, keys::Keys, ops::Rows, pass::Pass, state_size::StateSize};
pub(super) use {
    conv::{CausalConv, Kept},
    delta_net::DeltaNet,
    kda::Kda,
    mamba::Mamba,
    mamba_by_head::MambaByHead,
    mamba2::Mamba2,
    matrix::Matrix,
    rwkv4::TimeMix4,
    rwkv6::TimeMix6,
    rwkv7::TimeMix7,
    shift::ChannelMix,
    short_conv::ShortConv,
};

/// One such part. It takes its states from a pass and puts them back, so that sessions work.
pub(super) trait Mixer: Send + Sync {
    /// Floats that are alive at once for each token, about.
    fn row_floats(&self) -> usize;

    /// State per sequence.
    fn state_size(&self) -> StateSize;

    /// State that is visible in another way than that of [`Mixer::state_size`].
    fn more_state(&self) -> Option<StateSize> {
        None
    }

    /// `h (n, n_embd) -> (n, n_embd)`, in layer `index`.
    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows;

    /// The backward pass, if it is supported.
    fn backward(&self) -> Option<&dyn Backward> {
        None
    }
}

/// A part of a layer that gradients find back through.
pub(super) trait Backward {
    /// `h` (n, n_embd) went in: gradients of what came out, (n, n_embd), become those of `h`. The observer is shown the
    /// gradients of what comes out of each matrix.
    fn backward(&self, h: &Rows, gradients: Rows, pass: &mut Pass<'_, '_>) -> Rows;
}

/// A count above 0 that must be there.
fn need_size(keys: &Keys<'_>, key: &str) -> Result<usize, Error> {
    let size = keys.need_count(key)?;
    if size == 0 { Err(keys.wrong(key, "an integer above 0")) } else { Ok(size) }
}

/// Elements of a state that no tensor is as large as; the key's size is one of both factors.
fn need_state(keys: &Keys<'_>, key: &str, d_inner: usize, size: usize) -> Result<usize, Error> {
    /// A gigabyte for one layer; known models have 16 MB.
    const MOST: usize = 1 << 28;
    let elems = d_inner.checked_mul(size).filter(|elems| *elems <= MOST);
    elems.ok_or_else(|| keys.wrong(key, "a size with which a state has at most 2^28 elements"))
}
