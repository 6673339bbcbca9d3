//! Common part of the RWKV families: the token shift, and the feed-forward part (channel mix).
//!
//! ```text
//! d_t = x_(t-1) - x_t                          the token shift; x_(-1) is 0
//! lerp_mu(x_t) = x_t + mu * d_t                mu (n_embd)
//!
//! k = relu(W_k lerp_k(h))^2                    the channel mix: W_k (n_ff, n_embd)
//! y = sigmoid(W_r lerp_r(h)) * W_v k           W_v (n_embd, n_ff); RWKV 7 has no W_r, and y = W_v k
//! ```
//!
//! Source: `build_rwkv6_channel_mix` and `build_rwkv7_channel_mix` in `src/models/rwkv6-base.cpp` and
//! `rwkv7-base.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use rayon::prelude::*;

use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams, spec::Spec},
    ops::{Activation, Rows, sigmoid},
    pass::Pass,
    session::StateKind,
    state_size::StateSize,
    weights::Weights,
};

/// The distance to the token before, `d_t = x_(t-1) - x_t`: x (n, width) -> (n, width). Before the first are zeros.
pub(super) fn token_shift(index: usize, kind: StateKind, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
    let width = x.ncols();
    let mut lasts = pass.take_states(index, kind, width);
    let mut d = pass.scratch(x.nrows(), width);
    let (all, out) = (x.as_slice(), d.as_mut_slice());
    for (sequence, last) in pass.sequences().into_iter().zip(&mut lasts) {
        let cells = sequence.start * width..sequence.end * width;
        let rows = &all[cells.clone()];
        out[cells].par_chunks_mut(width).zip(rows.par_chunks(width)).enumerate().for_each(
            |(t, (out, row))| {
                // The token before the first of a sequence is what the session kept, or zeros.
                let before = if t == 0 { &last[..] } else { &rows[(t - 1) * width..t * width] };
                for ((out, before), x) in out.iter_mut().zip(before).zip(row) {
                    *out = before - x;
                }
            },
        );
        if !sequence.is_empty() {
            last.copy_from_slice(&rows[rows.len() - width..]);
        }
    }
    pass.put_states(index, kind, lasts);
    d
}

/// Linear interpolation with the token before, `x_t + mu * d_t`: (n, width), mu (width).
pub(super) fn lerp(x: &Rows, d: &Rows, mu: &[f32], pass: &mut Pass<'_, '_>) -> Rows {
    let width = x.ncols();
    let mut mixed = pass.scratch(x.nrows(), width);
    let (rows, distances) = (x.as_slice().par_chunks(width), d.as_slice().par_chunks(width));
    mixed.as_mut_slice().par_chunks_mut(width).zip(rows).zip(distances).for_each(|((out, x), d)| {
        for (((out, x), d), mu) in out.iter_mut().zip(x).zip(d).zip(mu) {
            *out = x + d * mu;
        }
    });
    mixed
}

/// Factors of an interpolation: `mu` is how much of the token before there is.
pub(super) fn need_lerp(
    spec: &Spec,
    weights: &mut Weights<'_>,
    name: &str,
    n: usize,
) -> Result<Vec<f32>, Error> {
    let mut mu = weights.need_vector(name, n)?;
    // RWKV 4 stores how much of the token itself there is: m x_t + (1 - m) x_(t-1).
    if spec.lerp_is_of_current {
        mu.iter_mut().for_each(|mu| *mu = 1.0 - *mu);
    }
    Ok(mu)
}

/// The feed-forward part of RWKV.
pub(in crate::decoder) struct ChannelMix {
    /// (n_embd).
    lerp_k: Vec<f32>,
    w_k: Linear,
    w_v: Linear,
    /// `lerp_r` (n_embd) and `W_r`.
    receptance: Option<(Vec<f32>, Linear)>,
}

impl ChannelMix {
    /// The channel mix of layer `i`, if it has one.
    pub fn open(
        params: &DecoderParams,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<Option<ChannelMix>, Error> {
        let blk = |name: &str| format!("blk.{i}.channel_mix_{name}");
        let n_embd = params.n_embd;
        // The tensor says the width: the key is not there in all files.
        let Some(n_ff) = weights.shape(&blk("key.weight")).map(|shape| shape.dim(1) as usize) else {
            return Ok(None);
        };
        let receptance = match Linear::open(weights, &blk("receptance"), n_embd, n_embd)? {
            None => None,
            Some(linear) => Some((need_lerp(&params.spec, weights, &blk("lerp_r.weight"), n_embd)?, linear)),
        };
        Ok(Some(ChannelMix {
            lerp_k: need_lerp(&params.spec, weights, &blk("lerp_k.weight"), n_embd)?,
            w_k: Linear::need(weights, &blk("key"), n_embd, n_ff)?,
            w_v: Linear::need(weights, &blk("value"), n_ff, n_embd)?,
            receptance,
        }))
    }

    /// Floats that are alive at once for each token, about.
    pub fn row_floats(&self) -> usize {
        self.w_k.weight.n_out + 4 * self.w_k.weight.n_in
    }

    /// State per sequence: one row.
    pub fn state_size(&self) -> StateSize {
        let (n_ff, n_embd) = (self.w_k.weight.n_out, self.w_k.weight.n_in);
        StateSize { rows: n_embd, graph_floats: n_ff + 4 * n_embd, ..StateSize::default() }
    }

    /// `h (n, n_embd) -> (n, n_embd)`.
    pub fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let d = token_shift(index, StateKind::ChannelTokenShift, h, pass);
        let x_k = lerp(h, &d, &self.lerp_k, pass);
        let mut k = self.w_k.run(&x_k, pass);
        drop(x_k);
        Activation::ReluSquared.apply(&mut k);
        let mut y = self.w_v.run(&k, pass);
        drop(k);
        if let Some((lerp_r, w_r)) = &self.receptance {
            let x_r = lerp(h, &d, lerp_r, pass);
            let mut r = w_r.run(&x_r, pass);
            r.map(sigmoid);
            y *= &r;
        }
        y
    }
}
