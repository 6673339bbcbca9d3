//! The convolution of LFM2: gated before and after, over a few tokens.
//!
//! ```text
//! [b_t, c_t, x_t] = W_in h_t             n_embd each
//! y_t = W_out (c_t * conv(b * x)_t)      * element by element; conv over the last `shortconv.l_cache` tokens
//! ```
//!
//! In models with bidirectional attention (`attention.causal` false) the convolution sees later tokens, too.
//!
//! Source: `build_shortconv_block` in `src/models/lfm2.cpp` of llama.cpp (llama-cpp-python 0.3.36).

use super::{Mixer, conv::CausalConv};
use crate::{
    Error,
    decoder::{linear::Linear, params::DecoderParams},
    keys::Keys,
    ops::Rows,
    pass::Pass,
    state_size::StateSize,
    weights::Weights,
};

pub(in crate::decoder) struct ShortConv {
    /// To b, c and x.
    w_in: Linear,
    conv: CausalConv,
    w_out: Linear,
    n_embd: usize,
}

impl ShortConv {
    pub fn open(
        params: &DecoderParams,
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        i: usize,
    ) -> Result<ShortConv, Error> {
        let blk = |name: &str| format!("blk.{i}.shortconv.{name}");
        let n_embd = params.n_embd;
        let length = "shortconv.l_cache";
        let conv = CausalConv::open(keys, length, weights, &blk("conv"), n_embd)?;
        let is_causal = keys.flag("attention.causal", true)?;
        Ok(ShortConv {
            w_in: Linear::need(weights, &blk("in_proj"), n_embd, 3 * n_embd)?,
            conv: if is_causal { conv } else { conv.centred(keys, length)? },
            w_out: Linear::need(weights, &blk("out_proj"), n_embd, n_embd)?,
            n_embd,
        })
    }
}

impl Mixer for ShortConv {
    fn row_floats(&self) -> usize {
        5 * self.n_embd
    }

    fn state_size(&self) -> StateSize {
        // Where tokens see later ones, all are run at once and nothing is kept.
        StateSize {
            rows: self.conv.kept_elems(self.n_embd),
            graph_floats: 5 * self.n_embd,
            ..StateSize::default()
        }
    }

    fn run(&self, index: usize, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = self.n_embd;
        let all = self.w_in.run(h, pass);
        let mut bx = pass.columns(&all, 0..n);
        let c = pass.columns(&all, n..2 * n);
        *bx *= &all.slice(ndarray::s![.., 2 * n..]);
        drop(all);
        let mut y = self.conv.run(index, &bx, pass);
        y *= &c;
        self.w_out.run(&y, pass)
    }
}
