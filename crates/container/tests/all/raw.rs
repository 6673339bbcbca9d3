//! Writes headers byte by byte, valid or invalid, using only the value types of the crate under test.

use gguf_container::{Array, Endian, Value};

pub struct Raw {
    pub bytes: Vec<u8>,
    pub endian: Endian,
    pub version: u32,
}

impl Raw {
    pub fn new(version: u32, endian: Endian) -> Raw {
        let mut raw = Raw { bytes: b"GGUF".to_vec(), endian, version };
        raw.u32(version);
        raw
    }

    /// A little-endian version 3 file up to and including its two counts.
    pub fn v3(n_tensors: u64, n_keys: u64) -> Raw {
        let mut raw = Raw::new(3, Endian::Little);
        raw.count(n_tensors);
        raw.count(n_keys);
        raw
    }

    fn number<const N: usize>(&mut self, mut little: [u8; N]) {
        if self.endian == Endian::Big {
            little.reverse();
        }
        self.bytes.extend(little);
    }

    pub fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    pub fn u32(&mut self, number: u32) {
        self.number(number.to_le_bytes());
    }

    pub fn u64(&mut self, number: u64) {
        self.number(number.to_le_bytes());
    }

    /// 32 bits in version 1, 64 later.
    pub fn count(&mut self, count: u64) {
        if self.version == 1 { self.u32(count as u32) } else { self.u64(count) }
    }

    pub fn string(&mut self, text: &[u8]) {
        self.count(text.len() as u64);
        self.bytes.extend(text);
    }

    pub fn key(&mut self, key: &str, type_id: u32) {
        self.string(key.as_bytes());
        self.u32(type_id);
    }

    pub fn key_value(&mut self, key: &str, value: &Value) {
        self.key(key, value.type_id());
        match value {
            Value::U8(v) => self.number(v.to_le_bytes()),
            Value::I8(v) => self.number(v.to_le_bytes()),
            Value::U16(v) => self.number(v.to_le_bytes()),
            Value::I16(v) => self.number(v.to_le_bytes()),
            Value::U32(v) => self.number(v.to_le_bytes()),
            Value::I32(v) => self.number(v.to_le_bytes()),
            Value::F32(v) => self.number(v.to_le_bytes()),
            Value::Bool(v) => self.u8(u8::from(*v)),
            Value::String(v) => self.string(v),
            Value::Array(v) => self.array(v),
            Value::U64(v) => self.number(v.to_le_bytes()),
            Value::I64(v) => self.number(v.to_le_bytes()),
            Value::F64(v) => self.number(v.to_le_bytes()),
            other => panic!("{other:?}"),
        }
    }

    fn array(&mut self, array: &Array) {
        self.u32(array.item_type_id());
        self.count(array.len() as u64);
        match array {
            Array::U8(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::I8(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::U16(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::I16(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::U32(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::I32(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::F32(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::Bool(items) => items.iter().for_each(|v| self.u8(u8::from(*v))),
            Array::String(items) => items.iter().for_each(|v| self.string(v)),
            Array::Array(items) => items.iter().for_each(|v| self.array(v)),
            Array::U64(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::I64(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            Array::F64(items) => items.iter().for_each(|v| self.number(v.to_le_bytes())),
            other => panic!("{other:?}"),
        }
    }

    pub fn tensor(&mut self, name: &str, dims: &[u64], type_id: u32, offset: u64) {
        self.string(name.as_bytes());
        self.u32(dims.len() as u32);
        dims.iter().for_each(|dim| self.count(*dim));
        self.u32(type_id);
        self.u64(offset);
    }

    pub fn pad(&mut self, alignment: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
    }
}
