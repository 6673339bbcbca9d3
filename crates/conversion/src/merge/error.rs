use gguf_checkpoint::Tensor;
use gguf_types::{Fields as _, Problem, Words, counted, list_names};

/// Reason why an adapter cannot be merged into a base model.
#[derive(Debug, thiserror::Error, gguf_types::Fields)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages explain the fields")]
pub enum MergeError {
    #[error(transparent)]
    Source(gguf_checkpoint::Error),
    #[error(transparent)]
    Read(gguf_checkpoint::ReadError),
    /// A config key has an invalid value.
    #[error("`adapter_config.json`: key `{key}`: expected {expected}, found {found}")]
    Config { key: &'static str, found: String, expected: &'static str },
    #[error("`adapter_config.json`: missing key `{key}`")]
    MissingKey { key: &'static str },
    /// This kind of adapter is not supported.
    #[error("`adapter_config.json`: key `{key}` is {found}: {reason}")]
    Unsupported { key: &'static str, found: String, reason: &'static str },
    /// A pattern of ranks or alphas is not a valid regular expression.
    #[error("`adapter_config.json`: key `{key}`: pattern `{pattern}`: {error}")]
    Pattern { key: &'static str, pattern: String, error: Box<regex::Error> },
    #[error("scale {scale} is not finite")]
    Scale { scale: f64 },
    /// Tensors of the adapter without a counterpart in the base model.
    #[error("{} without a match in the base model: {}", counted(names.len(), "tensor"), list_names(names))]
    NoPlace { names: Vec<String> },
    /// Unexpected tensors for this kind of adapter.
    #[error("{} not recognized as LoRA halves or whole weights: {}", counted(names.len(), "tensor"), list_names(names))]
    Unknown { names: Vec<String> },
    /// Halves of pairs, magnitudes or biases without their other tensors.
    #[error("{}: {}", counted(names.len(), "missing tensor"), list_names(names))]
    Missing { names: Vec<String> },
    /// The tensor has a different shape from what the base model needs.
    #[error(
        "tensor `{tensor}`: expected {expected}, found shape {found:?} (`{target}` has {target_shape:?})"
    )]
    Shape { tensor: String, found: Vec<u64>, expected: String, target: String, target_shape: Vec<u64> },
    /// An embedding or output matrix has a different number of tokens from the base model's.
    #[error("tensor `{tensor}`: expected {expected} tokens as in `{target}`, found {found}")]
    Vocabulary { tensor: String, found: u64, target: String, expected: u64 },
    /// The adapter's tokenizer is requested but missing.
    #[error("the adapter folder does not contain a tokenizer")]
    NoTokenizer,
    /// The rank of a pair differs from the config's.
    #[error("tensor `{tensor}`: expected rank {expected} from adapter_config.json, found {found}")]
    Rank { tensor: String, found: u64, expected: u64 },
    /// Two pairs for one tensor of the base model.
    #[error("tensors `{first}` and `{second}` both change `{target}`")]
    SameTarget { first: String, second: String, target: String },
    #[error("tensor `{tensor}`: expected type f32, f16 or bf16, found {}", found.name())]
    Type { tensor: String, found: gguf_checkpoint::Dtype },
    /// A full weight for a tensor that an earlier adapter has changed.
    #[error("tensor `{tensor}` replaces `{target}`, which an earlier adapter changes")]
    Replaced { tensor: String, target: String },
    /// The pair fits more than one parameter of its module.
    #[error("tensor `{tensor}` matches several parameters: {}", list_names(parameters))]
    Ambiguous { tensor: String, parameters: Vec<String> },
    /// A trained token that is missing from the base model, or a duplicate.
    #[error("tensor `{tensor}`: token {token} {problem}")]
    Token { tensor: String, token: u64, problem: &'static str },
    #[error("tensor `{tensor}`: {kind} is not supported")]
    Kind { tensor: String, kind: &'static str },
    /// A factor is not a single finite number.
    #[error("tensor `{tensor}`: expected one finite number, found {found}")]
    Alpha { tensor: String, found: String },
    /// The adapter changes text encoders only.
    #[error("the adapter changes text encoders only")]
    NothingToMerge,
    /// A pair for the output of a base model with tied embeddings: PEFT would change both.
    #[error("tensor `{tensor}`: the base model has tied embeddings and does not contain `{target}`")]
    Tied { tensor: String, target: String },
}

impl Problem for MergeError {
    fn hint(&self) -> Option<Words> {
        let hint = match self {
            MergeError::Rank { .. } => "use the config and the weights of the same adapter",
            MergeError::SameTarget { .. } => {
                "the file contains the same adapter under two names; remove one of them"
            }
            MergeError::NoPlace { .. } | MergeError::Shape { .. } => {
                "use the base model that the adapter was trained on; `base_model_name_or_path` in \
                    adapter_config.json names it"
            }
            MergeError::Vocabulary { .. } | MergeError::Token { .. } => {
                "the vocabulary was resized for this adapter: resize the base model with \
                    `resize_token_embeddings` and save it with the adapter's tokenizer first"
            }
            MergeError::Unsupported { key: "init_lora_weights", .. } => {
                "convert it to a plain LoRA with PEFT's \
                    `save_pretrained(path_initial_model_for_weight_conversion=...)`, or merge it with \
                    `merge_and_unload` and convert the result"
            }
            MergeError::Unsupported {
                key: "use_dora" | "trainable_token_indices" | "lora_bias" | "target_parameters",
                reason,
                ..
            } if reason.starts_with("an adapter file") => "merge the adapter into its base model instead",
            // Prompt tokens or attention states, which cannot be added to weights.
            MergeError::Unsupported { key: "peft_type", found, .. }
                if [
                    "PROMPT_TUNING",
                    "MULTITASK_PROMPT_TUNING",
                    "PREFIX_TUNING",
                    "P_TUNING",
                    "ADAPTION_PROMPT",
                ]
                .contains(&found.as_str()) =>
            {
                "it cannot be merged, because it does not change weights; use it with PEFT, or train a LoRA"
            }
            MergeError::Unsupported { .. } => {
                "merge it with PEFT's `merge_and_unload` and convert the result"
            }
            MergeError::Kind { .. } => {
                "merge it with the program that trained it, or with ComfyUI, save the model and convert the result"
            }
            MergeError::NothingToMerge => {
                "apply it where the text encoders are used; the model needs no change"
            }
            MergeError::Tied { .. } => {
                "save the base model with a separate output matrix (`tie_word_embeddings` false) first"
            }
            _ => return self.inner()?.hint(),
        };
        Some(hint.into())
    }
}

/// Error for a tensor whose shape does not fit `target`.
pub(super) fn shape_error(tensor: &Tensor, expected: &str, target: &Tensor) -> MergeError {
    MergeError::Shape {
        tensor: tensor.name.clone(),
        found: tensor.shape.clone(),
        expected: expected.to_owned(),
        target: target.name.clone(),
        target_shape: target.shape.clone(),
    }
}
