//! The check of what llama.cpp's loader needs.

use gguf_container::{Endian, Model};
use gguf_layout::loader::Refusal;

use super::{
    keys::{not_loaded, other_kind},
    report::{Check, Finding},
};
use crate::input_kind;

/// Code of a file with a text model and a tower.
pub const MODEL_WITH_TOWER: &str = "model_with_tower";

/// Checks if llama.cpp loads the file.
pub fn loader(model: &Model) -> Check {
    let mut check = Check::new("loader");
    if let Some(kind) = other_kind(model.metadata()) {
        return check.skipped(&format!("no checks for files of kind `{kind}`"));
    }
    let Ok(Some(name)) = model.metadata().text("general.architecture") else {
        return check.skipped("no architecture");
    };
    if model.tensors().count() == 0 {
        return check.skipped("vocabulary without tensors");
    }
    if model.shards().iter().any(|(_, file)| file.endian() == Endian::Big) {
        return check.skipped("big-endian files are loaded on big-endian machines only");
    }
    // Once, not for each tensor of the tower.
    if let Some((kind, advice)) = input_kind::one_file_model(names(model)) {
        check.push(Finding::error(
            MODEL_WITH_TOWER,
            format!("llama.cpp does not load the file: it is {kind}"),
        ));
        check.push(Finding::note("hint", advice));
        return check;
    }
    let tensors = model.tensors().map(|(_, info)| (info.name.as_str(), info.shape));
    let Some(refusals) = gguf_layout::loader::refusals(&gguf_models::FAMILIES, model.metadata(), tensors)
    else {
        return check.skipped(&format!("llama.cpp has no architecture `{name}`"));
    };
    // Without a key, shapes that depend on it differ as well.
    let lacks_key = refusals.iter().any(|refusal| matches!(refusal, Refusal::MissingKey { .. }));
    let causes =
        refusals.iter().filter(|refusal| !(lacks_key && matches!(refusal, Refusal::TensorShape { .. })));
    check.findings.extend(causes.map(not_loaded));
    if refusals.is_empty() {
        // Reported with the tokenizer.
        check.summary = match gguf_tokenizer::missing_byte(model.metadata()) {
            None => "llama.cpp loads the file".to_owned(),
            Some(_) => "llama.cpp loads the file, but stops at some texts".to_owned(),
        };
    }
    check
}

/// True if llama.cpp's loader has a place for every tensor.
pub fn takes_all_tensors(model: &Model) -> bool {
    let tensors = model.tensors().map(|(_, info)| (info.name.as_str(), info.shape));
    let found = gguf_layout::loader::refusals(&gguf_models::FAMILIES, model.metadata(), tensors);
    found.is_some_and(|found| !found.iter().any(|refusal| matches!(refusal, Refusal::ExtraTensor { .. })))
}

/// Names of the tensors.
pub fn names(model: &Model) -> impl Iterator<Item = &str> {
    model.tensors().map(|(_, info)| info.name.as_str())
}
