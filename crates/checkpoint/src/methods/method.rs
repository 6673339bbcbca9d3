//! A row of the table of methods.

use super::{
    assembly::Taker,
    quantized::{Decoded, Quantized},
};
use crate::Error;

/// Last step, after all takers.
type Finish = fn(&Quantized<'_>, &mut Decoded) -> Result<(), Error>;

/// One quantization method.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name, for people.
    pub name: &'static str,
    /// Distinguishing feature, for people.
    pub recognized_by: &'static str,
    /// True if a checkpoint's weights use this method.
    pub(crate) detect: fn(&Quantized<'_>) -> bool,
    /// Handling of the weights.
    pub(crate) reading: Reading,
}

/// Handling of a method's weights.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading {
    /// They are decoded by these takers, in this order. Each takes the tensors whose names, types and shapes are those of
    /// its form.
    Decoded(&'static [Taker]),
    /// As `Decoded`; a last step follows.
    DecodedThen(&'static [Taker], Finish),
    /// Not read; contains advice.
    Refused(&'static str),
}

impl Method {
    /// True if weights of this method are read, not only recognized.
    pub fn is_read(&self) -> bool {
        !matches!(self.reading, Reading::Refused(_))
    }
}
