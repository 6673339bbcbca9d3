//! Pixtral and Mistral 3: heads rotated by row and column, two matrices, and a marker after each row of
//! embeddings.
//!
//! ```text
//! p = W_merge rms(x)           of k x k patches as one row, Mistral 3 alone: k = 2
//! y = W_2 gelu(W_1 p)
//! ```
//!
//! Each row of embeddings but the last is followed by the embedding of the token `[IMG_BREAK]`, which the
//! file contains.
//!
//! Source: `PixtralVisionModel`, `LlavaMultiModalProjector` and `Mistral3MultiModalProjector` of transformers
//! 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Linear, Norm, NormKind, Pass, Rope, RopeKind, Rows, Seen, Weights,
    vision::{Filter, Form, Layer, Opened, Patches, Picture, ProjectorKind, Tower, raster, sizes},
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "pixtral", open }];

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

struct Pixtral {
    form: Form,
    patches: Patches,
    /// Pixels of the longer side at most.
    longest: usize,
    norm: Norm,
    layers: Vec<Layer>,
    merger: Option<Merger>,
    first: Linear,
    second: Linear,
    /// (n_embd of the model).
    row_end: Option<Vec<f32>>,
}

/// Merges several patches into one row.
struct Merger {
    norm: Norm,
    /// Patches of a side.
    side: usize,
    /// (n_embd * side^2, n_embd).
    matrix: Linear,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let activation = if keys.flag("use_silu", false)? { Activation::Silu } else { Activation::GeluErf };
    let form = Form::read(keys, weights, NormKind::Rms, activation)?;
    let (n_embd, width) = (form.n_embd, form.head_width);
    if !width.is_multiple_of(4) {
        return Err(keys.wrong("vision.attention.head_count", "heads of a multiple of 4 elements"));
    }
    // f_i = base^(-2 i / width): the even ones turn by the row, axis 1, in the first half of a head, the odd ones by the column.
    let frequency = |i: usize| libm::powf(BASE, -2.0 * i as f32 / width as f32);
    let quarter = width / 4;
    let by_row = (0..quarter).map(|i| (1, frequency(2 * i)));
    let by_column = (0..quarter).map(|i| (2, frequency(2 * i + 1)));
    // Rows of the matrices are stored for pairs of neighbours, as llama's.
    let ropes = vec![(0, Rope::axial(RopeKind::Normal, by_row.chain(by_column)))];
    let form = Form { ropes, ..form };
    let patches = Patches::open(keys, weights, n_embd)?;
    let longest = keys.need_count("vision.image_size")?;
    // Attention over more patches than this takes hours, and no model has as many.
    if longest == 0 || longest > 1 << 14 || patches.size == 0 {
        return Err(keys.wrong("vision.image_size", "a number from 1 to 16384"));
    }
    let norm = form.norm(weights, "v.pre_ln", n_embd)?;
    let layers = form.layers(weights)?;
    let side = keys.count("vision.spatial_merge_size")?.unwrap_or(1);
    let n_merged = side.saturating_mul(side).saturating_mul(n_embd);
    let merger = match Linear::open(weights, "mm.patch_merger", n_merged, n_embd)? {
        Some(matrix) => Some(Merger { norm: form.norm(weights, "mm.input_norm", n_embd)?, side, matrix }),
        None if side == 1 => None,
        None => return Err(Error::MissingTensor { name: "mm.patch_merger.weight".to_owned() }),
    };
    let first = Linear::need(weights, "mm.1", n_embd, n_out)?;
    let second = Linear::need(weights, "mm.2", n_out, n_out)?;
    let row_end = weights.vector("v.token_embd.img_break", n_out)?;
    let tower = Pixtral { form, patches, longest, norm, layers, merger, first, second, row_end };
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks: ("", "[IMG_END]") })
}

impl Pixtral {
    /// Patches of a side that become one embedding.
    fn side(&self) -> usize {
        self.merger.as_ref().map_or(1, |merger| merger.side)
    }
}

impl Merger {
    /// `x (n, n_embd) -> (n / side^2, n_embd)`, of a grid in rows and columns.
    fn run(&self, x: &mut Rows, (rows, columns): (usize, usize), pass: &mut Pass<'_, '_>) -> Rows {
        self.norm.apply(x);
        let (width, n) = (x.ncols(), self.side * self.side);
        let mut squares = pass.scratch(x.nrows() / n, width * n);
        // Element e of the patch (r, c) of a square goes to (e side + r) side + c, as torch unfolds it.
        for ([row, column], from) in raster(rows, columns).into_iter().zip(x.rows()) {
            let square = row / self.side * (columns / self.side) + column / self.side;
            let within = row % self.side * self.side + column % self.side;
            let mut to = squares.row_mut(square);
            to.iter_mut().skip(within).step_by(n).zip(from).for_each(|(to, from)| *to = *from);
        }
        self.matrix.run(&squares, pass)
    }
}

impl Tower for Pixtral {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let (size, factor) = ((picture.width(), picture.height()), self.patches.size * self.side());
        let mut fitted = sizes::within(size, factor, self.longest);
        // The longest side that keeps to the bound: a smaller one has no more embeddings.
        let n_tokens = |(w, h): (usize, usize)| (w / factor) * (h / factor);
        let mut longest = self.longest.min(size.0.max(size.1));
        while max_tokens.is_some_and(|most| n_tokens(fitted) > most) && longest > factor {
            longest = longest.saturating_sub(factor).max(factor);
            fitted = sizes::within(size, factor, longest);
        }
        Ok(fitted)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        let (rows, columns) = self.patches.grid(size);
        rows * columns
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let grid = self.patches.grid((picture.width(), picture.height()));
        let places = raster(grid.0, grid.1);
        let mut x = self.patches.run(picture, &places);
        self.norm.apply(&mut x);
        pass.grid = Some(places.iter().map(|[row, column]| [0, *row as u32, *column as u32]).collect());
        for (i, layer) in self.layers.iter().enumerate() {
            layer.run(&self.form, i, &mut x, pass);
        }
        if let Some(merger) = &self.merger {
            x = merger.run(&mut x, grid, pass);
        }
        let mut inner = self.first.run(&x, pass);
        Activation::GeluErf.apply(&mut inner);
        let made = self.second.run(&inner, pass);
        let columns = grid.1 / self.side();
        let rows = match &self.row_end {
            None => made.detached(),
            Some(end) => with_row_ends(&made, columns, end),
        };
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}

/// Rows of a grid with an additional one after each of its rows but the last.
fn with_row_ends(made: &Rows, columns: usize, end: &[f32]) -> Rows {
    let mut values = Vec::new();
    for (i, row) in made.rows().into_iter().enumerate() {
        if i > 0 && i % columns == 0 {
            values.extend_from_slice(end);
        }
        values.extend(row);
    }
    Rows::from_vec(values.len() / end.len().max(1), end.len(), values)
}
