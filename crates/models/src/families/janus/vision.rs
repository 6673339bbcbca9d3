//! Janus: SigLIP over a square picture with a border, two matrices.
//!
//! ```text
//! y = W_2 gelu(W_1 x)
//! ```
//!
//! The longer side is scaled to `image_size`, and a border of the mean color pads the picture to a square.
//!
//! Source: `JanusVisionModel`, `JanusVisionAlignerMLP` and `JanusImageProcessorPil` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, NormKind, Pass, Seen, Weights,
    vision::{
        Between, Filter, Form, Opened, Picture, Projection, ProjectorKind, Shape, Tile, Tower, Trunk, raster,
        resize,
    },
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "janus_pro", open }];

/// Minimum length of the shorter side in pixels.
const SHORTEST: usize = 14;

struct Janus {
    trunk: Trunk,
    /// Pixels of a side.
    side: usize,
    /// Color of the border.
    border: [u8; 3],
    projection: Projection,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluErf)?;
    let shape = Shape { merge: 1, between: Between::Bilinear, class: None };
    let trunk = Trunk::open(keys, weights, form, shape)?;
    let side = trunk.side(keys)?;
    let n_embd = trunk.form.n_embd;
    let projection = Projection::open(weights, ["mm.0", "mm.1"], [n_embd, n_out], Activation::GeluErf)?;
    // Truncated, as by the preprocessor.
    let border = trunk.patches.mean().map(|mean| (f64::from(mean) * 255.0) as u8);
    let tower = Janus { trunk, side, border, projection };
    let marks = ("<begin_of_image>", "<end_of_image>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Tower for Janus {
    fn size(&self, picture: &Picture, _max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let (width, height) = (picture.width(), picture.height());
        let delta = self.side as f64 / width.max(height) as f64;
        // Python rounds halves to the even number.
        let side = |n: usize| {
            ((n as f64 * delta).round_ties_even() as usize).clamp(SHORTEST.min(self.side), self.side)
        };
        Ok((side(width), side(height)))
    }

    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let size = self.size(picture, max_tokens)?;
        let side = self.side;
        let at = ((side - size.0) / 2, (side - size.1) / 2);
        let picture = resize(picture, size, filter)?.within((side, side), at, self.border)?;
        Ok(vec![Tile::new(picture)])
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let (rows, columns) = self.trunk.grid(picture);
        let x = self.trunk.run(picture, &raster(rows, columns), pass);
        let rows = self.projection.run(&x, pass);
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
