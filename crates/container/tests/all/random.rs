//! Seeded metadata and tensors.

use gguf_container::{ALIGNMENT_KEY, Array, Endian, Metadata, Value};
use gguf_testkit::Draw;
use gguf_types::{DType, Shape};

pub struct Random(pub Draw);

impl Random {
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.0.below(n)
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.bits() as u8).collect()
    }

    /// Any number but NaN, which does not equal itself.
    fn f64(&mut self) -> f64 {
        let number = f64::from_bits(self.bits());
        if number.is_nan() { 0.5 } else { number }
    }

    fn f32(&mut self) -> f32 {
        let number = f32::from_bits(self.bits() as u32);
        if number.is_nan() { -0.0 } else { number }
    }

    pub fn value(&mut self) -> Value {
        match self.below(13) {
            0 => Value::U8(self.bits() as u8),
            1 => Value::I8(self.bits() as i8),
            2 => Value::U16(self.bits() as u16),
            3 => Value::I16(self.bits() as i16),
            4 => Value::U32(self.bits() as u32),
            5 => Value::I32(self.bits() as i32),
            6 => Value::F32(self.f32()),
            7 => Value::Bool(self.below(2) == 1),
            8 => {
                let n = self.below(20);
                Value::String(self.bytes(n))
            }
            9 => Value::Array(self.array(8)),
            10 => Value::U64(self.bits()),
            11 => Value::I64(self.bits() as i64),
            _ => Value::F64(self.f64()),
        }
    }

    /// An array nested at most `levels` deep; inner arrays differ in length and type.
    pub fn array(&mut self, levels: usize) -> Array {
        let n = self.below(5);
        macro_rules! items {
            ($variant:ident, $make:expr) => {
                Array::$variant((0..n).map(|_| $make(self)).collect())
            };
        }
        let kind = self.below(if levels > 1 { 16 } else { 13 });
        match if kind == 9 && levels == 1 { 0 } else { kind } {
            0 => items!(U8, |r: &mut Random| r.bits() as u8),
            1 => items!(I8, |r: &mut Random| r.bits() as i8),
            2 => items!(U16, |r: &mut Random| r.bits() as u16),
            3 => items!(I16, |r: &mut Random| r.bits() as i16),
            4 => items!(U32, |r: &mut Random| r.bits() as u32),
            5 => items!(I32, |r: &mut Random| r.bits() as i32),
            6 => items!(F32, |r: &mut Random| r.f32()),
            7 => items!(Bool, |r: &mut Random| r.below(2) == 1),
            8 => items!(String, |r: &mut Random| {
                let n = r.below(9);
                r.bytes(n)
            }),
            10 => items!(U64, |r: &mut Random| r.bits()),
            11 => items!(I64, |r: &mut Random| r.bits() as i64),
            12 => items!(F64, |r: &mut Random| r.f64()),
            _ => items!(Array, |r: &mut Random| r.array(levels - 1)),
        }
    }
}

/// Contents of a file: input of a plan, and the data of each tensor.
pub struct Content {
    pub metadata: Metadata,
    pub tensors: Vec<(String, Shape, DType)>,
    pub data: Vec<Vec<u8>>,
    pub endian: Endian,
    pub alignment: u32,
}

impl Content {
    pub fn new(random: &mut Random) -> Content {
        let endian = if random.below(2) == 0 { Endian::Little } else { Endian::Big };
        let alignment = 8 << random.below(6);
        let mut metadata: Metadata =
            (0..random.below(20)).map(|i| (format!("key_{i}.of.test"), random.value())).collect();
        if alignment != 32 || random.below(2) == 0 {
            let at = random.below(metadata.len() + 1);
            metadata.set_at(at, ALIGNMENT_KEY, alignment);
        }
        let mut tensors = Vec::new();
        let mut data = Vec::new();
        for i in 0..random.below(8) {
            let dtype = DType::ALL[random.below(DType::ALL.len())];
            let mut dims = vec![dtype.block_elems() * (1 + random.below(3)) as u64];
            dims.extend((0..random.below(5)).map(|_| random.below(4) as u64));
            let shape = Shape::new(&dims).unwrap();
            data.push(random.bytes(shape.n_bytes(dtype).unwrap() as usize));
            tensors.push((format!("tensor.{i}"), shape, dtype));
        }
        Content { metadata, tensors, data, endian, alignment }
    }
}
