//! The names that a pickle of tensors imports. Every other name is refused.

use crate::Dtype;

/// Meaning of a global name. No global is ever imported or called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `_rebuild_tensor(storage, offset, size, stride)`.
    RebuildTensor,
    /// `_rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks[, metadata])`.
    RebuildTensorV2,
    /// `_rebuild_tensor_v3(storage, offset, size, stride, requires_grad, hooks, dtype[, metadata])`.
    RebuildTensorV3,
    /// `_rebuild_parameter(tensor, requires_grad, hooks)`, the same with a state, and `Parameter(tensor)`.
    Parameter,
    /// `_rebuild_from_type_v2(function, class, arguments, state)`.
    FromType,
    /// `torch.Size(dimensions)`.
    Size,
    /// Class of a storage, with the type of its elements; `None` for untyped bytes.
    Storage(Option<Dtype>),
    Dtype(Dtype),
    /// Names that do not affect tensors: devices, layouts, bytes.
    Other,
}

/// Module, name, meaning.
///
/// Source: `_get_allowed_globals` in `_weights_only_unpickler.py` of torch 2.15.
pub(super) const GLOBALS: &[(&str, &str, Global)] = &[
    ("collections", "OrderedDict", Global::OrderedDict),
    ("torch._utils", "_rebuild_tensor", Global::RebuildTensor),
    ("torch._utils", "_rebuild_tensor_v2", Global::RebuildTensorV2),
    ("torch._utils", "_rebuild_tensor_v3", Global::RebuildTensorV3),
    ("torch._utils", "_rebuild_parameter", Global::Parameter),
    ("torch._utils", "_rebuild_parameter_with_state", Global::Parameter),
    ("torch.nn.parameter", "Parameter", Global::Parameter),
    ("torch._tensor", "_rebuild_from_type_v2", Global::FromType),
    ("torch", "Size", Global::Size),
    ("torch", "Tensor", Global::Other),
    ("torch", "device", Global::Other),
    ("torch.serialization", "_get_layout", Global::Other),
    ("_codecs", "encode", Global::Other),
    ("torch", "DoubleStorage", Global::Storage(Some(Dtype::F64))),
    ("torch", "FloatStorage", Global::Storage(Some(Dtype::F32))),
    ("torch", "HalfStorage", Global::Storage(Some(Dtype::F16))),
    ("torch", "BFloat16Storage", Global::Storage(Some(Dtype::BF16))),
    ("torch", "LongStorage", Global::Storage(Some(Dtype::I64))),
    ("torch", "IntStorage", Global::Storage(Some(Dtype::I32))),
    ("torch", "ShortStorage", Global::Storage(Some(Dtype::I16))),
    ("torch", "CharStorage", Global::Storage(Some(Dtype::I8))),
    ("torch", "ByteStorage", Global::Storage(Some(Dtype::U8))),
    ("torch", "BoolStorage", Global::Storage(Some(Dtype::BOOL))),
    ("torch", "ComplexFloatStorage", Global::Storage(Some(Dtype::C64))),
    ("torch.storage", "UntypedStorage", Global::Storage(None)),
    ("torch", "float64", Global::Dtype(Dtype::F64)),
    ("torch", "float32", Global::Dtype(Dtype::F32)),
    ("torch", "float16", Global::Dtype(Dtype::F16)),
    ("torch", "bfloat16", Global::Dtype(Dtype::BF16)),
    ("torch", "int64", Global::Dtype(Dtype::I64)),
    ("torch", "int32", Global::Dtype(Dtype::I32)),
    ("torch", "int16", Global::Dtype(Dtype::I16)),
    ("torch", "int8", Global::Dtype(Dtype::I8)),
    ("torch", "uint64", Global::Dtype(Dtype::U64)),
    ("torch", "uint32", Global::Dtype(Dtype::U32)),
    ("torch", "uint16", Global::Dtype(Dtype::U16)),
    ("torch", "uint8", Global::Dtype(Dtype::U8)),
    ("torch", "bool", Global::Dtype(Dtype::BOOL)),
    ("torch", "complex64", Global::Dtype(Dtype::C64)),
    ("torch", "float8_e4m3fn", Global::Dtype(Dtype::F8_E4M3)),
    ("torch", "float8_e5m2", Global::Dtype(Dtype::F8_E5M2)),
    ("torch", "float8_e8m0fnu", Global::Dtype(Dtype::F8_E8M0)),
    ("torch", "float8_e4m3fnuz", Global::Dtype(Dtype::F8_E4M3FNUZ)),
    ("torch", "float8_e5m2fnuz", Global::Dtype(Dtype::F8_E5M2FNUZ)),
];

/// Meaning of a name, if it is one of [`GLOBALS`].
pub(super) fn find(module: &str, name: &str) -> Option<Global> {
    let row = GLOBALS.iter().find(|row| row.0 == module && row.1 == name)?;
    Some(row.2)
}
