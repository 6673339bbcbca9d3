//! Kimi K2.5: MoonViT. Learned positions interpolated to the size of the picture, heads rotated by column and row, a norm and
//! two matrices.
//!
//! ```text
//! x = W p + b + P(row, column)
//! y = W_2 gelu(W_1 [norm x]_4)        [..]_4: the patches of a square of 2 x 2 as one row
//! ```
//!
//! A picture with too many patches is reduced; pictures are never enlarged. Black pixels to the right and below pad it to complete
//! squares.
//!
//! Source: `Kimi_K25VisionModel`, `Kimi_K25MultimodalProjection` and `navit_resize` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Norm, NormKind, Pass, RopeKind, Seen, Weights,
    vision::{
        Between, Filter, Form, Opened, Picture, Projection, ProjectorKind, Shape, Tile, Tower, Trunk, resize,
    },
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "kimik25", open }];

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

/// Maximum number of patches of a side, like the preprocessor.
const PER_SIDE: usize = 512;

/// Minimum and maximum number of embeddings of a picture if no key states them.
const N_TOKENS: (usize, usize) = (2, 4096);

struct KimiK25 {
    trunk: Trunk,
    /// Maximum number of patches of a picture.
    n_patches: usize,
    norm: Norm,
    projection: Projection,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluTanh)?;
    // Rows of the matrices are stored for heads whose first half rotates by column and whose second half rotates by row.
    let form = form.turned(keys, BASE, RopeKind::Normal, [2, 1])?;
    let merge = keys.need_count("vision.projector.scale_factor")?;
    let trunk = Trunk::open(keys, weights, form, Shape { merge, between: Between::Bicubic, class: None })?;
    let n_embd = trunk.form.n_embd;
    let norm = trunk.form.norm(weights, "mm.input_norm", n_embd)?;
    let sizes = [n_embd.saturating_mul(merge * merge), n_out];
    let projection = Projection::open(weights, ["mm.1", "mm.2"], sizes, Activation::GeluErf)?;
    let n_patches = trunk.n_pixels(keys, N_TOKENS)?.1 / (trunk.patches.size * trunk.patches.size);
    let tower = KimiK25 { trunk, n_patches, norm, projection };
    let marks = ("<|media_begin|>", "<|media_end|>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Tower for KimiK25 {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let (size, merge) = (self.trunk.patches.size, self.trunk.merge);
        let most = max_tokens.map_or(self.n_patches, |n| self.n_patches.min(n.saturating_mul(merge * merge)));
        let longest = PER_SIDE * size;
        let sides = [picture.width(), picture.height()];
        let n_patches: usize = sides.iter().map(|side| (side / size).max(1)).product();
        let scales = sides.map(|side| longest as f64 / side as f64);
        let scale = (most as f64 / n_patches as f64).sqrt().min(1.0).min(scales[0]).min(scales[1]);
        let [width, height] = sides.map(|side| ((side as f64 * scale) as usize).clamp(1, longest));
        Ok((width, height))
    }

    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let size = self.size(picture, max_tokens)?;
        let whole = |side: usize| side.next_multiple_of(self.trunk.factor());
        let canvas = (whole(size.0), whole(size.1));
        Ok(vec![Tile::new(resize(picture, size, filter)?.within(canvas, (0, 0), [0; 3])?)])
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let mut x = self.trunk.run_by_squares(picture, pass);
        self.norm.apply(&mut x);
        let rows = self.projection.run(&self.trunk.joined(&x, pass), pass);
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
