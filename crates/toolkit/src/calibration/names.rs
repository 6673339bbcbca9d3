//! Names that files record about a calibration, and the errors of its statistics.

use std::path::Path;

use gguf_conversion::{
    KeyOverride,
    recipes::{CALIBRATION_KEY, CALIBRATION_METHODS},
};

use crate::{error::Error, failure::failure};

/// Version of the method. Another version makes different blocks from the same text.
const METHOD: &str = CALIBRATION_METHODS[0];

/// The version of the method with gradients of the outputs, with trained scales, or with both.
pub fn method(both_sides: bool, trained: bool) -> &'static str {
    CALIBRATION_METHODS[usize::from(both_sides) + 2 * usize::from(trained)]
}

/// Digits that distinguish calibrations in a file.
pub const DIGITS: usize = 7;

/// The key that records a calibration.
pub fn calibration_key(name: &str) -> Result<KeyOverride, Error> {
    KeyOverride::parse(&format!("{CALIBRATION_KEY}=str:{name}")).map_err(Error::new)
}

/// A placeholder with the length of every recorded value, for plans that are made before the statistics exist.
pub fn unnamed() -> String {
    format!("{METHOD}-{}", "0".repeat(DIGITS))
}

/// The failure of statistics of the model at `path`.
pub fn failed(path: &Path, error: gguf_refinement::Error) -> Error {
    match error {
        // Statistics that cannot be written.
        gguf_refinement::Error::Gguf(error) => failure(path, gguf_conversion::Error::Gguf(error)),
        error => Error::at(path, error),
    }
}
