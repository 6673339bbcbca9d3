//! Layers that look at their own rows and then at what an encoder made, as T5 and Whisper have them; norms
//! come before what they are for.

use crate::{
    Error,
    decoder::{Linear, Mlp},
    graph::Pass,
    ops::{Attention, Mask, Norm, Rows, add_scaled},
    weights::Weights,
};

pub(super) struct Layer {
    pub attention_norm: Norm,
    pub attention: Projections,
    /// Attention to what the encoder made.
    pub cross: Option<(Norm, Projections)>,
    pub mlp_norm: Norm,
    pub mlp: Mlp,
}

pub(super) struct Projections {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
}

/// Heads that are the same in all layers, each with keys and values of its own.
#[derive(Clone, Copy)]
pub(super) struct Heads {
    pub n_head: usize,
    pub key_width: usize,
    pub value_width: usize,
    /// What products of query and key are multiplied with.
    pub scale: f32,
}

impl Heads {
    pub fn attention(self, mask: Mask) -> Attention<'static> {
        Attention {
            n_head: self.n_head,
            n_head_kv: self.n_head,
            key_width: self.key_width,
            value_width: self.value_width,
            scale: self.scale,
            soft_cap: None,
            mask,
            slopes: None,
            sinks: None,
            bias: None,
        }
    }
}

impl Projections {
    /// `NAME_q`, `NAME_k`, `NAME_v` and `NAME_` with what the output is called.
    pub fn open(
        weights: &mut Weights<'_>,
        name: &str,
        output: &str,
        n_embd: usize,
        heads: Heads,
    ) -> Result<Projections, Error> {
        let (n_key, n_value) = (heads.n_head * heads.key_width, heads.n_head * heads.value_width);
        let mut need = |part: &str, n_in: usize, n_out: usize| {
            Linear::need(weights, &format!("{name}_{part}"), n_in, n_out)
        };
        Ok(Projections {
            query: need("q", n_embd, n_key)?,
            key: need("k", n_embd, n_key)?,
            value: need("v", n_embd, n_value)?,
            output: need(output, n_value, n_embd)?,
        })
    }
}

impl Layer {
    /// Adds to `x` (n, n_embd) what the layer makes of it. `own` is how it looks at its rows and at those that a session
    /// remembers of layer `index`; `across` are keys and values of an encoder, seen whole.
    pub fn run(
        &self,
        index: usize,
        x: &mut Rows,
        own: &Attention<'_>,
        across: Option<&(Rows, Rows)>,
        pass: &mut Pass<'_, '_>,
    ) {
        let mut normed = pass.take(x.nrows(), x.ncols());
        self.attention_norm.apply_into(x, &mut normed);
        let Projections { query, key, value, output } = &self.attention;
        let [query, key, value] = Linear::run_all([query, key, value], &normed, pass);
        let seen = pass.attend(index, own, &query, key, value);
        let out = output.run(&seen, pass);
        add_scaled(x, 1.0, &out);
        [query, seen, out].into_iter().for_each(|rows| pass.give(rows));
        if let (Some((norm, cross)), Some((key, value))) = (&self.cross, across) {
            norm.apply_into(x, &mut normed);
            let query = cross.query.run(&normed, pass);
            let whole = Attention { mask: Mask::All, bias: None, ..*own };
            let seen = pass.attend_across(&whole, &query, key, value);
            let out = cross.output.run(&seen, pass);
            add_scaled(x, 1.0, &out);
            [query, seen, out].into_iter().for_each(|rows| pass.give(rows));
        }
        self.mlp_norm.apply_into(x, &mut normed);
        let made = self.mlp.run(&normed, pass);
        add_scaled(x, 1.0, &made);
        [normed, made].into_iter().for_each(|rows| pass.give(rows));
    }
}

/// Keys and values of the rows that an encoder made, for each layer.
pub(super) fn across(layers: &[Layer], encoded: &Rows, pass: &mut Pass<'_, '_>) -> Vec<(Rows, Rows)> {
    let cross = layers.iter().filter_map(|layer| layer.cross.as_ref());
    let project = |(_, cross): &(Norm, Projections)| {
        let [key, value] = Linear::run_all([&cross.key, &cross.value], encoded, pass);
        (key, value)
    };
    cross.map(project).collect()
}

/// Floats that are alive at once for each token, about.
pub(super) fn row_floats(layers: &[Layer], heads: Heads) -> usize {
    let mlp = layers.iter().map(|layer| layer.mlp.row_floats()).max().unwrap_or(0);
    mlp.max(heads.n_head * (2 * heads.key_width + 2 * heads.value_width))
}
