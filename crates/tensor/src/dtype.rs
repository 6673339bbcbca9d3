//! Every ggml type id, live or removed.
//!
//! Source of ids, names and sizes: `enum ggml_type` in `ggml/include/ggml.h`, `type_traits`
//! in `ggml/src/ggml.c` and the block structs of `ggml/src/ggml-common.h`, llama.cpp as
//! vendored in llama-cpp-python 0.3.36.

use std::fmt;

/// Why an id or a name is not a usable dtype.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DTypeError {
    /// The id was never given out.
    #[error("ggml type id {id} is not known (known ids are 0 to {max})")]
    UnknownId {
        /// The id as read.
        id: u32,
        /// The largest id of the table.
        max: u32,
    },
    /// The id was in use once and is refused by today's readers.
    #[error("ggml type id {id} (`{name}`) was removed from the format; requantize to `{instead}`")]
    RemovedId {
        /// The id as read.
        id: u32,
        /// The name that the id had.
        name: &'static str,
        /// The type that took its place.
        instead: &'static str,
    },
    /// The name is not in the table.
    #[error("`{name}` is not the name of a ggml type")]
    UnknownName {
        /// The name as given.
        name: String,
    },
}

macro_rules! dtypes {
    ($( $variant:ident = $id:literal, $name:literal, $elems:literal per $bytes:literal, $encodable:literal, $doc:literal; )*) => {
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
                match self {
                    $( DType::$variant => Row { name: $name, block_elems: $elems, block_bytes: $bytes, encodable: $encodable }, )*
                }
            }
        }
    };
}

struct Row {
    name: &'static str,
    block_elems: u32,
    block_bytes: u32,
    encodable: bool,
}

dtypes! {
    F32     = 0,  "f32",       1 per 4,   true,  "IEEE single precision.";
    F16     = 1,  "f16",       1 per 2,   true,  "IEEE half precision.";
    Q4_0    = 2,  "q4_0",     32 per 18,  true,  "4 bits, one f16 scale.";
    Q4_1    = 3,  "q4_1",     32 per 20,  true,  "4 bits, f16 scale and minimum.";
    Q5_0    = 6,  "q5_0",     32 per 22,  true,  "5 bits, one f16 scale.";
    Q5_1    = 7,  "q5_1",     32 per 24,  true,  "5 bits, f16 scale and minimum.";
    Q8_0    = 8,  "q8_0",     32 per 34,  true,  "8 bits, one f16 scale.";
    Q8_1    = 9,  "q8_1",     32 per 36,  false, "8 bits, scale and scaled sum; an activation format, never in files.";
    Q2_K    = 10, "q2_K",    256 per 84,  true,  "2 bits, 16 sub-blocks with 4-bit scales and minima.";
    Q3_K    = 11, "q3_K",    256 per 110, true,  "3 bits, 16 sub-blocks with 6-bit scales.";
    Q4_K    = 12, "q4_K",    256 per 144, true,  "4 bits, 8 sub-blocks with 6-bit scales and minima.";
    Q5_K    = 13, "q5_K",    256 per 176, true,  "5 bits, 8 sub-blocks with 6-bit scales and minima.";
    Q6_K    = 14, "q6_K",    256 per 210, true,  "6 bits, 16 sub-blocks with 8-bit scales.";
    Q8_K    = 15, "q8_K",    256 per 292, false, "8 bits, f32 scale and sums; an activation format, never in files.";
    IQ2_XXS = 16, "iq2_xxs", 256 per 66,  true,  "2.06 bits, grid of 256 points.";
    IQ2_XS  = 17, "iq2_xs",  256 per 74,  true,  "2.31 bits, grid of 512 points.";
    IQ3_XXS = 18, "iq3_xxs", 256 per 98,  true,  "3.06 bits, grid of 256 points.";
    IQ1_S   = 19, "iq1_s",   256 per 50,  true,  "1.56 bits, grid of 2048 points.";
    IQ4_NL  = 20, "iq4_nl",   32 per 18,  true,  "4 bits into a non-linear table, one f16 scale.";
    IQ3_S   = 21, "iq3_s",   256 per 110, true,  "3.44 bits, grid of 512 points.";
    IQ2_S   = 22, "iq2_s",   256 per 82,  true,  "2.56 bits, grid of 1024 points.";
    IQ4_XS  = 23, "iq4_xs",  256 per 136, true,  "4.25 bits into a non-linear table, 8 sub-blocks.";
    I8      = 24, "i8",        1 per 1,   false, "8-bit integer; copied, never encoded.";
    I16     = 25, "i16",       1 per 2,   false, "16-bit integer; copied, never encoded.";
    I32     = 26, "i32",       1 per 4,   false, "32-bit integer; copied, never encoded.";
    I64     = 27, "i64",       1 per 8,   false, "64-bit integer; copied, never encoded.";
    F64     = 28, "f64",       1 per 8,   false, "IEEE double precision; copied, never encoded.";
    IQ1_M   = 29, "iq1_m",   256 per 56,  true,  "1.75 bits, grid of 2048 points.";
    BF16    = 30, "bf16",      1 per 2,   true,  "The upper half of an f32.";
    TQ1_0   = 34, "tq1_0",   256 per 54,  true,  "Ternary, five values a byte.";
    TQ2_0   = 35, "tq2_0",   256 per 66,  true,  "Ternary, four values a byte.";
    MXFP4   = 39, "mxfp4",    32 per 17,  true,  "OCP microscaling: e2m1 values, one e8m0 scale.";
    NVFP4   = 40, "nvfp4",    64 per 36,  true,  "e2m1 values, four ue4m3 scales of 16 values each.";
    Q1_0    = 41, "q1_0",    128 per 18,  true,  "Sign bits, one f16 scale.";
    Q2_0    = 42, "q2_0",     64 per 18,  true,  "2 bits, one f16 scale.";
}

/// An id that was given out once and must not be used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Removed {
    /// The ggml type id.
    pub id: u32,
    /// The name it had.
    pub name: &'static str,
    /// What to use in its place.
    pub instead: &'static str,
}

/// The removed ids, in the order of ids.
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
    ///
    /// # Errors
    /// [`DTypeError::RemovedId`] or [`DTypeError::UnknownId`].
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
    ///
    /// # Errors
    /// [`DTypeError::UnknownName`].
    pub fn from_name(name: &str) -> Result<DType, DTypeError> {
        Self::ALL
            .iter()
            .copied()
            .find(|dtype| dtype.name().eq_ignore_ascii_case(name))
            .ok_or_else(|| DTypeError::UnknownName { name: name.to_owned() })
    }

    /// The id as files store it.
    pub const fn id(self) -> u32 {
        self as u32
    }

    /// The name as ggml spells it (`q4_K`).
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

    /// Whether weights can be converted to this type for a file.
    pub const fn is_encodable(self) -> bool {
        self.row().encodable
    }

    /// Whether several elements share a block (`ggml_is_quantized`).
    pub const fn is_quantized(self) -> bool {
        self.row().block_elems > 1
    }

    /// Whether elements are plain floating-point numbers.
    pub const fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16 | DType::BF16 | DType::F64)
    }

    /// Bits stored for each element, scales included.
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
    fn removed_ids_are_named() {
        for removed in REMOVED {
            let error = DType::from_id(removed.id).unwrap_err();
            assert!(error.to_string().contains(removed.name), "{error}");
            DType::from_name(removed.instead).unwrap();
        }
        assert!(matches!(DType::from_id(43), Err(DTypeError::UnknownId { id: 43, max: 42 })));
    }
}
