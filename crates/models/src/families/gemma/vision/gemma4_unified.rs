//! Gemma 4 without a tower: norms and a matrix over large patches, positions for column and row, one more matrix.
//!
//! ```text
//! x = norm(W norm(p) + b) + C[column] + R[row]
//! y = W_out rms(norm x)
//! ```
//!
//! Source: `Gemma4UnifiedVisionEmbedder` in `modeling_gemma4_unified.py` of transformers 5.23.

use gguf_runtime::graphs::{
    Embedding, Error, Keys, Linear, Norm, NormKind, Pass, Rows, Seen, Weights,
    vision::{Colors, Filter, Opened, Picture, Tower, raster, sizes},
};

/// Default number of embeddings of an image: `max_soft_tokens` of transformers' preprocessor.
const N_TOKENS: usize = 280;

/// Epsilon of the norms, that of torch.
const EPSILON: f32 = 1e-5;

struct Gemma4Unified {
    /// Pixels of a side of a patch.
    size: usize,
    colors: Colors,
    /// Before and after the matrix, and after positions.
    norms: [Norm; 3],
    patches: Linear,
    /// (2 n_positions, n_embd): of columns, then of rows.
    positions: Rows,
    /// The root of the mean of squares, without weights.
    last_norm: Norm,
    projection: Linear,
}

/// Reads the matrices.
pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let n_embd = keys.need_count("vision.embedding_length")?;
    let patch = keys.need_count("vision.patch_size")?;
    // The side of several patches of the key, as the matrix has it.
    let name = "v.patch_embd.weight";
    let n_pixels = weights.shape(name).map_or(0, |shape| shape.dim(0) as usize);
    let size = (n_pixels / 3).isqrt();
    if size == 0 || 3 * size * size != n_pixels || patch == 0 || !size.is_multiple_of(patch) {
        return Err(keys.wrong("vision.patch_size", "a divisor of the side of a patch"));
    }
    let patches = Linear::need(weights, "v.patch_embd", n_pixels, n_embd)?;
    let mut norm = |i: usize, n: usize| -> Result<Norm, Error> {
        let weight = Some(weights.need_vector(&format!("v.patch_norm.{i}.weight"), n)?);
        let bias = weights.vector(&format!("v.patch_norm.{i}.bias"), n)?;
        Ok(Norm { kind: NormKind::Layer, epsilon: EPSILON, weight, bias })
    };
    let norms = [norm(1, n_pixels)?, norm(2, n_embd)?, norm(3, n_embd)?];
    let name = "v.position_embd.weight";
    let n_positions = weights.shape(name).map_or(0, |shape| shape.dim(1) as usize);
    if weights.stack(name, n_embd, n_positions, 2)?.is_none() {
        return Err(Error::MissingTensor { name: name.to_owned() });
    }
    let positions = weights.need_vector(name, 2 * n_positions * n_embd)?;
    let epsilon = keys.need_float("vision.attention.layer_norm_epsilon")?;
    let tower = Gemma4Unified {
        size,
        colors: Colors::open(keys)?,
        norms,
        patches,
        positions: Rows::from_vec(2 * n_positions, n_embd, positions),
        last_norm: Norm { kind: NormKind::Rms, epsilon, weight: None, bias: None },
        projection: Linear::need(weights, "mm.input_projection", n_embd, n_out)?,
    };
    let marks = ("<|image>", "<image|>");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bicubic, marks })
}

impl Tower for Gemma4Unified {
    fn size(&self, picture: &Picture, max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let n_tokens = max_tokens.unwrap_or(N_TOKENS).max(1);
        let size = sizes::filling((picture.width(), picture.height()), self.size, n_tokens);
        // The longer side needs a position for each of its patches.
        let (found, limit) = (size.0.max(size.1) / self.size, self.positions.nrows() / 2);
        if found > limit {
            return Err(Error::TooLong { found, limit });
        }
        Ok(size)
    }

    fn n_rows(&self, (width, height): (usize, usize)) -> usize {
        (width / self.size) * (height / self.size)
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let places = raster(picture.height() / self.size, picture.width() / self.size);
        let mut pixels = self.colors.rows(picture, &places, self.size);
        let [pixel_norm, patch_norm, norm] = &self.norms;
        pixel_norm.apply(&mut pixels);
        let mut x = self.patches.run(&pixels, pass);
        patch_norm.apply(&mut x);
        let n_positions = self.positions.nrows() / 2;
        for ([row, column], mut x) in places.iter().zip(x.rows_mut()) {
            x += &self.positions.row(*column);
            x += &self.positions.row(n_positions + row);
        }
        norm.apply(&mut x);
        self.last_norm.apply(&mut x);
        let rows = self.projection.run(&x, pass).detached();
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::InWindows })
    }
}
