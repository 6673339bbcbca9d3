//! LFM2-VL: SigLIP 2 over a picture of any ratio, a norm and two matrices; large pictures in tiles.
//!
//! ```text
//! x = W p + b + P(row, column)        positions averaged over the area of a patch
//! y = W_2 gelu(W_1 norm [x]_s)        [..]_s: the patches of a square of s x s as one row
//! ```
//!
//! A picture with more than twice the pixels of 256 embeddings is divided into the grid of 2 to 10 tiles with the nearest aspect
//! ratio. The entire picture follows.
//!
//! Source: `Siglip2VisionModel`, `Lfm2VlMultiModalProjector`, `Lfm2VlImageProcessor` and `Lfm2VlProcessor` of transformers
//! 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Norm, NormKind, Pass, Seen, Weights,
    vision::{
        Between, Filter, Form, Opened, Picture, Projection, ProjectorKind, Shape, Tile, Tower, Trunk, resize,
        sizes, tiles,
    },
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "lfm2", open }];

/// Minimum and maximum number of embeddings of a picture in one tile, like the preprocessor.
const N_TOKENS: (usize, usize) = (64, 256);

/// Minimum and maximum number of tiles of a large picture, and the side of a tile in pixels.
const N_TILES: (usize, usize) = (2, 10);
const TILE: usize = 512;

/// A picture is divided into tiles if it would become more than this multiple of the largest number of embeddings.
const TOLERANCE: f64 = 2.0;

/// Epsilon of the projector's norm, that of torch.
const EPSILON: f32 = 1e-5;

struct Lfm2Vl {
    trunk: Trunk,
    /// Minimum and maximum number of pixels of a picture.
    n_pixels: (usize, usize),
    norm: Option<Norm>,
    projection: Projection,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluTanh)?;
    let merge = keys.need_count("vision.projector.scale_factor")?;
    let trunk = Trunk::open(keys, weights, form, Shape { merge, between: Between::Averaged, class: None })?;
    let n_merged = trunk.form.n_embd.saturating_mul(merge * merge);
    let norm = match weights.vector("mm.input_norm.weight", n_merged)? {
        None => None,
        weight => {
            let bias = weights.vector("mm.input_norm.bias", n_merged)?;
            Some(Norm { kind: NormKind::Layer, epsilon: EPSILON, weight, bias })
        }
    };
    let projection = Projection::open(weights, ["mm.1", "mm.2"], [n_merged, n_out], Activation::GeluErf)?;
    let n_pixels = trunk.n_pixels(keys, N_TOKENS)?;
    let tower = Lfm2Vl { trunk, n_pixels, norm, projection };
    let marks = ("<|image_start|>", "<|image_end|>");
    let filter = match keys.text("vision.image_resize_algo")? {
        None | Some("bilinear") => Filter::Bilinear,
        Some("bicubic") => Filter::Bicubic,
        Some("lanczos") => Filter::Lanczos,
        Some(_) => return Err(keys.wrong("vision.image_resize_algo", "bilinear, bicubic or lanczos")),
    };
    Ok(Opened { tower: Box::new(tower), filter, marks })
}

impl Tower for Lfm2Vl {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let factor = self.trunk.factor();
        let size = (picture.width(), picture.height());
        let (min, max) = self.n_pixels;
        let most =
            max_tokens.map_or(max, |n| max.min(n.max(1).saturating_mul(factor.saturating_mul(factor))));
        Ok(sizes::nearest_of_any_ratio(size, factor, min.min(most), most))
    }

    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let factor = self.trunk.factor();
        let (width, height) = (picture.width(), picture.height());
        let whole = resize(picture, self.size(picture, max_tokens)?, filter)?;
        // Python rounds halves to the even number.
        let rounded = |n: usize| (n as f64 / factor as f64).round_ties_even() * factor as f64;
        let [width, height] = [width, height].map(|n| rounded(n).max(self.trunk.patches.size as f64));
        let is_large = width * height > self.n_pixels.1 as f64 * TOLERANCE;
        let most = N_TILES.1.min(tiles::within_tokens(max_tokens, TILE / factor));
        if !is_large || most < N_TILES.0 || !TILE.is_multiple_of(factor) {
            return Ok(vec![Tile::new(whole)]);
        }
        let grid = tiles::nearest_grid(picture, TILE, N_TILES.0, most);
        let parts = tiles::cut(picture, TILE, grid, filter)?.into_iter().enumerate();
        let mut tiles: Vec<Tile> = parts
            .map(|(i, picture)| {
                let (row, column) = (i / grid.0 + 1, i % grid.0 + 1);
                Tile { before: format!("<|img_row_{row}_col_{column}|>"), ..Tile::new(picture) }
            })
            .collect();
        tiles.push(Tile { before: "<|img_thumbnail|>".to_owned(), ..Tile::new(whole) });
        Ok(tiles)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let x = self.trunk.run_by_squares(picture, pass);
        let mut squares = self.trunk.joined(&x, pass);
        if let Some(norm) = &self.norm {
            norm.apply(&mut squares);
        }
        let rows = self.projection.run(&squares, pass);
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
