//! The parts of a layer that let tokens see earlier ones: attention, state spaces, recurrences,
//! convolutions.

mod conv;
mod delta_net;
mod mamba;
mod mamba2;
mod rwkv4;
mod rwkv6;
mod rwkv7;
mod shift;
mod short_conv;

use super::{Shape, attention::Attention, latent::Latent};
use crate::{Error, graph::Pass, keys::Keys, ops::Rows, weights::Weights};
use delta_net::DeltaNet;
use mamba::Mamba;
use mamba2::Mamba2;
use rwkv4::TimeMix4;
use rwkv6::TimeMix6;
use rwkv7::TimeMix7;
pub(super) use shift::ChannelMix;
use short_conv::ShortConv;

/// One such part.
pub(super) trait Mixer: Send + Sync {
    /// Floats that are alive at once for each token, about.
    fn row_floats(&self) -> usize;

    /// `h (n, n_embd) -> (n, n_embd)`, in layer `index`.
    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows;
}

impl Mixer for Attention {
    fn row_floats(&self) -> usize {
        Attention::row_floats(self)
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        Attention::run(self, index, h, pass)
    }
}

impl Mixer for Latent {
    fn row_floats(&self) -> usize {
        Latent::row_floats(self)
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        Latent::run(self, index, h, pass)
    }
}

/// The parts of layer `i`, by the tensors that are there; what they give adds up.
pub(super) fn open_all(
    shape: &Shape,
    keys: &Keys<'_>,
    weights: &mut Weights<'_>,
    i: usize,
) -> Result<Vec<Box<dyn Mixer>>, Error> {
    let has = |weights: &Weights<'_>, name: &str| weights.shape(&format!("blk.{i}.{name}.weight")).is_some();
    let mut mixers: Vec<Box<dyn Mixer>> = Vec::new();
    if has(weights, "time_mix_w0") {
        mixers.push(Box::new(TimeMix7::open(shape, keys, weights, i)?));
    } else if has(weights, "time_mix_w1") {
        mixers.push(Box::new(TimeMix6::open(shape, keys, weights, i)?));
    } else if has(weights, "time_mix_key") {
        mixers.push(Box::new(TimeMix4::open(shape, keys, weights, i)?));
    } else if has(weights, "ssm_ba") {
        mixers.push(Box::new(DeltaNet::open(shape, keys, weights, i)?));
    } else if has(weights, "ssm_x") {
        mixers.push(Box::new(Mamba::open(shape, keys, weights, i)?));
    } else if has(weights, "ssm_in") {
        mixers.push(Box::new(Mamba2::open(shape, keys, weights, i)?));
    } else if has(weights, "shortconv.conv") {
        mixers.push(Box::new(ShortConv::open(shape, keys, weights, i)?));
    }
    if mixers.is_empty() || has(weights, "attn_output") {
        mixers.push(match Latent::open(shape, keys, weights, i)? {
            Some(latent) => Box::new(latent),
            None => Box::new(Attention::open(shape, keys, weights, i)?),
        });
    }
    Ok(mixers)
}

/// Parts of a layer that remember something of their own.
const STATE: usize = 0;
const CONVOLVED: usize = 1;
const SHIFTED: usize = 2;
const CHANNEL_SHIFTED: usize = 3;

/// A vector that must be there.
fn need_vector(weights: &mut Weights<'_>, name: String, n: usize) -> Result<Vec<f32>, Error> {
    weights.vector(&name, n)?.ok_or(Error::MissingTensor { name })
}

/// A count above 0 that must be there.
fn need_size(keys: &Keys<'_>, key: &str) -> Result<usize, Error> {
    let size = keys.need_count(key)?;
    if size == 0 { Err(keys.wrong(key, "a count above 0")) } else { Ok(size) }
}

/// Elements of a state that no tensor is as large as; the key's size is one of both factors.
fn need_state(keys: &Keys<'_>, key: &str, d_inner: usize, size: usize) -> Result<usize, Error> {
    /// A gigabyte for one layer; known models have 16 MB.
    const MOST: usize = 1 << 28;
    let elems = d_inner.checked_mul(size).filter(|elems| *elems <= MOST);
    elems.ok_or_else(|| keys.wrong(key, "a size with which a state has at most 2^28 elements"))
}
