//! Every ggml type id, live or removed.
//!
//! Source of ids, names and sizes: `enum ggml_type` in `ggml/include/ggml.h`, `type_traits`
//! in `ggml/src/ggml.c` and the block structs of `ggml/src/ggml-common.h`, llama.cpp as
//! vendored in llama-cpp-python 0.3.36.

use std::fmt;

use crate::{Fields, Problem, Words, fork_type};

/// Reason that an id or a name is not a usable dtype.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum DTypeError {
    #[error("unknown ggml type id {id} (expected 0 to {max})")]
    UnknownId { id: u32, max: u32 },
    /// The id was removed and is refused by current readers.
    #[error("ggml type id {id} (`{name}`) was removed from the format in favor of `{instead}`")]
    RemovedId { id: u32, name: &'static str, instead: &'static str },
    /// The name is not in the table.
    #[error("unknown tensor type `{name}`")]
    #[fact(found = name)]
    UnknownName { name: String },
}

/// Names the fork that has the type, or the type that replaces it.
impl Problem for DTypeError {
    fn hint(&self) -> Option<Words> {
        let (id, instead) = match self {
            DTypeError::UnknownId { id, .. } => (*id, None),
            DTypeError::RemovedId { id, instead, .. } => (*id, Some(instead)),
            DTypeError::UnknownName { .. } => return None,
        };
        if let Some(fork) = fork_type(id) {
            let (name, fork) = (fork.name, fork.fork);
            return Some(format!("type {id} is {name} of {fork}, the only program that reads it").into());
        }
        let instead = instead?.to_ascii_uppercase();
        Some(
            format!(
                "download a {instead} file of the model; programs that need another order of blocks reorder it while loading"
            )
            .into(),
        )
    }
}

macro_rules! dtypes {
    ($(
        #[doc = $doc:literal]
        $variant:ident = $id:literal, $name:literal, $elems:literal per $bytes:literal, $encodable:literal,
        $file_type:literal, $activation:expr, $smaller_block:expr, $needs_imatrix:literal, $raised:expr,
        $swap_fields:expr;
    )*) => {
        /// A live ggml tensor type.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[repr(u32)]
        #[expect(non_camel_case_types, reason = "formats are spelled as ggml spells them")]
        pub enum DType {
            $( #[doc = $doc] $variant = $id, )*
        }

        impl DType {
            /// Every live type, in the order of ids.
            pub const ALL: &[DType] = &[ $( DType::$variant, )* ];

            const fn row(self) -> Row {
                use DType::*;
                match self {
                    $( DType::$variant => Row {
                        name: $name,
                        block_elems: $elems,
                        block_bytes: $bytes,
                        encodable: $encodable,
                        file_type: $file_type,
                        activation: $activation,
                        smaller_block: $smaller_block,
                        needs_imatrix: $needs_imatrix,
                        raised: $raised,
                        swap_fields: $swap_fields,
                    }, )*
                }
            }
        }
    };
}

/// Properties of a type on which other crates depend, so that the compiler requires all of them for a new
/// type; the methods of the same names document the columns.
struct Row {
    name: &'static str,
    block_elems: u32,
    block_bytes: u32,
    encodable: bool,
    file_type: u32,
    activation: Option<DType>,
    smaller_block: Option<DType>,
    needs_imatrix: bool,
    raised: Option<DType>,
    swap_fields: &'static [(usize, usize)],
}

/// The number at the start of a block, followed by equal ones `step` bytes apart: (offset, width) of each.
const fn numbers<const N: usize>(
    head: (usize, usize),
    first: usize,
    width: usize,
    step: usize,
) -> [(usize, usize); N] {
    let mut fields = [head; N];
    let mut i = 1;
    // `for` is not allowed in constant expressions.
    while i < N {
        fields[i] = (first + (i - 1) * step, width);
        i += 1;
    }
    fields
}

/// f32 scale, 256 bytes, 16 sums of 16 bits.
const Q8_K_NUMBERS: &[(usize, usize)] = &numbers::<17>((0, 4), 260, 2, 2);
/// f16 scale, then 8 groups of 4 grid indices, bytes each, and 32 bits of signs and scale.
const IQ2_XXS_NUMBERS: &[(usize, usize)] = &numbers::<9>((0, 2), 6, 4, 8);
/// f16 scale, then 32 codes of 16 bits.
const IQ2_XS_NUMBERS: &[(usize, usize)] = &numbers::<33>((0, 2), 2, 2, 2);
/// f16 scale, 64 grid indices, bytes each, then 8 times 32 bits of signs and scale.
const IQ3_XXS_NUMBERS: &[(usize, usize)] = &numbers::<9>((0, 2), 66, 4, 4);
/// f16 scale, 32 bytes of grid indices, then 8 times 16 bits of their high bits, scale and shift.
const IQ1_S_NUMBERS: &[(usize, usize)] = &numbers::<9>((0, 2), 34, 2, 2);

// Columns: id, name, elements per bytes of a block, is_encodable, file_type, activation_dtype, smaller_block,
// needs_imatrix, raised, swap_fields.
dtypes! {
    /// IEEE single precision.
    F32     = 0,  "f32",       1 per 4,   true,  0,  None,       None,         false, None,        &[(0, 4)];
    /// IEEE half precision.
    F16     = 1,  "f16",       1 per 2,   true,  1,  Some(F16),  None,         false, None,        &[(0, 2)];
    /// 4 bits, one f16 scale.
    Q4_0    = 2,  "q4_0",     32 per 18,  true,  2,  Some(Q8_0), None,         false, None,        &[(0, 2)];
    /// 4 bits, f16 scale and minimum.
    Q4_1    = 3,  "q4_1",     32 per 20,  true,  3,  Some(Q8_1), None,         false, None,        &[(0, 2), (2, 2)];
    /// 5 bits, one f16 scale.
    Q5_0    = 6,  "q5_0",     32 per 22,  true,  8,  Some(Q8_0), None,         false, None,        &[(0, 2), (2, 4)];
    /// 5 bits, f16 scale and minimum.
    Q5_1    = 7,  "q5_1",     32 per 24,  true,  9,  Some(Q8_1), None,         false, None,        &[(0, 2), (2, 2), (4, 4)];
    /// 8 bits, one f16 scale.
    Q8_0    = 8,  "q8_0",     32 per 34,  true,  7,  Some(Q8_0), None,         false, None,        &[(0, 2)];
    /// 8 bits, scale and scaled sum; an activation format, never in files.
    Q8_1    = 9,  "q8_1",     32 per 36,  false, 0,  None,       None,         false, None,        &[(0, 2), (2, 2)];
    /// 2 bits, 16 sub-blocks with 4-bit scales and minima.
    Q2_K    = 10, "q2_K",    256 per 84,  true,  10, Some(Q8_K), Some(Q4_0),   false, Some(Q3_K),  &[(80, 2), (82, 2)];
    /// 3 bits, 16 sub-blocks with 6-bit scales.
    Q3_K    = 11, "q3_K",    256 per 110, true,  12, Some(Q8_K), Some(Q4_0),   false, None,        &[(108, 2)];
    /// 4 bits, 8 sub-blocks with 6-bit scales and minima.
    Q4_K    = 12, "q4_K",    256 per 144, true,  15, Some(Q8_K), Some(Q5_0),   false, None,        &[(0, 2), (2, 2)];
    /// 5 bits, 8 sub-blocks with 6-bit scales and minima.
    Q5_K    = 13, "q5_K",    256 per 176, true,  17, Some(Q8_K), Some(Q5_1),   false, None,        &[(0, 2), (2, 2)];
    /// 6 bits, 16 sub-blocks with 8-bit scales.
    Q6_K    = 14, "q6_K",    256 per 210, true,  18, Some(Q8_K), Some(Q8_0),   false, None,        &[(208, 2)];
    /// 8 bits, f32 scale and sums; an activation format, never in files.
    Q8_K    = 15, "q8_K",    256 per 292, false, 0,  None,       None,         false, None,        Q8_K_NUMBERS;
    /// 2.06 bits, grid of 256 points.
    IQ2_XXS = 16, "iq2_xxs", 256 per 66,  true,  19, Some(Q8_K), Some(IQ4_NL), true,  Some(Q2_K),  IQ2_XXS_NUMBERS;
    /// 2.31 bits, grid of 512 points.
    IQ2_XS  = 17, "iq2_xs",  256 per 74,  true,  20, Some(Q8_K), Some(IQ4_NL), true,  Some(Q2_K),  IQ2_XS_NUMBERS;
    /// 3.06 bits, grid of 256 points.
    IQ3_XXS = 18, "iq3_xxs", 256 per 98,  true,  23, Some(Q8_K), Some(IQ4_NL), true,  Some(IQ3_S), IQ3_XXS_NUMBERS;
    /// 1.56 bits, grid of 2048 points.
    IQ1_S   = 19, "iq1_s",   256 per 50,  true,  24, Some(Q8_K), Some(IQ4_NL), true,  Some(Q2_K),  IQ1_S_NUMBERS;
    /// 4 bits into a non-linear table, one f16 scale.
    IQ4_NL  = 20, "iq4_nl",   32 per 18,  true,  25, Some(Q8_0), None,         false, None,        &[(0, 2)];
    /// 3.44 bits, grid of 512 points.
    IQ3_S   = 21, "iq3_s",   256 per 110, true,  26, Some(Q8_K), Some(IQ4_NL), false, None,        &[(0, 2)];
    /// 2.56 bits, grid of 1024 points.
    IQ2_S   = 22, "iq2_s",   256 per 82,  true,  28, Some(Q8_K), Some(IQ4_NL), true,  Some(Q2_K),  &[(0, 2)];
    /// 4.25 bits into a non-linear table, 8 sub-blocks.
    IQ4_XS  = 23, "iq4_xs",  256 per 136, true,  30, Some(Q8_K), Some(IQ4_NL), false, None,        &[(0, 2), (2, 2)];
    /// 8-bit integer; copied, never encoded.
    I8      = 24, "i8",        1 per 1,   false, 0,  None,       None,         false, None,        &[];
    /// 16-bit integer; copied, never encoded.
    I16     = 25, "i16",       1 per 2,   false, 0,  None,       None,         false, None,        &[(0, 2)];
    /// 32-bit integer; copied, never encoded.
    I32     = 26, "i32",       1 per 4,   false, 0,  None,       None,         false, None,        &[(0, 4)];
    /// 64-bit integer; copied, never encoded.
    I64     = 27, "i64",       1 per 8,   false, 0,  None,       None,         false, None,        &[(0, 8)];
    /// IEEE double precision; copied, never encoded.
    F64     = 28, "f64",       1 per 8,   false, 0,  None,       None,         false, None,        &[(0, 8)];
    /// 1.75 bits, grid of 2048 points.
    IQ1_M   = 29, "iq1_m",   256 per 56,  true,  31, Some(Q8_K), Some(IQ4_NL), true,  Some(Q2_K),  &[(48, 2), (50, 2), (52, 2), (54, 2)];
    /// The upper half of an f32.
    BF16    = 30, "bf16",      1 per 2,   true,  32, Some(BF16), None,         false, None,        &[(0, 2)];
    /// Ternary, five values per byte.
    TQ1_0   = 34, "tq1_0",   256 per 54,  true,  36, Some(Q8_K), Some(Q4_0),   false, None,        &[(52, 2)];
    /// Ternary, four values per byte.
    TQ2_0   = 35, "tq2_0",   256 per 66,  true,  37, Some(Q8_K), Some(Q4_0),   false, None,        &[(64, 2)];
    /// OCP microscaling: e2m1 values, one e8m0 scale.
    MXFP4   = 39, "mxfp4",    32 per 17,  true,  0,  Some(Q8_0), None,         false, None,        &[];
    /// e2m1 values, four ue4m3 scales of 16 values each.
    NVFP4   = 40, "nvfp4",    64 per 36,  true,  39, Some(Q8_0), None,         false, None,        &[];
    /// Sign bits, one f16 scale.
    Q1_0    = 41, "q1_0",    128 per 18,  true,  40, Some(Q8_0), None,         false, None,        &[(0, 2)];
    /// 2 bits, one f16 scale.
    Q2_0    = 42, "q2_0",     64 per 18,  true,  41, Some(Q8_0), Some(Q4_0),   false, None,        &[(0, 2)];
}

/// An id that was assigned once and must not be reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// ggml type id.
    pub id: u32,
    /// Former name.
    pub name: &'static str,
    /// Replacement type.
    pub instead: &'static str,
}

/// Removed ids, in id order.
pub const REMOVED: &[Removed] = &[
    Removed { id: 4, name: "q4_2", instead: "q4_0" },
    Removed { id: 5, name: "q4_3", instead: "q4_1" },
    Removed { id: 31, name: "q4_0_4_4", instead: "q4_0" },
    Removed { id: 32, name: "q4_0_4_8", instead: "q4_0" },
    Removed { id: 33, name: "q4_0_8_8", instead: "q4_0" },
    Removed { id: 36, name: "iq4_nl_4_4", instead: "iq4_nl" },
    Removed { id: 37, name: "iq4_nl_4_8", instead: "iq4_nl" },
    Removed { id: 38, name: "iq4_nl_8_8", instead: "iq4_nl" },
];

impl DType {
    /// The type with this ggml id.
    pub fn from_id(id: u32) -> Result<DType, DTypeError> {
        if let Some(dtype) = Self::ALL.iter().find(|dtype| dtype.id() == id) {
            return Ok(*dtype);
        }
        match REMOVED.iter().find(|removed| removed.id == id) {
            Some(removed) => Err(DTypeError::RemovedId { id, name: removed.name, instead: removed.instead }),
            None => {
                Err(DTypeError::UnknownId { id, max: Self::ALL.iter().map(|d| d.id()).max().unwrap_or(0) })
            }
        }
    }

    /// The type with this name, in any case (`Q4_K`, `q4_k`).
    pub fn from_name(name: &str) -> Result<DType, DTypeError> {
        Self::ALL
            .iter()
            .copied()
            .find(|dtype| dtype.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| DTypeError::UnknownName { name: name.to_owned() })
    }

    /// Id as stored in files.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// Name in ggml's spelling (`q4_K`).
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Elements in one block; 1 for plain numbers.
    pub const fn block_elems(self) -> u64 {
        self.row().block_elems as u64
    }

    /// Bytes of one block.
    pub const fn block_bytes(self) -> u64 {
        self.row().block_bytes as u64
    }

    /// Largest number of bytes up to `n_bytes` that consists of complete blocks.
    pub const fn whole_blocks(self, n_bytes: u64) -> u64 {
        n_bytes / self.block_bytes() * self.block_bytes()
    }

    /// True if weights can be encoded to this type in a file.
    pub const fn is_encodable(self) -> bool {
        self.row().encodable
    }

    /// Default `general.file_type` of a file whose tensors are mostly of this type; 0 (all f32) if the
    /// reference has no file type for it.
    ///
    /// Source: the constructor of `llama_model_loader`, `src/llama-model-loader.cpp`.
    pub const fn file_type(self) -> u32 {
        self.row().file_type
    }

    /// Type to which the reference's CPU kernels round an input before they multiply it with weights of this
    /// type; `None` if they do not round, and for types that weights cannot have.
    ///
    /// Source: `vec_dot_type` of `type_traits_cpu` in `ggml/src/ggml-cpu/ggml-cpu.c`.
    pub const fn activation_dtype(self) -> Option<DType> {
        self.row().activation
    }

    /// Type with smaller blocks that is nearest in size, for rows that do not fill blocks of this type;
    /// `None` if the reference has no replacement.
    ///
    /// Source: `tensor_type_fallback` in `src/llama-quant.cpp`.
    pub const fn smaller_block(self) -> Option<DType> {
        self.row().smaller_block
    }

    /// True if the reference refuses to quantize a tensor to this type without an importance matrix, for any
    /// file type (except token embedding and output).
    ///
    /// Source: `tensor_requires_imatrix` in `src/llama-quant.cpp`.
    pub const fn needs_imatrix(self) -> bool {
        self.row().needs_imatrix
    }

    /// Next larger type with blocks of the same length, for tensors that would need an importance matrix in
    /// this type but have no data. `None` for types that never need one.
    pub const fn raised(self) -> Option<DType> {
        self.row().raised
    }

    /// Numbers of more than one byte in a block, as (offset, width) in bytes, which are swapped between byte
    /// orders.
    ///
    /// Source: `byteswap_tensors` of `gguf-py/gguf/scripts/gguf_convert_endian.py` for the quantized types it
    /// lists. For the others, the numbers that `dequantize_row_*` in `ggml/src/ggml-quants.c` reads in the
    /// machine's order (a `ggml_half`, a `uint16_t`, 32 bits by `memcpy`), but not those that it reads byte
    /// by byte, such as the grid indices of IQ2_XXS.
    pub const fn swap_fields(self) -> &'static [(usize, usize)] {
        self.row().swap_fields
    }

    /// True if several elements share a block (`ggml_is_quantized`).
    pub const fn is_quantized(self) -> bool {
        self.row().block_elems > 1
    }

    /// True if elements are plain floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
    }

    /// Bits per element, including scales.
    pub fn bits_per_elem(self) -> f64 {
        self.block_bytes() as f64 * 8.0 / self.block_elems() as f64
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_names_are_unique_and_round_trip() {
        for (i, dtype) in DType::ALL.iter().enumerate() {
            assert_eq!(DType::from_id(dtype.id()), Ok(*dtype));
            assert_eq!(DType::from_name(&dtype.name().to_uppercase()), Ok(*dtype));
            for other in &DType::ALL[i + 1..] {
                assert!(dtype.id() < other.id(), "{dtype} before {other}");
                assert_ne!(dtype.name(), other.name());
            }
        }
    }

    #[test]
    fn columns_agree_with_each_other() {
        for &dtype in DType::ALL {
            if dtype.needs_imatrix() {
                assert!(dtype.raised().is_some(), "{dtype} needs weights and has nothing to be raised to");
            }
            if let Some(raised) = dtype.raised() {
                assert_eq!(raised.block_elems(), dtype.block_elems(), "{dtype} {raised}");
                assert!(raised.bits_per_elem() > dtype.bits_per_elem(), "{dtype} {raised}");
            }
            if let Some(smaller) = dtype.smaller_block() {
                assert!(smaller.block_elems() < dtype.block_elems(), "{dtype} {smaller}");
                assert!(smaller.bits_per_elem() > dtype.bits_per_elem(), "{dtype} {smaller}");
            }
            if let Some(activation) = dtype.activation_dtype() {
                assert!(dtype.block_elems().is_multiple_of(activation.block_elems()), "{dtype} {activation}");
            }
            // All types of weights except f32 have an activation type.
            let is_multiplied = dtype.is_encodable() && dtype != DType::F32;
            assert_eq!(dtype.activation_dtype().is_some(), is_multiplied, "{dtype}");
            for &(at, width) in dtype.swap_fields() {
                assert!(at + width <= dtype.block_bytes() as usize, "{dtype}");
            }
        }
    }

    #[test]
    fn removed_ids_are_named() {
        for removed in REMOVED {
            let error = DType::from_id(removed.id).unwrap_err();
            assert!(error.to_string().contains(removed.name), "{error}");
            DType::from_name(removed.instead).unwrap();
        }
        assert!(matches!(DType::from_id(43), Err(DTypeError::UnknownId { id: 43, max: 42 })));
    }
}
