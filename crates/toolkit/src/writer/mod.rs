//! A writer for one's own tensors and metadata.
//!
//! Source: `GGUFWriter` in `gguf-py/gguf/gguf_writer.py` (llama-cpp-python 0.3.36). The same calls write the same bytes.

mod element;
mod open_files;

use std::{
    borrow::Cow,
    collections::HashSet,
    fmt,
    path::{Path, PathBuf},
    sync::atomic::Ordering,
};

use gguf_container::{
    ALIGNMENT_KEY, Endian, Metadata, Plan, SPLIT_COUNT_KEY, SPLIT_NO_KEY, SPLIT_TENSORS_KEY, SplitLimits,
    Value,
};
use gguf_types::{DType, Shape};
use ndarray::{ArrayView, ArrayView2, Dimension};

pub(crate) use self::open_files::shard_paths;
use self::open_files::wrong_length;
pub use self::{element::Element, open_files::OpenFiles};
use crate::{
    blocks::encode,
    error::Error,
    events::Events,
    outputs::{check_outputs, write_file},
};

/// Receives the bytes of a tensor in pieces of any length.
pub type Sink<'a> = dyn FnMut(&[u8]) -> Result<(), Error> + 'a;

/// Passes all bytes of a tensor to a sink.
type Produce<'a> = Box<dyn Fn(&mut Sink<'_>) -> Result<(), Error> + Send + Sync + 'a>;

/// Bytes, elements or encoded elements that are passed on at a time.
const PIECE: usize = 1 << 20;

/// A GGUF file in the making: metadata and tensors in the order in which they are added.
///
/// Shapes are those of NumPy and torch: row length last. Tensors have up to five dimensions and names of up to 127 bytes, which
/// programs for diffusion models read; llama.cpp loads at most four dimensions and 63 bytes. Data is borrowed or produced while the
/// file is written, so a file can be larger than the memory.
///
/// # Examples
/// ```
/// use gguf_toolkit::{DType, Value, Writer};
///
/// # fn main() -> Result<(), gguf_toolkit::Error> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("own.gguf");
/// let weights = ndarray::Array2::from_shape_fn((4, 64), |(row, column)| (row * 64 + column) as f32);
/// let mut writer = Writer::new("llama");
/// writer.add("llama.block_count", 2u32)?;
/// writer.add("general.tags", vec!["own", "small"])?;
/// writer.add_tensor("output_norm.weight", &[64], vec![1.0f32; 64])?;
/// writer.add_tensor_as("output.weight", weights.view(), DType::Q8_0)?;
/// let planned = writer.plan()?;
/// let paths = writer.write(&path, false, &())?;
/// assert_eq!(std::fs::metadata(&paths[0]).unwrap().len(), planned[0].file_len());
/// let file = gguf_toolkit::open(&path)?;
/// assert_eq!(file.metadata().get("llama.block_count"), Some(&Value::U32(2)));
/// assert_eq!(file.tensor("output.weight").unwrap().shape(), [4, 64]);
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
pub struct Writer<'a> {
    metadata: Metadata,
    tensors: Vec<Tensor<'a>>,
    names: HashSet<String>,
    endian: Endian,
    limits: Option<SplitLimits>,
}

struct Tensor<'a> {
    name: String,
    shape: Shape,
    dtype: DType,
    n_bytes: u64,
    /// None for a tensor whose data is written through [`OpenFiles`].
    produce: Option<Produce<'a>>,
}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer")
            .field("keys", &self.metadata.len())
            .field("tensors", &self.tensors.len())
            .field("endian", &self.endian)
            .field("limits", &self.limits)
            .finish()
    }
}

impl<'a> Writer<'a> {
    /// A file of this architecture, which is its first key. [`Writer::default`] has no keys.
    pub fn new(architecture: &str) -> Writer<'a> {
        let mut writer = Writer::default();
        writer.metadata.set("general.architecture", architecture);
        writer
    }

    /// Sets the byte order of the file; default: little-endian. Data is always added in little-endian order.
    pub fn set_endian(&mut self, endian: Endian) -> &mut Self {
        self.endian = endian;
        self
    }

    /// Sets the alignment of tensors in bytes, a power of two of at least 8; default: 32. It is the value of
    /// `general.alignment`, at the position where this is called first.
    pub fn set_alignment(&mut self, alignment: u32) -> &mut Self {
        self.metadata.set(ALIGNMENT_KEY, alignment);
        self
    }

    /// Divides the tensors into shards of this size. Padding does not count, as in gguf-py.
    pub fn set_split(&mut self, limits: SplitLimits) -> &mut Self {
        self.limits = Some(limits);
        self
    }

    /// Adds a metadata key.
    ///
    /// # Errors
    /// [`gguf_container::Error::DuplicateKey`]. [`Writer::metadata_mut`] replaces values.
    pub fn add(&mut self, key: &str, value: impl Into<Value>) -> Result<&mut Self, Error> {
        if self.metadata.contains(key) {
            return Err(gguf_container::Error::DuplicateKey { key: key.to_owned() }.into());
        }
        self.metadata.set(key, value);
        Ok(self)
    }

    /// The metadata.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The metadata, to change or remove keys.
    pub fn metadata_mut(&mut self) -> &mut Metadata {
        &mut self.metadata
    }

    /// Adds a tensor of numbers, which keep their type. `data` has the elements of all rows; a slice is borrowed until
    /// the file is written.
    ///
    /// # Errors
    /// A duplicate name; a number of elements that does not match the shape.
    pub fn add_tensor<T: Element + 'a>(
        &mut self,
        name: &str,
        shape: &[usize],
        data: impl Into<Cow<'a, [T]>>,
    ) -> Result<&mut Self, Error>
    where
        [T]: ToOwned<Owned = Vec<T>>,
    {
        let data: Cow<'a, [T]> = data.into();
        let found = size_of_val::<[T]>(&data) as u64;
        self.check_length(name, shape, T::DTYPE, found)?;
        let produce = move |sink: &mut Sink<'_>| {
            let mut bytes = Vec::with_capacity(PIECE.min(data.len()) * size_of::<T>());
            data.chunks(PIECE).try_for_each(|elements| {
                bytes.clear();
                elements.iter().for_each(|element| element.append_to(&mut bytes));
                sink(&bytes)
            })
        };
        self.push(name, shape, T::DTYPE, Some(Box::new(produce)))
    }

    /// Adds an array of numbers, which keep their type.
    ///
    /// # Errors
    /// As [`Writer::add_tensor`].
    pub fn add_array<T: Element + 'a, D: Dimension>(
        &mut self,
        name: &str,
        array: ArrayView<'a, T, D>,
    ) -> Result<&mut Self, Error> {
        let shape = array.shape().to_vec();
        self.add_tensor(name, &shape, contiguous(&array))
    }

    /// Adds an array of numbers, which is encoded to blocks of `dtype` while the file is written. The bytes are those of
    /// [`encode()`](crate::encode()).
    ///
    /// # Errors
    /// A duplicate name; a type that cannot be encoded, or a row length that is not a multiple of its block size.
    pub fn add_tensor_as<D: Dimension>(
        &mut self,
        name: &str,
        array: ArrayView<'a, f32, D>,
        dtype: DType,
    ) -> Result<&mut Self, Error> {
        if !dtype.is_encodable() {
            return Err(gguf_quant::CodecError::NoCodec { dtype, verb: "encode" }.into());
        }
        let shape = array.shape().to_vec();
        let row_elems = shape.last().copied().unwrap_or(1).max(1);
        let values: Cow<'a, [f32]> = contiguous(&array);
        let produce = move |sink: &mut Sink<'_>| {
            values.chunks((PIECE / row_elems).max(1) * row_elems).try_for_each(|values| {
                let rows = ArrayView2::from_shape((values.len() / row_elems, row_elems), values);
                let blocks = encode(dtype, rows.map_err(|error| Error::new(error.to_string()))?)?;
                sink(blocks.as_slice().unwrap_or_default())
            })
        };
        self.push(name, &shape, dtype, Some(Box::new(produce)))
    }

    /// Adds a tensor of any type by its bytes in little-endian order: rows of f16 or bf16, or encoded blocks.
    ///
    /// # Errors
    /// A duplicate name; a row length that is not a multiple of the block size; a number of bytes that does not match
    /// the shape.
    pub fn add_blocks(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        bytes: impl Into<Cow<'a, [u8]>>,
    ) -> Result<&mut Self, Error> {
        let bytes: Cow<'a, [u8]> = bytes.into();
        self.check_length(name, shape, dtype, bytes.len() as u64)?;
        let produce = move |sink: &mut Sink<'_>| bytes.chunks(PIECE).try_for_each(&mut *sink);
        self.push(name, shape, dtype, Some(Box::new(produce)))
    }

    /// Adds a tensor whose bytes `produce` passes to the sink while the file is written, in little-endian order and in
    /// pieces of any length.
    ///
    /// # Errors
    /// A duplicate name; a row length that is not a multiple of the block size. A wrong number of bytes is an error of
    /// [`Writer::write`].
    ///
    /// # Examples
    /// ```
    /// use gguf_toolkit::{DType, Writer};
    ///
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// let mut writer = Writer::new("llama");
    /// // A thousand rows of which only one is in memory.
    /// writer.add_produced("token_embd.weight", &[1000, 32], DType::F16, |sink| {
    ///     (0..1000).try_for_each(|_row| sink(&[0; 64]))
    /// })?;
    /// assert_eq!(writer.plan()?[0].tensors()[0].n_bytes, 64_000);
    /// # Ok(())
    /// # }
    /// ```
    pub fn add_produced(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        produce: impl Fn(&mut Sink<'_>) -> Result<(), Error> + Send + Sync + 'a,
    ) -> Result<&mut Self, Error> {
        self.push(name, shape, dtype, Some(Box::new(produce)))
    }

    /// Adds a tensor without data, which is written later through [`OpenFiles`].
    ///
    /// # Errors
    /// A duplicate name; a row length that is not a multiple of the block size.
    pub fn add_tensor_info(&mut self, name: &str, shape: &[usize], dtype: DType) -> Result<&mut Self, Error> {
        self.push(name, shape, dtype, None)
    }

    /// As [`Writer::add_tensor_info`], for data of which the number of bytes is known.
    ///
    /// # Errors
    /// As [`Writer::add_tensor_info`]; a number of bytes that does not match the shape.
    pub fn add_sized_tensor_info(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        n_bytes: u64,
    ) -> Result<&mut Self, Error> {
        self.check_length(name, shape, dtype, n_bytes)?;
        self.push(name, shape, dtype, None)
    }

    /// The files with all offsets and lengths, one unless the tensors are divided into shards.
    ///
    /// # Errors
    /// An invalid key, tensor name or alignment; too many shards.
    pub fn plan(&self) -> Result<Vec<Plan>, Error> {
        let shards = self.shards();
        let (count, n_tensors) = (shards.len(), self.tensors.len());
        let too_many = || Error::new(gguf_container::Error::TooManyShards { count });
        let mut plans = Vec::with_capacity(count);
        for (no, tensors) in shards.into_iter().enumerate() {
            let mut metadata = if no == 0 { self.metadata.clone() } else { Metadata::new() };
            if count > 1 {
                metadata.set(SPLIT_NO_KEY, Value::U16(u16::try_from(no).map_err(|_| too_many())?));
                metadata.set(SPLIT_COUNT_KEY, Value::U16(u16::try_from(count).map_err(|_| too_many())?));
                let n_tensors = i32::try_from(n_tensors).map_err(|_| too_many())?;
                metadata.set(SPLIT_TENSORS_KEY, Value::I32(n_tensors));
            }
            let infos = tensors.iter().map(|tensor| (tensor.name.clone(), tensor.shape, tensor.dtype));
            // Only the first shard states the alignment, as gguf-py writes it; readers take the default for the rest.
            let alignment = Plan::alignment_of(&metadata);
            plans.push(Plan::new(&metadata, infos.collect(), self.endian, alignment)?);
        }
        Ok(plans)
    }

    /// Writes the file under a temporary name, syncs it and renames it to `path`. Shards are named after `path`, as in
    /// `model-00001-of-00003.gguf`. Returns the paths.
    ///
    /// # Errors
    /// As [`Writer::plan`]; a file that exists without `force`, or cannot be written; a tensor whose producer fails or
    /// passes a wrong number of bytes; an interruption.
    pub fn write(
        &self,
        path: impl AsRef<Path>,
        force: bool,
        events: &dyn Events,
    ) -> Result<Vec<PathBuf>, Error> {
        let mut open = self.open(path, force)?;
        let cancel = events.cancel();
        let progress = events.progress(self.tensors.iter().map(|tensor| tensor.n_bytes).sum());
        for tensor in &self.tensors {
            let wrong = |found| wrong_length(&tensor.name, tensor.n_bytes, found);
            let Some(produce) = &tensor.produce else { return Err(wrong(0)) };
            let mut passed = 0u64;
            produce(&mut |bytes: &[u8]| {
                if cancel.load(Ordering::Relaxed) {
                    return Err(Error::interrupted());
                }
                passed = passed.saturating_add(bytes.len() as u64);
                // The bytes of the next tensor would follow without a gap.
                if passed > tensor.n_bytes {
                    return Err(wrong(passed));
                }
                if !bytes.is_empty() {
                    open.write(bytes)?;
                    progress.add(bytes.len() as u64);
                }
                Ok(())
            })?;
            if passed != tensor.n_bytes {
                return Err(wrong(passed));
            }
        }
        open.finish()
    }

    /// Creates the files and writes their headers. The data of all tensors, also of those that have it here, is then
    /// passed to [`OpenFiles::write`].
    ///
    /// # Errors
    /// As [`Writer::plan`]; a file that exists without `force`, or cannot be created.
    ///
    /// # Examples
    /// ```
    /// use gguf_toolkit::{DType, Writer};
    ///
    /// # fn main() -> Result<(), gguf_toolkit::Error> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("own.gguf");
    /// let mut writer = Writer::new("llama");
    /// writer.add_tensor_info("token_embd.weight", &[1000, 32], DType::F16)?;
    /// let mut open = writer.open(&path, false)?;
    /// while let Some(tensor) = open.next_tensor() {
    ///     let zeros = vec![0; tensor.n_bytes as usize];
    ///     open.write(&zeros)?;
    /// }
    /// assert_eq!(open.finish()?, [path]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn open(&self, path: impl AsRef<Path>, force: bool) -> Result<OpenFiles, Error> {
        let plans = self.plan()?;
        let paths = shard_paths(path.as_ref(), plans.len());
        check_outputs(&paths, &[] as &[&Path], force)?;
        OpenFiles::create(plans, paths, force)
    }

    /// Writes a file of the metadata alone. It ends with the last key, without padding, as gguf-py writes files of
    /// vocabularies.
    ///
    /// # Errors
    /// An invalid key; a file that exists without `force`, or cannot be written.
    pub fn write_metadata(&self, path: impl AsRef<Path>, force: bool) -> Result<(), Error> {
        let plan = Plan::new(&self.metadata, Vec::new(), self.endian, Plan::alignment_of(&self.metadata))?;
        write_file(path.as_ref(), plan.unpadded_header_bytes(), force)
    }

    /// Tensors of each file. A new file begins if a limit would be exceeded, unless the current one has no tensor.
    fn shards(&self) -> Vec<Vec<&Tensor<'a>>> {
        let limits = self.limits.unwrap_or_default();
        let mut shards = vec![Vec::new()];
        if limits.no_tensor_first {
            shards.push(Vec::new());
        }
        let mut n_bytes = 0u64;
        for tensor in &self.tensors {
            let n_tensors = shards.last().map_or(0, Vec::len) as u64;
            let is_full = limits.max_tensors.is_some_and(|max| n_tensors >= max)
                || limits.max_bytes.is_some_and(|max| n_bytes.saturating_add(tensor.n_bytes) > max);
            if n_tensors > 0 && is_full {
                shards.push(Vec::new());
                n_bytes = 0;
            }
            n_bytes = n_bytes.saturating_add(tensor.n_bytes);
            if let Some(shard) = shards.last_mut() {
                shard.push(tensor);
            }
        }
        shards
    }

    fn check_length(&self, name: &str, shape: &[usize], dtype: DType, found: u64) -> Result<(), Error> {
        let (_, expected) = sizes(name, shape, dtype)?;
        if found == expected { Ok(()) } else { Err(wrong_length(name, expected, found)) }
    }

    fn push(
        &mut self,
        name: &str,
        shape: &[usize],
        dtype: DType,
        produce: Option<Produce<'a>>,
    ) -> Result<&mut Self, Error> {
        let (shape, n_bytes) = sizes(name, shape, dtype)?;
        if !self.names.insert(name.to_owned()) {
            return Err(gguf_container::Error::DuplicateTensor { name: name.to_owned() }.into());
        }
        self.tensors.push(Tensor { name: name.to_owned(), shape, dtype, n_bytes, produce });
        Ok(self)
    }
}

/// A shape in the order of files, and the bytes of its data.
fn sizes(name: &str, shape: &[usize], dtype: DType) -> Result<(Shape, u64), Error> {
    let dims: Vec<u64> = shape.iter().map(|&dim| dim as u64).collect();
    let sized = Shape::from_row_major(&dims).and_then(|shape| Ok((shape, shape.n_bytes(dtype)?)));
    sized.map_err(|source| gguf_container::Error::Shape { tensor: name.to_owned(), source }.into())
}

/// The elements of an array in row-major order, borrowed if they are stored in it.
fn contiguous<'a, T: Copy, D: Dimension>(array: &ArrayView<'a, T, D>) -> Cow<'a, [T]> {
    match array.to_slice() {
        Some(elements) => Cow::Borrowed(elements),
        None => Cow::Owned(array.iter().copied().collect()),
    }
}
