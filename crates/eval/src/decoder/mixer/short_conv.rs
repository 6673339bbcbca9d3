//! The convolution of LFM2: gated before and behind, over a few tokens.
//!
//! Source: `build_shortconv_block` in `src/models/lfm2.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, conv::CausalConv};
use crate::{
    Error,
    decoder::{Shape, linear::Linear},
    graph::Pass,
    keys::Keys,
    ops::Rows,
    weights::Weights,
};

pub(super) struct ShortConv {
    /// To gates before, gates behind, and what goes in.
    input: Linear,
    conv: CausalConv,
    output: Linear,
    n_embd: usize,
}

impl ShortConv {
    pub fn open(
        shape: &Shape,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<ShortConv, Error> {
        let blk = |name: &str| format!("blk.{i}.shortconv.{name}");
        let n_embd = shape.n_embd;
        Ok(ShortConv {
            input: Linear::need(weights, &blk("in_proj"), n_embd, 3 * n_embd)?,
            conv: CausalConv::open(keys, "shortconv.l_cache", weights, &blk("conv"), n_embd)?,
            output: Linear::need(weights, &blk("out_proj"), n_embd, n_embd)?,
            n_embd,
        })
    }
}

impl Mixer for ShortConv {
    fn row_floats(&self) -> usize {
        5 * self.n_embd
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = self.n_embd;
        let all = self.input.run(h, pass);
        let mut x = pass.take_columns(&all, 0..n);
        let gate = pass.take_columns(&all, n..2 * n);
        x *= &all.slice(ndarray::s![.., 2 * n..]);
        pass.give(all);
        let mut convolved = self.conv.run(index, &x, pass);
        convolved *= &gate;
        let out = self.output.run(&convolved, pass);
        for rows in [x, gate, convolved] {
            pass.give(rows);
        }
        out
    }
}
