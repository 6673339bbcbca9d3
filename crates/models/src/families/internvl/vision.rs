//! InternVL: a square tower with a class embedding, two matrices, and a picture in tiles.
//!
//! ```text
//! y = W_2 gelu(W_1 norm [x]_s)        [..]_s: the patches of a square of s x s as one row
//! ```
//!
//! A picture is divided into the grid of tiles with the nearest aspect ratio. The entire picture follows as one more tile, unless
//! the grid has only one.
//!
//! Source: `InternVLVisionModel`, `InternVLMultiModalProjector` and `GotOcr2ImageProcessorPil` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Norm, NormKind, Pass, Seen, Weights,
    vision::{
        Between, Filter, Form, Opened, Picture, Place, Projection, ProjectorKind, Shape, Tile, Tower, Trunk,
        resize, tiles,
    },
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "internvl", open }];

/// Minimum and maximum number of tiles of a picture if no key states them.
const N_TILES: (usize, usize) = (1, 12);

/// Epsilon of the projector's norm, that of torch.
const EPSILON: f32 = 1e-5;

struct InternVl {
    trunk: Trunk,
    /// Pixels of a side of a tile.
    side: usize,
    n_tiles: (usize, usize),
    norm: Norm,
    projection: Projection,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    // The tower of 6B has RMS norms, which have no bias.
    let norm = if weights.shape("v.blk.0.ln1.bias").is_some() { NormKind::Layer } else { NormKind::Rms };
    let form = Form::read(keys, weights, norm, Activation::GeluErf)?;
    let form = Form { head_norm: NormKind::Rms, ..form };
    let merge = keys.need_count("vision.projector.scale_factor")?;
    let shape = Shape { merge, between: Between::Bicubic, class: Some(Place::First) };
    let trunk = Trunk::open(keys, weights, form, shape)?;
    let side = trunk.side(keys)?;
    let n_merged = trunk.form.n_embd.saturating_mul(merge * merge);
    let weight = Some(weights.need_vector("mm.model.mlp.0.weight", n_merged)?);
    let bias = weights.vector("mm.model.mlp.0.bias", n_merged)?;
    let norm = Norm { kind: NormKind::Layer, epsilon: EPSILON, weight, bias };
    let names = ["mm.model.mlp.1", "mm.model.mlp.3"];
    let projection = Projection::open(weights, names, [n_merged, n_out], Activation::GeluErf)?;
    let count = |key: &str, n: usize| -> Result<usize, Error> { Ok(keys.count(key)?.unwrap_or(n)) };
    let n_tiles =
        (count("vision.preproc_min_tiles", N_TILES.0)?, count("vision.preproc_max_tiles", N_TILES.1)?);
    let tower = InternVl { trunk, side, n_tiles, norm, projection };
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks: ("<img>", "</img>") })
}

impl Tower for InternVl {
    fn size(&self, _picture: &Picture, _max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        Ok((self.side, self.side))
    }

    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let (least, most) = self.n_tiles;
        let most = most.min(tiles::within_tokens(max_tokens, self.side / self.trunk.factor()));
        let grid = tiles::nearest_grid(picture, self.side, least.min(most), most);
        let mut parts = tiles::cut(picture, self.side, grid, filter)?;
        if parts.len() > 1 {
            parts.push(resize(picture, (self.side, self.side), filter)?);
        }
        Ok(parts.into_iter().map(Tile::new).collect())
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let x = self.trunk.run_by_squares(picture, pass);
        let mut squares = self.trunk.joined(&x, pass);
        self.norm.apply(&mut squares);
        let rows = self.projection.run(&squares, pass);
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
