//! Qwen 2 VL and 2.5 VL: heads rotated by row and column, four patches per embedding. In 2.5, most layers attend within
//! windows.
//!
//! ```text
//! x = W_0 p + W_1 p                   a picture is two equal frames
//! y = W_2 gelu(W_1 [norm x]_4)        [..]_4: the patches of a square of 2 x 2 as one row
//! ```
//!
//! Source: `Qwen2VisionTransformerPretrainedModel` in `modeling_qwen2_vl.py` and `Qwen2_5_VisionTransformerPretrainedModel`
//! in `modeling_qwen2_5_vl.py` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, NormKind, Pass, RopeKind, Seen, Weights,
    vision::{Between, Filter, Form, Opened, Picture, Projection, Shape, Tower, Trunk, by_windows},
};

/// Minimum and maximum number of embeddings of a picture if no key states them, like in mtmd.
const N_TOKENS: (usize, usize) = (8, 4096);

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

/// Special tokens around an image.
const MARKS: (&str, &str) = ("<|vision_start|>", "<|vision_end|>");

/// Side of a window in pixels if no key states it.
const WINDOW: usize = 112;

/// The tower with its projector. EXAONE 4.5 uses it with grouped-query attention.
pub struct Qwen2Vl {
    trunk: Trunk,
    /// Minimum and maximum number of pixels of a picture.
    n_pixels: (usize, usize),
    merger: Projection,
    /// Side of a window in squares, and period of the layers that attend to the entire picture.
    windows: Option<(usize, usize)>,
    /// True if embeddings have positions by row and column in the text model.
    has_grid: bool,
}

/// Reads the tower of Qwen 2 VL.
pub fn open_2(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluQuick)?;
    let tower = Qwen2Vl::open(keys, weights, n_out, form, false)?;
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks: MARKS })
}

/// Reads the tower of Qwen 2.5 VL.
pub fn open_25(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    open_windowed(keys, weights, n_out, true, MARKS)
}

/// Reads a tower with windows, between these marks. `has_grid` states that its embeddings have positions by row and column
/// in the text model.
pub fn open_windowed(
    keys: &Keys<'_>,
    weights: &mut Weights<'_>,
    n_out: usize,
    has_grid: bool,
    marks: (&'static str, &'static str),
) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Rms, Activation::Silu)?;
    let tower = Qwen2Vl { has_grid, ..Qwen2Vl::open(keys, weights, n_out, form, true)? };
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Qwen2Vl {
    fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        n_out: usize,
        form: Form,
        has_windows: bool,
    ) -> Result<Qwen2Vl, Error> {
        let form = form.turned(keys, BASE, RopeKind::Neox, [1, 2])?;
        let merge = keys.count("vision.spatial_merge_size")?.unwrap_or(2);
        let trunk =
            Trunk::open(keys, weights, form, Shape { merge, between: Between::Bilinear, class: None })?;
        let windows = if has_windows {
            let side = keys.count("vision.window_size")?.unwrap_or(WINDOW) / trunk.factor();
            let pattern = keys.need_count("vision.n_wa_pattern")?;
            if side == 0 {
                return Err(keys.wrong("vision.window_size", "at least the pixels of an embedding"));
            }
            // As in mtmd, 0 is for towers without windows.
            (pattern > 0).then_some((side, pattern))
        } else {
            None
        };
        let n_merged = trunk.form.n_embd.saturating_mul(merge * merge);
        let merger = Projection::open(weights, ["mm.0", "mm.2"], [n_merged, n_out], Activation::GeluErf)?;
        let n_pixels = trunk.n_pixels(keys, N_TOKENS)?;
        Ok(Qwen2Vl { trunk, n_pixels, merger, windows, has_grid: true })
    }
}

impl Tower for Qwen2Vl {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        self.trunk.nearest_size(picture, self.n_pixels, max_tokens)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let (grid, merge) = (self.trunk.grid(picture), self.trunk.merge);
        // A tower without windows has one window with all patches.
        let (side, pattern) = self.windows.unwrap_or((grid.0.max(grid.1), 0));
        let windows = by_windows(grid, merge, side);
        let limit = |i: usize, pass: &mut Pass<'_, '_>| {
            // The last layer of every `pattern` sees the entire picture.
            windows.limit(pass, pattern == 0 || !(i + 1).is_multiple_of(pattern));
        };
        let x = self.trunk.run_with(picture, &windows.places, pass, limit, |_, _, _| ());
        let rows = windows.in_order(&self.merger.run(&self.trunk.joined(&x, pass), pass));
        let grid = self.has_grid.then_some((grid.0 / merge, grid.1 / merge));
        Ok(Embedding { rows, deep: Vec::new(), grid, seen: Seen::Before })
    }
}
