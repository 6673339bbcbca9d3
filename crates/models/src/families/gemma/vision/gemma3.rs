//! Gemma 3: SigLIP over a square picture; means of squares of patches, a norm and a matrix.
//!
//! Any picture is scaled to `image_size` on both sides. Its rows stand in the prompt between two marks, are not
//! multiplied by `sqrt(n_embd)` as embeddings of tokens are, and see each other in every layer (`Seen::All`).
//!
//! ```text
//! y = W^T rms(mean of k x k patches)      k = 4; W (n_embd of the tower, n_embd of the model)
//! ```
//!
//! Source: `Gemma3MultiModalProjector` in `modeling_gemma3.py` and `SiglipVisionModel` of transformers 5.23.

use gguf_runtime::graphs::{
    Activation, Embedding, Error, Keys, Norm, NormKind, Pass, Rows, Seen, Weights, dense,
    vision::{Filter, Form, Layer, Opened, Patches, Picture, Tower, mean_of_squares, raster},
};
use ndarray::Array2;

struct Gemma3 {
    form: Form,
    patches: Patches,
    /// Patches of a side.
    per_side: usize,
    /// Patches of a side that become one embedding.
    merge: usize,
    /// (per_side^2, n_embd).
    positions: Rows,
    layers: Vec<Layer>,
    norm: Norm,
    merged_norm: Norm,
    /// (n_embd, n_embd of the model): stored as it is multiplied, not turned round as matrices are.
    projection: Array2<f32>,
}

pub fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Opened, Error> {
    let form = Form::read(keys, weights, NormKind::Layer, Activation::GeluTanh)?;
    let n_embd = form.n_embd;
    let patches = Patches::open(keys, weights, n_embd)?;
    let size = keys.need_count("vision.image_size")?;
    if patches.size == 0 || !size.is_multiple_of(patches.size) || size == 0 {
        return Err(keys.wrong("vision.image_size", "a multiple of the patch size"));
    }
    let per_side = size / patches.size;
    // Four, unless it is a small model for tests.
    let merge = keys.count("vision.projector.scale_factor")?.unwrap_or(4);
    if merge == 0 || !per_side.is_multiple_of(merge) {
        return Err(keys.wrong("vision.projector.scale_factor", "a divisor of the patches of a side"));
    }
    let n_positions = per_side.saturating_mul(per_side);
    let positions = positions(weights, n_embd, n_positions)?;
    let layers = form.layers(weights)?;
    let norm = form.norm(weights, "v.post_ln", n_embd)?;
    let weight = Some(weights.need_vector("mm.soft_emb_norm.weight", n_embd)?);
    let merged_norm = Norm { weight, ..form.weightless() };
    let name = "mm.input_projection.weight";
    // Row length first: rows of the length of the model's embedding, one for each element of the tower's.
    weights.need_matrix(name, n_out, n_embd)?;
    let projection = weights.need_vector(name, n_embd * n_out)?;
    let projection = Array2::from_shape_vec((n_embd, n_out), projection).expect("the matrix has this shape");
    let tower = Gemma3 { form, patches, per_side, merge, positions, layers, norm, merged_norm, projection };
    let marks = ("\n\n<start_of_image>", "<end_of_image>\n\n");
    Ok(Opened { tower: Box::new(tower), filter: Filter::Bilinear, marks })
}

/// Learned positions: (n_positions, n_embd).
fn positions(weights: &mut Weights<'_>, n_embd: usize, n_positions: usize) -> Result<Rows, Error> {
    let name = "v.position_embd.weight";
    // Its shape is checked against the file before its values are made.
    weights.need_matrix(name, n_embd, n_positions)?;
    Ok(Rows::from_vec(n_positions, n_embd, weights.need_vector(name, n_positions * n_embd)?))
}

impl Tower for Gemma3 {
    fn size(&self, _picture: &Picture, _max_tokens: Option<usize>) -> Result<(usize, usize), Error> {
        let side = self.per_side * self.patches.size;
        Ok((side, side))
    }

    fn n_rows(&self, _size: (usize, usize)) -> usize {
        self.per_side * self.per_side
    }

    fn run(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Result<Embedding, Error> {
        let mut x = self.patches.run(picture, &raster(self.per_side, self.per_side));
        x += &self.positions;
        for (i, layer) in self.layers.iter().enumerate() {
            layer.run(&self.form, i, &mut x, pass);
        }
        self.norm.apply(&mut x);
        let mut merged = mean_of_squares(&x, (self.per_side, self.per_side), self.merge);
        self.merged_norm.apply(&mut merged);
        // (n, n_embd) @ (n_embd, n_out)
        let mut rows = Rows::zeros(merged.nrows(), self.projection.ncols());
        dense(1.0, merged.view(), self.projection.view(), rows.view_mut());
        Ok(Embedding { rows, deep: Vec::new(), grid: None, seen: Seen::All })
    }
}
