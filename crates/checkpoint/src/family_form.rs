//! Forms in which programs other than transformers save the weights of a family.

use serde_json::Value as Json;

/// The form in which programs other than transformers save the weights of a family.
///
/// ```
/// use gguf_checkpoint::FamilyForm;
///
/// /// mlx-lm 0.32.2 calls the router `gate.gate_proj`.
/// const BAILING: FamilyForm = FamilyForm {
///     model_types: &["bailing_moe"],
///     mlx_names: &[(".mlp.gate.gate_proj.", ".mlp.gate.")],
///     ..FamilyForm::USUAL
/// };
/// ```
#[derive(Debug, Clone, Copy)]
pub struct FamilyForm {
    /// Values of `model_type`.
    pub model_types: &'static [&'static str],
    /// A change by mlx-lm that is not undone; such a checkpoint is refused.
    pub mlx_change: Option<MlxChange>,
    /// Parts of names that mlx-lm changes, with their replacements in Hugging Face's form, applied in order. A part without a
    /// leading dot matches only at the beginning of a name.
    pub mlx_names: &'static [(&'static str, &'static str)],
    /// Suffixes of the names of norms that mlx-lm stores as `w + 1`.
    pub mlx_norms: &'static [&'static str],
    /// For a family whose checkpoints have no `config.json`: the config.
    pub config: Option<ConfigOfTensors>,
    /// Converts names of the model's authors to those of transformers; `None` for an unknown name.
    pub name: Option<fn(&str) -> Option<String>>,
    /// Prefixes of tensors that are omitted from a file with a derived config.
    pub left_out: &'static [&'static str],
    /// Models that consist of one of the family and further files.
    pub marked: &'static [Marked],
    /// Models that an adapter makes of one of the family, recognized by files next to those of the adapter.
    pub adapters: &'static [Marked],
}

/// A model that has the config and weights of another one, and is recognized by further files or by its class.
#[derive(Debug, Clone, Copy)]
pub struct Marked {
    /// Files that mark the model, as paths in its folder.
    pub files: &'static [&'static str],
    /// A key that one of these files must have.
    pub key: Option<MarkingKey>,
    /// End of `auto_map.AutoModel` of the config that marks the model instead of files, with any `model_type`.
    pub auto_model: Option<&'static str>,
    /// Folders with the config of the base model and the tokenizer, with any `model_type`.
    pub folders: Option<Folders>,
    /// The class that replaces `architectures` of the config.
    pub class: &'static str,
    /// A JSON object whose keys are added to the config.
    pub config: Option<SideFile>,
    /// A safetensors file whose tensors are added to those of the model.
    pub weights: Option<SideFile>,
    /// True if these tensors precede those of the model.
    pub weights_first: bool,
}

impl Marked {
    /// A model without further files.
    pub const PLAIN: Marked = Marked {
        files: &[],
        key: None,
        auto_model: None,
        folders: None,
        class: "",
        config: None,
        weights: None,
        weights_first: false,
    };
}

/// A key of a JSON file that marks a model.
#[derive(Debug, Clone, Copy)]
pub struct MarkingKey {
    /// Name of the file.
    pub file: &'static str,
    /// JSON pointer of the key.
    pub at: &'static str,
    /// Its text; `None` for any value.
    pub text: Option<&'static str>,
}

/// Folders in that of a model.
#[derive(Debug, Clone, Copy)]
pub struct Folders {
    /// Folder of `config.json`.
    pub config: &'static str,
    /// Folder of the tokenizer.
    pub tokenizer: &'static str,
}

/// A file next to those of the base model.
#[derive(Debug, Clone, Copy)]
pub struct SideFile {
    /// Name of the file.
    pub file: &'static str,
    /// Prefix that its keys or tensors get.
    pub prefix: &'static str,
}

/// Derives a config from the names and shapes of tensors, row length last; `None` for a checkpoint of another family.
pub type ConfigOfTensors = fn(&[(&str, &[u64])]) -> Option<Json>;

/// A change by mlx-lm that is not undone.
#[derive(Debug, Clone, Copy)]
pub struct MlxChange {
    /// Part of the names of changed tensors; `None` if mlx-lm changes every file of the family.
    pub part: Option<&'static str>,
    /// Description of the change, for the error.
    pub difference: &'static str,
}

impl FamilyForm {
    /// A family with weights in the form of transformers.
    pub const USUAL: FamilyForm = FamilyForm {
        model_types: &[],
        mlx_change: None,
        mlx_names: &[],
        mlx_norms: &[],
        config: None,
        name: None,
        left_out: &[],
        marked: &[],
        adapters: &[],
    };

    /// A family whose weights mlx-lm changes in a way that is not undone. With `part`, only files that have
    /// it in a tensor name are refused.
    pub const fn refused(
        model_types: &'static [&'static str],
        part: Option<&'static str>,
        difference: &'static str,
    ) -> FamilyForm {
        FamilyForm { model_types, mlx_change: Some(MlxChange { part, difference }), ..FamilyForm::USUAL }
    }
}
