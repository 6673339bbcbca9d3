//! Llama 4: a square tower with a class embedding after its patches, heads rotated by column and row, three matrices, and a
//! picture in tiles.
//!
//! ```text
//! y = W gelu(W_2 gelu(W_1 [x]_s))        [..]_s: the patches of a square of s x s as one row
//! ```
//!
//! The grid of tiles is the one that needs the least scaling. The picture keeps its aspect ratio, and the rest of the grid is black.
//! It is enlarged to at most one tile. The entire picture follows as one more tile, unless the grid has only one.
//!
//! Pixels are normalized in bf16, as by the preprocessor.
//!
//! Source: `Llama4VisionModel`, `Llama4ImageProcessor` and `Llama4Processor` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Linear, NormKind, Pass, RopeKind, Seen, Weights,
    vision::{
        Between, Filter, Form, Opened, Picture, Place, Projection, ProjectorKind, Shape, Tile, Tower, Trunk,
        resize, tiles,
    },
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "llama4", open }];

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

/// Maximum number of tiles of a picture, like the preprocessor.
const N_TILES: usize = 16;

struct Llama4 {
    trunk: Trunk,
    /// Pixels of a side of a tile.
    side: usize,
    adapter: Projection,
    projection: Linear,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluErf)?;
    let form = form.turned(keys, BASE, RopeKind::Normal, [2, 1])?;
    let merge = keys.need_count("vision.projector.scale_factor")?;
    let shape = Shape { merge, between: Between::Bilinear, class: Some(Place::Last) };
    let mut trunk = Trunk::open(keys, weights, form, shape)?;
    trunk.patches.round_to_bf16();
    let side = trunk.side(keys)?;
    let n_merged = trunk.form.n_embd.saturating_mul(merge * merge);
    let n_adapted = weights.shape("mm.model.fc.weight").map_or(0, |shape| shape.dim(0) as usize);
    let names = ["mm.model.mlp.1", "mm.model.mlp.2"];
    let adapter = Projection::open(weights, names, [n_merged, n_adapted], Activation::GeluErf)?;
    let projection = Linear::need(weights, "mm.model.fc", n_adapted, n_out)?;
    let tower = Llama4 { trunk, side, adapter, projection };
    let marks = ("<|image_start|>", "<|image_end|>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bilinear, marks })
}

/// Largest size with the ratio of a picture that is at most another.
fn scaled((width, height): (usize, usize), (most_wide, most_high): (usize, usize)) -> (usize, usize) {
    let (across, down) = (most_wide as f64 / width as f64, most_high as f64 / height as f64);
    if across < down {
        (most_wide, ((height as f64 * across).floor() as usize).clamp(1, most_high))
    } else {
        (((width as f64 * down).floor() as usize).clamp(1, most_wide), most_high)
    }
}

impl Tower for Llama4 {
    fn size(&self, _picture: &Picture, _max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        Ok((self.side, self.side))
    }

    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let (side, size) = (self.side, (picture.width(), picture.height()));
        let most = N_TILES.min(tiles::within_tokens(max_tokens, side / self.trunk.factor()));
        let (columns, rows) = tiles::least_scaled_grid(picture, side, most);
        let canvas = (columns * side, rows * side);
        let enlarged = (size.0.max(side).min(canvas.0), size.1.max(side).min(canvas.1));
        let fitted = resize(picture, scaled(size, enlarged), filter)?;
        let parts = tiles::parts(&fitted.within(canvas, (0, 0), [0; 3])?, side)?;
        let n_parts = parts.len();
        let tile = |(i, picture): (usize, Picture)| {
            let after = match (n_parts, (i + 1) % columns) {
                (1, _) => "",
                (_, 0) => "<|tile_y_separator|>",
                _ => "<|tile_x_separator|>",
            };
            Tile { after: after.to_owned(), ..Tile::new(picture) }
        };
        let mut tiles: Vec<Tile> = parts.into_iter().enumerate().map(tile).collect();
        if n_parts > 1 {
            tiles.push(Tile::new(resize(picture, (side, side), filter)?));
        }
        if let Some(whole) = tiles.last_mut() {
            whole.before = "<|image|>".to_owned();
        }
        Ok(tiles)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let x = self.trunk.run_by_squares(picture, pass);
        let mut adapted = self.adapter.run(&self.trunk.joined(&x, pass), pass);
        Activation::GeluErf.apply(&mut adapted);
        let rows = self.projection.run(&adapted, pass).detached();
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
