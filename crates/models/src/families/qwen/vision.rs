//! Qwen 3 VL and 3.5: learned positions drawn to the picture's size, heads turned by row and column, four patches to an
//! embedding; and features of some layers, which go into the first layers of the text model (deepstack).
//!
//! ```text
//! x = W_0 p + W_1 p + b + P(row, column)      a picture is two equal frames
//! y = W_2 gelu(W_1 [norm x]_4)                [..]_4: the patches of a square of 2 x 2 as one row
//! d_l = V_2 gelu(V_1 norm [x_l]_4)            behind layer l of the tower
//! ```
//!
//! Source: `Qwen3VLVisionModel` in `modeling_qwen3_vl.py` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Linear, Norm, NormKind, Pass, Rope, RopeKind, Rows, Seen, Weights,
    vision::{Filter, Form, Layer, Opened, Patches, Picture, ProjectorKind, Tower, by_squares, sizes},
};

/// Towers by the kind of projector.
pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "qwen3vl_merger", open }];

/// Embeddings of a picture, at least and at most, where no key says it, as mtmd has them.
const N_TOKENS: (usize, usize) = (8, 4096);

/// The base of its rotation, which no key says.
const BASE: f32 = 10000.0;

struct Qwen3Vl {
    form: Form,
    patches: Patches,
    /// Patches of a side that become one embedding.
    merge: usize,
    /// Pixels of a picture, at least and at most.
    n_pixels: (usize, usize),
    /// (per_side^2, n_embd): positions of a square picture.
    positions: Rows,
    per_side: usize,
    layers: Vec<Layer>,
    norm: Norm,
    merger: [Linear; 2],
    /// Layers whose output gives features, and their projection.
    deep: Vec<(usize, Norm, [Linear; 2])>,
}

/// Reads the tower.
pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluTanh)?;
    let (n_embd, width) = (form.n_embd, form.head_width);
    if !width.is_multiple_of(4) {
        return Err(keys.wrong("vision.attention.head_count", "heads of a multiple of 4 elements"));
    }
    // In the pairs of a head, the first half rotates by the row, axis 1, the second by the column: f_i =
    // base^(-4 i / width).
    let quarter = width / 4;
    let frequency = |i: usize| libm::powf(BASE, -4.0 * i as f32 / width as f32);
    let pairs = (0..2 * quarter).map(|i| (1 + i / quarter.max(1), frequency(i % quarter.max(1))));
    let ropes = vec![(0, Rope::axial(RopeKind::Neox, pairs))];
    let form = Form { ropes, ..form };
    let patches = Patches::open(keys, weights, n_embd)?;
    let merge = keys.count("vision.spatial_merge_size")?.unwrap_or(2);
    // Far above what is; squares of it must not overflow.
    if !(1..=64).contains(&merge) || patches.size == 0 {
        return Err(keys.wrong("vision.spatial_merge_size", "a number from 1 to 64"));
    }
    // Four times as many as the largest picture that Qwen's preprocessor makes would take days.
    const MAX_PIXELS: usize = 1 << 26;
    let area = (merge * patches.size).saturating_pow(2);
    let pixels = |key: &str, n: usize| -> Result<usize, Error> {
        Ok(keys.count(key)?.unwrap_or(n.saturating_mul(area)).min(MAX_PIXELS))
    };
    let n_pixels =
        (pixels("vision.image_min_pixels", N_TOKENS.0)?, pixels("vision.image_max_pixels", N_TOKENS.1)?);
    let name = "v.position_embd.weight";
    let n_positions = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
    let per_side = n_positions.isqrt();
    if per_side == 0 {
        return Err(Error::MissingTensor { name: name.to_owned() });
    }
    weights.need_matrix(name, n_embd, n_positions)?;
    let positions = weights.need_vector(name, n_positions * n_embd)?;
    let positions = Rows::from_vec(n_positions, n_embd, positions);
    let layers = (0..form.n_layer).map(|i| Layer::open(&form, weights, i));
    let layers = layers.collect::<Result<Vec<_>, _>>()?;
    let n_merged = n_embd.saturating_mul(merge * merge);
    let norm = form.norm(weights, "v.post_ln", n_embd)?;
    let merger =
        [Linear::need(weights, "mm.0", n_merged, n_merged)?, Linear::need(weights, "mm.2", n_merged, n_out)?];
    let flags = keys.flags("vision.is_deepstack_layers", form.n_layer)?.unwrap_or_default();
    let deep = flags.iter().enumerate().filter(|(_, is_deep)| **is_deep).map(|(layer, _)| {
        let part = |name: &str| format!("v.deepstack.{layer}.{name}");
        let norm = form.norm(weights, &part("norm"), n_merged)?;
        let first = Linear::need(weights, &part("fc1"), n_merged, n_merged)?;
        Ok((layer, norm, [first, Linear::need(weights, &part("fc2"), n_merged, n_out)?]))
    });
    let deep = deep.collect::<Result<Vec<_>, Error>>()?;
    let tower = Qwen3Vl { form, patches, merge, n_pixels, positions, per_side, layers, norm, merger, deep };
    let marks = ("<|vision_start|>", "<|vision_end|>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Qwen3Vl {
    /// Positions of `n` patches per side among those of the square image: the two neighbors of each, and the
    /// weight of the second. The first and the last patch are at the ends.
    fn between(&self, n: usize) -> Vec<(usize, usize, f32)> {
        let last = self.per_side - 1;
        let place = |i: usize| {
            let at = (i * last) as f32 / (n - 1).max(1) as f32;
            let low = (at.floor() as usize).min(last);
            (low, (low + 1).min(last), at - at.floor())
        };
        (0..n).map(place).collect()
    }

    /// Adds positions, bilinear between those of the square picture.
    fn add_positions(&self, x: &mut Rows, (rows, columns): (usize, usize), places: &[[usize; 2]]) {
        let (by_row, by_column) = (self.between(rows), self.between(columns));
        for ([row, column], mut x) in places.iter().zip(x.rows_mut()) {
            let (top, bottom, down) = by_row[*row];
            let (left, right, across) = by_column[*column];
            let corners = [
                (top, left, (1.0 - down) * (1.0 - across)),
                (top, right, (1.0 - down) * across),
                (bottom, left, down * (1.0 - across)),
                (bottom, right, down * across),
            ];
            for (row, column, weight) in corners {
                x.scaled_add(weight, &self.positions.row(row * self.per_side + column));
            }
        }
    }

    /// Rows of patches as rows of squares, which lie together already: (n, n_embd) -> (n / merge^2, n_embd merge^2).
    fn squares(&self, x: &Rows, pass: &Pass<'_, '_>) -> Rows {
        let n = self.merge * self.merge;
        let mut squares = pass.scratch(x.nrows() / n, x.ncols() * n);
        squares.as_mut_slice().copy_from_slice(x.as_slice());
        squares
    }
}

/// `W_2 gelu(W_1 x)`.
fn two([first, second]: &[Linear; 2], x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
    let mut inner = first.run(x, pass);
    Activation::GeluErf.apply(&mut inner);
    second.run(&inner, pass).detached()
}

impl Tower for Qwen3Vl {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let factor = self.merge * self.patches.size;
        let (min, max) = self.n_pixels;
        let most = max_tokens.map_or(max, |n| max.min(n.max(1).saturating_mul(factor * factor)));
        sizes::nearest((picture.width(), picture.height()), factor, min.min(most), most)
    }

    fn grid(&self, (width, height): (usize, usize)) -> (usize, usize) {
        (height / self.patches.size, width / self.patches.size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let grid = self.grid((picture.width(), picture.height()));
        let places = by_squares(grid.0, grid.1, self.merge);
        let mut x = self.patches.run(picture, &places);
        self.add_positions(&mut x, grid, &places);
        pass.grid = Some(places.iter().map(|[row, column]| [0, *row as u32, *column as u32]).collect());
        let mut deep = Vec::new();
        for (i, layer) in self.layers.iter().enumerate() {
            layer.run(&self.form, i, &mut x, pass);
            if let Some((_, norm, matrices)) = self.deep.iter().find(|(layer, ..)| *layer == i) {
                let mut squares = self.squares(&x, pass);
                norm.apply(&mut squares);
                deep.push(two(matrices, &squares, pass));
            }
        }
        self.norm.apply(&mut x);
        let rows = two(&self.merger, &self.squares(&x, pass), pass);
        let grid = Some((grid.0 / self.merge, grid.1 / self.merge));
        Ok(Embedding { rows, deep, grid, seen: Seen::Before })
    }
}
