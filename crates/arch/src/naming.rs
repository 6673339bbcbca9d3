//! The default name of an output file.

use gguf::{Metadata, NameParts, Value, naming_convention};

/// The file name that the reference gives when the output is a folder: by the naming
/// convention, from `general.*` keys and the name of the file type (`Q4_K_M`, in any case).
///
/// Source: `TextModel.prepare_metadata` in `conversion/base.py` (llama-cpp-python 0.3.36).
pub fn default_file_name(metadata: &Metadata, file_type: &str) -> String {
    let text = |key: &str| {
        let value = metadata.iter().find(|(have, _)| have == key).map(|(_, value)| value);
        value.and_then(Value::as_str)
    };
    let parts = NameParts {
        model_name: text("general.name"),
        base_name: text("general.basename"),
        fine_tune: text("general.finetune"),
        version: text("general.version"),
        size_label: text("general.size_label"),
        output_type: Some(file_type),
        kind: None,
    };
    naming_convention(&parts) + ".gguf"
}
