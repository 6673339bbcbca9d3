//! Idefics 3 and SmolVLM: SigLIP over tiles of a picture, one matrix.
//!
//! ```text
//! y = W [x]_s        [..]_s: the patches of a square of s x s as one row
//! ```
//!
//! The longer side of a picture is scaled to `preproc_image_size`, and both sides are then rounded up to complete tiles. The entire
//! picture follows as one more tile. Tokens between tiles name their row and column.
//!
//! Source: `Idefics3ForConditionalGeneration`, `Idefics3ImageProcessorPil` and `Idefics3Processor` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Linear, NormKind, Pass, Seen, Weights,
    vision::{
        Between, Filter, Form, Opened, Picture, ProjectorKind, Shape, Tile, Tower, Trunk, resize, sizes,
        tiles,
    },
};

pub const TOWERS: &[ProjectorKind] = &[ProjectorKind { name: "idefics3", open }];

/// Largest side that the preprocessor makes.
const LONGEST: usize = 4096;

/// Token around the rows of a tile.
const AROUND: &str = "<fake_token_around_image>";

/// Token before the entire picture.
const WHOLE: &str = "<global-img>";

struct Idefics3 {
    trunk: Trunk,
    /// Pixels of a side of a tile.
    side: usize,
    /// Pixels of the longer side of a picture.
    longest: usize,
    projection: Linear,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluTanh)?;
    let merge = keys.need_count("vision.projector.scale_factor")?;
    let shape = Shape { merge, between: Between::Bilinear, class: None };
    let trunk = Trunk::open(keys, weights, form, shape)?;
    let side = trunk.side(keys)?;
    let longest = keys.count("vision.preproc_image_size")?.unwrap_or(side);
    if longest == 0 || longest > LONGEST {
        return Err(keys.wrong("vision.preproc_image_size", "a number from 1 to 4096"));
    }
    let n_merged = trunk.form.n_embd.saturating_mul(merge * merge);
    let projection = Linear::need(weights, "mm.model.fc", n_merged, n_out)?;
    let tower = Idefics3 { trunk, side, longest, projection };
    // `AROUND` ends the last tile.
    Ok(Opened { tower: Box::new(tower), filter: Filter::Lanczos, marks: ("", AROUND) })
}

impl Tower for Idefics3 {
    fn size(&self, _picture: &Picture, _max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        Ok((self.side, self.side))
    }

    fn tiles(
        &self,
        picture: &Picture,
        filter: Filter,
        max_tokens: Option<usize>,
    ) -> Result<Vec<Tile>, Error> {
        let side = self.side;
        let size = (picture.width(), picture.height());
        // Fewer pixels give fewer tiles.
        let most = tiles::within_tokens(max_tokens, side / self.trunk.factor());
        let mut sizes = (1..=self.longest.div_ceil(side)).rev().map(|n| {
            let fitted = sizes::with_longest(size, self.longest.min(n * side));
            (fitted, sizes::whole_tiles(fitted, side))
        });
        let enough = |(_, (width, height)): &((usize, usize), (usize, usize))| {
            let n = (width / side).saturating_mul(height / side);
            n <= most
        };
        let (fitted, whole) =
            sizes.clone().find(enough).or_else(|| sizes.next_back()).unwrap_or((size, (side, side)));
        // Resized twice, as by the preprocessor.
        let resized = resize(&resize(picture, fitted, filter)?, whole, filter)?;
        let columns = whole.0 / side;
        let parts = tiles::parts(&resized, side)?;
        let n_tiles = parts.len();
        if n_tiles < 2 {
            let before = format!("{AROUND}{WHOLE}");
            return Ok(parts
                .into_iter()
                .map(|picture| Tile { before: before.clone(), ..Tile::new(picture) })
                .collect());
        }
        let tile = |(i, picture): (usize, Picture)| {
            let (row, column) = (i / columns + 1, i % columns + 1);
            let before = format!("{AROUND}<row_{row}_col_{column}>");
            // Lines end after the last tile of a row.
            let after = if column == columns { "\n" } else { "" };
            Tile { before, picture, after: after.to_owned() }
        };
        let mut tiles: Vec<Tile> = parts.into_iter().enumerate().map(tile).collect();
        let before = format!("\n{AROUND}{WHOLE}");
        tiles.push(Tile { before, ..Tile::new(resize(&resized, (side, side), filter)?) });
        Ok(tiles)
    }

    fn n_rows(&self, size: (usize, usize)) -> usize {
        self.trunk.n_rows(size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let x = self.trunk.run_by_squares(picture, pass);
        let rows = self.projection.run(&self.trunk.joined(&x, pass), pass).detached();
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::Before })
    }
}
