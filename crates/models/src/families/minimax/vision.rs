//! MiniMax M3: parts of heads rotated by row and column, two matrices for each patch, and two for each square of patches.
//!
//! ```text
//! x = W_0 p + W_1 p                                        a picture is two equal frames
//! z = W_2 gelu(W_1 x);  y = V_2 gelu(V_1 [z]_4)            [..]_4: the patches of a square of 2 x 2 as one row
//! ```
//!
//! Heads have consecutive parts for time, row and column, and a rest that does not rotate. The time of a picture is 0.
//!
//! Source: `MiniMaxM3VLVisionModel` and `MiniMaxM3VLMultiModalProjector` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, NormKind, Pass, Rope, RopeKind, Seen, Weights,
    vision::{Between, Filter, Form, Opened, Picture, Projection, ProjectorKind, Shape, Tower, Trunk},
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "minimax_m3", open }];

/// Minimum and maximum number of embeddings of a picture if no key states them, like in mtmd.
const N_TOKENS: (usize, usize) = (8, 576);

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

struct MiniMaxM3 {
    trunk: Trunk,
    /// Minimum and maximum number of pixels of a picture.
    n_pixels: (usize, usize),
    of_patches: Projection,
    of_squares: Projection,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluErf)?;
    // Elements that rotate by one axis.
    let n_rot = 2 * (2 * (form.head_width / 2) / 3 / 2);
    let rope = |axis: usize| {
        let frequency = move |i: usize| libm::powf(BASE, -2.0 * i as f32 / n_rot as f32);
        Rope::axial(RopeKind::Neox, (0..n_rot / 2).map(|i| (axis, frequency(i))))
    };
    let ropes = vec![(n_rot, rope(1)), (2 * n_rot, rope(2))];
    let form = Form { ropes, ..form };
    let merge = keys.count("vision.spatial_merge_size")?.unwrap_or(2);
    let trunk = Trunk::open(keys, weights, form, Shape { merge, between: Between::Bilinear, class: None })?;
    let sizes = [trunk.form.n_embd, n_out];
    let of_patches = Projection::open(weights, ["mm.1", "mm.2"], sizes, Activation::GeluErf)?;
    let names = ["mm.merger.fc1", "mm.merger.fc2"];
    let sizes = [n_out.saturating_mul(merge * merge), n_out];
    let of_squares = Projection::open(weights, names, sizes, Activation::GeluErf)?;
    let n_pixels = trunk.n_pixels(keys, N_TOKENS)?;
    let tower = MiniMaxM3 { trunk, n_pixels, of_patches, of_squares };
    let marks = ("]<]start of image[>[", "]<]end of image[>[");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Tower for MiniMaxM3 {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        self.trunk.nearest_size(picture, self.n_pixels, max_tokens)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let x = self.trunk.run_by_squares(picture, pass);
        let z = self.of_patches.run(&x, pass);
        let rows = self.of_squares.run(&self.trunk.joined(&z, pass), pass);
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
