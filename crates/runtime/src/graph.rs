//! The graph interface: from tokens to rows, and from rows to logits.

use ndarray::{ArrayView2, ArrayViewMut2, Axis, parallel::prelude::*};

use crate::{
    Error,
    ops::{Product, Rows, mul_backward, multiply},
    pass::Pass,
    session::{Activations, Features, KeyValue},
    state_size::StateSize,
    weights::{Weight, Weights},
};

/// A model that turns tokens into rows.
pub trait Graph: Send + Sync {
    /// Rows of the wanted positions, ready for the output matrix: (n_wanted, n_embd).
    fn run(&self, pass: &mut Pass<'_, '_>) -> Result<Rows, Error>;

    /// Steps that a run can be cut into: one for a graph that is not cut.
    fn n_steps(&self) -> usize {
        1
    }

    /// Runs step `index` on the streams that the previous step left, each (n, n_embd): none before the first
    /// step; after the last, the one that [`Graph::run`] returns. Other data for later steps stays in the
    /// pass.
    fn step(&self, _index: usize, _streams: Vec<Rows>, pass: &mut Pass<'_, '_>) -> Result<Vec<Rows>, Error> {
        Ok(vec![self.run(pass)?])
    }

    /// The part that the backward pass does not support, if any.
    fn no_backward(&self) -> Option<&'static str> {
        Some("its graph")
    }

    /// Backward pass through step `index`: `entered` (n, n_embd) was the input, and gradients of the output,
    /// of the same shape, become those of the input. The observer receives the gradients at the output of
    /// each matrix.
    fn step_back(&self, _index: usize, _entered: Rows, gradients: Rows, _pass: &mut Pass<'_, '_>) -> Rows {
        gradients
    }

    /// State that the parts of each layer keep per sequence.
    fn state_sizes(&self) -> Vec<Vec<StateSize>>;

    /// True if embeddings of images may replace tokens.
    fn takes_pictures(&self) -> bool {
        false
    }

    /// True if an encoder reads the prompt and a decoder writes the answer, instead of continuing the prompt.
    fn is_encoder_decoder(&self) -> bool {
        false
    }

    /// Runs the encoder over a prompt, if there is one for text.
    fn encode(&self, _pass: &mut Pass<'_, '_>) -> Result<Option<Encoded>, Error> {
        Ok(None)
    }

    /// Bands and frames of the features that an encoder of sound takes, if there is one.
    fn audio_input(&self) -> Option<(usize, usize)> {
        None
    }

    /// Runs the encoder over features of the shape that [`Graph::audio_input`] gives: keys and values for each layer of
    /// the decoder. The pass has a row for every second frame.
    fn encode_audio(
        &self,
        _features: Features<'_>,
        _pass: &mut Pass<'_, '_>,
    ) -> Result<Vec<KeyValue>, Error> {
        Ok(Vec::new())
    }
}

/// A prompt that an encoder has read.
pub struct Encoded {
    /// Keys and values for each layer of the decoder.
    pub cross_kv: Vec<KeyValue>,
    /// The token that begins every answer.
    pub start: u32,
}

/// A graph with its output head and its sizes.
pub struct Prepared {
    /// From tokens to rows.
    pub graph: Box<dyn Graph>,
    /// `None` if the model predicts no tokens.
    pub head: Option<Head>,
    /// Tokens of the vocabulary.
    pub n_vocab: usize,
    /// Elements of a row.
    pub n_embd: usize,
    /// Floats that are alive at once for each token, about.
    pub row_floats: usize,
    /// True if a token sees only earlier tokens.
    pub is_causal: bool,
}

/// From a row to its logits: `logits = cap(scale * (W x + b))`, W (n_vocab, n_embd), `cap(z) = c tanh(z / c)`.
pub struct Head {
    /// (n_vocab, n_embd).
    pub weight: Weight,
    /// (n_vocab).
    pub bias: Option<Vec<f32>>,
    /// Factor of the logits.
    pub scale: f32,
    /// The bound `c` of the scaled logits.
    pub soft_cap: Option<f32>,
}

impl Head {
    /// `NAME.weight` with as many rows as are stored, and `NAME.bias`.
    pub fn layer(weights: &mut Weights<'_>, name: &str, n_in: usize) -> Result<Option<Head>, Error> {
        let stored = format!("{name}.weight");
        let n_out = weights.shape(&stored).map_or(0, |shape| shape.dim(1) as usize);
        let Some(weight) = weights.matrix(&stored, n_in, n_out)? else { return Ok(None) };
        let bias = weights.vector(&format!("{name}.bias"), n_out)?;
        Ok(Some(Head { weight, bias, scale: 1.0, soft_cap: None }))
    }

    /// `x (n, n_in) -> (n, n_out)`.
    pub fn apply(&self, x: &Rows) -> Rows {
        let mut out = Rows::zeros(x.nrows(), self.weight.n_out);
        self.run(x.view(), Activations::F32, out.view_mut());
        out
    }

    /// Backward pass: from `logits` (n, n_vocab) and gradients of the same shape, which are overwritten, to
    /// gradients of `x` (n, n_embd).
    pub fn backward(
        &self,
        logits: ArrayView2<'_, f32>,
        mut gradients: ArrayViewMut2<'_, f32>,
        out: ArrayViewMut2<'_, f32>,
    ) {
        let rows = gradients.axis_iter_mut(Axis(0)).into_par_iter().zip(logits.axis_iter(Axis(0)));
        rows.for_each(|(mut gradients, logits)| match self.soft_cap {
            // The slope of cap(z) by its value.
            Some(cap) => gradients.iter_mut().zip(logits).for_each(|(gradient, logit)| {
                *gradient *= self.scale * (1.0 - (logit / cap) * (logit / cap));
            }),
            None if self.scale == 1.0 => {}
            None => gradients *= self.scale,
        });
        // The bias is a sum, which gradients pass unchanged.
        mul_backward(gradients.view(), &self.weight, 0, false, out);
    }

    /// `x (n, n_embd) -> out (n, n_vocab)`.
    pub fn run(&self, x: ArrayView2<'_, f32>, activations: Activations, mut out: ArrayViewMut2<'_, f32>) {
        let product = Product { weight: &self.weight, index: 0, out: out.view_mut() };
        // The reference rounds what goes into the output matrix as into any other.
        multiply(activations == Activations::Rounded, x, vec![product]);
        if self.bias.is_none() && self.scale == 1.0 && self.soft_cap.is_none() {
            return;
        }
        out.axis_iter_mut(Axis(0)).into_par_iter().for_each(|mut row| {
            if let Some(bias) = &self.bias {
                row.iter_mut().zip(bias).for_each(|(x, bias)| *x += bias);
            }
            match self.soft_cap {
                Some(cap) => row.iter_mut().for_each(|x| *x = cap * libm::tanhf(*x * self.scale / cap)),
                None => row.iter_mut().for_each(|x| *x *= self.scale),
            }
        });
    }
}
