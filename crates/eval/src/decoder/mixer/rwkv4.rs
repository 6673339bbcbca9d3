//! The time mix of RWKV 4: a weighted mean of all values so far, for each element.
//!
//! Source: section 3.1 and appendix D of "RWKV: Reinventing RNNs for the Transformer Era"
//! (arXiv 2305.13048). llama.cpp does not run it.

use super::{Mixer, SHIFTED, STATE, need_vector, shift};
use crate::{
    Error,
    decoder::{Shape, linear::Linear},
    graph::Pass,
    keys::Keys,
    ops::{Rows, exp, recur, sigmoid},
    weights::Weights,
};

pub(super) struct TimeMix4 {
    /// (n_embd) each: how much of the token before goes into keys, values and gates.
    shares: [Vec<f32>; 3],
    key: Linear,
    value: Linear,
    receptance: Linear,
    /// (n_embd): the logarithm of how fast weights fade.
    decay: Vec<f32>,
    /// (n_embd): what is added to the key of the token itself.
    first: Vec<f32>,
    output: Linear,
}

/// Numbers that each element remembers: the sum of values and that of weights, both over the
/// exponential of the third.
const REMEMBERED: usize = 3;

impl TimeMix4 {
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<TimeMix4, Error> {
        let blk = |name: &str| format!("blk.{i}.time_mix_{name}");
        let n = shape.n_embd;
        let mut share =
            |name: &str| shift::need_shares(keys, weights, blk(&format!("lerp_{name}.weight")), n);
        let shares = [share("k")?, share("v")?, share("r")?];
        let mut vector = |name: &str| need_vector(weights, blk(&format!("{name}.weight")), n);
        Ok(TimeMix4 {
            shares,
            decay: vector("decay")?,
            first: vector("first")?,
            key: Linear::need(weights, &blk("key"), n, n)?,
            value: Linear::need(weights, &blk("value"), n, n)?,
            receptance: Linear::need(weights, &blk("receptance"), n, n)?,
            output: Linear::need(weights, &blk("output"), n, n)?,
        })
    }
}

impl Mixer for TimeMix4 {
    fn row_floats(&self) -> usize {
        6 * self.decay.len()
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let distance = shift::before(index, SHIFTED, h, pass);
        let mut project = |share: &[f32], linear: &Linear| {
            let x = shift::mixed(h, &distance, share, pass);
            let out = linear.run(&x, pass);
            pass.give(x);
            out
        };
        let key = project(&self.shares[0], &self.key);
        let value = project(&self.shares[1], &self.value);
        let mut y = project(&self.shares[2], &self.receptance);
        pass.give(distance);

        let n = self.decay.len();
        let mut states = pass.recall(index, STATE, n * REMEMBERED);
        recur(&pass.windows(), &mut states, n, &mut y, |c, rows, state, mut y| {
            let (fade, first) = (exp(self.decay[c]), self.first[c]);
            let [mut sum, mut weights, mut largest] = [state[0], state[1], state[2]];
            if weights == 0.0 {
                largest = f32::MIN;
            }
            for (t, mut y) in rows.zip(y.rows_mut()) {
                let (key, value) = (key[[t, c]], value[[t, c]]);
                let top = largest.max(first + key);
                let (old, new) = (exp(largest - top), exp(first + key - top));
                y[0] = sigmoid(y[0]) * (old * sum + new * value) / (old * weights + new);
                let top = (largest - fade).max(key);
                let (old, new) = (exp(largest - fade - top), exp(key - top));
                (sum, weights, largest) = (old * sum + new * value, old * weights + new, top);
            }
            state.copy_from_slice(&[sum, weights, largest]);
        });
        pass.remember(index, STATE, states);
        pass.give(key);
        pass.give(value);
        let out = self.output.run(&y, pass);
        pass.give(y);
        out
    }
}
