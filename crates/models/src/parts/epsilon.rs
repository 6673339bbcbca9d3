//! Epsilon of RMS norms in configs that call it that of layer norms.

use crate::prelude::*;

/// Epsilon of norms.
pub const STATED: Departure = Departure {
    subject: "attention.layer_norm_rms_epsilon",
    files: "`exaone`, `qwen`",
    reason: "`layer_norm_epsilon` of the config; llama.cpp does not load a file without this key",
};

/// Writes the keys of every text model, with the epsilon under both keys: the reference writes the other one, and llama.cpp
/// reads this one. transformers 5 saves `rms_norm_eps`.
///
/// # Errors
///
/// [`ArchError::MissingKey`], [`ArchError::BadKey`].
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let Some(epsilon) = hparams.get("layer_norm_epsilon").or_else(|| hparams.get("rms_norm_eps")) else {
        return text_keys(hparams, keys);
    };
    let both = hparams.with("layer_norm_epsilon", epsilon.clone()).with("rms_norm_eps", epsilon.clone());
    text_keys(&both, keys)?;
    keys.departs(&STATED);
    Ok(())
}
