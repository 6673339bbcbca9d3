//! The element types of checkpoints.
//!
//! Names and sizes: `enum Dtype` of the safetensors crate, version 0.8.0, and of the format's
//! description in its README.

use std::fmt;

macro_rules! dtypes {
    ($( $variant:ident = $name:literal, $bits:literal, $readable:literal, $doc:literal; )*) => {
        /// Element type of a checkpoint's tensor.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[expect(non_camel_case_types, reason = "types are spelled as safetensors spells them")]
        pub enum Dtype {
            $( #[doc = $doc] $variant, )*
        }

        impl Dtype {
            /// Every type that a file may name.
            pub const ALL: &[Dtype] = &[ $( Dtype::$variant, )* ];

            /// The name as safetensors spells it (`BF16`).
            pub const fn name(self) -> &'static str {
                match self { $( Dtype::$variant => $name, )* }
            }

            /// Bits per element; not always a multiple of 8.
            pub const fn bits(self) -> u64 {
                match self { $( Dtype::$variant => $bits, )* }
            }

            /// True if [`read_rows`](crate::read_rows) can convert it to `f32`.
            pub const fn is_readable(self) -> bool {
                match self { $( Dtype::$variant => $readable, )* }
            }
        }
    };
}

dtypes! {
    F64         = "F64",         64, true,  "IEEE double precision.";
    F32         = "F32",         32, true,  "IEEE single precision.";
    F16         = "F16",         16, true,  "IEEE half precision.";
    BF16        = "BF16",        16, true,  "The upper half of an f32.";
    I64         = "I64",         64, true,  "Signed integer.";
    I32         = "I32",         32, true,  "Signed integer.";
    I16         = "I16",         16, true,  "Signed integer.";
    I8          = "I8",           8, true,  "Signed integer.";
    U64         = "U64",         64, true,  "Unsigned integer.";
    U32         = "U32",         32, true,  "Unsigned integer.";
    U16         = "U16",         16, true,  "Unsigned integer.";
    U8          = "U8",           8, true,  "Unsigned integer.";
    BOOL        = "BOOL",         8, true,  "One byte, zero or not.";
    F8_E4M3     = "F8_E4M3",      8, true,  "4 bits exponent, 3 bits mantissa, no infinity.";
    F8_E5M2     = "F8_E5M2",      8, true,  "The upper half of an f16.";
    F8_E8M0     = "F8_E8M0",      8, true,  "A power of two, no sign.";
    F8_E4M3FNUZ = "F8_E4M3FNUZ",  8, false, "4 bits exponent of bias 8, one zero.";
    F8_E5M2FNUZ = "F8_E5M2FNUZ",  8, false, "5 bits exponent of bias 16, one zero.";
    F6_E2M3     = "F6_E2M3",      6, false, "OCP microscaling element.";
    F6_E3M2     = "F6_E3M2",      6, false, "OCP microscaling element.";
    F4          = "F4",           4, false, "OCP microscaling element, two a byte.";
    C64         = "C64",         64, false, "Complex of two f32.";
}

impl Dtype {
    /// The type with exactly this name.
    pub fn from_name(name: &str) -> Option<Dtype> {
        Self::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    /// Bytes of `n_elems` elements; `None` if they do not fit 64 bits or end inside a byte.
    pub fn n_bytes(self, n_elems: u64) -> Option<u64> {
        let bits = u128::from(n_elems) * u128::from(self.bits());
        if bits.is_multiple_of(8) { u64::try_from(bits / 8).ok() } else { None }
    }

    /// Number of elements of this shape. `None` if the number of bytes overflows, also if a dimension of 0
    /// would hide an overflow of the others, which computing row sizes would hit.
    pub fn n_elems_of(self, shape: &[u64]) -> Option<u64> {
        shape.iter().try_fold(self.bits(), |bits, dim| bits.checked_mul((*dim).max(1)))?;
        // At most the checked number.
        let n_elems = if shape.contains(&0) { 0 } else { shape.iter().product() };
        self.n_bytes(n_elems).map(|_| n_elems)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dtype_table_matches_safetensors_crate() {
        for dtype in Dtype::ALL {
            let reference: safetensors::Dtype = serde_json::from_value(dtype.name().into()).unwrap();
            assert_eq!(dtype.bits(), reference.bitsize() as u64, "{dtype}");
            assert_eq!(Dtype::from_name(dtype.name()), Some(*dtype));
        }
        // The crate's list, so that a type added later is noticed on update.
        let error = serde_json::from_value::<safetensors::Dtype>("none".into()).unwrap_err().to_string();
        assert_eq!(error.matches('`').count(), 2 * (Dtype::ALL.len() + 1), "{error}");
        assert_eq!(Dtype::from_name("bf16"), None);
    }

    #[test]
    fn byte_counts_are_checked() {
        assert_eq!(Dtype::F4.n_bytes(6), Some(3));
        assert_eq!(Dtype::F4.n_bytes(5), None);
        assert_eq!(Dtype::F64.n_bytes(u64::MAX), None);
        assert_eq!(Dtype::F32.n_bytes(0), Some(0));
    }
}
