//! The usual tower: rows of patches, positions, layers and a norm.
//!
//! ```text
//! x = W p + b;  x = n_0 x;  x += P(row, column);  x = [c, x];  x = n_1 x;  layers;  y = n_2 x
//! ```
//!
//! Norms, learned positions and the class embedding `c` are optional: they exist if the file has their tensors. `c` has a
//! separate position and is dropped after the layers.

use ndarray::s;

use super::{
    layer::{Form, Layer},
    patches::{Patches, by_squares, joined_squares},
    picture::Picture,
    positions::{Between, Learned, Place, Positions},
    sizes,
};
use crate::{
    Error,
    decoder::Linear,
    keys::Keys,
    ops::{Activation, Norm, Rows},
    pass::Pass,
    weights::Weights,
};

/// Maximum number of patches per side that become one embedding: far above any model's, so that squares do not overflow.
const MAX_MERGE: usize = 64;

/// A tower before its projector.
pub struct Trunk {
    /// Parameters of the layers.
    pub form: Form,
    /// Convolution from pixels to rows.
    pub patches: Patches,
    /// Patches of a side that become one embedding.
    pub merge: usize,
    patch_norm: Option<Norm>,
    positions: Option<Positions>,
    /// (n_embd): the class embedding with its position.
    class: Option<(Place, Vec<f32>)>,
    pre_norm: Option<Norm>,
    /// The layers.
    pub layers: Vec<Layer>,
    /// Norm after the layers.
    pub post_norm: Option<Norm>,
}

/// Properties of a tower that no metadata key states.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Patches of a side that become one embedding.
    pub merge: usize,
    /// Interpolation of positions.
    pub between: Between,
    /// Place of the class embedding, if there is one.
    pub class: Option<Place>,
}

impl Trunk {
    /// Reads the tower.
    ///
    /// # Errors
    /// [`Error::Key`], [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        keys: &Keys<'_>,
        weights: &mut Weights<'_>,
        form: Form,
        shape: Shape,
    ) -> Result<Trunk, Error> {
        let n_embd = form.n_embd;
        let patches = Patches::open(keys, weights, n_embd)?;
        if patches.size == 0 {
            return Err(keys.wrong("vision.patch_size", "a number from 1"));
        }
        if !(1..=MAX_MERGE).contains(&shape.merge) {
            return Err(keys.wrong("vision.projector.scale_factor", "a number from 1 to 64"));
        }
        let mut class = match shape.class {
            None => None,
            Some(place) => Some((place, weights.need_vector("v.class_embd", n_embd)?)),
        };
        let positions = match Positions::open(weights, n_embd, shape.between, shape.class)? {
            None => None,
            Some(Learned { positions, of_class }) => {
                if let (Some((_, class)), Some(position)) = (&mut class, of_class) {
                    class.iter_mut().zip(position).for_each(|(x, p)| *x += p);
                }
                Some(positions)
            }
        };
        Ok(Trunk {
            patch_norm: form.optional_norm(weights, "v.norm_embd", n_embd)?,
            pre_norm: form.optional_norm(weights, "v.pre_ln", n_embd)?,
            post_norm: form.optional_norm(weights, "v.post_ln", n_embd)?,
            layers: form.layers(weights)?,
            merge: shape.merge,
            form,
            patches,
            positions,
            class,
        })
    }

    /// Number of pixels per side that become one embedding.
    pub fn factor(&self) -> usize {
        self.merge.saturating_mul(self.patches.size)
    }

    /// Patches of a picture, in (rows, columns).
    pub fn grid(&self, picture: &Picture) -> (usize, usize) {
        self.patches.grid((picture.width(), picture.height()))
    }

    /// Side in pixels of pictures that are always squares: `image_size`, a multiple of [`Trunk::factor`].
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn side(&self, keys: &Keys<'_>) -> Result<usize, Error> {
        let side = keys.need_count("vision.image_size")?;
        if side == 0 || side > 1 << 14 || !side.is_multiple_of(self.factor()) {
            return Err(keys.wrong("vision.image_size", "a multiple of the pixels of an embedding"));
        }
        Ok(side)
    }

    /// Minimum and maximum number of pixels of a picture: `image_min_pixels` and `image_max_pixels`, by default the pixels of `least`
    /// and `most` embeddings.
    ///
    /// # Errors
    /// [`Error::Key`].
    pub fn n_pixels(&self, keys: &Keys<'_>, (least, most): (usize, usize)) -> Result<(usize, usize), Error> {
        // Attention over four times the largest picture of any preprocessor would take days.
        const MAX_PIXELS: usize = 1 << 26;
        let area = self.factor().saturating_pow(2);
        let pixels = |key: &str, n: usize| -> Result<usize, Error> {
            Ok(keys.count(key)?.unwrap_or(n.saturating_mul(area)).min(MAX_PIXELS))
        };
        Ok((pixels("vision.image_min_pixels", least)?, pixels("vision.image_max_pixels", most)?))
    }

    /// Number of rows of a picture of this size in the layers.
    pub fn n_rows(&self, size: (usize, usize)) -> usize {
        let (rows, columns) = self.patches.grid(size);
        rows * columns + usize::from(self.class.is_some())
    }

    /// Rows of the patches at `places` with their positions, before the layers: (places.len(), n_embd).
    pub fn embed(&self, picture: &Picture, places: &[[usize; 2]]) -> Rows {
        let mut x = self.patches.run(picture, places);
        if let Some(norm) = &self.patch_norm {
            norm.apply(&mut x);
        }
        if let Some(positions) = &self.positions {
            positions.add(&mut x, self.grid(picture), places);
        }
        x
    }

    /// The output of all layers and the norm after them for the patches at `places`: (places.len(), n_embd).
    pub fn run(&self, picture: &Picture, places: &[[usize; 2]], pass: &mut Pass<'_, '_>) -> Rows {
        self.run_with(picture, places, pass, |_, _| (), |_, _, _| ())
    }

    /// As [`Trunk::run`], for all patches in the order of the squares that become one embedding.
    pub fn run_by_squares(&self, picture: &Picture, pass: &mut Pass<'_, '_>) -> Rows {
        let (rows, columns) = self.grid(picture);
        self.run(picture, &by_squares(rows, columns, self.merge), pass)
    }

    /// Rows in the order of squares (n, n_embd) as one row per square: (n / merge^2, merge^2 * n_embd).
    pub fn joined(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        joined_squares(x, self.merge, pass)
    }

    /// Size of a picture whose numbers of pixels are bounded: the nearest one of complete embeddings, at most `max_tokens` if given.
    pub fn nearest_size(
        &self,
        picture: &Picture,
        n_pixels: (usize, usize),
        max_tokens: Option<usize>,
    ) -> Result<(usize, usize), Error> {
        sizes::nearest_with((picture.width(), picture.height()), self.factor(), n_pixels, max_tokens)
    }

    /// As [`Trunk::run`]. `before` is called before each layer with its index and may change the pass; `after` gets the output of each
    /// layer.
    pub fn run_with(
        &self,
        picture: &Picture,
        places: &[[usize; 2]],
        pass: &mut Pass<'_, '_>,
        mut before: impl FnMut(usize, &mut Pass<'_, '_>),
        mut after: impl FnMut(usize, &mut Pass<'_, '_>, &Rows),
    ) -> Rows {
        let mut x = self.embed(picture, places);
        // With a class embedding, patches are counted from 1, because its position is 0, where nothing rotates.
        let start = u32::from(self.class.is_some());
        let mut grid: Vec<[u32; 3]> =
            places.iter().map(|[row, column]| [0, start + *row as u32, start + *column as u32]).collect();
        if let Some((place, class)) = &self.class {
            let mut values = x.as_slice().to_vec();
            let at = if *place == Place::First { 0 } else { places.len() };
            values.splice(at * class.len()..at * class.len(), class.iter().copied());
            grid.insert(at, [0; 3]);
            x = Rows::from_vec(places.len() + 1, class.len(), values);
        }
        pass.grid = Some(grid);
        if let Some(norm) = &self.pre_norm {
            norm.apply(&mut x);
        }
        for (i, layer) in self.layers.iter().enumerate() {
            before(i, pass);
            layer.run(&self.form, i, &mut x, pass);
            after(i, pass, &x);
        }
        if let Some((place, _)) = &self.class {
            let first = usize::from(*place == Place::First);
            let mut patches = pass.scratch(places.len(), x.ncols());
            patches.assign(&x.slice(s![first..first + places.len(), ..]));
            x = patches;
        }
        if let Some(norm) = &self.post_norm {
            norm.apply(&mut x);
        }
        x
    }
}

/// Two matrices with an activation between them: `W_2 f(W_1 x + b_1) + b_2`.
pub struct Projection {
    first: Linear,
    second: Linear,
    activation: Activation,
}

impl Projection {
    /// Reads both matrices by their names: (n_in, any), then (any, n_out).
    ///
    /// # Errors
    /// [`Error::MissingTensor`], [`Error::TensorShape`], [`Error::TensorType`].
    pub fn open(
        weights: &mut Weights<'_>,
        [first, second]: [&str; 2],
        [n_in, n_out]: [usize; 2],
        activation: Activation,
    ) -> Result<Projection, Error> {
        let n_inner = weights.shape(&format!("{first}.weight")).map_or(0, |shape| shape.dim(1) as usize);
        let first = Linear::need(weights, first, n_in, n_inner)?;
        let second = Linear::need(weights, second, n_inner, n_out)?;
        Ok(Projection { first, second, activation })
    }

    /// `x (n, n_in) -> (n, n_out)`.
    pub fn run(&self, x: &Rows, pass: &mut Pass<'_, '_>) -> Rows {
        let mut inner = self.first.run(x, pass);
        self.activation.apply(&mut inner);
        self.second.run(&inner, pass).detached()
    }
}
