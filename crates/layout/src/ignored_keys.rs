//! Keys of a file that llama.cpp does not read for the file's architecture, although they would change the result.
//!
//! The reference's converter writes such keys, for example `rope.scaling.yarn_attn_factor` for the option `attention_factor`
//! of a config. llama.cpp computes as if they were missing.

use gguf_container::{Metadata, Value};

use crate::registry::Families;
use crate::{loader, yarn};

/// A key without the architecture's name, and a function that returns true if its value differs from what is computed.
type Candidate = (&'static str, fn(&File<'_>, f64) -> bool);

const CANDIDATES: &[Candidate] = &[
    ("attention.sliding_window", |file, window| {
        window > 0.0 && file.number("context_length").is_none_or(|length| window < length)
    }),
    ("rope.scaling.yarn_attn_factor", |file, magnitude| {
        file.yarn_magnitude().is_some_and(|computed| (magnitude / computed - 1.0).abs() > 1e-4)
    }),
    ("rope.scaling.yarn_beta_fast", |file, turns| file.yarn_magnitude().is_some() && turns != 32.0),
    ("rope.scaling.yarn_beta_slow", |file, turns| file.yarn_magnitude().is_some() && turns != 1.0),
    ("rope.scaling.yarn_ext_factor", |file, factor| file.yarn_magnitude().is_some() && factor != 1.0),
];

/// A sentence for each key that has no effect in llama.cpp although its value differs from what llama.cpp computes with.
/// Empty for architectures that llama.cpp does not have.
pub fn ignored_keys(families: &Families, metadata: &Metadata) -> Vec<String> {
    let Some(architecture) = metadata.get("general.architecture").and_then(Value::as_str) else {
        return Vec::new();
    };
    let Some(types) = loader::KeyTypes::of(families, architecture) else { return Vec::new() };
    let file = File { metadata, architecture };
    let is_read = |key: &str| types.get(key).is_some();
    if !is_read(&file.key("block_count")) {
        return Vec::new();
    }
    let ignored = CANDIDATES.iter().filter_map(|(name, differs)| {
        let (key, value) = (file.key(name), file.number(name)?);
        let is_ignored = !is_read(&key) && differs(&file, value);
        is_ignored
            .then(|| format!("`{key}` is {value}, but llama.cpp does not read this key for `{architecture}`"))
    });
    ignored.collect()
}

struct File<'a> {
    metadata: &'a Metadata,
    architecture: &'a str,
}

impl File<'_> {
    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture)
    }

    fn number(&self, name: &str) -> Option<f64> {
        let value = self.metadata.get(&self.key(name))?;
        match value {
            // The shortest decimal number of an f32.
            Value::F32(number) => number.to_string().parse().ok(),
            // Lengths and counts, which an f64 holds exactly.
            value => value.as_f64().or_else(|| value.as_u64().map(|number| number as f64)),
        }
    }

    /// The factor of cosines and sines in llama.cpp, if YaRN scales positions.
    fn yarn_magnitude(&self) -> Option<f64> {
        let kind = self.metadata.get(&self.key("rope.scaling.type")).and_then(Value::as_str)?;
        let factor = self.number("rope.scaling.factor").filter(|factor| kind == "yarn" && *factor > 1.0)?;
        let own = self.number("rope.scaling.attn_factor").unwrap_or(1.0);
        Some(own * yarn::built_in(factor, self.number("rope.scaling.yarn_log_multiplier")))
    }
}
