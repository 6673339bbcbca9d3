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
    /// Name for display.
    pub name: &'static str,
    /// Distinguishing feature, for display.
    pub recognized_by: &'static str,
    /// True if a checkpoint's weights use this method.
    pub(crate) detect: fn(&Quantized<'_>) -> bool,
    pub(crate) reading: Reading,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading {
    /// Decoded by these takers, in this order. Each takes the tensors whose names, types and shapes match its
    /// form.
    Decoded(&'static [Taker]),
    /// Like `Decoded`, followed by a last step.
    DecodedThen(&'static [Taker], Finish),
    /// Not supported; contains advice.
    Refused(&'static str),
}

impl Method {
    /// True if weights of this method are supported, not only recognized.
    pub fn is_read(&self) -> bool {
        !matches!(self.reading, Reading::Refused(_))
    }
}
