//! Inputs of a conversion.

use std::path::Path;

use gguf_container::Mapped;

use crate::{
    Error,
    job::TensorTask,
    planned::PlannedFile,
    recipes::{Recipe, TensorFacts},
    request::{OutputRequest, Request},
};

/// An opened input; only headers and small files were read.
///
/// It answers the questions in which a checkpoint, an adapter and a GGUF file differ; the rest of a
/// conversion is shared.
pub trait Input {
    /// Tensors for planning, as a file of this recipe would have them.
    /// [`Choice::tensor`](crate::Choice::tensor) is an index into them. Their number and order do not depend
    /// on the recipe.
    fn tensors(&self, recipe: &Recipe) -> Vec<TensorFacts<'_>>;

    /// Files that contain the weights.
    fn sources(&self) -> Vec<Mapped>;

    /// Default name of a file.
    fn file_name(&self, file: &PlannedFile) -> String;

    /// Checks that `path` can be written without touching what is read.
    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error>;

    /// True if weights stored in blocks are the originals, for example in a checkpoint of 4-bit floats. They can be quantized again
    /// without `allow_requantize`.
    fn has_originals(&self) -> bool {
        false
    }

    /// Plans the file of one output, or its shards.
    ///
    /// # Errors
    /// [`Error::Recipe`], [`Error::Gguf`], and problems of the request.
    fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error>;

    /// One task for each of [`Input::tensors`], without targets.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`] and [`Error::RowsDiffer`] if layout and checkpoint disagree.
    fn tasks<'a>(&'a self, request: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error>;
}

/// References and boxes of inputs are inputs.
macro_rules! forward {
    ($of:ty) => {
        impl<I: Input + ?Sized> Input for $of {
            fn tensors(&self, recipe: &Recipe) -> Vec<TensorFacts<'_>> {
                (**self).tensors(recipe)
            }

            fn sources(&self) -> Vec<Mapped> {
                (**self).sources()
            }

            fn file_name(&self, file: &PlannedFile) -> String {
                (**self).file_name(file)
            }

            fn check_output(&self, path: &Path, force: bool) -> Result<(), Error> {
                (**self).check_output(path, force)
            }

            fn has_originals(&self) -> bool {
                (**self).has_originals()
            }

            fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error> {
                (**self).plan(output, request)
            }

            fn tasks<'a>(&'a self, request: &Request<'_>) -> Result<Vec<TensorTask<'a>>, Error> {
                (**self).tasks(request)
            }
        }
    };
}

// For inputs whose kind is known at run time, and for borrowed ones that are written later.
forward!(Box<I>);
forward!(&I);
