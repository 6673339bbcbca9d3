//! Fixes every offset of a file before writing.

use std::collections::HashMap;

use gguf_types::{DType, Shape};

use crate::{
    ALIGNMENT_KEY, Array, DEFAULT_ALIGNMENT, Endian, Error, KeyProblem, MAX_ARRAY_DEPTH,
    MAX_REFERENCE_TENSOR_NAME_BYTES, MAX_TENSOR_NAME_BYTES, Metadata, Value, check_key, write::Bytes,
};

/// Maximum alignment that is written, in bytes. The reader accepts any; a plan from a file that states 2 GiB
/// would pad its header and every tensor to that.
pub const MAX_PLAN_ALIGNMENT: u32 = 1 << 24;

/// Position of a tensor in a planned file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PlannedTensor {
    /// Name of the tensor.
    pub name: String,
    /// Dimensions as written, row length first.
    pub shape: Shape,
    /// Type of the elements.
    pub dtype: DType,
    /// Bytes from the start of the file to the data.
    pub offset: u64,
    /// Bytes of data.
    pub n_bytes: u64,
    /// Bytes of data including padding. The last tensor is padded too.
    pub padded_bytes: u64,
}

/// A version 3 file with all offsets fixed: the header's bytes, and the position of each tensor.
///
/// The writer writes [`Plan::fixed_bytes`] and each tensor at its offset, in any order; everything else is
/// zero.
#[derive(Debug, Clone)]
pub struct Plan {
    endian: Endian,
    alignment: u32,
    header: Vec<u8>,
    unpadded_header_len: usize,
    /// Offset and header of each tensor; empty for GGUF, whose header describes all tensors.
    tensor_headers: Vec<(u64, Vec<u8>)>,
    tensors: Vec<PlannedTensor>,
    by_name: HashMap<String, usize>,
    file_len: u64,
    warnings: Vec<PlanWarning>,
}

/// Permitted but unusual contents of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanWarning {
    /// A key that is not lower_snake_case throughout.
    Key(KeyProblem),
    /// A tensor name that the reference refuses to load
    /// (longer than [`MAX_REFERENCE_TENSOR_NAME_BYTES`]).
    TensorName {
        /// Name of the tensor.
        name: String,
    },
}

impl Plan {
    /// Alignment that readers find in the metadata. A plan must use it.
    pub fn alignment_of(metadata: &Metadata) -> u32 {
        match metadata.get(ALIGNMENT_KEY) {
            Some(Value::U32(stated)) => *stated,
            _ => DEFAULT_ALIGNMENT,
        }
    }

    /// Plans a file with this metadata and these tensors, in this order.
    ///
    /// Dimensions are written as given, like in `gguf-py`, while `gguf.cpp` (and so `llama-quantize`) omits
    /// trailing dimensions of 1. For its bytes, pass a shape of the first [`Shape::n_dims_effective`]
    /// dimensions.
    ///
    /// # Errors
    /// [`Error::Alignment`] if `alignment` is not a power of two from 8 to [`MAX_PLAN_ALIGNMENT`],
    /// [`Error::AlignmentMismatch`] and [`Error::AlignmentType`] if the metadata states another one; invalid
    /// or repeated keys and names; shapes that do not fit their dtype; arrays deeper than
    /// [`MAX_ARRAY_DEPTH`]; [`Error::FileTooLong`].
    pub fn new(
        metadata: &Metadata,
        tensors: Vec<(String, Shape, DType)>,
        endian: Endian,
        alignment: u32,
    ) -> Result<Plan, Error> {
        if !alignment.is_power_of_two() || !(8..=MAX_PLAN_ALIGNMENT).contains(&alignment) {
            let expected = "a power of two from 8 to 16777216";
            return Err(Error::Alignment { found: alignment.into(), expected });
        }
        let mut warnings = Vec::new();
        check_metadata(metadata, alignment, &mut warnings)?;

        let mut header = Bytes::header(endian, tensors.len(), metadata);
        let mut planned = Vec::with_capacity(tensors.len());
        let mut by_name = HashMap::with_capacity(tensors.len());
        let mut data_len = 0u64;
        for (index, (name, shape, dtype)) in tensors.into_iter().enumerate() {
            check_tensor_name(&name, index as u64, &mut warnings)?;
            if by_name.insert(name.clone(), index).is_some() {
                return Err(Error::DuplicateTensor { name });
            }
            let n_bytes = match shape.n_bytes(dtype) {
                Ok(n_bytes) => n_bytes,
                Err(source) => return Err(Error::Shape { tensor: name, source }),
            };
            header.tensor_info(&name, shape, dtype, data_len);
            let padded_bytes =
                n_bytes.checked_next_multiple_of(alignment.into()).ok_or(Error::FileTooLong)?;
            planned.push(PlannedTensor { name, shape, dtype, offset: data_len, n_bytes, padded_bytes });
            data_len = data_len
                .checked_add(padded_bytes)
                .filter(|len| i64::try_from(*len).is_ok())
                .ok_or(Error::FileTooLong)?;
        }

        let unpadded_header_len = header.len();
        header.pad(alignment);
        let header = header.into_vec();
        let header_len = header.len() as u64;
        let file_len = header_len
            .checked_add(data_len)
            .filter(|len| i64::try_from(*len).is_ok())
            .ok_or(Error::FileTooLong)?;
        for tensor in &mut planned {
            tensor.offset += header_len;
        }
        Ok(Plan {
            endian,
            alignment,
            header,
            unpadded_header_len,
            tensor_headers: Vec::new(),
            tensors: planned,
            by_name,
            file_len,
            warnings,
        })
    }

    /// Plans a little-endian file of a format in which a header precedes each tensor, without padding: `header`, then for each
    /// tensor its header (the last element) and its data.
    ///
    /// # Errors
    /// [`Error::DuplicateTensor`], [`Error::Shape`], [`Error::FileTooLong`].
    pub fn foreign(header: Vec<u8>, tensors: Vec<(String, Shape, DType, Vec<u8>)>) -> Result<Plan, Error> {
        let mut planned = Vec::with_capacity(tensors.len());
        let mut by_name = HashMap::with_capacity(tensors.len());
        let mut tensor_headers = Vec::with_capacity(tensors.len());
        let mut file_len = header.len() as u64;
        let add = |sum: u64, n: u64| {
            let sum = sum.checked_add(n).filter(|len| i64::try_from(*len).is_ok());
            sum.ok_or(Error::FileTooLong)
        };
        for (index, (name, shape, dtype, tensor_header)) in tensors.into_iter().enumerate() {
            if by_name.insert(name.clone(), index).is_some() {
                return Err(Error::DuplicateTensor { name });
            }
            let n_bytes = match shape.n_bytes(dtype) {
                Ok(n_bytes) => n_bytes,
                Err(source) => return Err(Error::Shape { tensor: name, source }),
            };
            let offset = add(file_len, tensor_header.len() as u64)?;
            tensor_headers.push((file_len, tensor_header));
            planned.push(PlannedTensor { name, shape, dtype, offset, n_bytes, padded_bytes: n_bytes });
            file_len = add(offset, n_bytes)?;
        }
        Ok(Plan {
            endian: Endian::Little,
            alignment: 1,
            unpadded_header_len: header.len(),
            header,
            tensor_headers,
            tensors: planned,
            by_name,
            file_len,
            warnings: Vec::new(),
        })
    }

    /// True for a file with tensors in a format other than GGUF ([`Plan::foreign`]).
    pub fn is_foreign(&self) -> bool {
        !self.tensor_headers.is_empty()
    }

    /// Offset and bytes of all headers: that of the file, then those of tensors.
    pub fn fixed_bytes(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let of_tensors = self.tensor_headers.iter().map(|(offset, bytes)| (*offset, &bytes[..]));
        [(0, &self.header[..])].into_iter().chain(of_tensors)
    }

    /// Everything before the first tensor's data, including padding.
    pub fn header_bytes(&self) -> &[u8] {
        &self.header
    }

    /// The header without padding: everything that `gguf-py` writes for a file with only metadata
    /// (`convert_hf_to_gguf.py --vocab-only`).
    pub fn unpadded_header_bytes(&self) -> &[u8] {
        &self.header[..self.unpadded_header_len]
    }

    /// Tensors in file order.
    pub fn tensors(&self) -> &[PlannedTensor] {
        &self.tensors
    }

    /// Bytes of all tensors.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.n_bytes).fold(0, u64::saturating_add)
    }

    /// The tensor with this name.
    pub fn tensor(&self, name: &str) -> Option<&PlannedTensor> {
        self.by_name.get(name).map(|&i| &self.tensors[i])
    }

    /// Length of the file in bytes.
    pub fn file_len(&self) -> u64 {
        self.file_len
    }

    /// Byte order of the file, and of the tensor data.
    pub fn endian(&self) -> Endian {
        self.endian
    }

    /// Alignment of the header's end and of every tensor.
    pub fn alignment(&self) -> u32 {
        self.alignment
    }

    /// Warnings about permitted but unusual contents.
    pub fn warnings(&self) -> &[PlanWarning] {
        &self.warnings
    }

    /// The file in memory, with `data` for each tensor in plan order. For small files; large ones are written
    /// in pieces through [`crate::Output`].
    ///
    /// # Errors
    /// [`Error::WriteOutOfRange`] if the data of a tensor does not have the planned length, or the number of
    /// tensors differs.
    pub fn to_bytes<D: AsRef<[u8]>>(&self, data: &[D]) -> Result<Vec<u8>, Error> {
        let out_of_range =
            |offset, len| Error::WriteOutOfRange { offset, len: len as u64, file_len: self.file_len };
        if data.len() != self.tensors.len() {
            return Err(out_of_range(self.file_len, data.len()));
        }
        let mut bytes = self.header.clone();
        for (index, (tensor, data)) in self.tensors.iter().zip(data).enumerate() {
            let data = data.as_ref();
            bytes.extend_from_slice(self.tensor_headers.get(index).map_or(&[], |(_, bytes)| bytes));
            if data.len() as u64 != tensor.n_bytes {
                return Err(out_of_range(tensor.offset, data.len()));
            }
            bytes.extend_from_slice(data);
            bytes.resize(bytes.len() + (tensor.padded_bytes - tensor.n_bytes) as usize, 0);
        }
        Ok(bytes)
    }
}

/// Checks that metadata can be written to a file of this alignment.
pub(crate) fn check_metadata(
    metadata: &Metadata,
    alignment: u32,
    warnings: &mut Vec<PlanWarning>,
) -> Result<(), Error> {
    let mut stated = DEFAULT_ALIGNMENT;
    for (index, (key, value)) in metadata.iter().enumerate() {
        match check_key(key) {
            Ok(()) => {}
            Err(problem) if problem.is_fatal() => return Err(Error::Key { index: index as u64, problem }),
            Err(problem) => warnings.push(PlanWarning::Key(problem)),
        }
        if value.as_array().is_some_and(|array| !is_shallow(array, MAX_ARRAY_DEPTH)) {
            return Err(Error::TooDeep { key: key.clone(), max: MAX_ARRAY_DEPTH });
        }
        if key == ALIGNMENT_KEY {
            let Value::U32(value) = value else {
                let found = crate::type_name(value.type_id()).unwrap_or("?");
                return Err(Error::AlignmentType { found });
            };
            stated = *value;
        }
    }
    if stated != alignment {
        return Err(Error::AlignmentMismatch { planned: alignment, stated });
    }
    Ok(())
}

/// True if arrays are nested at most `levels` deep.
fn is_shallow(array: &Array, levels: usize) -> bool {
    let Some(inner_levels) = levels.checked_sub(1) else { return false };
    match array {
        Array::Array(items) => items.iter().all(|item| is_shallow(item, inner_levels)),
        _ => true,
    }
}

fn check_tensor_name(name: &str, index: u64, warnings: &mut Vec<PlanWarning>) -> Result<(), Error> {
    if name.is_empty() {
        return Err(Error::TensorNameEmpty { index });
    }
    if name.len() > MAX_TENSOR_NAME_BYTES {
        let (len, max) = (name.len() as u64, MAX_TENSOR_NAME_BYTES as u64);
        return Err(Error::TensorNameTooLong { index, len, max });
    }
    if name.len() > MAX_REFERENCE_TENSOR_NAME_BYTES {
        warnings.push(PlanWarning::TensorName { name: name.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(dims: &[u64]) -> Shape {
        Shape::new(dims).expect("a shape")
    }

    #[test]
    fn tensor_headers_stand_before_data() {
        let tensors = vec![
            ("a".to_owned(), shape(&[3]), DType::F32, b"of a".to_vec()),
            ("b".to_owned(), shape(&[32, 2]), DType::Q8_0, b"b's".to_vec()),
        ];
        let plan = Plan::foreign(b"file".to_vec(), tensors).expect("a plan");
        let places: Vec<_> =
            plan.tensors().iter().map(|tensor| (tensor.offset, tensor.padded_bytes)).collect();
        assert_eq!(places, [(8, 12), (23, 68)]);
        assert_eq!((plan.file_len(), plan.is_foreign()), (91, true));
        let fixed: Vec<(u64, &[u8])> = plan.fixed_bytes().collect();
        assert_eq!(fixed, [(0, &b"file"[..]), (4, b"of a"), (20, b"b's")]);
        let bytes = plan.to_bytes(&[vec![1; 12], vec![2; 68]]).expect("bytes");
        assert_eq!(bytes.len(), 91);
        for (offset, fixed) in plan.fixed_bytes() {
            assert_eq!(&bytes[offset as usize..][..fixed.len()], fixed);
        }
        assert_eq!((bytes[8], bytes[23], bytes[90]), (1, 2, 2));
    }

    #[test]
    fn impossible_foreign_files_are_refused() {
        let plan = |tensors: &[(&str, &[u64], DType)]| {
            let tensors =
                tensors.iter().map(|(name, dims, dtype)| ((*name).to_owned(), shape(dims), *dtype, vec![0]));
            Plan::foreign(Vec::new(), tensors.collect()).map(|_| ())
        };
        let two = plan(&[("a", &[1], DType::F32), ("a", &[1], DType::F32)]);
        assert!(matches!(two, Err(Error::DuplicateTensor { name }) if name == "a"));
        assert!(matches!(plan(&[("a", &[33], DType::Q8_0)]), Err(Error::Shape { .. })));
        let huge: &[u64] = &[1 << 60];
        let many = plan(&[("a", huge, DType::F32), ("b", huge, DType::F32)]);
        assert!(matches!(many, Err(Error::FileTooLong)), "{many:?}");
    }
}
