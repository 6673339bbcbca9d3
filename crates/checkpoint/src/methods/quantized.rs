//! A checkpoint's tensors and its quantization config from any location.

use std::collections::BTreeSet;

use serde_json::Value as Json;

use crate::{Error, FamilyForm, Part, Tensor, json};

/// Input of a decoder: a checkpoint as listed by its files.
#[derive(Debug)]
pub(crate) struct Quantized<'a> {
    pub parts: &'a [Part],
    /// Tensors in the reference's order: codes, scales and plain ones.
    pub tensors: &'a [Tensor],
    /// `config.json`, for the few forms that derive a shape from the model.
    pub model: &'a Json,
    pub read_as: ReadAs,
    config: Option<Config>,
    /// Last name components of all tensors: `weight`, `weight_scale_inv`, `qweight`.
    endings: BTreeSet<&'a str>,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ReadAs {
    /// True if GPTQ zeros with all bits set are one more than the largest code.
    pub unmasked_zeros: bool,
    pub forms: &'static [FamilyForm],
}

#[derive(Debug)]
struct Config {
    /// Location of the config: a file, with the key inside it.
    place: String,
    value: Json,
}

#[derive(Debug, Default)]
pub(crate) struct Decoded {
    /// All tensors of the checkpoint, in the reference's output order: plain ones and decoded ones.
    pub tensors: Vec<Tensor>,
    /// Peculiarities and ignored parts with the reason, one per line.
    pub notes: Vec<String>,
}

/// Paths of keys in `config.json` that may contain a quantization config.
const KEYS: &[&[&str]] = &[
    &["quantization_config"],
    &["text_config", "quantization_config"],
    // compressed-tensors before 0.6.
    &["compression_config"],
    // MLX writes this one and a copy at the first.
    &["quantization"],
];

/// Files next to `config.json` that are or contain a config, with its key: ModelOpt, AutoGPTQ, AutoAWQ.
const FILES: &[(&str, Option<&str>)] = &[
    ("hf_quant_config.json", Some("quantization")),
    ("quantize_config.json", None),
    ("quant_config.json", None),
];

impl<'a> Quantized<'a> {
    /// Finds the config: the first location that has one.
    ///
    /// # Errors
    /// [`Error::Json`] of a file next to `config.json`.
    pub fn new(
        config: &'a Json,
        files: &[(String, Vec<u8>)],
        parts: &'a [Part],
        tensors: &'a [Tensor],
    ) -> Result<Quantized<'a>, Error> {
        let endings = tensors.iter().map(Tensor::ending).collect();
        let (own, read_as) = (find_config(config, files)?, ReadAs::default());
        Ok(Quantized { parts, tensors, model: config, read_as, config: own, endings })
    }

    /// Sets the interpretation of ambiguous formats.
    pub fn read_as(self, read_as: ReadAs) -> Quantized<'a> {
        Quantized { read_as, ..self }
    }

    pub fn config(&self) -> Option<&Json> {
        self.config.as_ref().map(|config| &config.value)
    }

    /// The value at a path of the config.
    pub fn value(&self, path: &[&str]) -> Option<&Json> {
        path.iter().try_fold(self.config()?, |value, key| value.get(key))
    }

    /// The text at a path of the config.
    pub fn text(&self, path: &[&str]) -> Option<&str> {
        self.value(path)?.as_str()
    }

    /// Entries of an object of the config; empty if there is no such object.
    pub fn entries(&self, key: &str) -> impl Iterator<Item = (&String, &Json)> {
        self.value(&[key]).and_then(Json::as_object).into_iter().flatten()
    }

    /// The method that the config names.
    pub fn method(&self) -> Option<&str> {
        // Newer files of GPTQModel have only the second key.
        self.text(&["quant_method"]).or_else(|| self.text(&["method"]))
    }

    /// True if the config names one of these methods.
    pub fn method_is(&self, names: &[&str]) -> bool {
        self.method().is_some_and(|method| names.contains(&method))
    }

    /// True if, for each of `endings`, some tensor's name ends in `.ending`.
    pub fn has_all(&self, endings: &[&str]) -> bool {
        endings.iter().all(|ending| self.endings.contains(ending))
    }

    /// True if no config names a method and there are tensors with all these endings.
    pub fn has_tensors(&self, endings: &[&str]) -> bool {
        self.method().is_none() && self.has_all(endings)
    }

    /// Place and method of the config, for messages.
    pub fn place_and_method(&self) -> Option<(String, String)> {
        let config = self.config.as_ref()?;
        let method = self.method().unwrap_or("an unnamed method").to_owned();
        Some((config.place.clone(), method))
    }
}

/// Sorts the tensors by file and name if those of the checkpoint are sorted this way. Codes have other names
/// than their weights, so their order differs from that of the unquantized checkpoint.
#[expect(clippy::unnecessary_wraps, reason = "the type of all last steps")]
pub(super) fn sort_by_name(quantized: &Quantized<'_>, decoded: &mut Decoded) -> Result<(), Error> {
    let key = |tensor: &Tensor| (tensor.part, tensor.name.clone());
    if quantized.tensors.is_sorted_by_key(key) {
        decoded.tensors.sort_by_key(key);
    }
    Ok(())
}

fn find_config(config: &Json, files: &[(String, Vec<u8>)]) -> Result<Option<Config>, Error> {
    let is_config = |value: &&Json| value.as_object().is_some_and(|object| !object.is_empty());
    for path in KEYS {
        let value = path.iter().try_fold(config, |value, key| value.get(key));
        if let Some(value) = value.filter(is_config) {
            let place = format!("config.json: {}", path.join("."));
            return Ok(Some(Config { place, value: value.clone() }));
        }
    }
    for (file, key) in FILES {
        let Some((_, bytes)) = files.iter().find(|(name, _)| name == file) else { continue };
        let whole = json::parse(file, bytes)?;
        let value = key.map_or(Some(&whole), |key| whole.get(key));
        if let Some(value) = value.filter(is_config) {
            return Ok(Some(Config { place: (*file).to_owned(), value: value.clone() }));
        }
    }
    Ok(None)
}
