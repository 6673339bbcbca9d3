//! Qwen 3 VL and 3.5: learned positions interpolated to the size of the picture, heads rotated by row and column, four patches per
//! embedding, and features of some layers that are added in the first layers of the text model (deepstack).
//!
//! ```text
//! x = W_0 p + W_1 p + b + P(row, column)      a picture is two equal frames
//! y = W_2 gelu(W_1 [norm x]_4)                [..]_4: the patches of a square of 2 x 2 as one row
//! d_l = V_2 gelu(V_1 norm [x_l]_4)            after layer l of the tower
//! ```
//!
//! Source: `Qwen3VLVisionModel` in `modeling_qwen3_vl.py` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Norm, NormKind, Pass, RopeKind, Rows, Seen, Weights,
    vision::{Between, Filter, Form, Opened, Picture, Projection, Shape, Tower, Trunk, by_squares},
};

/// Minimum and maximum number of embeddings of a picture if no key states them, like in mtmd.
const N_TOKENS: (usize, usize) = (8, 4096);

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

struct Qwen3Vl {
    trunk: Trunk,
    /// Minimum and maximum number of pixels of a picture.
    n_pixels: (usize, usize),
    merger: Projection,
    /// Layers whose output gives features, and their projection.
    deep: Vec<(usize, Norm, Projection)>,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluTanh)?;
    let form = form.turned(keys, BASE, RopeKind::Neox, [1, 2])?;
    let merge = keys.count("vision.spatial_merge_size")?.unwrap_or(2);
    let trunk = Trunk::open(keys, weights, form, Shape { merge, between: Between::Aligned, class: None })?;
    let form = &trunk.form;
    let n_merged = form.n_embd.saturating_mul(merge * merge);
    let merger = Projection::open(weights, ["mm.0", "mm.2"], [n_merged, n_out], Activation::GeluErf)?;
    let flags = keys.flags("vision.is_deepstack_layers", form.n_layer)?.unwrap_or_default();
    let deep = flags.iter().enumerate().filter(|(_, is_deep)| **is_deep).map(|(layer, _)| {
        let part = |name: &str| format!("v.deepstack.{layer}.{name}");
        let norm = form.norm(weights, &part("norm"), n_merged)?;
        let names = [&*part("fc1"), &part("fc2")];
        Ok((layer, norm, Projection::open(weights, names, [n_merged, n_out], Activation::GeluErf)?))
    });
    let deep = deep.collect::<Result<Vec<_>, Error>>()?;
    let n_pixels = trunk.n_pixels(keys, N_TOKENS)?;
    let tower = Qwen3Vl { trunk, n_pixels, merger, deep };
    let marks = ("<|vision_start|>", "<|vision_end|>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Tower for Qwen3Vl {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        self.trunk.nearest_size(picture, self.n_pixels, max_tokens)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let (grid, merge) = (self.trunk.grid(picture), self.trunk.merge);
        let places = by_squares(grid.0, grid.1, merge);
        let mut deep = Vec::new();
        let gather = |i: usize, pass: &mut Pass<'_, '_>, x: &Rows| {
            if let Some((_, norm, projection)) = self.deep.iter().find(|(layer, ..)| *layer == i) {
                let mut squares = self.trunk.joined(x, pass);
                norm.apply(&mut squares);
                deep.push(projection.run(&squares, pass));
            }
        };
        let x = self.trunk.run_with(picture, &places, pass, |_, _| (), gather);
        let rows = self.merger.run(&self.trunk.joined(&x, pass), pass);
        let grid = Some((grid.0 / merge, grid.1 / merge));
        Ok(Embedding { rows, deep, grid, seen: Seen::Before })
    }
}
