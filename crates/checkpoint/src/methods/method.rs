//! A row of the table of methods.

use super::quantized::{Decoded, Quantized};
use crate::Error;

/// Makes the tensors that a checkpoint's codes stand for.
type Decoder = fn(&Quantized<'_>) -> Result<Decoded, Error>;

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
    /// They are decoded.
    Decoded(Decoder),
    /// Not read; contains advice.
    Refused(&'static str),
}

impl Method {
    /// True if weights of this method are read, not only recognized.
    pub fn is_read(&self) -> bool {
        !matches!(self.reading, Reading::Refused(_))
    }
}
