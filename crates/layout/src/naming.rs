//! The default name of an output file. Metadata is untrusted: [`gguf_container::safe_file_name`] keeps the name in its folder.

use gguf_container::{Kind, Metadata, NameParts, Sidecar, safe_file_name};

/// The file name that the reference gives when the output is a folder: by the naming
/// convention, from `general.*` keys and the name of the file type (`Q4_K_M`, in any case).
///
/// Source: `TextModel.prepare_metadata` in `conversion/base.py`.
pub fn default_file_name(metadata: &Metadata, file_type: &str) -> String {
    // Name, size, fine tune, version, type: `Llama-3.2-1B-Instruct-v1.0-Q4_K_M`.
    let parts = NameParts {
        size_label: text(metadata, "general.size_label"),
        output_type: Some(file_type),
        ..parts(metadata, None)
    };
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
