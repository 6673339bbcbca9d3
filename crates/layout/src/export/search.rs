//! Search for config values that no table names, by converting trial configs.
//!
//! The architecture's key function reports which config names it read for each key of a file. If a key does
//! not match the file, its value is given to these names in order: as it is, in other spellings,
//! and as a number extrapolated from the result. A change is kept if it brings the result closer to the file.
//!
//! The search ends: each accepted step reduces the number of wrong keys, or adds a missing name, of which
//! there are finitely many; and at most [`MAX_TRIALS`] values are tried.
//!
//! It may accept a wrong value that gives the right keys in another way than the checkpoint did: if a key is
//! the product of two names, 2 x 6 instead of 3 x 4. That is safe, because the result is only a proposal. The
//! caller converts it from scratch and refuses it unless every key and tensor of the file is reproduced
//! (`inverse.rs`).

use gguf_container::{Array, Metadata, Value};
use serde_json::{Map, Value as Json, json};

use super::layout::ArchFile;
use super::names::NAMES;
use crate::{ArchError, Input, SourceTensor, late_keys, pooling};

/// Trials of single values that a config is completed with; configs have less than a hundred keys.
const MAX_TRIALS: usize = 2000;

/// The config with what its architecture's own names say.
pub fn complete(
    file: &ArchFile<'_>,
    mut config: Map<String, Json>,
    checkpoint: &Input<'_>,
    names: &[SourceTensor],
) -> Json {
    let mut nearest = Rerun::new(file, &config, checkpoint, names);
    let mut trials = 0;
    'better: while nearest.wrong > 0 || nearest.missing.is_some() {
        // The file's value itself first, then its other spellings; extrapolation needs the first one's result.
        for (key, name) in nearest.target(file) {
            let mut values = spellings(file, &key);
            let mut next = 0;
            while let Some(value) = values.get(next).cloned() {
                (next, trials) = (next + 1, trials + 1);
                if trials > MAX_TRIALS {
                    break 'better;
                }
                let mut trial = config.clone();
                set(&mut trial, &name, value.clone());
                let tried = Rerun::new(file, &trial, checkpoint, names);
                if tried.wrong < nearest.wrong
                    || tried.wrong == nearest.wrong
                        && nearest.missing.is_some()
                        && tried.missing != nearest.missing
                {
                    (config, nearest) = (trial, tried);
                    continue 'better;
                }
                if next == 1 {
                    values.extend(solved(file, &key, &value, tried.made.get(&key)));
                }
            }
        }
        break;
    }
    Json::Object(config)
}

/// Values that may lead to a number of the file where that number itself leads to another one: the key may
/// be the value and some more, or this many times the value, or a number divided by it.
fn solved(file: &ArchFile<'_>, key: &str, value: &Json, made: Option<&Value>) -> Vec<Json> {
    let number = |value: &Value| match value {
        Value::F32(value) => Some(f64::from(*value)),
        value => value.as_u64().map(|count| count as f64),
    };
    let (Some(target), Some(made)) = (file.input.metadata.get(key).and_then(number), made.and_then(number))
    else {
        return Vec::new();
    };
    let is_whole = value.is_u64();
    let of = |number: f64| {
        let whole = number.fract() == 0.0 && (0.0..9e15).contains(&number);
        // Short decimals are what people write.
        let short = format!("{number:.6}").parse().unwrap_or(number);
        if is_whole && whole {
            vec![Json::from(number as u64)]
        } else {
            vec![Json::from(short), Json::from(number)]
        }
    };
    // With `made = f(wanted)` for the unknown f, the x of `f(x) = wanted` is: for f(x) = x + c, 2 wanted - made; for
    // f(x) = c x, wanted^2 / made; for f(x) = c / x, made itself.
    [2.0 * target - made, target * target / made, made]
        .into_iter()
        .filter(|number| number.is_finite())
        .flat_map(of)
        .collect()
}

/// Sets a key; of objects inside if the name has a point.
fn set(config: &mut Map<String, Json>, name: &str, value: Json) {
    match name.split_once('.') {
        None => drop(config.insert(name.into(), value)),
        Some((outer, inner)) => {
            // Rotary parameters stand there twice.
            if let ("rope_parameters", Some(Json::Object(scaling))) = (outer, config.get_mut("rope_scaling"))
            {
                scaling.insert(inner.into(), value.clone());
            }
            let object = config.entry(outer).or_insert_with(|| json!({}));
            if let Json::Object(object) = object {
                object.insert(inner.into(), value);
            }
        }
    }
}

/// A value of the file as a config may have it: a number with a point, an integer, and what stands for a
/// number in words.
fn spellings(file: &ArchFile<'_>, key: &str) -> Vec<Json> {
    let Some(original) = file.input.metadata.get(key) else {
        // A key that the file lacks must not come out of the config either.
        return vec![Json::Null];
    };
    let value = json_of(original);
    let float = value.as_ref().filter(|value| value.is_f64()).and_then(Json::as_f64);
    let whole = float
        .filter(|number| number.fract() == 0.0 && *number >= 0.0)
        .map(|number| Json::from(number as u64));
    let named = match original {
        Value::Array(Array::String(labels)) => {
            let label = |(id, label): (usize, &[u8])| (id.to_string(), String::from_utf8_lossy(label).into());
            Some(Json::Object(labels.iter().enumerate().map(label).collect()))
        }
        original => {
            let words: &[(&str, u64, &str)] = &[
                (".expert_gating_func", 1, "softmax"),
                (".expert_gating_func", 2, "sigmoid"),
                (".expert_gating_func", 4, "sqrtsoftplus"),
                (".classifier.pooling_type", 1, "mean"),
                (".classifier.pooling_type", 2, "cls"),
                (".ssm.dt_b_c_rms", 1, "falcon_mamba"),
            ];
            let id = if *original == Value::Bool(true) { Some(1) } else { original.as_u64() };
            let word = words.iter().find(|(end, of, _)| key.ends_with(end) && id == Some(*of));
            word.map(|(.., word)| (*word).into())
        }
    };
    value.into_iter().chain(whole).chain(named).collect()
}

/// Distance between the keys of a converted config and those of the file.
struct Rerun {
    /// Keys that are missing, or other than in the file.
    wrong: usize,
    /// These, and the names in a config that they are derived from.
    sources: Vec<(String, Vec<String>)>,
    /// A name in the config that is missing altogether.
    missing: Option<String>,
    /// The keys that it is converted to.
    made: Metadata,
}

impl Rerun {
    fn new(
        file: &ArchFile<'_>,
        config: &Map<String, Json>,
        checkpoint: &Input<'_>,
        names: &[SourceTensor],
    ) -> Rerun {
        let (arch, keys) = (file.arch, file.input.metadata);
        let mut made = crate::Keys::new(arch.written());
        let hparams = file
            .families
            .hparams(arch, &Json::Object(config.clone()))
            .and_then(|hparams| (arch.prepare)(hparams, names))
            .and_then(|mut hparams| {
                hparams.derived.pooling = pooling::read(checkpoint)?;
                (arch.keys)(&hparams, &mut made)?;
                late_keys::write(file.families, arch.harmless, &hparams, &mut made)
            });
        let needed = arch.needs.iter().find(|key| config.get(**key).is_none_or(Json::is_null));
        let missing = match (hparams, needed) {
            (Err(ArchError::MissingKey { key, .. }), _) => Some(key),
            (_, Some(key)) => Some((*key).to_owned()),
            _ => None,
        };
        let made = made.finish();
        let own = |key: &str| file.is_own(key);
        let differs = |key: &str| keys.get(key) != made.metadata.get(key);
        let wrong = keys.iter().map(|(key, _)| key.as_str()).filter(|key| own(key) && differs(key)).count();
        let extra = made.metadata.iter().filter(|(key, _)| own(key) && keys.get(key).is_none()).count();
        let predicted = file.key("nextn_predict_layers");
        let sources = made.sources.iter().map(|source| (file.key(&source.key), source.names.clone()));
        // How many layers there are is known, of which kind they are is not.
        let counted = file.key("block_count");
        let sources =
            sources.filter(|(key, _)| differs(key) && (*key != counted || keys.get(&predicted).is_none()));
        Rerun { wrong: wrong + extra, sources: sources.collect(), missing, made: made.metadata }
    }

    /// Keys of the file, and names in a config that may give them.
    fn target(&self, file: &ArchFile<'_>) -> Vec<(String, String)> {
        let missing_key = |name: &String| {
            let rows = NAMES.iter().filter(|(_, names)| names.contains(&name.as_str()));
            let rows = rows.map(|(key, _)| (file.key(key), name.clone()));
            rows.filter(|(key, _)| file.input.metadata.contains(key)).collect::<Vec<_>>()
        };
        let missing = self.missing.iter().flat_map(missing_key);
        let sources =
            self.sources.iter().flat_map(|(key, names)| names.iter().map(|name| (key.clone(), name.clone())));
        missing.chain(sources).collect()
    }
}

/// A value as JSON; single precision as the shortest decimal that means it.
pub fn json_of(value: &Value) -> Option<Json> {
    match value {
        Value::F32(number) => number.to_string().parse::<f64>().ok().map(Json::from),
        Value::F64(number) => Some((*number).into()),
        Value::Bool(flag) => Some((*flag).into()),
        Value::String(_) => value.as_str().map(Json::from),
        Value::Array(Array::I32(items)) => Some(json!(items)),
        Value::Array(_) => None,
        value => value.as_u64().map(Json::from),
    }
}
