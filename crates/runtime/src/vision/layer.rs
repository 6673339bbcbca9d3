//! The layers of a tower: attention of all patches to all, and a feed-forward part.
//!
//! ```text
//! x += n2(W_o attend(rope(q(n1 x)), rope(k(n1 x)), v(n1 x)))
//! x += n4(F(n3 x))            F(h) = W_down (f(W_gate h) * W_up h), or W_down f(W_up h)
//! ```
//!
//! Norms `n2` and `n4`, norms of queries and keys, gates, factors of both parts and bounds of matrices are optional: they exist if
//! the file has their tensors.
//!
//! Source: `build_vit` in `tools/mtmd/clip.cpp` of llama.cpp (llama-cpp-python 0.3.36), and the towers of transformers 5.23.

use ndarray::s;

use crate::{
    Error,
    decoder::Linear,
    keys::Keys,
    ops::{Activation, Attention, Mask, Norm, NormKind, Rope, RopeKind, Rows},
    pass::Pass,
    weights::Weights,
};

/// Common parameters of all layers of a tower.
pub struct Form {
    /// Elements of a row.
    pub n_embd: usize,
    /// Elements within the feed-forward part.
    pub n_ff: usize,
    /// Layers.
    pub n_layer: usize,
    /// Heads.
    pub n_head: usize,
    /// Heads of keys and values.
    pub n_head_kv: usize,
    /// Elements of a head.
    pub head_width: usize,
    /// The kind of every norm.
    pub norm: NormKind,
    /// The kind of norms of queries and keys.
    pub head_norm: NormKind,
    /// Epsilon of every norm.
    pub epsilon: f32,
    /// Between the halves of the feed-forward part.
    pub activation: Activation,
    /// Factor of the scores.
    pub scale: f32,
    /// Rotation of queries and keys by the position of their patch: parts of a head from an element on.
    pub ropes: Vec<(usize, Rope)>,
    /// True if values are normalized without weights.
    pub value_norm: bool,
}

impl Form {
    /// The sizes that the keys of a tower say. The rest is that of most: attention scaled by the root of a head's width.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn read(
        keys: &Keys<'_>,
        weights: &Weights<'_>,
        norm: NormKind,
        activation: Activation,
    ) -> Result<Form, Error> {
        let n_embd = keys.need_count("vision.embedding_length")?;
        // Tables of the rotation are made before the matrices are looked for.
        if n_embd > weights.longest_row() {
            return Err(keys.wrong("vision.embedding_length", "at most the longest row of a tensor"));
        }
        let n_layer = keys.need_count("vision.block_count")?;
        // The list of layers is made before their tensors are looked for.
        if n_layer > weights.n_tensors() {
            return Err(keys.wrong("vision.block_count", "at most the number of tensors"));
        }
        let n_head = keys.need_count("vision.attention.head_count")?;
        if n_head == 0 || n_embd == 0 || !n_embd.is_multiple_of(n_head) {
            return Err(keys.wrong("vision.attention.head_count", "a part of the embedding's length"));
        }
        let head_width = n_embd / n_head;
        let n_head_kv = keys.count("vision.attention.head_count_kv")?.unwrap_or(n_head);
        if n_head_kv == 0 || !n_head.is_multiple_of(n_head_kv) {
            return Err(keys.wrong("vision.attention.head_count_kv", "a divisor of the number of heads"));
        }
        // In GLM 4 V the key has the length of the projector, in Qwen 2 VL that of the text model.
        let n_ff = match weights.shape("v.blk.0.ffn_up.weight") {
            Some(shape) => shape.dim(1) as usize,
            None => keys.need_count("vision.feed_forward_length")?,
        };
        Ok(Form {
            n_embd,
            n_ff,
            n_layer,
            n_head,
            n_head_kv,
            head_width,
            norm,
            head_norm: norm,
            epsilon: keys.need_float("vision.attention.layer_norm_epsilon")?,
            activation,
            scale: 1.0 / (head_width as f32).sqrt(),
            ropes: Vec::new(),
            value_norm: false,
        })
    }

    /// This tower with heads that are rotated by row and column. The first half of a head's pairs rotates by the first of the
    /// two axes (1 is the row, 2 the column), the second half by the other, with frequencies `base^(-4 i / width)` and `i` from 0 in
    /// both.
    ///
    /// # Errors
    /// [`Error::Key`] for a head width that is not a multiple of 4.
    pub fn turned(
        self,
        keys: &Keys<'_>,
        base: f32,
        kind: RopeKind,
        [first, second]: [usize; 2],
    ) -> Result<Form, Error> {
        let width = self.head_width;
        if !width.is_multiple_of(4) {
            return Err(keys.wrong("vision.attention.head_count", "heads of a multiple of 4 elements"));
        }
        let quarter = width / 4;
        let pairs = move |axis: usize| {
            (0..quarter).map(move |i| (axis, libm::powf(base, -4.0 * i as f32 / width as f32)))
        };
        let ropes = vec![(0, Rope::axial(kind, pairs(first).chain(pairs(second))))];
        Ok(Form { ropes, ..self })
    }

    /// All layers of the tower.
    pub fn layers(&self, weights: &mut Weights<'_>) -> Result<Vec<Layer>, Error> {
        (0..self.n_layer).map(|i| Layer::open(self, weights, &format!("v.blk.{i}"))).collect()
    }

    /// The norm of this name over `n` elements.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`].
    pub fn norm(&self, weights: &mut Weights<'_>, name: &str, n: usize) -> Result<Norm, Error> {
        let missing = || Error::MissingTensor { name: format!("{name}.weight") };
        self.optional_norm(weights, name, n)?.ok_or_else(missing)
    }

    /// The norm of this name over `n` elements, if its weights are there.
    ///
    /// # Errors
    /// [`Error::TensorShape`].
    pub fn optional_norm(
        &self,
        weights: &mut Weights<'_>,
        name: &str,
        n: usize,
    ) -> Result<Option<Norm>, Error> {
        let Some(weight) = weights.vector(&format!("{name}.weight"), n)? else { return Ok(None) };
        let bias = weights.vector(&format!("{name}.bias"), n)?;
        Ok(Some(Norm { kind: self.norm, epsilon: self.epsilon, weight: Some(weight), bias }))
    }

    /// The root of the mean of squares, without weights.
    pub fn weightless(&self) -> Norm {
        Norm { kind: NormKind::Rms, epsilon: self.epsilon, weight: None, bias: None }
    }
}

/// A matrix, and the bounds of what goes in and comes out if it is clipped (Gemma 4).
pub struct Matrix {
    linear: Linear,
    input: Option<(f32, f32)>,
    output: Option<(f32, f32)>,
}

impl Matrix {
    fn open(
        weights: &mut Weights<'_>,
        name: &str,
        n_in: usize,
        n_out: usize,
    ) -> Result<Option<Matrix>, Error> {
        let Some(linear) = Linear::open(weights, name, n_in, n_out)? else { return Ok(None) };
        let mut bound = |end: &str| -> Result<Option<f32>, Error> {
            Ok(weights.vector(&format!("{name}.{end}"), 1)?.map(|bound| bound[0]))
        };
        let mut bounds = |low: &str, high: &str| -> Result<Option<(f32, f32)>, Error> {
            Ok(bound(low)?.zip(bound(high)?))
        };
        let input = bounds("input_min", "input_max")?;
        let output = bounds("output_min", "output_max")?;
        Ok(Some(Matrix { linear, input, output }))
    }

    /// Reads `NAME.weight` (n_in, n_out), its bias and its bounds.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn need(weights: &mut Weights<'_>, name: &str, n_in: usize, n_out: usize) -> Result<Matrix, Error> {
        Self::open(weights, name, n_in, n_out)?
            .ok_or_else(|| Error::MissingTensor { name: format!("{name}.weight") })
    }

    /// `x (n, n_in) -> (n, n_out)`.
    pub fn run(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        // As in torch the upper bound wins where it is below the lower one; `f32::clamp` would panic.
        let clip = |rows: &mut Rows, (low, high): (f32, f32)| rows.map(|x| x.max(low).min(high));
        let mut out = match self.input {
            None => self.linear.run(x, pass),
            Some(bounds) => {
                let mut clipped = pass.scratch(x.nrows(), x.ncols());
                clipped.copy_from(x);
                clip(&mut clipped, bounds);
                self.linear.run(&clipped, pass)
            }
        };
        if let Some(bounds) = self.output {
            clip(&mut out, bounds);
        }
        out
    }
}

/// Queries, keys and values; boxed because a layer contains one or three.
enum Projections {
    Apart(Box<[Matrix; 3]>),
    /// (n_embd, (n_head + 2 n_head_kv) head_width).
    Fused(Box<Matrix>),
}

/// The attention of a layer with its norms and its residual connection.
pub struct SelfAttention {
    norm: Norm,
    projections: Projections,
    /// Over a head, or over all heads.
    query_norm: Option<Norm>,
    key_norm: Option<Norm>,
    output: Matrix,
    post_norm: Option<Norm>,
    /// (n_embd): factor of its output.
    scale: Option<Vec<f32>>,
}

/// A layer with its weights.
pub struct Layer {
    attention: SelfAttention,
    mlp_norm: Norm,
    gate: Option<Matrix>,
    up: Matrix,
    down: Matrix,
    mlp_post_norm: Option<Norm>,
    /// (n_embd): factor of the output of the feed-forward part.
    mlp_scale: Option<Vec<f32>>,
    /// (n_embd): factor of the stream after the layer.
    out_scale: Option<Vec<f32>>,
}

impl SelfAttention {
    /// The attention whose tensors begin with `prefix`.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(form: &Form, weights: &mut Weights<'_>, prefix: &str) -> Result<SelfAttention, Error> {
        let blk = |name: &str| format!("{prefix}.{name}");
        let Form { n_embd, head_width, .. } = *form;
        let n_kv = form.n_head_kv * head_width;
        let projections = match Matrix::open(weights, &blk("attn_qkv"), n_embd, n_embd + 2 * n_kv)? {
            Some(fused) => Projections::Fused(Box::new(fused)),
            None => {
                let mut need = |name: &str, n: usize| Matrix::need(weights, &blk(name), n_embd, n);
                let apart = [need("attn_q", n_embd)?, need("attn_k", n_kv)?, need("attn_v", n_kv)?];
                Projections::Apart(Box::new(apart))
            }
        };
        // Over all heads together in InternVL, over each head elsewhere.
        let mut head_norm = |name: &str, n_all: usize| -> Result<Option<Norm>, Error> {
            let found = weights.shape(&format!("{}.weight", blk(name))).map(|shape| shape.dim(0));
            let n = if found == Some(n_all as u64) { n_all } else { head_width };
            let norm = form.optional_norm(weights, &blk(name), n)?;
            Ok(norm.map(|norm| Norm { kind: form.head_norm, ..norm }))
        };
        Ok(SelfAttention {
            query_norm: head_norm("attn_q_norm", n_embd)?,
            key_norm: head_norm("attn_k_norm", n_kv)?,
            norm: form.norm(weights, &blk("ln1"), n_embd)?,
            projections,
            output: Matrix::need(weights, &blk("attn_out"), n_embd, n_embd)?,
            post_norm: form.optional_norm(weights, &blk("attn_post_norm"), n_embd)?,
            scale: weights.vector(&blk("ls1.weight"), n_embd)?,
        })
    }

    /// Adds the output of attention to `x` (n_patches, n_embd).
    pub fn run(&self, form: &Form, index: usize, x: &mut Rows, pass: &mut Pass<'_, '_>) {
        let mut h = pass.scratch(x.nrows(), x.ncols());
        self.norm.apply_into(x, &mut h);
        let [mut query, mut key, mut value] = self.project(&h, pass);
        // Heads are normalized before they are turned.
        for (rows, norm) in [(&mut query, &self.query_norm), (&mut key, &self.key_norm)] {
            if let Some(norm) = norm {
                norm.apply_groups(rows, norm.weight.as_ref().map_or(form.head_width, Vec::len));
            }
        }
        if form.value_norm {
            form.weightless().apply_groups(&mut value, form.head_width);
        }
        for (start, rope) in &form.ropes {
            let cache = pass.rope_cache(rope);
            rope.apply(&mut [&mut query, &mut key], form.head_width, *start, &cache);
        }
        let attention = Attention {
            n_head: form.n_head,
            n_head_kv: form.n_head_kv,
            key_width: form.head_width,
            value_width: form.head_width,
            scale: form.scale,
            soft_cap: None,
            mask: Mask::All,
            slopes: None,
            sinks: None,
            bias: None,
            selected: None,
        };
        let attended = pass.attend(index, &attention, &query, key, value);
        let mut mixed = self.output.run(&attended, pass);
        drop((query, attended));
        if let Some(norm) = &self.post_norm {
            norm.apply(&mut mixed);
        }
        multiply(&mut mixed, self.scale.as_deref());
        x.add_scaled(1.0, &mixed);
    }

    /// Queries, keys and values of normalized rows: (n_patches, n_head or n_head_kv times head_width) each.
    fn project(&self, h: &Rows, pass: &mut Pass<'_, '_>) -> [Rows; 3] {
        match &self.projections {
            Projections::Apart(apart) => apart.each_ref().map(|matrix| matrix.run(h, pass)),
            Projections::Fused(fused) => {
                let all = fused.run(h, pass);
                let n_kv = (all.ncols() - h.ncols()) / 2;
                let n = h.ncols();
                [0..n, n..n + n_kv, n + n_kv..n + 2 * n_kv].map(|columns| {
                    let mut part = pass.scratch(all.nrows(), columns.len());
                    part.assign(&all.slice(s![.., columns]));
                    part
                })
            }
        }
    }
}

impl Layer {
    /// The layer whose tensors begin with `prefix`.
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(form: &Form, weights: &mut Weights<'_>, prefix: &str) -> Result<Layer, Error> {
        let blk = |name: &str| format!("{prefix}.{name}");
        let Form { n_embd, n_ff, .. } = *form;
        Ok(Layer {
            attention: SelfAttention::open(form, weights, prefix)?,
            mlp_norm: form.norm(weights, &blk("ln2"), n_embd)?,
            gate: Matrix::open(weights, &blk("ffn_gate"), n_embd, n_ff)?,
            up: Matrix::need(weights, &blk("ffn_up"), n_embd, n_ff)?,
            down: Matrix::need(weights, &blk("ffn_down"), n_ff, n_embd)?,
            mlp_post_norm: form.optional_norm(weights, &blk("ffn_post_norm"), n_embd)?,
            mlp_scale: weights.vector(&blk("ls2.weight"), n_embd)?,
            out_scale: weights.vector(&blk("out_scale.weight"), n_embd)?,
        })
    }

    /// Runs the layer on `x` (n_patches, n_embd), in place.
    pub fn run(&self, form: &Form, index: usize, x: &mut Rows, pass: &mut Pass<'_, '_>) {
        self.attention.run(form, index, x, pass);
        let mut h = pass.scratch(x.nrows(), x.ncols());
        self.mlp_norm.apply_into(x, &mut h);
        let mut inner = self.up.run(&h, pass);
        match &self.gate {
            Some(gate) => {
                let mut gate = gate.run(&h, pass);
                form.activation.apply_gated(&mut gate, &inner);
                inner = gate;
            }
            None => form.activation.apply(&mut inner),
        }
        let mut made = self.down.run(&inner, pass);
        if let Some(norm) = &self.mlp_post_norm {
            norm.apply(&mut made);
        }
        multiply(&mut made, self.mlp_scale.as_deref());
        x.add_scaled(1.0, &made);
        multiply(x, self.out_scale.as_deref());
    }
}

/// Multiplies each row by the factors (n_embd), if there are any.
fn multiply(x: &mut Rows, factors: Option<&[f32]>) {
    if let Some(factors) = factors {
        x.rows_mut().into_iter().for_each(|mut row| row.iter_mut().zip(factors).for_each(|(x, s)| *x *= s));
    }
}
