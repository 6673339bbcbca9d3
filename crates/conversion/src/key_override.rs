//! Metadata that a user sets: `KEY=TYPE:VALUE`.

use gguf_container::{Metadata, Value};

use crate::Error;

/// A key and its new value.
#[derive(Debug, Clone, PartialEq)]
pub struct KeyOverride {
    /// Name of the key.
    pub key: String,
    value: RequestedValue,
}

#[derive(Debug, Clone, PartialEq)]
enum RequestedValue {
    Int(i128),
    Float(f64),
    Exact(Value),
}

impl KeyOverride {
    /// Parses `KEY=TYPE:VALUE`. Types are those of the reference (`int`, `float`, `bool` and `str`) and
    /// GGUF's own (`u8` to `i64`, `f32`, `f64`).
    ///
    /// Source: `string_parse_kv_override` in `common/common.cpp`, llama-cpp-python 0.3.36. It reads invalid
    /// numbers as 0, and texts of at most 127 bytes.
    ///
    /// # Errors
    /// [`Error::KeyOverride`].
    pub fn parse(text: &str) -> Result<KeyOverride, Error> {
        let wrong = |problem: String| Error::KeyOverride { text: text.to_owned(), problem };
        let (key, typed) = text.split_once('=').ok_or_else(|| wrong("`=` is missing".into()))?;
        if key.is_empty() {
            return Err(wrong("missing key".into()));
        }
        let (kind, value) =
            typed.split_once(':').ok_or_else(|| wrong("missing type, for example `int:`".into()))?;
        let no_number = || wrong(format!("`{value}` is not a valid {kind}"));
        macro_rules! exact {
            ($variant:ident) => {
                RequestedValue::Exact(Value::$variant(value.parse().map_err(|_| no_number())?))
            };
        }
        let requested = match kind {
            // The reference parses a signed 64-bit integer.
            "int" => RequestedValue::Int(i128::from(value.parse::<i64>().map_err(|_| no_number())?)),
            "float" => RequestedValue::Float(value.parse().map_err(|_| no_number())?),
            "str" => RequestedValue::Exact(value.into()),
            "bool" => exact!(Bool),
            "u8" => exact!(U8),
            "i8" => exact!(I8),
            "u16" => exact!(U16),
            "i16" => exact!(I16),
            "u32" => exact!(U32),
            "i32" => exact!(I32),
            "u64" => exact!(U64),
            "i64" => exact!(I64),
            "f32" => exact!(F32),
            "f64" => exact!(F64),
            _ => return Err(wrong(format!("unknown type `{kind}`"))),
        };
        Ok(KeyOverride { key: key.to_owned(), value: requested })
    }

    /// Sets the key at the end of `metadata`, like the reference.
    ///
    /// An integer keeps the key's existing integer type. A new one is u32 if it fits; the reference always
    /// uses u32, which drops the sign. Floats behave alike, with f32 for a new key.
    ///
    /// # Errors
    /// [`Error::KeyOverrideRange`] for a number out of range for the key's type.
    pub fn apply(&self, metadata: &mut Metadata) -> Result<(), Error> {
        // The key's existing type decides: `int:` and `float:` state the kind of number, not its width.
        let old = metadata.get(&self.key);
        let value = match &self.value {
            RequestedValue::Exact(value) => value.clone(),
            RequestedValue::Float(value) if matches!(old, Some(Value::F64(_))) => Value::F64(*value),
            RequestedValue::Float(value) => Value::F32(*value as f32),
            RequestedValue::Int(value) => int(*value, old).ok_or_else(|| Error::KeyOverrideRange {
                key: self.key.clone(),
                value: value.to_string(),
                type_name: old.and_then(|old| gguf_container::type_name(old.type_id())).unwrap_or("u32"),
            })?,
        };
        // gguf_set_kv removes a key and appends it at the end.
        metadata.set_last(&self.key, value);
        Ok(())
    }
}

/// The integer in the type of the old value, or in the first of u32, i32, u64, i64 that can represent it.
fn int(value: i128, old: Option<&Value>) -> Option<Value> {
    Some(match old {
        Some(Value::U8(_)) => Value::U8(value.try_into().ok()?),
        Some(Value::I8(_)) => Value::I8(value.try_into().ok()?),
        Some(Value::U16(_)) => Value::U16(value.try_into().ok()?),
        Some(Value::I16(_)) => Value::I16(value.try_into().ok()?),
        Some(Value::U32(_)) => Value::U32(value.try_into().ok()?),
        Some(Value::I32(_)) => Value::I32(value.try_into().ok()?),
        Some(Value::U64(_)) => Value::U64(value.try_into().ok()?),
        Some(Value::I64(_)) => Value::I64(value.try_into().ok()?),
        // A new key, or one that was not an integer.
        _ => u32::try_from(value)
            .map(Value::U32)
            .or_else(|_| i32::try_from(value).map(Value::I32))
            .or_else(|_| u64::try_from(value).map(Value::U64))
            .or_else(|_| i64::try_from(value).map(Value::I64))
            .ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn override_types_are_kept_or_chosen() {
        let old = || {
            Metadata::from([
                ("i32".into(), Value::I32(7)),
                ("u64".into(), Value::U64(7)),
                ("f64".into(), Value::F64(7.0)),
                ("text".into(), "x".into()),
            ])
        };
        let set = |text: &str| {
            let mut metadata = old();
            KeyOverride::parse(text).unwrap().apply(&mut metadata)?;
            Ok::<_, Error>(metadata.into_iter().last().unwrap().1)
        };
        assert_eq!(set("i32=int:-3").unwrap(), Value::I32(-3));
        assert_eq!(set("u64=int:3").unwrap(), Value::U64(3));
        assert_eq!(set("f64=float:0.1").unwrap(), Value::F64(0.1));
        assert_eq!(set("new=int:3").unwrap(), Value::U32(3));
        assert_eq!(set("new=int:-3").unwrap(), Value::I32(-3));
        assert_eq!(set("new=int:4294967296").unwrap(), Value::U64(1 << 32));
        assert_eq!(set("new=float:1e-6").unwrap(), Value::F32(1e-6));
        assert_eq!(set("text=str:a=b:c").unwrap(), Value::from("a=b:c"));
        assert_eq!(set("text=bool:true").unwrap(), Value::Bool(true));
        assert_eq!(set("i32=u8:200").unwrap(), Value::U8(200));
        assert!(matches!(set("i32=int:3000000000"), Err(Error::KeyOverrideRange { type_name: "i32", .. })));
        for text in ["x", "=int:1", "x=1", "x=int:1.5", "x=int:", "x=bool:yes", "x=u8:300", "x=list:1"] {
            assert!(matches!(KeyOverride::parse(text), Err(Error::KeyOverride { .. })), "{text}");
        }
    }
}
