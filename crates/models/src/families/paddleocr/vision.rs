//! PaddleOCR-VL: SigLIP with positions interpolated to the size of the picture and heads rotated by row and column, a norm and
//! two matrices.
//!
//! ```text
//! x = W p + b + P(row, column)
//! y = W_2 gelu(W_1 [norm x]_4)        [..]_4: the patches of a square of 2 x 2 as one row
//! ```
//!
//! Source: `PaddleOCRVisionModel`, `PaddleOCRProjector` and `smart_resize` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Norm, NormKind, Pass, RopeKind, Seen, Weights,
    vision::{Between, Filter, Form, Opened, Picture, Projection, ProjectorKind, Shape, Tower, Trunk, sizes},
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "paddleocr", open }];

/// Minimum and maximum number of embeddings of a picture if no key states them, like in mtmd.
const N_TOKENS: (usize, usize) = (8, 4096);

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

/// Epsilon of the projector's norm.
const EPSILON: f32 = 1e-5;

struct PaddleOcr {
    trunk: Trunk,
    /// Minimum and maximum number of pixels of a picture.
    n_pixels: (usize, usize),
    norm: Norm,
    projection: Projection,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluTanh)?;
    let form = form.turned(keys, BASE, RopeKind::Neox, [1, 2])?;
    let merge = keys.count("vision.spatial_merge_size")?.unwrap_or(2);
    let trunk = Trunk::open(keys, weights, form, Shape { merge, between: Between::Bilinear, class: None })?;
    let n_embd = trunk.form.n_embd;
    let norm = Norm { epsilon: EPSILON, ..trunk.form.norm(weights, "mm.input_norm", n_embd)? };
    let sizes = [n_embd.saturating_mul(merge * merge), n_out];
    let projection = Projection::open(weights, ["mm.1", "mm.2"], sizes, Activation::GeluErf)?;
    let n_pixels = trunk.n_pixels(keys, N_TOKENS)?;
    let tower = PaddleOcr { trunk, n_pixels, norm, projection };
    let marks = ("<|IMAGE_START|>", "<|IMAGE_END|>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Tower for PaddleOcr {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let factor = self.trunk.factor();
        let (mut width, mut height) = (picture.width(), picture.height());
        // Sides below one embedding are enlarged to it. Python rounds halves to the even number.
        let scaled = |n: usize, of: usize| ((n * factor) as f64 / of as f64).round_ties_even() as usize;
        if height < factor {
            (width, height) = (scaled(width, height), factor);
        }
        if width < factor {
            (width, height) = (factor, scaled(height, width));
        }
        sizes::nearest_with((width, height), factor, self.n_pixels, max_tokens)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let (grid, merge) = (self.trunk.grid(picture), self.trunk.merge);
        let mut x = self.trunk.run_by_squares(picture, pass);
        self.norm.apply(&mut x);
        let rows = self.projection.run(&self.trunk.joined(&x, pass), pass);
        let grid = Some((grid.0 / merge, grid.1 / merge));
        Ok(Embedding { rows, deep: Vec::new(), grid, seen: Seen::Before })
    }
}
