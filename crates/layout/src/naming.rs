//! The default name of an output file. Metadata is untrusted: [`gguf_container::safe_file_name`] keeps the name in its folder.

use gguf_container::{Kind, Metadata, NameParts, Sidecar, safe_file_name};

/// The file name that the reference gives when the output is a folder: by the naming
/// convention, from `general.*` keys and the name of the file type (`Q4_K_M`, in any case). Unlike the reference's, it does not
/// repeat a size label that is in the model's name.
///
/// Source: `TextModel.prepare_metadata` in `conversion/base.py`.
pub fn default_file_name(metadata: &Metadata, file_type: &str) -> String {
    // Name, size, fine tune, version, type: `Llama-3.2-1B-Instruct-v1.0-Q4_K_M`.
    let parts = NameParts { output_type: Some(file_type), ..parts(metadata, None) };
    // The name is not used if there is a base name.
    let name = parts.model_name.filter(|_| parts.base_name.is_none()).unwrap_or_default();
    let is_in_name = |label: &str| {
        name.split(|c: char| c.is_whitespace() || c == '-').any(|word| word.eq_ignore_ascii_case(label))
    };
    let size_label = text(metadata, "general.size_label").filter(|label| !is_in_name(label));
    let parts = NameParts { size_label, ..parts };
    safe_file_name(&parts)
}

/// The file name of a projector, which begins with `mmproj-` and has no size.
///
/// Source: `MmprojModel.prepare_metadata` in `conversion/base.py`.
pub fn projector_file_name(metadata: &Metadata, file_type: &str) -> String {
    let parts = NameParts {
        output_type: Some(file_type),
        sidecar: Some(Sidecar::Projector),
        ..parts(metadata, None)
    };
    safe_file_name(&parts)
}

/// The file name of layers that predict more than the next token, alone: `mtp-` and a name without a size.
///
/// Source: `prepare_metadata` of `_QwenMtpMixin` in `conversion/qwen.py`.
pub fn prediction_file_name(metadata: &Metadata, file_type: &str) -> String {
    let parts = NameParts {
        output_type: Some(file_type),
        sidecar: Some(Sidecar::Prediction),
        ..parts(metadata, None)
    };
    safe_file_name(&parts)
}

/// The file name of a file of metadata only, which has neither size nor type.
pub fn vocab_file_name(metadata: &Metadata) -> String {
    safe_file_name(&parts(metadata, Some(Kind::Vocab)))
}

/// The file name of an adapter.
pub fn adapter_file_name(metadata: &Metadata, file_type: &str) -> String {
    let parts = NameParts {
        size_label: text(metadata, "general.size_label"),
        output_type: Some(file_type),
        ..parts(metadata, Some(Kind::Lora))
    };
    safe_file_name(&parts)
}

fn parts(metadata: &Metadata, kind: Option<Kind>) -> NameParts<'_> {
    NameParts {
        model_name: text(metadata, "general.name"),
        base_name: text(metadata, "general.basename"),
        fine_tune: text(metadata, "general.finetune"),
        version: text(metadata, "general.version"),
        size_label: None,
        output_type: None,
        kind,
        sidecar: None,
    }
}

fn text<'a>(metadata: &'a Metadata, key: &str) -> Option<&'a str> {
    metadata.get(key).and_then(gguf_container::Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_in_name_is_not_repeated() {
        for (name, base_name, expected) in [
            ("SmolLM2 135M Instruct", None, "SmolLM2-135M-Instruct-Q4_K_M.gguf"),
            ("smol-135m", None, "smol-135m-Q4_K_M.gguf"),
            ("SmolLM2 1135M", None, "SmolLM2-1135M-135M-Q4_K_M.gguf"),
            ("SmolLM2 135M", Some("SmolLM2"), "SmolLM2-135M-Q4_K_M.gguf"),
        ] {
            let mut metadata = Metadata::new();
            metadata.set("general.name", name);
            metadata.set("general.size_label", "135M");
            base_name.into_iter().for_each(|base_name| metadata.set("general.basename", base_name));
            assert_eq!(default_file_name(&metadata, "Q4_K_M"), expected);
        }
    }
}
