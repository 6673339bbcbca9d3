//! Values of metadata: the 13 types of the specification.

use std::fmt;

use crate::Strings;

/// A metadata value. Integers keep the width stored in the file.
///
/// Source: "GGUF v3 specification", `gguf_metadata_value_t`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Type id 0.
    U8(u8),
    /// Type id 1.
    I8(i8),
    /// Type id 2.
    U16(u16),
    /// Type id 3.
    I16(i16),
    /// Type id 4.
    U32(u32),
    /// Type id 5.
    I32(i32),
    /// Type id 6.
    F32(f32),
    /// Type id 7, one byte, 0 or 1.
    Bool(bool),
    /// Type id 8. Bytes, since files may contain text that is not UTF-8.
    String(Vec<u8>),
    /// Type id 9.
    Array(Array),
    /// Type id 10.
    U64(u64),
    /// Type id 11.
    I64(i64),
    /// Type id 12.
    F64(f64),
}

/// An array: all items have the array's type; inner arrays may differ from each other in length and type.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Array {
    /// Items of type id 0.
    U8(Vec<u8>),
    /// Items of type id 1.
    I8(Vec<i8>),
    /// Items of type id 2.
    U16(Vec<u16>),
    /// Items of type id 3.
    I16(Vec<i16>),
    /// Items of type id 4.
    U32(Vec<u32>),
    /// Items of type id 5.
    I32(Vec<i32>),
    /// Items of type id 6.
    F32(Vec<f32>),
    /// Items of type id 7.
    Bool(Vec<bool>),
    /// Items of type id 8.
    String(Strings),
    /// Items of type id 9.
    Array(Vec<Array>),
    /// Items of type id 10.
    U64(Vec<u64>),
    /// Items of type id 11.
    I64(Vec<i64>),
    /// Items of type id 12.
    F64(Vec<f64>),
}

impl Value {
    /// Type id as stored in files.
    pub const fn type_id(&self) -> u32 {
        match self {
            Value::U8(_) => 0,
            Value::I8(_) => 1,
            Value::U16(_) => 2,
            Value::I16(_) => 3,
            Value::U32(_) => 4,
            Value::I32(_) => 5,
            Value::F32(_) => 6,
            Value::Bool(_) => 7,
            Value::String(_) => 8,
            Value::Array(_) => 9,
            Value::U64(_) => 10,
            Value::I64(_) => 11,
            Value::F64(_) => 12,
        }
    }

    /// The value as text, if it is a string of valid UTF-8.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// The value as a count, if it is a non-negative integer of any width.
    pub fn as_u64(&self) -> Option<u64> {
        match *self {
            Value::U8(v) => Some(v.into()),
            Value::U16(v) => Some(v.into()),
            Value::U32(v) => Some(v.into()),
            Value::U64(v) => Some(v),
            Value::I8(v) => v.try_into().ok(),
            Value::I16(v) => v.try_into().ok(),
            Value::I32(v) => v.try_into().ok(),
            Value::I64(v) => v.try_into().ok(),
            _ => None,
        }
    }

    /// The value as a floating-point number, if it is one of either width.
    pub fn as_f64(&self) -> Option<f64> {
        match *self {
            Value::F32(v) => Some(v.into()),
            Value::F64(v) => Some(v),
            _ => None,
        }
    }

    /// True for values of the same type with the same content. Unlike with `==`, NaN equals NaN.
    ///
    /// ```
    /// use gguf_container::Value;
    /// assert!(Value::F32(f32::NAN).is_same(&Value::F32(f32::NAN)));
    /// assert!(!Value::F32(0.5).is_same(&Value::F64(0.5)));
    /// ```
    pub fn is_same(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::F32(a), Value::F32(b)) => a == b || a.is_nan() && b.is_nan(),
            (Value::F64(a), Value::F64(b)) => a == b || a.is_nan() && b.is_nan(),
            (Value::Array(a), Value::Array(b)) => a.is_same(b),
            (a, b) => a == b,
        }
    }

    /// The value as an array.
    pub fn as_array(&self) -> Option<&Array> {
        match self {
            Value::Array(array) => Some(array),
            _ => None,
        }
    }
}

impl Array {
    /// The type id of the items.
    pub const fn item_type_id(&self) -> u32 {
        match self {
            Array::U8(_) => 0,
            Array::I8(_) => 1,
            Array::U16(_) => 2,
            Array::I16(_) => 3,
            Array::U32(_) => 4,
            Array::I32(_) => 5,
            Array::F32(_) => 6,
            Array::Bool(_) => 7,
            Array::String(_) => 8,
            Array::Array(_) => 9,
            Array::U64(_) => 10,
            Array::I64(_) => 11,
            Array::F64(_) => 12,
        }
    }

    /// True for arrays of the same type whose items are equal by [`Value::is_same`].
    pub fn is_same(&self, other: &Array) -> bool {
        fn all<T>(a: &[T], b: &[T], is_same: impl Fn(&T, &T) -> bool) -> bool {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same(a, b))
        }
        match (self, other) {
            (Array::F32(a), Array::F32(b)) => all(a, b, |a, b| a == b || a.is_nan() && b.is_nan()),
            (Array::F64(a), Array::F64(b)) => all(a, b, |a, b| a == b || a.is_nan() && b.is_nan()),
            (Array::Array(a), Array::Array(b)) => all(a, b, Array::is_same),
            (a, b) => a == b,
        }
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        match self {
            Array::U8(v) => v.len(),
            Array::I8(v) => v.len(),
            Array::U16(v) => v.len(),
            Array::I16(v) => v.len(),
            Array::U32(v) => v.len(),
            Array::I32(v) => v.len(),
            Array::F32(v) => v.len(),
            Array::Bool(v) => v.len(),
            Array::String(v) => v.len(),
            Array::Array(v) => v.len(),
            Array::U64(v) => v.len(),
            Array::I64(v) => v.len(),
            Array::F64(v) => v.len(),
        }
    }

    /// True if the array has no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Value::String(text.as_bytes().to_vec())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Value::String(text.into_bytes())
    }
}

/// Conversions from these types to values, and from vectors to arrays.
macro_rules! values {
    ($($ty:ty => $variant:ident),*) => {
        $(impl From<$ty> for Value {
            fn from(value: $ty) -> Self {
                Value::$variant(value)
            }
        }

        impl From<Vec<$ty>> for Value {
            fn from(items: Vec<$ty>) -> Self {
                Value::Array(Array::$variant(items))
            }
        })*
    };
}
values!(
    u8 => U8, i8 => I8, u16 => U16, i16 => I16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32,
    f64 => F64, bool => Bool, Array => Array
);

impl From<Vec<&str>> for Value {
    fn from(items: Vec<&str>) -> Self {
        Value::Array(Array::String(items.into()))
    }
}

impl From<Vec<String>> for Value {
    fn from(items: Vec<String>) -> Self {
        Value::Array(Array::String(items.into()))
    }
}

/// Name of a value type id (`u32`, `str`, `arr`), like in gguf-dump style listings.
pub const fn type_name(type_id: u32) -> Option<&'static str> {
    const NAMES: [&str; 13] =
        ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "str", "arr", "u64", "i64", "f64"];
    if (type_id as usize) < NAMES.len() { Some(NAMES[type_id as usize]) } else { None }
}

impl fmt::Display for Value {
    /// The value on one line; strings as text with replacement characters, arrays in full.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::U8(v) => v.fmt(f),
            Value::I8(v) => v.fmt(f),
            Value::U16(v) => v.fmt(f),
            Value::I16(v) => v.fmt(f),
            Value::U32(v) => v.fmt(f),
            Value::I32(v) => v.fmt(f),
            Value::F32(v) => v.fmt(f),
            Value::Bool(v) => v.fmt(f),
            Value::String(v) => String::from_utf8_lossy(v).fmt(f),
            Value::Array(v) => write!(f, "{v:?}"),
            Value::U64(v) => v.fmt(f),
            Value::I64(v) => v.fmt(f),
            Value::F64(v) => v.fmt(f),
        }
    }
}
