//! Values of code and scale bytes.

use std::{ops::Range, sync::LazyLock};

use crate::{Dtype, Part, ReadError, Span, Tensor, View, read_rows, rows::to_f32};

/// Number format of a one-byte code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    /// 4 bits exponent, 3 bits mantissa, NaN if all seven are set, no infinity.
    E4M3,
    /// The upper half of an f16.
    E5M2,
    I8,
}

/// Number of each code, in the order of [`Numbers`].
static TABLES: LazyLock<[[f32; 256]; 3]> = LazyLock::new(|| {
    let codes: [u8; 256] = std::array::from_fn(|code| code as u8);
    [Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::I8].map(|dtype| {
        let mut table = [0.0; 256];
        to_f32(dtype, &codes, &mut table);
        table
    })
});

impl Numbers {
    /// Number format of a type; `None` if it does not have exactly one byte.
    pub fn of(dtype: Dtype) -> Option<Numbers> {
        match dtype {
            Dtype::F8_E4M3 => Some(Numbers::E4M3),
            Dtype::F8_E5M2 => Some(Numbers::E5M2),
            Dtype::I8 => Some(Numbers::I8),
            _ => None,
        }
    }

    pub fn dtype(self) -> Dtype {
        match self {
            Numbers::E4M3 => Dtype::F8_E4M3,
            Numbers::E5M2 => Dtype::F8_E5M2,
            Numbers::I8 => Dtype::I8,
        }
    }

    pub fn table(self) -> &'static [f32; 256] {
        &TABLES[self as usize]
    }

    /// First of `codes` that encodes NaN, for messages.
    pub fn not_a_number(self, codes: &[u8]) -> Option<String> {
        // Seven bits: beyond the largest finite number there are NaNs, and infinity for E5M2.
        let largest = match self {
            Numbers::E4M3 => 0x7e,
            Numbers::E5M2 => 0x7b,
            Numbers::I8 => return None,
        };
        // The maximum first: a loop without an exit, sixteen codes at once.
        let found = codes.iter().fold(0, |found, code| u8::max(found, code & 0x7f));
        if found <= largest {
            return None;
        }
        let column = codes.iter().position(|code| code & 0x7f > largest).unwrap_or(0);
        Some(format!("byte {:#04x} at column {column}", codes[column]))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Scales {
    name: String,
    dtype: Dtype,
    span: Span,
    row_elems: u64,
}

impl Scales {
    /// Scales of a tensor; `None` if its type is not a number type. Untyped bytes are E8M0 exponents.
    pub fn of(tensor: &Tensor) -> Option<Scales> {
        let dtype = match tensor.dtype {
            Dtype::U8 => Dtype::F8_E8M0,
            dtype => dtype,
        };
        let is_scale = matches!(dtype, Dtype::F32 | Dtype::F16 | Dtype::BF16 | Dtype::F8_E8M0);
        let (name, span, row_elems) = (tensor.name.clone(), tensor.span(), tensor.row_elems().max(1));
        is_scale.then_some(Scales { name, dtype, span, row_elems })
    }

    /// One-byte integer offsets, signed or unsigned; `None` for another type.
    pub fn integers(tensor: &Tensor) -> Option<Scales> {
        let Tensor { name, dtype, .. } = tensor;
        let (name, dtype, span, row_elems) = (name.clone(), *dtype, tensor.span(), tensor.row_elems().max(1));
        matches!(dtype, Dtype::I8 | Dtype::U8).then_some(Scales { name, dtype, span, row_elems })
    }

    /// The bytes of elements `elems`.
    pub fn span(&self, elems: Range<u64>) -> Span {
        let n_bytes = self.dtype.bits() / 8;
        self.span.part_of(elems.start * n_bytes..elems.end * n_bytes)
    }

    /// Decodes elements `elems` into `out`, overwriting it.
    ///
    /// # Errors
    /// [`ReadError::NoValue`] for a scale that is not finite.
    pub fn read(&self, parts: &[Part], elems: Range<u64>, out: &mut Vec<f32>) -> Result<(), ReadError> {
        let n_elems = elems.end - elems.start;
        let bytes = self.span(elems.clone()).of(parts)?;
        out.clear();
        out.resize(n_elems as usize, 0.0);
        let view = View { name: &self.name, dtype: self.dtype, shape: &[n_elems], bytes };
        read_rows(&view, 0, 1, out)?;
        match out.iter().position(|scale| !scale.is_finite()) {
            None => Ok(()),
            Some(index) => {
                let row = (elems.start + index as u64) / self.row_elems;
                Err(ReadError::no_value(&self.name, row, "finite scales", out[index]))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_without_value_are_those_of_the_tables() {
        for numbers in [Numbers::E4M3, Numbers::E5M2, Numbers::I8] {
            for code in 0..=u8::MAX {
                let has_value = numbers.table()[usize::from(code)].is_finite();
                assert_eq!(numbers.not_a_number(&[code]).is_none(), has_value, "{numbers:?} {code}");
            }
        }
    }
}
