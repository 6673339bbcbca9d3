//! Layers with self-attention and, in a decoder, cross-attention to an encoder's rows, as T5 and Whisper have them.
//!
//! ```text
//! x = x + SelfAttention(norm(x))
//! x = x + CrossAttention(norm(x), E)     E (n_encoded, n_embd): queries of x, keys and values of E, all seen
//! x = x + MLP(norm(x))
//! ```

use crate::{
    Error,
    decoder::{Linear, Mlp},
    ops::{Attention, Mask, Norm, Rope, Rows},
    pass::Pass,
    session::KeyValue,
    state_size::StateSize,
    weights::Weights,
};

/// A layer.
pub struct Layer {
    /// Norm before self-attention.
    pub attention_norm: Norm,
    /// Self-attention.
    pub attention: Projections,
    /// Rotation of queries and keys of self-attention.
    pub rope: Option<Rope>,
    /// Cross-attention, in a decoder.
    pub cross: Option<(Norm, Projections)>,
    /// Norm before the feed-forward part.
    pub mlp_norm: Norm,
    /// The feed-forward part.
    pub mlp: Mlp,
}

/// Matrices of queries, keys and values, and that of the output.
pub struct Projections {
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
}

/// Heads, the same in all layers, each with its own keys and values.
#[derive(Clone, Copy)]
pub struct Heads {
    /// Heads.
    pub n_head: usize,
    /// Elements of a query or key of a head.
    pub key_width: usize,
    /// Elements of a value of a head.
    pub value_width: usize,
    /// Factor of the scores.
    pub scale: f32,
}

impl Heads {
    /// Attention with these heads.
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
            selected: None,
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
    /// Adds to `x` (n, n_embd) the layer's output. `own` is the form of its self-attention, to its rows and to
    /// those that a session keeps of layer `index`; `cross_kv` are keys and values of an encoder.
    pub fn run(
        &self,
        index: usize,
        x: &mut Rows,
        own: &Attention<'_>,
        cross_kv: Option<&KeyValue>,
        pass: &mut Pass<'_, '_>,
    ) {
        let mut normed = pass.scratch(x.nrows(), x.ncols());
        self.attention_norm.apply_into(x, &mut normed);
        let Projections { query, key, value, output } = &self.attention;
        let [mut query, mut key, value] = Linear::run_all([query, key, value], &normed, pass);
        if let Some(rope) = &self.rope {
            let cache = pass.rope_cache(rope);
            rope.apply(&mut [&mut query, &mut key], own.key_width, 0, &cache);
        }
        let attended = pass.attend(index, own, &query, key, value);
        x.add_scaled(1.0, &output.run(&attended, pass));
        drop((query, attended));

        if let (Some((norm, cross)), Some(cross_kv)) = (&self.cross, cross_kv) {
            norm.apply_into(x, &mut normed);
            let query = cross.query.run(&normed, pass);
            // The decoder sees all of what the encoder made, and distances to it mean nothing.
            let whole = Attention { mask: Mask::All, bias: None, ..*own };
            let attended = pass.cross_attend(&whole, &query, cross_kv);
            x.add_scaled(1.0, &cross.output.run(&attended, pass));
        }

        self.mlp_norm.apply_into(x, &mut normed);
        x.add_scaled(1.0, &self.mlp.run(&normed, pass));
    }
}

/// Keys and values for the cross-attention of each layer: of encoded rows (n_encoded, n_embd).
pub fn cross_kv(layers: &[Layer], encoded: &Rows, pass: &mut Pass<'_, '_>) -> Vec<KeyValue> {
    let cross = layers.iter().filter_map(|layer| layer.cross.as_ref());
    let project = |(_, cross): &(Norm, Projections)| {
        let [key, value] = Linear::run_all([&cross.key, &cross.value], encoded, pass);
        (key, value)
    };
    cross.map(project).collect()
}

/// State of each layer's parts per sequence; the encoder's output belongs to the prompt and is not counted. `own` states the rest
/// about the attention of a layer to itself.
pub fn state_sizes(layers: &[Layer], heads: Heads, own: StateSize) -> Vec<Vec<StateSize>> {
    // Each head has its own keys and values.
    let (keys, values) = (heads.n_head * heads.key_width, heads.n_head * heads.value_width);
    let layer_sizes = |layer: &Layer| {
        let attention = StateSize { keys, values, graph_floats: own.graph_floats + 2 * keys + values, ..own };
        vec![attention, StateSize { graph_floats: layer.mlp.graph_floats(), ..StateSize::default() }]
    };
    layers.iter().map(layer_sizes).collect()
}

/// Floats that are alive at once for each token, about.
pub fn row_floats(layers: &[Layer], heads: Heads) -> usize {
    let mlp = layers.iter().map(|layer| layer.mlp.row_floats()).max().unwrap_or(0);
    mlp.max(heads.n_head * (2 * heads.key_width + 2 * heads.value_width))
}
