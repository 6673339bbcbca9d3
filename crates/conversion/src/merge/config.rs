//! Parameters of a LoRA adapter from its `adapter_config.json`: options that can be merged, and options that
//! an adapter file can express.
//!
//! Source: `LoraConfig` in `tuners/lora/config.py`, `LoraModel._create_and_replace` in `tuners/lora/model.py`
//! and `get_pattern_key` in `utils/other.py` of peft 0.21.2.

use gguf_checkpoint::Tensor;
use regex::Regex;
use serde_json::{Map, Value as Json};

use super::{MergeError, modules::PREFIX};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    /// Merge it into its base model.
    Merged,
    /// Write it to an adapter file.
    File,
}

/// Keys with values that a merge supports but an adapter file cannot express.
const NOT_IN_FILES: &[(&str, &str)] = &[
    ("use_dora", "an adapter file cannot hold magnitudes"),
    ("target_parameters", "an adapter file cannot hold pairs of single parameters"),
    ("trainable_token_indices", "an adapter file cannot hold trained tokens"),
    ("lora_bias", "an adapter file cannot hold the biases of pairs"),
];
/// Key that makes an adapter depend on the text, which an adapter file can express.
const ACTIVATED: &str = "alora_invocation_tokens";

/// Keys with values that make another kind of adapter, and why it is not merged.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("alora_invocation_tokens", "activated LoRA depends on the text and cannot be merged"),
    ("arrow_config", "it routes each token to one of several adapters"),
    ("kasa_config", "KaSA is not supported"),
    ("layer_replication", "repeated layers are not supported"),
    ("monteclora_config", "MonteCLoRA is not supported"),
    ("use_bdlora", "block-diagonal LoRA is not supported"),
    ("use_qalora", "QALoRA is not supported"),
    ("velora_config", "VeLoRA is not supported"),
];

/// Initializations that leave the base model's weights unchanged. Others (PiSSA, CorDA, OLoRA, LoftQ,
/// LoRA-GA) first subtract a component, which PEFT does again when it opens such an adapter.
const PLAIN_STARTS: &[&str] = &["gaussian", "eva", "orthogonal", "mica"];

/// Parameters for merging a LoRA adapter.
#[derive(Debug)]
pub(crate) struct Config {
    rank: u64,
    alpha: f64,
    ranks: Vec<(Regex, u64)>,
    alphas: Vec<(Regex, f64)>,
    use_rslora: bool,
    /// True if matrices have magnitudes (DoRA).
    pub use_dora: bool,
    /// True if matrices have inputs as rows by default.
    pub fan_in_fan_out: bool,
    /// Suffixes of single parameters that have pairs.
    parameters: Vec<String>,
    /// Trained tokens, by the suffix of the embedding's name; an empty one matches any.
    tokens: Vec<(String, Vec<u64>)>,
}

impl Config {
    /// Parses the config.
    ///
    /// # Errors
    /// [`MergeError::Unsupported`] for kinds of adapters that cannot become `target`; [`MergeError::Config`],
    /// [`MergeError::MissingKey`], [`MergeError::Pattern`].
    pub(crate) fn new(config: &Json, target: Target) -> Result<Config, MergeError> {
        let empty = Map::new();
        let keys = config.as_object().unwrap_or(&empty);
        match keys.get("peft_type").and_then(Json::as_str) {
            Some("LORA") => {}
            Some(other) => {
                let reason = "only LoRA adapters are supported";
                return Err(MergeError::Unsupported { key: "peft_type", found: other.to_owned(), reason });
            }
            None => return Err(MergeError::MissingKey { key: "peft_type" }),
        }
        let unsupported = UNSUPPORTED.iter().filter(|(key, _)| target == Target::Merged || *key != ACTIVATED);
        let not_in_file = NOT_IN_FILES.iter().filter(|_| target == Target::File);
        for (key, reason) in unsupported.chain(not_in_file) {
            if let Some(value) = keys.get(*key).filter(|value| is_set(value)) {
                return Err(MergeError::Unsupported { key, found: value.to_string(), reason });
            }
        }
        match keys.get("init_lora_weights") {
            Some(Json::String(start)) if !PLAIN_STARTS.contains(&start.to_lowercase().as_str()) => {
                let reason = "its initialization changes the base model's weights";
                let (key, found) = ("init_lora_weights", start.clone());
                return Err(MergeError::Unsupported { key, found, reason });
            }
            _ => {}
        }
        Ok(Config {
            rank: rank("r", need(keys, "r")?)?,
            alpha: alpha("lora_alpha", need(keys, "lora_alpha")?)?,
            ranks: patterns(keys, "rank_pattern", rank)?,
            alphas: patterns(keys, "alpha_pattern", alpha)?,
            use_rslora: flag(keys, "use_rslora")?,
            use_dora: flag(keys, "use_dora")?,
            fan_in_fan_out: flag(keys, "fan_in_fan_out")?,
            parameters: parameters(keys)?,
            tokens: tokens(keys)?,
        })
    }

    /// Parses the config of a LoHa or LoKr.
    ///
    /// Source: `LoHaConfig`, `LoKrConfig` and their `update_layer` in `tuners/loha` and `tuners/lokr`.
    ///
    /// # Errors
    /// [`MergeError::Config`], [`MergeError::MissingKey`], [`MergeError::Pattern`].
    pub(crate) fn of_products(config: &Json) -> Result<Config, MergeError> {
        let empty = Map::new();
        let keys = config.as_object().unwrap_or(&empty);
        Ok(Config {
            rank: rank("r", need(keys, "r")?)?,
            alpha: alpha("alpha", need(keys, "alpha")?)?,
            ranks: patterns(keys, "rank_pattern", rank)?,
            alphas: patterns(keys, "alpha_pattern", alpha)?,
            use_rslora: false,
            use_dora: false,
            fan_in_fan_out: false,
            parameters: Vec::new(),
            tokens: Vec::new(),
        })
    }

    /// Last name components of a module's parameters that have pairs, one per pair.
    ///
    /// Source: `BaseTuner._inject_parameters` in `tuners/tuners_utils.py`.
    pub(crate) fn parameters_of(&self, module: &str) -> Vec<&str> {
        let mut targets = Vec::new();
        for target in &self.parameters {
            let last = target.rsplit('.').next().unwrap_or(target);
            let key = format!("{module}.{last}");
            let is_match = key == *target || key.ends_with(&format!(".{target}"));
            if is_match && !targets.contains(&last) {
                targets.push(last);
            }
        }
        targets
    }

    /// Trained tokens of an embedding, in the order of their rows.
    ///
    /// Source: `set_additional_trainable_modules` in `utils/other.py`.
    pub(crate) fn tokens_of(&self, module: &str) -> Option<&[u64]> {
        self.tokens.iter().find(|(end, _)| module.ends_with(end)).map(|(_, tokens)| &tokens[..])
    }

    pub(crate) fn rank_of(&self, module: &str) -> u64 {
        self.ranks.iter().find(|(pattern, _)| pattern.is_match(module)).map_or(self.rank, |(_, rank)| *rank)
    }

    /// Checks that pairs have the ranks of the config.
    pub(crate) fn check_ranks(&self, tensors: &[Tensor]) -> Result<(), MergeError> {
        for tensor in tensors {
            let name = tensor.name.strip_prefix(PREFIX).unwrap_or(&tensor.name);
            let module =
                [".lora_A.weight", ".lora_embedding_A"].iter().find_map(|end| name.strip_suffix(end));
            let (Some(module), &[found, _]) = (module, &tensor.shape[..]) else { continue };
            let expected = self.rank_of(module);
            if found != expected {
                return Err(MergeError::Rank { tensor: tensor.name.clone(), found, expected });
            }
        }
        Ok(())
    }

    pub(crate) fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Alpha that, divided by the rank of a module's pair, gives PEFT's factor.
    pub(crate) fn effective_alpha(&self, module: &str, rank: u64) -> f64 {
        let alpha = self.alpha_of(module);
        if self.use_rslora { alpha * (rank as f64).sqrt() } else { alpha }
    }

    fn alpha_of(&self, module: &str) -> f64 {
        self.alphas
            .iter()
            .find(|(pattern, _)| pattern.is_match(module))
            .map_or(self.alpha, |(_, alpha)| *alpha)
    }

    /// Factor of `B @ A` of a module for an adapter merged with `scale`: alpha / r, or alpha / sqrt(r).
    /// Computed in f64 and rounded once, as torch converts a Python float to an f32 tensor.
    ///
    /// Source: `LoraLayer.set_scale`.
    pub(crate) fn scaling_of(&self, module: &str, scale: f64) -> f32 {
        let alpha = self.alpha_of(module);
        let rank = self.rank_of(module) as f64;
        (scale * alpha / if self.use_rslora { rank.sqrt() } else { rank }) as f32
    }
}

fn parameters(keys: &Map<String, Json>) -> Result<Vec<String>, MergeError> {
    const KEY: &str = "target_parameters";
    let wrong =
        |found: &Json| MergeError::Config { key: KEY, found: found.to_string(), expected: "a list of names" };
    match keys.get(KEY) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(names)) => {
            names.iter().map(|name| name.as_str().map(str::to_owned).ok_or_else(|| wrong(name))).collect()
        }
        Some(other) => Err(wrong(other)),
    }
}

fn tokens(keys: &Map<String, Json>) -> Result<Vec<(String, Vec<u64>)>, MergeError> {
    const KEY: &str = "trainable_token_indices";
    let numbers = |value: &Json| {
        let numbers = value.as_array().map(|all| all.iter().map(Json::as_u64).collect::<Option<Vec<u64>>>());
        let expected = "a list of numbers of tokens, or one for each embedding";
        numbers.flatten().ok_or_else(|| MergeError::Config { key: KEY, found: value.to_string(), expected })
    };
    match keys.get(KEY) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Object(modules)) => {
            modules.iter().map(|(module, value)| Ok((module.clone(), numbers(value)?))).collect()
        }
        Some(value) => Ok(vec![(String::new(), numbers(value)?)]),
    }
}

fn is_set(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(set) => *set,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(items) => !items.is_empty(),
    }
}

fn need<'a>(keys: &'a Map<String, Json>, key: &'static str) -> Result<&'a Json, MergeError> {
    keys.get(key).ok_or(MergeError::MissingKey { key })
}

fn flag(keys: &Map<String, Json>, key: &'static str) -> Result<bool, MergeError> {
    match keys.get(key) {
        None | Some(Json::Null) => Ok(false),
        Some(Json::Bool(set)) => Ok(*set),
        Some(other) => Err(MergeError::Config { key, found: other.to_string(), expected: "true or false" }),
    }
}

fn rank(key: &'static str, value: &Json) -> Result<u64, MergeError> {
    let rank = value.as_u64().filter(|rank| *rank > 0);
    rank.ok_or_else(|| MergeError::Config { key, found: value.to_string(), expected: "a rank of 1 or more" })
}

fn alpha(key: &'static str, value: &Json) -> Result<f64, MergeError> {
    let alpha = value.as_f64().filter(|alpha| alpha.is_finite());
    alpha.ok_or_else(|| MergeError::Config { key, found: value.to_string(), expected: "a number" })
}

/// Patterns of a key in order: the first match counts.
fn patterns<T>(
    keys: &Map<String, Json>,
    key: &'static str,
    read: fn(&'static str, &Json) -> Result<T, MergeError>,
) -> Result<Vec<(Regex, T)>, MergeError> {
    let patterns = match keys.get(key) {
        None | Some(Json::Null) => return Ok(Vec::new()),
        Some(Json::Object(patterns)) => patterns,
        Some(other) => {
            return Err(MergeError::Config { key, found: other.to_string(), expected: "an object" });
        }
    };
    let pattern =
        |(pattern, value): (&String, &Json)| {
            // A suffix of the module's name that starts at a dot.
            let regex = Regex::new(&format!(r"^(.*\.)?({pattern})$")).map_err(|error| {
                MergeError::Pattern { key, pattern: pattern.clone(), error: Box::new(error) }
            })?;
            Ok((regex, read(key, value)?))
        };
    patterns.iter().map(pattern).collect()
}
