//! Serializes values and tensor infos in version 3.
//!
//! Source: "GGUF v3 specification"; same bytes as `gguf_write_out` in `ggml/src/gguf.cpp` and `GGUFWriter` in
//! `gguf-py/gguf/gguf_writer.py` (llama-cpp-python 0.3.36).

use gguf_types::{DType, Shape};

use crate::{Array, Endian, MAGIC, Metadata, Value};

pub(crate) struct Bytes {
    bytes: Vec<u8>,
    endian: Endian,
}

macro_rules! put {
    ($name:ident, $type:ty) => {
        pub(crate) fn $name(&mut self, number: $type) {
            let bytes = match self.endian {
                Endian::Little => number.to_le_bytes(),
                Endian::Big => number.to_be_bytes(),
            };
            self.bytes.extend_from_slice(&bytes);
        }
    };
}

impl Bytes {
    /// Bytes before the tensor infos: magic, version 3, counts, metadata.
    pub(crate) fn header(endian: Endian, n_tensors: usize, metadata: &Metadata) -> Bytes {
        let mut header = Bytes { bytes: Vec::new(), endian };
        header.raw(&MAGIC);
        header.u32(3);
        header.u64(n_tensors as u64);
        header.u64(metadata.len() as u64);
        for (key, value) in metadata {
            header.key_value(key, value);
        }
        header
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    put!(u8, u8);
    put!(i8, i8);
    put!(u16, u16);
    put!(i16, i16);
    put!(u32, u32);
    put!(i32, i32);
    put!(f32, f32);
    put!(u64, u64);
    put!(i64, i64);
    put!(f64, f64);

    pub(crate) fn string(&mut self, text: &[u8]) {
        self.u64(text.len() as u64);
        self.raw(text);
    }

    pub(crate) fn key_value(&mut self, key: &str, value: &Value) {
        self.string(key.as_bytes());
        self.u32(value.type_id());
        match value {
            Value::U8(v) => self.u8(*v),
            Value::I8(v) => self.i8(*v),
            Value::U16(v) => self.u16(*v),
            Value::I16(v) => self.i16(*v),
            Value::U32(v) => self.u32(*v),
            Value::I32(v) => self.i32(*v),
            Value::F32(v) => self.f32(*v),
            Value::Bool(v) => self.u8((*v).into()),
            Value::String(v) => self.string(v),
            Value::Array(v) => self.array(v),
            Value::U64(v) => self.u64(*v),
            Value::I64(v) => self.i64(*v),
            Value::F64(v) => self.f64(*v),
        }
    }

    fn array(&mut self, array: &Array) {
        self.u32(array.item_type_id());
        self.u64(array.len() as u64);
        match array {
            Array::U8(items) => self.raw(items),
            Array::I8(items) => items.iter().for_each(|v| self.i8(*v)),
            Array::U16(items) => items.iter().for_each(|v| self.u16(*v)),
            Array::I16(items) => items.iter().for_each(|v| self.i16(*v)),
            Array::U32(items) => items.iter().for_each(|v| self.u32(*v)),
            Array::I32(items) => items.iter().for_each(|v| self.i32(*v)),
            Array::F32(items) => items.iter().for_each(|v| self.f32(*v)),
            Array::Bool(items) => items.iter().for_each(|v| self.u8((*v).into())),
            Array::String(items) => {
                // Each with its length in 8 bytes; a vocabulary is most of a header.
                self.bytes.reserve(8 * items.len() + items.n_bytes());
                items.iter().for_each(|v| self.string(v));
            }
            Array::Array(items) => items.iter().for_each(|v| self.array(v)),
            Array::U64(items) => items.iter().for_each(|v| self.u64(*v)),
            Array::I64(items) => items.iter().for_each(|v| self.i64(*v)),
            Array::F64(items) => items.iter().for_each(|v| self.f64(*v)),
        }
    }

    /// One tensor info; `offset` counts from the start of the data section.
    pub(crate) fn tensor_info(&mut self, name: &str, shape: Shape, dtype: DType, offset: u64) {
        self.string(name.as_bytes());
        self.u32(shape.n_dims() as u32);
        shape.dims().iter().for_each(|dim| self.u64(*dim));
        self.u32(dtype.id());
        self.u64(offset);
    }

    /// Zeros up to the next multiple of `alignment`.
    pub(crate) fn pad(&mut self, alignment: u32) {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment as usize), 0);
    }
}
