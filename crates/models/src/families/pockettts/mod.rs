//! Pocket TTS, by Kyutai: text to sound by a transformer over continuous latents and Mimi's decoder.

pub mod convert;
pub mod projector;

use gguf_checkpoint::FamilyForm;

use crate::family::Family;

pub const FAMILY: Family = Family {
    arches: &[convert::pockettts::POCKETTTS],
    projectors: &[projector::POCKETTTS],
    forms: FORMS,
    ..Family::EMPTY
};

const FORMS: &[FamilyForm] = &[FamilyForm {
    model_types: &["pockettts"],
    config: Some(convert::config::config_of_tensors),
    ..FamilyForm::USUAL
}];
