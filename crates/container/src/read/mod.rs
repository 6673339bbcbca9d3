//! Reads GGUF files of versions 1, 2 and 3, in either byte order.
//!
//! The entire header is parsed and checked; tensor data is only read on request. Sources: "GGUF v3
//! specification" for the layout; `gguf_init_from_reader` in `ggml/src/gguf.cpp` (llama-cpp-python 0.3.36)
//! for further checks; llama.cpp of August 2023 for version 1, which has 32 bits where later versions have
//! 64: the two counts of the header, the lengths of strings and arrays, and the dimensions of tensors.

mod cursor;
mod values;

use std::{
    collections::{HashMap, HashSet},
    ops::{Deref, Range},
    path::Path,
};

use gguf_types::{DType, DTypeError, MAX_DIMS, Shape, ShapeError};

use self::{cursor::Cursor, values::read_value};
use crate::{
    ALIGNMENT_KEY, Advice, BrokenDownload, DEFAULT_ALIGNMENT, Endian, Error, KeyProblem, MAX_KEY_BYTES,
    Mapped, Metadata, Value, type_name,
};

pub use values::MAX_ARRAY_DEPTH;

/// First four bytes of every GGUF file, in both byte orders.
pub const MAGIC: [u8; 4] = *b"GGUF";

/// Maximum length of a tensor name in bytes: the limit of `tools/convert.py` of city96/ComfyUI-GGUF@795e451.
/// `GGML_MAX_NAME`, which counts the terminating zero, is 128 in its patched llama.cpp and 160 in
/// stable-diffusion.cpp@97d2990. The specification allows 64 bytes.
pub const MAX_TENSOR_NAME_BYTES: usize = 127;

/// Maximum length of a tensor name in bytes that the reference loads (`GGML_MAX_NAME` counts the terminating
/// zero). Writers should warn above this.
pub const MAX_REFERENCE_TENSOR_NAME_BYTES: usize = 63;

/// Header entry of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TensorInfo {
    /// Name, unique in the file.
    pub name: String,
    /// Type of the elements.
    pub dtype: DType,
    /// Dimensions as stored, row length first.
    pub shape: Shape,
    /// Bytes from the start of the data section.
    pub offset: u64,
    /// Bytes of data, without padding.
    pub n_bytes: u64,
}

/// A tensor of an unknown type, such as those of forks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForeignTensor {
    /// Name, unique in the file.
    pub name: String,
    /// Type as stored.
    pub type_id: u32,
    /// Dimensions as stored, row length first.
    pub shape: Shape,
    /// Bytes from the start of the data section.
    pub offset: u64,
}

impl ForeignTensor {
    /// Name of the type: the fork's name for it, or its number.
    pub fn type_name(&self) -> String {
        let known = gguf_types::fork_type(self.type_id);
        known.map_or_else(|| format!("type {}", self.type_id), |known| known.name.to_owned())
    }
}

/// Everything before the tensor data, checked.
#[derive(Debug, Clone)]
pub struct Header {
    version: u32,
    endian: Endian,
    alignment: u32,
    metadata: Metadata,
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
    foreign: Vec<ForeignTensor>,
    end: u64,
    data_offset: u64,
}

/// A GGUF file: its header, and its tensor data on demand.
#[derive(Debug, Clone)]
pub struct File {
    header: Header,
    bytes: Mapped,
}

impl File {
    /// Maps the file at `path` and parses its header.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be mapped, and those of [`File::parse`].
    pub fn open(path: &Path) -> Result<File, Error> {
        let bytes = Mapped::open(path).map_err(|source| Error::io("open", path, source))?;
        File::parse(bytes)
    }

    /// Reads the header of a mapped or in-memory file, and checks that every tensor lies inside it. Padding
    /// after the last tensor may be missing, because the reference's loader does not read it.
    pub fn parse(bytes: impl Into<Mapped>) -> Result<File, Error> {
        let bytes = bytes.into();
        let header = Header::parse(&bytes)?;
        File::checked(header, bytes)
    }

    /// Maps a file whose tensors may have types of forks, which [`Header::foreign_tensors`] lists.
    ///
    /// # Errors
    /// Those of [`File::open`], without [`Error::DType`].
    pub fn open_foreign(path: &Path) -> Result<File, Error> {
        let bytes = Mapped::open(path).map_err(|source| Error::io("open", path, source))?;
        let header = Header::parse_foreign(&bytes)?;
        File::checked(header, bytes)
    }

    fn checked(header: Header, bytes: Mapped) -> Result<File, Error> {
        let file = File { header, bytes };
        for tensor in file.tensors() {
            file.range(tensor)?;
        }
        Ok(file)
    }

    /// Header of the file.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Bytes of the entire file.
    pub fn bytes(&self) -> &Mapped {
        &self.bytes
    }

    /// Byte range of `tensor` in the file.
    ///
    /// # Errors
    /// [`Error::OutOfFile`]; never for a tensor of this file.
    pub fn range(&self, tensor: &TensorInfo) -> Result<Range<usize>, Error> {
        let file_len = self.bytes.len() as u64;
        let start = self.data_offset.saturating_add(tensor.offset);
        match start.checked_add(tensor.n_bytes) {
            Some(end) if end <= file_len => Ok(start as usize..end as usize),
            // An empty tensor may have any offset.
            _ if tensor.n_bytes == 0 => Ok(0..0),
            _ => Err(Error::OutOfFile {
                tensor: tensor.name.clone(),
                offset: start,
                n_bytes: tensor.n_bytes,
                file_len,
            }),
        }
    }

    /// The data of `tensor`, without padding, in the byte order of the file ([`Header::endian`];
    /// [`crate::swap_blocks`] converts it).
    pub fn data(&self, tensor: &TensorInfo) -> Result<&[u8], Error> {
        Ok(&self.bytes[self.range(tensor)?])
    }

    /// Bytes of each of [`Header::foreign_tensors`], up to the next tensor or the end of the file, because
    /// unknown types do not define the size.
    pub fn foreign_bytes(&self) -> Vec<u64> {
        let known = self.tensors().iter().map(|tensor| tensor.offset);
        let mut offsets: Vec<u64> =
            known.chain(self.foreign_tensors().iter().map(|tensor| tensor.offset)).collect();
        offsets.push((self.bytes.len() as u64).saturating_sub(self.data_offset));
        offsets.sort_unstable();
        let end = |offset: u64| offsets.get(offsets.partition_point(|other| *other <= offset)).copied();
        let n_bytes = |offset: u64| end(offset).map_or(0, |end| end - offset);
        self.foreign_tensors().iter().map(|tensor| n_bytes(tensor.offset)).collect()
    }

    /// Advises the system about the use of a tensor's data; ignores tensors of another file.
    pub fn advise(&self, tensor: &TensorInfo, advice: Advice) {
        if let Ok(range) = self.range(tensor) {
            self.bytes.advise(advice, range);
        }
    }
}

impl Deref for File {
    type Target = Header;

    fn deref(&self) -> &Header {
        &self.header
    }
}

impl Header {
    /// Parses the header at the start of `bytes`, which may end before the tensor data.
    ///
    /// # Errors
    /// [`Error`], one variant per problem; counts and lengths are checked against the length of `bytes`
    /// before allocating.
    pub fn parse(bytes: &[u8]) -> Result<Header, Error> {
        Header::read(bytes, false)
    }

    /// Parses a header whose tensors may have types of forks.
    ///
    /// # Errors
    /// Those of [`Header::parse`], without [`Error::DType`].
    pub fn parse_foreign(bytes: &[u8]) -> Result<Header, Error> {
        Header::read(bytes, true)
    }

    fn read(bytes: &[u8], takes_foreign: bool) -> Result<Header, Error> {
        let mut start = Cursor::new(bytes, 0, Endian::Little, true);
        let mut magic = [0; 4];
        magic.copy_from_slice(start.take(4, "the magic bytes")?);
        if magic != MAGIC {
            return Err(match BrokenDownload::of(bytes) {
                Some(kind) => Error::BrokenDownload { kind },
                None => Error::Magic { found: magic },
            });
        }
        let found: u32 = start.number("the version")?;
        // Versions are small, so in the other byte order the low half is zero.
        let (version, endian) = if found & 0xffff == 0 && found != 0 {
            (found.swap_bytes(), Endian::Big)
        } else {
            (found, Endian::Little)
        };
        if !(1..=3).contains(&version) {
            return Err(Error::Version { found });
        }

        let mut cursor = Cursor::new(bytes, 8, endian, version >= 2);
        let n_tensors = cursor.count("the number of tensors")?;
        let n_keys = cursor.count("the number of metadata keys")?;
        let count_width = cursor.count_width();
        // Name length, number of dimensions, type and offset exist even if all are 0.
        cursor.check_count(n_tensors, count_width + 4 + 4 + 8, "number of tensors")?;
        // So do key length, value type and one byte of value.
        cursor.check_count(n_keys, count_width + 4 + 1, "number of metadata keys")?;

        let metadata = read_metadata(&mut cursor, n_keys)?;
        let alignment = alignment_of(&metadata)?;
        let Tensors { tensors, by_name, foreign } =
            read_tensors(&mut cursor, n_tensors, alignment, version, takes_foreign)?;
        let end = cursor.at();
        let data_offset = end.next_multiple_of(alignment.into());
        check_layout(&tensors, data_offset)?;
        Ok(Header { version, endian, alignment, metadata, tensors, by_name, foreign, end, data_offset })
    }

    /// The version of the format: 1, 2 or 3.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Byte order of every number, including tensor data.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Every tensor starts at a multiple of this number of bytes.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Metadata in file order.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The value of a metadata key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// Tensors in file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// Tensors of unknown types, which only [`Header::parse_foreign`] accepts.
    pub fn foreign_tensors(&self) -> &[ForeignTensor] {
        &self.foreign
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.by_name.get(name).map(|&i| &self.tensors[i])
    }

    /// Bytes of the header without the padding that follows.
    pub fn header_end(&self) -> u64 {
        self.end
    }

    /// Bytes from the start of the file to the data section.
    pub fn data_offset(&self) -> u64 {
        self.data_offset
    }
}

fn utf8(bytes: &[u8], item: &'static str, index: u64) -> Result<String, Error> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Error::NotUtf8 { item, index, bytes: bytes.to_vec() }),
    }
}

fn read_metadata(cursor: &mut Cursor<'_>, n_keys: u64) -> Result<Metadata, Error> {
    let mut metadata = Metadata::new();
    for index in 0..n_keys {
        let bytes = cursor.string("a metadata key")?;
        if bytes.is_empty() {
            return Err(Error::Key { index, problem: KeyProblem::Empty });
        }
        if bytes.len() > MAX_KEY_BYTES {
            return Err(Error::Key { index, problem: KeyProblem::TooLong { len: bytes.len() as u64 } });
        }
        let key = utf8(bytes, "key", index)?;
        if metadata.contains(&key) {
            return Err(Error::DuplicateKey { key });
        }
        let value = read_value(cursor, &key)?;
        metadata.set(key, value);
    }
    Ok(metadata)
}

/// Stated alignment or the default. The specification requires a multiple of 8; the reference and this reader
/// (not the writer) accept any power of two.
fn alignment_of(metadata: &Metadata) -> Result<u32, Error> {
    let stated = match metadata.get(ALIGNMENT_KEY) {
        None => DEFAULT_ALIGNMENT,
        Some(Value::U32(stated)) => *stated,
        Some(value) => {
            return Err(Error::AlignmentType { found: type_name(value.type_id()).unwrap_or("?") });
        }
    };
    if !stated.is_power_of_two() {
        return Err(Error::Alignment { found: stated.into(), expected: "a power of two" });
    }
    Ok(stated)
}

#[derive(Default)]
struct Tensors {
    tensors: Vec<TensorInfo>,
    by_name: HashMap<String, usize>,
    foreign: Vec<ForeignTensor>,
}

fn read_tensors(
    cursor: &mut Cursor<'_>,
    n_tensors: u64,
    alignment: u32,
    version: u32,
    takes_foreign: bool,
) -> Result<Tensors, Error> {
    let mut read = Tensors::default();
    let mut names_of_foreign = HashSet::new();
    for index in 0..n_tensors {
        let bytes = cursor.string("a tensor name")?;
        if bytes.len() > MAX_TENSOR_NAME_BYTES {
            let (len, max) = (bytes.len() as u64, MAX_TENSOR_NAME_BYTES as u64);
            return Err(Error::TensorNameTooLong { index, len, max });
        }
        let name = utf8(bytes, "tensor name", index)?;
        if read.by_name.contains_key(&name) || names_of_foreign.contains(&name) {
            return Err(Error::DuplicateTensor { name });
        }
        match read_tensor(cursor, &name, alignment, version)? {
            (offset, shape, Ok(dtype)) => {
                let n_bytes =
                    shape.n_bytes(dtype).map_err(|source| Error::Shape { tensor: name.clone(), source })?;
                read.by_name.insert(name.clone(), read.tensors.len());
                read.tensors.push(TensorInfo { name, dtype, shape, offset, n_bytes });
            }
            (offset, shape, Err((type_id, _))) if takes_foreign => {
                names_of_foreign.insert(name.clone());
                read.foreign.push(ForeignTensor { name, type_id, shape, offset });
            }
            (.., Err((_, source))) => return Err(Error::DType { tensor: name, source }),
        }
    }
    Ok(read)
}

/// Offset, shape and type; an unknown type is its number and the error.
type Described = (u64, Shape, Result<DType, (u32, DTypeError)>);

fn read_tensor(
    cursor: &mut Cursor<'_>,
    name: &str,
    alignment: u32,
    version: u32,
) -> Result<Described, Error> {
    let n_dims: u32 = cursor.number("a tensor's number of dimensions")?;
    let n_dims = n_dims as usize;
    let wrong_shape = |source| Error::Shape { tensor: name.to_owned(), source };
    if n_dims > MAX_DIMS {
        return Err(wrong_shape(ShapeError::TooManyDims { found: n_dims }));
    }
    const WHAT: &str = "a tensor's dimensions";
    let dims: Vec<u64> = if version == 1 {
        cursor.numbers::<u32>(n_dims as u64, WHAT)?.into_iter().map(u64::from).collect()
    } else {
        cursor.numbers(n_dims as u64, WHAT)?
    };
    // A dimension of 0 would hide an overflow of the others, which row sizes would cause.
    let product = dims.iter().try_fold(1u64, |product, &dim| product.checked_mul(dim.max(1)));
    if product.is_none_or(|product| i64::try_from(product).is_err()) {
        return Err(wrong_shape(ShapeError::Overflow { dims }));
    }
    let id: u32 = cursor.number("a tensor's type")?;
    let offset: u64 = cursor.number("a tensor's offset")?;
    let dtype = DType::from_id(id).map_err(|error| (id, error));
    let shape = Shape::new(&dims).map_err(wrong_shape)?;
    if dtype.is_ok() && !offset.is_multiple_of(alignment.into()) {
        return Err(Error::Misaligned { tensor: name.to_owned(), offset, alignment });
    }
    Ok((offset, shape, dtype))
}

/// Refuses tensors that overlap or end beyond 63 bits. Gaps and any order are accepted, although the
/// reference requires each tensor right after the previous one.
fn check_layout(tensors: &[TensorInfo], data_offset: u64) -> Result<(), Error> {
    for tensor in tensors {
        let end = data_offset.checked_add(tensor.offset).and_then(|start| start.checked_add(tensor.n_bytes));
        if end.is_none_or(|end| i64::try_from(end).is_err()) {
            let (tensor, offset, n_bytes) = (tensor.name.clone(), tensor.offset, tensor.n_bytes);
            return Err(Error::OffsetOverflow { tensor, offset, n_bytes });
        }
    }
    let mut in_order: Vec<&TensorInfo> = tensors.iter().filter(|tensor| tensor.n_bytes > 0).collect();
    in_order.sort_by_key(|tensor| tensor.offset);
    for pair in in_order.windows(2) {
        let end = pair[0].offset + pair[0].n_bytes;
        if end > pair[1].offset {
            return Err(Error::Overlap {
                first: pair[0].name.clone(),
                second: pair[1].name.clone(),
                end,
                start: pair[1].offset,
            });
        }
    }
    Ok(())
}
