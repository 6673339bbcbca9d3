//! GLM 4.1 V and 4.5 V, and GLM-OCR: heads rotated by row and column, a convolution over squares of patches, and a gated
//! projection. GLM 4.1 V and 4.5 V have learned positions, GLM-OCR has norms of queries and keys.
//!
//! ```text
//! x = rms(W_0 p + W_1 p + b) + P(row, column)      a picture is two equal frames
//! z = K [rms x]_4                                  [..]_4: the patches of a square of 2 x 2
//! h = gelu(norm(W z));  y = W_down (silu(W_gate h) * W_up h)
//! ```
//!
//! GLM 5.3 clamps gate and up before their product, and pads a picture with black pixels to the right and below.
//!
//! Source: `Glm4vVisionModel`, `GlmOcrVisionModel` and `Glm5NextVisionModel` of transformers 5.23, and `smart_resize` of their
//! preprocessors.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Linear, Norm, NormKind, Pass, RopeKind, Seen, Weights,
    vision::{
        Between, Convolution, Filter, Form, Opened, Picture, ProjectorKind, Shape, Tile, Tower, Trunk,
        resize, sizes,
    },
};

pub const TOWERS: &[ProjectorKind] =
    &[ProjectorKind { name: "glm4v", open: open_4 }, ProjectorKind { name: "glm5v", open: open_5 }];

/// Minimum and maximum number of embeddings of a picture if no key states them, like in mtmd.
const N_TOKENS: (usize, usize) = (8, 4096);

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

/// Epsilon of the projector's norm, that of torch.
const EPSILON: f32 = 1e-5;

struct Glm4v {
    trunk: Trunk,
    /// Minimum and maximum number of pixels of a picture.
    n_pixels: (usize, usize),
    convolution: Convolution,
    first: Linear,
    norm: Norm,
    gate: Linear,
    up: Linear,
    down: Linear,
    /// Function of the gate.
    activation: Activation,
    /// True if sides are rounded up.
    is_rounded_up: bool,
}

fn open_4(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    open(keys, weights, n_out, Activation::Silu, false)
}

fn open_5(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let bound = keys.need_float("vision.swiglu_clamp")?;
    // The interval from -bound to bound would be empty.
    if bound.is_nan() || bound < 0.0 {
        return Err(keys.wrong("vision.swiglu_clamp", "a number from 0"));
    }
    open(keys, weights, n_out, Activation::SiluOfBounded(bound), true)
}

fn open(
    keys: &Keys<'_>,
    weights: &mut Weights<'_>,
    n_out: usize,
    activation: Activation,
    is_rounded_up: bool,
) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Rms, activation)?;
    let form = form.turned(keys, BASE, RopeKind::Neox, [1, 2])?;
    let merge = keys.count("vision.spatial_merge_size")?.unwrap_or(2);
    let trunk = Trunk::open(keys, weights, form, Shape { merge, between: Between::Bicubic, class: None })?;
    let convolution = Convolution::open(weights, "mm.patch_merger", merge, trunk.form.n_embd)?;
    let n_merged = convolution.n_out();
    let first = Linear::need(weights, "mm.model.fc", n_merged, n_merged)?;
    let weight = Some(weights.need_vector("mm.post_norm.weight", n_merged)?);
    let bias = weights.vector("mm.post_norm.bias", n_merged)?;
    let norm = Norm { kind: NormKind::Layer, epsilon: EPSILON, weight, bias };
    let n_inner = weights.shape("mm.up.weight").map_or(0, |shape| shape.dim(1) as usize);
    let n_pixels = trunk.n_pixels(keys, N_TOKENS)?;
    let tower = Glm4v {
        trunk,
        n_pixels,
        convolution,
        first,
        norm,
        gate: Linear::need(weights, "mm.gate", n_merged, n_inner)?,
        up: Linear::need(weights, "mm.up", n_merged, n_inner)?,
        down: Linear::need(weights, "mm.down", n_inner, n_out)?,
        activation,
        is_rounded_up,
    };
    let marks = ("<|begin_of_image|>", "<|end_of_image|>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Tower for Glm4v {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let factor = self.trunk.factor();
        let (width, height) = (picture.width(), picture.height());
        if self.is_rounded_up {
            return Ok(sizes::rounded_up((width, height), factor, self.n_pixels, max_tokens));
        }
        // A picture with a side below one embedding is enlarged, and keeps its aspect ratio.
        let scale = (factor as f64 / height as f64).max(factor as f64 / width as f64);
        let side = |n: usize| if scale > 1.0 { (n as f64 * scale) as usize } else { n };
        sizes::nearest_with((side(width), side(height)), factor, self.n_pixels, max_tokens)
    }

    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let canvas = self.size(picture, max_tokens)?;
        if !self.is_rounded_up {
            return Ok(vec![Tile::new(resize(picture, canvas, filter)?)]);
        }
        // The picture keeps its aspect ratio, and the rest is black. Only pictures below the lower bound are enlarged.
        let (width, height) = (picture.width(), picture.height());
        let scale = (canvas.0 as f64 / width as f64).min(canvas.1 as f64 / height as f64);
        let scale = if width * height >= self.n_pixels.0 { scale.min(1.0) } else { scale };
        let side = |n: usize, most: usize| ((n as f64 * scale).floor() as usize).clamp(1, most);
        let size = (side(width, canvas.0), side(height, canvas.1));
        Ok(vec![Tile::new(resize(picture, size, filter)?.within(canvas, (0, 0), [0; 3])?)])
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let (grid, merge) = (self.trunk.grid(picture), self.trunk.merge);
        let x = self.trunk.run_by_squares(picture, pass);
        let merged = self.convolution.run(&self.trunk.joined(&x, pass));
        let mut h = self.first.run(&merged, pass);
        self.norm.apply(&mut h);
        Activation::GeluErf.apply(&mut h);
        let [mut gate, up] = Linear::run_all([&self.gate, &self.up], &h, pass);
        self.activation.apply_gated(&mut gate, &up);
        let rows = self.down.run(&gate, pass).detached();
        let grid = Some((grid.0 / merge, grid.1 / merge));
        Ok(Embedding { rows, deep: Vec::new(), grid, seen: Seen::Before })
    }
}
