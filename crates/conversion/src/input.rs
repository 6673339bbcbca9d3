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

/// An input, opened: headers and small files only.
///
/// A checkpoint, an adapter and a GGUF file differ in these questions; all the rest of a conversion is the same.
pub trait Input {
    /// The tensors that plans are made of, as a file of this recipe would find them.
    /// [`Choice::tensor`](crate::Choice::tensor) is an index into them; their number and their order are the
    /// same for all recipes.
    fn tensors(&self, recipe: &Recipe) -> Vec<TensorFacts<'_>>;

    /// The files with its weights.
    fn sources(&self) -> Vec<Mapped>;

    /// The name of a file, where none is given.
    fn file_name(&self, file: &PlannedFile) -> String;

    /// Checks that `path` can be written without touching what is read.
    ///
    /// # Errors
    /// As [`check_output`](crate::check_output) and [`check_output_file`](crate::check_output_file).
    fn check_output(&self, path: &Path, force: bool) -> Result<(), Error>;

    /// True if weights stored in blocks are the originals, for example in a checkpoint of 4-bit floats. They can be quantized again
    /// without `allow_requantize`.
    fn has_originals(&self) -> bool {
        false
    }

    /// Plans the file of one output, or its shards.
    ///
    /// # Errors
    /// [`Error::Recipe`], [`Error::Gguf`], and what is wrong with the request.
    fn plan(&self, output: &OutputRequest, request: &Request<'_>) -> Result<Vec<PlannedFile>, Error>;

    /// One task for each of [`Input::tensors`], without targets.
    ///
    /// # Errors
    /// [`Error::NoSuchTensor`] and [`Error::RowsDiffer`] where layout and checkpoint disagree.
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
