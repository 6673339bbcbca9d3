//! Distinguishes tensors that are numbers from codes that need a method.

use crate::{Error, Tensor};

/// Last name components that only parts of quantized weights have, whatever their type: scales and the like.
/// Without them, codes stored under a float's type would look like floats.
const OF_CODES: &[&str] = &[
    "qweight",
    "qzeros",
    "weight_packed",
    "weight_scale",
    "weight_scale_inv",
    "weight_scale_2",
    "qscale_weight",
    "absmax",
    "quant_map",
    "SCB",
    "W_q",
    "_weight_qdata",
    "_data",
    "trellis",
    "codebooks",
    "q_weight",
    "weight_scales",
    "centroids",
    "Qidxs",
    "weight_sf",
    "dense_weights",
    "svdquant_lora_a",
];

/// True if no tensor looks quantized, regardless of the config.
pub(super) fn are_plain(tensors: &[Tensor]) -> bool {
    !tensors.iter().any(|tensor| tensor.is_code() || OF_CODES.contains(&tensor.ending()))
}

/// Checks that all weights are numbers, after known codes were decoded. Tensors with other names are left to
/// architectures, which know all their tensors.
///
/// # Errors
/// [`Error::CodesOfNoMethod`] for the first code.
pub(super) fn check(tensors: &[Tensor]) -> Result<(), Error> {
    let is_weight = |tensor: &&Tensor| tensor.ending() == "weight" || tensor.ending().ends_with("_proj");
    match tensors.iter().filter(is_weight).find(|tensor| tensor.is_code()) {
        None => Ok(()),
        Some(tensor) => Err(tensor.undecoded()),
    }
}
