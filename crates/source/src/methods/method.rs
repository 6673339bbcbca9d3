//! What a row of the table of methods says.

use super::quantized::{Decoded, Quantized};
use crate::Error;

/// Makes the tensors that a checkpoint's codes stand for.
type Decoder = fn(&Quantized<'_>) -> Result<Decoded, Error>;

/// One quantization method.
#[derive(Debug, Clone, Copy)]
pub struct Method {
    /// Its name, for people.
    pub name: &'static str,
    /// What it is recognized by, for people.
    pub recognized_by: &'static str,
    /// Whether a checkpoint's weights are of this method.
    pub(crate) detect: fn(&Quantized<'_>) -> bool,
    /// What is done with them.
    pub(crate) reading: Reading,
}

/// What is done with the weights of a method.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading {
    /// They are decoded.
    Decoded(Decoder),
    /// They are not read; what would help.
    Refused(&'static str),
}

impl Method {
    /// Whether weights of this method are read, not just recognized.
    pub fn is_read(&self) -> bool {
        !matches!(self.reading, Reading::Refused(_))
    }
}
