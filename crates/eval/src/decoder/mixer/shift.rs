//! What the RWKV families share: mixing of each token with the one before, and the feed-forward part
//! that begins so.
//!
//! Source: `build_rwkv6_channel_mix` and `build_rwkv7_channel_mix` in `src/models/rwkv6-base.cpp` and
//! `rwkv7-base.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use rayon::prelude::*;

use super::{CHANNEL_SHIFTED, need_vector};
use crate::{
    Error,
    decoder::{Shape, linear::Linear},
    graph::Pass,
    keys::Keys,
    ops::{Activation, Rows, sigmoid},
    weights::Weights,
};

/// How far the token before is from each: x (n, width) -> (n, width). Before the first are zeros.
pub(super) fn before(index: usize, part: usize, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
    let width = x.ncols();
    let mut lasts = pass.recall(index, part, width);
    let mut distance = pass.take(x.nrows(), width);
    let all = x.as_slice().expect("activations are contiguous");
    let out = distance.as_slice_mut().expect("activations are contiguous");
    for (window, last) in pass.windows().into_iter().zip(&mut lasts) {
        let cells = window.start * width..window.end * width;
        let rows = &all[cells.clone()];
        out[cells].par_chunks_mut(width).zip(rows.par_chunks(width)).enumerate().for_each(
            |(t, (out, row))| {
                let before = if t == 0 { &last[..] } else { &rows[(t - 1) * width..t * width] };
                for ((out, before), x) in out.iter_mut().zip(before).zip(row) {
                    *out = before - x;
                }
            },
        );
        if !window.is_empty() {
            last.copy_from_slice(&rows[rows.len() - width..]);
        }
    }
    pass.remember(index, part, lasts);
    distance
}

/// `x + distance * share`: (n, width).
pub(super) fn mixed(x: &Rows, distance: &Rows, share: &[f32], pass: &mut Pass<'_, '_>) -> Rows {
    let width = x.ncols();
    let mut mixed = pass.take(x.nrows(), width);
    let rows = x.as_slice().expect("activations are contiguous").par_chunks(width);
    let distances = distance.as_slice().expect("activations are contiguous").par_chunks(width);
    let out = mixed.as_slice_mut().expect("activations are contiguous");
    out.par_chunks_mut(width).zip(rows).zip(distances).for_each(|((out, x), distance)| {
        for (((out, x), distance), share) in out.iter_mut().zip(x).zip(distance).zip(share) {
            *out = x + distance * share;
        }
    });
    mixed
}

/// How much of the token before goes into a mix; RWKV 4 stores how much of the token itself does.
pub(super) fn need_shares(
    keys: &Keys<'_>,
    weights: &mut Weights<'_>,
    name: String,
    n: usize,
) -> Result<Vec<f32>, Error> {
    let mut shares = need_vector(weights, name, n)?;
    if keys.architecture == "rwkv" {
        shares.iter_mut().for_each(|share| *share = 1.0 - *share);
    }
    Ok(shares)
}

/// Every element through a function.
pub(super) fn map(rows: &mut Rows, f: impl Fn(f32) -> f32 + Sync) {
    let width = rows.ncols().max(1);
    let all = rows.as_slice_mut().expect("activations are contiguous");
    all.par_chunks_mut(width * 8).for_each(|rows| rows.iter_mut().for_each(|x| *x = f(*x)));
}

/// The feed-forward part of RWKV.
pub(in crate::decoder) struct ChannelMix {
    /// (n_embd): how much of the token before goes into keys.
    key_share: Vec<f32>,
    key: Linear,
    value: Linear,
    /// How much of the token before goes into gates of the output, and those.
    receptance: Option<(Vec<f32>, Linear)>,
}

impl ChannelMix {
    /// Of layer `i`, if it has one.
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<ChannelMix>, Error> {
        let blk = |name: &str| format!("blk.{i}.channel_mix_{name}");
        let n_embd = shape.n_embd;
        let Some(n_ff) = weights.shape(&blk("key.weight")).map(|shape| shape.dim(1) as usize) else {
            return Ok(None);
        };
        let receptance = match Linear::open(weights, &blk("receptance"), n_embd, n_embd)? {
            None => None,
            Some(linear) => Some((need_shares(keys, weights, blk("lerp_r.weight"), n_embd)?, linear)),
        };
        Ok(Some(ChannelMix {
            key_share: need_shares(keys, weights, blk("lerp_k.weight"), n_embd)?,
            key: Linear::need(weights, &blk("key"), n_embd, n_ff)?,
            value: Linear::need(weights, &blk("value"), n_ff, n_embd)?,
            receptance,
        }))
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        self.key.weight.n_out + 4 * self.key.weight.n_in
    }

    /// `h (n, n_embd) -> (n, n_embd)`.
    pub fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let distance = before(index, CHANNEL_SHIFTED, h, pass);
        let x = mixed(h, &distance, &self.key_share, pass);
        let mut key = self.key.run(&x, pass);
        pass.give(x);
        Activation::ReluSquared.apply(&mut key);
        let mut out = self.value.run(&key, pass);
        pass.give(key);
        if let Some((share, receptance)) = &self.receptance {
            let x = mixed(h, &distance, share, pass);
            let mut gate = receptance.run(&x, pass);
            pass.give(x);
            map(&mut gate, sigmoid);
            out *= &gate;
            pass.give(gate);
        }
        pass.give(distance);
        out
    }
}
