//! Reads a GGUF: metadata at once, tensors as they are stored, values on demand.

use std::path::{Path, PathBuf};

use gguf_container::{Metadata, Model, TensorInfo};
use gguf_types::DType;
use ndarray::{ArrayD, IxDyn};

use crate::{blocks::decode_rows, error::Error};

/// A GGUF model in one or more files. Headers are in memory; tensors are read on demand.
#[derive(Debug, Clone)]
pub struct GgufFile {
    path: PathBuf,
    model: Model,
}

/// A tensor of a file.
#[derive(Debug, Clone, Copy)]
pub struct TensorRef<'a> {
    path: &'a Path,
    file: &'a gguf_container::File,
    info: &'a TensorInfo,
}

/// Opens the model at `path`, which can be any shard of a split model.
///
/// # Errors
/// [`Cause::Container`](crate::Cause::Container) for every problem with the container.
pub fn open(path: impl AsRef<Path>) -> Result<GgufFile, Error> {
    let path = path.as_ref().to_owned();
    match Model::open(&path) {
        Ok(model) => Ok(GgufFile { path, model }),
        Err(error) => Err(Error::at(&path, error)),
    }
}

impl GgufFile {
    /// The path as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Metadata in the file's order; for a split model that of the first file.
    pub fn metadata(&self) -> &Metadata {
        self.model.metadata()
    }

    /// Every tensor, in order.
    pub fn tensors(&self) -> impl Iterator<Item = TensorRef<'_>> {
        let shards = self.model.shards().iter();
        shards.flat_map(|(path, file)| file.tensors().iter().map(move |info| TensorRef { path, file, info }))
    }

    /// The tensor of this name.
    pub fn tensor(&self, name: &str) -> Option<TensorRef<'_>> {
        self.tensors().find(|tensor| tensor.name() == name)
    }

    /// The container itself.
    pub fn model(&self) -> &Model {
        &self.model
    }
}

impl<'a> TensorRef<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        &self.info.name
    }

    /// Its type.
    pub fn dtype(&self) -> DType {
        self.info.dtype
    }

    /// Its dimensions in the order of NumPy and torch: row length last. Files have the reverse order.
    pub fn shape(&self) -> Vec<usize> {
        self.info.shape.dims().iter().rev().map(|&dim| dim as usize).collect()
    }

    /// The file that contains it.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Its first byte in that file.
    pub fn offset(&self) -> u64 {
        self.file.data_offset() + self.info.offset
    }

    /// Its bytes in that file.
    pub fn n_bytes(&self) -> u64 {
        self.info.n_bytes
    }

    /// The byte order of its numbers.
    pub fn endian(&self) -> gguf_container::Endian {
        self.file.endian()
    }

    /// Its bytes as they are stored, not copied.
    ///
    /// # Errors
    /// [`Cause::Container`](crate::Cause::Container).
    pub fn bytes(&self) -> Result<&'a [u8], Error> {
        self.file.data(self.info).map_err(|error| Error::at(self.path, error))
    }

    /// Its values, of [`TensorRef::shape`].
    ///
    /// # Errors
    /// [`Cause::Codec`](crate::Cause::Codec) for integers and f64, which have no codec; as [`TensorRef::bytes`].
    pub fn decode(&self) -> Result<ArrayD<f32>, Error> {
        let blocks = self.endian().to_little(self.dtype(), self.bytes()?);
        // A type without a codec fails before memory is allocated. A header cannot state more elements than its bytes hold.
        gguf_quant::codec(self.dtype())
            .ok_or(gguf_quant::CodecError::NoCodec { dtype: self.dtype(), verb: "decode" })
            .map_err(|error| Error::at(self.path, error))?;
        let mut out = ArrayD::zeros(IxDyn(&self.shape()));
        let row_elems = self.info.shape.row_elems() as usize;
        if let Some(values) = out.as_slice_mut() {
            decode_rows(self.dtype(), &blocks, row_elems, values)?;
        }
        Ok(out)
    }
}
