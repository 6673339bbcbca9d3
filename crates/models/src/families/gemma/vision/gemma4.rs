//! Gemma 4: patches with positions for column and row, heads rotated by both, mean pooling of squares of
//! patches.
//!
//! ```text
//! x = W (2 p - 1) + C[column] + R[row]
//! y = W_out rms((sqrt(n_embd) mean of k x k patches - b) * s)      k = 3; b and s if the file has them
//! ```
//!
//! The first half of each head is rotated by the column, the second by the row, each half as a separate head.
//!
//! Source: `Gemma4VisionModel` and `Gemma4MultimodalEmbedder` in `modeling_gemma4.py` of transformers 5.23.
//! The epsilon of values and of the last norm is that of all norms.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Linear, NormKind, Pass, Rope, RopeKind, Rows, Seen, Weights,
    vision::{Filter, Form, Layer, Opened, Patches, Picture, Tower, mean_of_squares, raster, sizes},
};

/// Default number of embeddings of an image: `max_soft_tokens` of transformers' preprocessor.
const N_TOKENS: usize = 280;

/// Base of the rotation, which no key states.
const BASE: f32 = 100.0;

struct Gemma4 {
    form: Form,
    patches: Patches,
    /// Patches of a side that become one embedding.
    merge: usize,
    /// (2 n_positions, n_embd): of columns, then of rows.
    positions: Rows,
    layers: Vec<Layer>,
    /// (n_embd) each: offset to subtract, and factor.
    standard: Option<(Vec<f32>, Vec<f32>)>,
    projection: Linear,
    seen: Seen,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Rms, Activation::GeluTanh)?;
    let n_embd = form.n_embd;
    let half = form.head_width / 2;
    if !form.head_width.is_multiple_of(4) {
        return Err(keys.wrong("vision.attention.head_count", "heads of a multiple of 4 elements"));
    }
    // Axes 2 and 1 are column and row: f_i = base^(-2 i / half).
    let rope = |axis: usize| {
        let frequency = move |i: usize| libm::powf(BASE, -2.0 * i as f32 / half as f32);
        Rope::axial(RopeKind::Neox, (0..half / 2).map(|i| (axis, frequency(i))))
    };
    let ropes = vec![(0, rope(2)), (half, rope(1))];
    let form = Form { scale: 1.0, ropes, value_norm: true, ..form };
    let patches = Patches::open(keys, weights, n_embd)?.doubled_around_half();
    let merge = keys.count("vision.projector.scale_factor")?.unwrap_or(3);
    // Far above what is; its squares must not overflow.
    if !(1..=64).contains(&merge) || patches.size == 0 {
        return Err(keys.wrong("vision.projector.scale_factor", "a number from 1 to 64"));
    }
    let name = "v.position_embd.weight";
    let n_positions = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
    if weights.stack(name, n_embd, n_positions, 2)?.is_none() {
        return Err(Error::MissingTensor { name: name.to_owned() });
    }
    let positions = weights.need_vector(name, 2 * n_positions * n_embd)?;
    let positions = Rows::from_vec(2 * n_positions, n_embd, positions);
    let layers = form.layers(weights)?;
    let standard = weights.vector("v.std_bias", n_embd)?.zip(weights.vector("v.std_scale", n_embd)?);
    let projection = Linear::need(weights, "mm.input_projection", n_embd, n_out)?;
    // As in mtmd: the small models (E2B, E4B) were not trained so, and only their width tells.
    let seen = if [1536, 2560].contains(&n_out) { Seen::Before } else { Seen::InWindows };
    let tower = Gemma4 { form, patches, merge, positions, layers, standard, projection, seen };
    let marks = ("<|image>", "<image|>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Tower for Gemma4 {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let n_tokens = max_tokens.unwrap_or(N_TOKENS).max(1);
        let factor = self.merge * self.patches.size;
        let size = sizes::filling((picture.width(), picture.height()), factor, n_tokens);
        // The longer side needs a position for each of its patches.
        let (found, limit) = (size.0.max(size.1) / self.patches.size, self.positions.nrows() / 2);
        if found > limit {
            return Err(Error::TooLong { found, limit });
        }
        Ok(size)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        let (rows, columns) = self.patches.grid(size);
        rows * columns
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let grid = self.patches.grid((picture.width(), picture.height()));
        let places = raster(grid.0, grid.1);
        let mut x = self.patches.run(picture, &places);
        let n_positions = self.positions.nrows() / 2;
        for ([row, column], mut x) in places.iter().zip(x.rows_mut()) {
            x += &self.positions.row(*column);
            x += &self.positions.row(n_positions + row);
        }
        pass.grid = Some(places.iter().map(|[row, column]| [0, *row as u32, *column as u32]).collect());
        for (i, layer) in self.layers.iter().enumerate() {
            layer.run(&self.form, i, &mut x, pass);
        }
        let mut merged = mean_of_squares(&x, grid, self.merge);
        merged *= (self.form.n_embd as f32).sqrt();
        if let Some((bias, scale)) = &self.standard {
            for mut row in merged.rows_mut() {
                row.iter_mut().zip(bias).zip(scale).for_each(|((x, bias), scale)| *x = (*x - bias) * scale);
            }
        }
        self.form.weightless().apply(&mut merged);
        let rows = self.projection.run(&merged, pass).detached();
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: self.seen })
    }
}
