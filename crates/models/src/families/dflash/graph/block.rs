//! Parts for blocks of tokens: convolutions, and two ways to choose a token by the previous one.

use gguf_runtime::{
    draft::largest,
    graphs::{Error, Head, Keys, Linear, Pass, Rows, Weight, Weights},
};

/// The likeliest token of a row of logits.
pub(super) fn likeliest(row: &[f32]) -> usize {
    largest(row) as usize
}

/// A matrix of vectors for tokens: (n_tokens, rank).
fn vectors(weights: &mut Weights<'_>, name: &str, n_tokens: usize) -> Result<Option<Weight>, Error> {
    let rank = weights.shape(name).map_or(0, |shape| shape.dim(0) as usize);
    weights.matrix(name, rank, n_tokens)
}

/// Two convolutions over the rows of a block, with kernels that are computed from its rows: `(b_i + [W x]_(t, i)) x_(t - i)`, summed
/// over i. Rows before the block are zeros.
pub(super) struct Conv {
    /// b: (2, kernel, n_embd).
    base: Vec<f32>,
    /// W: (2 kernel groups, n_embd).
    projection: Linear,
    kernel: usize,
    group: usize,
}

impl Conv {
    /// Reads `NAME_conv_base` and `NAME_conv_proj`, if the file has them.
    pub fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        name: &str,
        n_embd: usize,
    ) -> Result<Option<Conv>, Error> {
        if weights.shape(&format!("{name}_conv_proj.weight")).is_none() {
            return Ok(None);
        }
        let (kernel, group) = (keys.need_count("conv_kernel_size")?, keys.need_count("conv_group_size")?);
        if kernel == 0 {
            return Err(keys.wrong("conv_kernel_size", "1 or more"));
        }
        if group == 0 || !n_embd.is_multiple_of(group) {
            return Err(keys.wrong("conv_group_size", "a divisor of the embedding length"));
        }
        let n_kernels = kernel.saturating_mul(2);
        Ok(Some(Conv {
            base: weights.need_vector(&format!("{name}_conv_base"), n_kernels.saturating_mul(n_embd))?,
            projection: Linear::need(
                weights,
                &format!("{name}_conv_proj"),
                n_embd,
                n_kernels.saturating_mul(n_embd / group),
            )?,
            kernel,
            group,
        }))
    }

    /// `h (n, n_embd) -> W h (n, 2 kernel groups)`.
    pub fn kernels(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        self.projection.run(h, pass)
    }

    /// The first (0) or second (1) convolution of rows (n, n_embd).
    pub fn run(&self, which: usize, x: &Rows, kernels: &Rows) -> Rows {
        let n_embd = x.ncols();
        let n_groups = n_embd / self.group;
        let mut out = Rows::zeros(x.nrows(), n_embd);
        for t in 0..x.nrows() {
            for i in 0..self.kernel.min(t + 1) {
                let base = &self.base[(which * self.kernel + i) * n_embd..][..n_embd];
                for (c, base) in base.iter().enumerate() {
                    let own = kernels[[t, (which * self.kernel + i) * n_groups + c / self.group]];
                    out[[t, c]] += (base + own) * x[[t - i, c]];
                }
            }
        }
        out
    }
}

/// Adds `W_2 w_1[d]` to the logits of the token after d.
pub(super) struct Markov {
    /// w_1: (n_vocab, rank).
    of_token: Weight,
    /// W_2: (n_own_vocab, rank).
    to_logits: Head,
}

impl Markov {
    /// Reads the matrices, if the file has them. The confidence head is checked but not used: greedy decoding does not need it.
    pub fn open(
        weights: &mut Weights<'_>,
        n_embd: usize,
        n_vocab: usize,
        n_own: usize,
    ) -> Result<Option<Markov>, Error> {
        let Some(of_token) = vectors(weights, "markov_w1.weight", n_vocab)? else { return Ok(None) };
        let rank = of_token.n_in;
        let weight = weights.need_matrix("markov_w2.weight", rank, n_own)?;
        weights.matrix("conf_proj.weight", n_embd.saturating_add(rank), 1)?;
        weights.vector("conf_proj.bias", 1)?;
        Ok(Some(Markov { of_token, to_logits: Head { weight, bias: None, scale: 1.0, soft_cap: None } }))
    }

    /// Adds to `row` (n_own_vocab), the logits of the token after `before`.
    pub fn add(&self, before: u32, row: &mut [f32]) {
        let from = Rows::from_vec(1, self.of_token.n_in, self.of_token.row(before as usize));
        let bias = self.to_logits.apply(&from);
        row.iter_mut().zip(bias.as_slice()).for_each(|(logit, bias)| *logit += bias);
    }
}

/// Chooses among the likeliest tokens of each row by the token chosen before.
pub(super) struct Selector {
    /// previous: (n_vocab, rank).
    previous: Weight,
    /// next: (n_vocab, rank).
    next: Weight,
    /// W_s: (rank, n_embd).
    of_row: Head,
    top_k: usize,
}

impl Selector {
    /// Reads the matrices, if the file has them.
    pub fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        n_embd: usize,
        n_vocab: usize,
    ) -> Result<Option<Selector>, Error> {
        let Some(weight) = weights.matrix_of_any_rows("selector_hidden.weight", n_embd)? else {
            return Ok(None);
        };
        let top_k = keys.need_count("selector_top_k")?;
        if top_k == 0 || top_k > n_vocab {
            return Err(keys.wrong("selector_top_k", "a number from 1 to the number of tokens"));
        }
        let rank = weight.n_out;
        Ok(Some(Selector {
            previous: weights.need_matrix("selector_predecessor.weight", rank, n_vocab)?,
            next: weights.need_matrix("selector_successor.weight", rank, n_vocab)?,
            of_row: Head { weight, bias: None, scale: 1.0, soft_cap: None },
            top_k,
        }))
    }

    /// One token for each row of logits, of which `x` (n, n_embd) are the rows before the output matrix.
    pub fn choose<'a>(&self, last: u32, logits: impl Iterator<Item = &'a [f32]>, x: &Rows) -> Vec<u32> {
        let gates = self.of_row.apply(x);
        let rank = gates.ncols().max(1);
        let mut before = last;
        let chosen = logits.zip(gates.as_slice().chunks(rank)).map(|(logits, gate)| {
            let mut ids: Vec<usize> = (0..logits.len()).collect();
            ids.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
            let from: Vec<f32> =
                self.previous.row(before as usize).iter().zip(gate).map(|(a, b)| a * b).collect();
            let scores = ids[..self.top_k].iter().map(|id| {
                let to = self.next.row(*id);
                logits[*id] + to.iter().zip(&from).map(|(a, b)| a * b).sum::<f32>()
            });
            before = ids[likeliest(&scores.collect::<Vec<_>>())] as u32;
            before
        });
        chosen.collect()
    }
}
