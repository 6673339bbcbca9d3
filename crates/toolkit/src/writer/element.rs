//! Numbers that tensors hold without encoding.

use gguf_types::DType;

/// A Rust number that is also a data type of tensors.
pub trait Element: Copy + Send + Sync + private::Sealed {
    /// Its data type.
    const DTYPE: DType;

    /// Appends its bytes in little-endian order.
    fn append_to(self, bytes: &mut Vec<u8>);
}

mod private {
    /// Only the numbers below are elements.
    pub trait Sealed {}
}

macro_rules! elements {
    ($($number:ty => $dtype:ident),* $(,)?) => {$(
        impl private::Sealed for $number {}

        impl Element for $number {
            const DTYPE: DType = DType::$dtype;

            fn append_to(self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}

elements!(f32 => F32, f64 => F64, i8 => I8, i16 => I16, i32 => I32, i64 => I64);
