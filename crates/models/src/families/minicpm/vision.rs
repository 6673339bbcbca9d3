//! MiniCPM-V 4.6: SigLIP that joins patches after one of its layers and again after the last one, and a picture in slices.
//!
//! ```text
//! after layer l:  x += attend in windows of 2 x 2(norm x)
//!                 x = W_2 gelu(W_1 norm [x]_4) + mean of 4 patches        [..]_4: the patches of a window as one row
//! y = V_2 gelu(V_1 norm [x]_4)
//! ```
//!
//! Models that join only 2 x 2 patches lack the first step. The entire picture comes first. A picture with more than `image_size`
//! squared pixels is also cut into a grid of slices with about the same aspect ratio.
//!
//! Source: `MiniCPMV4_6VisionModel`, `MiniCPMV4_6Merger`, `MiniCPMV4_6ImageProcessorPil` and `MiniCPMV4_6Processor` of
//! transformers 5.23. The number of the image that the processor puts before it (`<image_id>0</image_id>`) is left out.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Norm, NormKind, Pass, Rows, Seen, Weights,
    vision::{
        Between, Filter, Form, Opened, Picture, Projection, ProjectorKind, SelfAttention, Shape, Tile, Tower,
        Trunk, by_squares, joined_squares, resize, sizes, split_rows,
    },
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "minicpmv4_6", open }];

/// Maximum number of slices of a picture, like the preprocessor.
const N_SLICES: usize = 9;

struct MiniCpm {
    trunk: Trunk,
    /// Side in pixels of a square picture of one slice.
    side: usize,
    inner: Option<InnerMerger>,
    norm: Norm,
    projection: Projection,
}

/// Joins patches within the tower.
struct InnerMerger {
    /// The layer before it.
    layer: usize,
    attention: SelfAttention,
    norm: Norm,
    projection: Projection,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluTanh)?;
    let merge = keys.count("vision.projector.scale_factor")?.unwrap_or(4);
    if ![2, 4].contains(&merge) {
        return Err(keys.wrong("vision.projector.scale_factor", "2 or 4"));
    }
    let trunk = Trunk::open(keys, weights, form, Shape { merge, between: Between::Nearest, class: None })?;
    let (n_embd, n_layer) = (trunk.form.n_embd, trunk.form.n_layer);
    let n_merged = n_embd.saturating_mul(4);
    let inner = if merge == 4 {
        const KEY: &str = "vision.wa_layer_indexes";
        let layers = keys.counts(KEY, 1)?.ok_or_else(|| keys.missing(KEY))?;
        let layer = layers.first().copied().filter(|layer| *layer < n_layer);
        let names = ["v.vit_merger.ds_ffn_up", "v.vit_merger.ds_ffn_down"];
        Some(InnerMerger {
            layer: layer.ok_or_else(|| keys.wrong(KEY, "a layer of the tower"))?,
            attention: SelfAttention::open(&trunk.form, weights, "v.vit_merger")?,
            norm: trunk.form.norm(weights, "v.vit_merger.ds_ln", n_merged)?,
            projection: Projection::open(weights, names, [n_merged, n_embd], Activation::GeluTanh)?,
        })
    } else {
        None
    };
    let norm = trunk.form.norm(weights, "mm.input_norm", n_merged)?;
    let projection = Projection::open(weights, ["mm.up", "mm.down"], [n_merged, n_out], Activation::GeluErf)?;
    let side = keys.need_count("vision.image_size")?;
    if side == 0 || side > 1 << 14 {
        return Err(keys.wrong("vision.image_size", "a number from 1 to 16384"));
    }
    let tower = MiniCpm { trunk, side, inner, norm, projection };
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks: ("", "") })
}

impl InnerMerger {
    /// `x (n, n_embd) -> (n / 4, n_embd)`, of windows whose patches are adjacent.
    fn run(&self, form: &Form, mut x: Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let n = x.nrows();
        pass.spans = split_rows(n, 4);
        self.attention.run(form, self.layer, &mut x, pass);
        let mut squares = joined_squares(&x, 2, pass);
        self.norm.apply(&mut squares);
        let mut joined = self.projection.run(&squares, pass);
        for (i, row) in x.rows().into_iter().enumerate() {
            joined.row_mut(i / 4).scaled_add(0.25, &row);
        }
        pass.spans = split_rows(n / 4, n / 4);
        joined
    }
}

impl MiniCpm {
    /// Size of a picture or slice of one pass.
    fn fitted(&self, (width, height): (f64, f64), is_enlarged: bool) -> (usize, usize) {
        let side = self.side as f64;
        let (mut wide, mut high) = (width, height);
        if is_enlarged || width * height > side * side {
            let ratio = width / height;
            high = (side / ratio.sqrt()).floor();
            wide = (high * ratio).floor();
        }
        let factor = self.trunk.factor();
        (sizes::multiple(wide, factor), sizes::multiple(high, factor))
    }

    /// The grid of slices in (columns, rows), if a picture has more than one.
    fn grid(&self, picture: &Picture, most: usize) -> Option<(usize, usize)> {
        let (width, height) = (picture.width() as f64, picture.height() as f64);
        let ratio = libm::log(width / height);
        let area = (self.side * self.side) as f64;
        let multiple = ((width * height / area).ceil() as usize).min(most);
        if multiple <= 1 {
            return None;
        }
        let (mut best, mut best_error) = ((1, 1), f64::INFINITY);
        for n in (multiple - 1..=multiple + 1).filter(|n| *n != 1 && *n <= most) {
            for rows in (1..=n).filter(|rows| n.is_multiple_of(*rows)) {
                let columns = n / rows;
                let error = (ratio - libm::log(columns as f64 / rows as f64)).abs();
                if error < best_error || (error == best_error && rows > best.1) {
                    (best, best_error) = ((columns, rows), error);
                }
            }
        }
        Some(best)
    }
}

impl Tower for MiniCpm {
    fn size(&self, picture: &Picture, _max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let is_enlarged = self.grid(picture, N_SLICES).is_none();
        Ok(self.fitted((picture.width() as f64, picture.height() as f64), is_enlarged))
    }

    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let per_side = self.side.div_ceil(self.trunk.factor());
        let per_slice = per_side.saturating_mul(per_side);
        let most = max_tokens.map_or(N_SLICES, |n| (n / per_slice).saturating_sub(1).min(N_SLICES));
        let grid = self.grid(picture, most);
        let size = (picture.width() as f64, picture.height() as f64);
        let tile = |picture: Picture, name: &str, end: &str| Tile {
            before: format!("<{name}>"),
            picture,
            after: format!("</{name}>{end}"),
        };
        let whole = resize(picture, self.fitted(size, grid.is_none()), filter)?;
        let mut tiles = vec![tile(whole, "image", "")];
        let Some((columns, rows)) = grid else { return Ok(tiles) };
        // Sides are first rounded to complete slices, like the preprocessor.
        let (wide, high) = (sizes::multiple(size.0, columns), sizes::multiple(size.1, rows));
        let slice = self.fitted(((wide / columns) as f64, (high / rows) as f64), true);
        let resized = resize(picture, (slice.0 * columns, slice.1 * rows), filter)?;
        for row in 0..rows {
            for column in 0..columns {
                let part = resized.part((column * slice.0, row * slice.1), slice)?;
                let is_end = column + 1 == columns && row + 1 < rows;
                tiles.push(tile(part, "slice", if is_end { "\n" } else { "" }));
            }
        }
        Ok(tiles)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let (rows, columns) = self.trunk.grid(picture);
        // Windows of 2 x 2 are adjacent, and so are the four windows of a larger square.
        let windows = by_squares(rows / 2, columns / 2, self.trunk.merge / 2);
        let patches = |[row, column]: [usize; 2]| {
            by_squares(2, 2, 2).into_iter().map(move |[r, c]| [2 * row + r, 2 * column + c])
        };
        let places: Vec<[usize; 2]> = windows.into_iter().flat_map(patches).collect();
        let mut x = self.trunk.embed(picture, &places);
        for (i, layer) in self.trunk.layers.iter().enumerate() {
            layer.run(&self.trunk.form, i, &mut x, pass);
            if let Some(inner) = self.inner.as_ref().filter(|inner| inner.layer == i) {
                x = inner.run(&self.trunk.form, x, pass);
            }
        }
        if let Some(norm) = &self.trunk.post_norm {
            norm.apply(&mut x);
        }
        let mut squares = joined_squares(&x, 2, pass);
        self.norm.apply(&mut squares);
        let rows = self.projection.run(&squares, pass);
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
