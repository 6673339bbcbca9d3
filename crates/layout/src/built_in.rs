//! Config options that llama.cpp computes with one way only, and the layers that it takes for sliding ones.
//!
//! A row lists the options that no metadata key carries, each with the value that llama.cpp has built in. Any other value
//! is noted: transformers and the file then compute different results. Sliding layers do have a key, which is written only
//! if the layers differ from the built-in pattern.

use gguf_container::{Array, Value};
use serde_json::Value as Json;

use crate::ArchError;
use crate::config::{Hparams, Rope};
use crate::departure::SLIDING_LAYERS;
use crate::error::bad;
use crate::keys::Keys;

/// A config option without a metadata key.
#[derive(Debug, Clone, Copy)]
pub struct BuiltIn {
    /// The option; keys of nested objects are dotted (`attn_config.softmax_scale`, `rope_parameters.truncate`).
    pub option: &'static str,
    /// The value with which llama.cpp computes, for the note.
    pub instead: &'static str,
    /// The values that compute the same as the built-in one.
    pub same: Same,
    /// True if a missing option or `null` is a value too: the option is off, but llama.cpp has it on.
    pub may_be_off: bool,
    /// True if results differ by less than the rounding of quantized weights: a note instead of a warning.
    pub is_slight: bool,
}

/// The values of an option that need no note.
#[derive(Debug, Clone, Copy)]
pub enum Same {
    /// These, written as JSON.
    Values(&'static [&'static str]),
    /// Values for which the function returns true.
    If(fn(&Hparams, &Json) -> bool),
}

impl BuiltIn {
    /// An option whose only harmless value is `value`, written as JSON.
    pub const fn is(option: &'static str, value: &'static [&'static str; 1]) -> BuiltIn {
        BuiltIn { option, instead: value[0], same: Same::Values(value), may_be_off: false, is_slight: false }
    }

    /// An option whose value is harmless if `same` returns true.
    pub const fn unless(
        option: &'static str,
        instead: &'static str,
        same: fn(&Hparams, &Json) -> bool,
    ) -> BuiltIn {
        BuiltIn { option, instead, same: Same::If(same), may_be_off: false, is_slight: false }
    }

    /// This option; a missing one counts as `null`.
    #[must_use]
    pub const fn or_off(self) -> BuiltIn {
        BuiltIn { may_be_off: true, ..self }
    }

    /// This option; other values change results slightly.
    #[must_use]
    pub const fn slightly(self) -> BuiltIn {
        BuiltIn { is_slight: true, ..self }
    }

    fn is_same(&self, hparams: &Hparams, value: &Json) -> bool {
        match self.same {
            Same::Values(values) => values.iter().any(|known| {
                let known: Option<Json> = serde_json::from_str(known).ok();
                known.is_some_and(|known| equal(&known, value))
            }),
            Same::If(same) => same(hparams, value),
        }
    }
}

/// Weights of the chosen experts always sum to one.
pub const NORMALIZES_EXPERTS: BuiltIn = BuiltIn::is("norm_topk_prob", &["true"]);

/// Weights of the chosen experts are never made to sum to one.
pub const KEEPS_EXPERT_WEIGHTS: BuiltIn = BuiltIn::is("norm_topk_prob", &["false"]);

/// Equality of JSON values in which 1 equals 1.0.
fn equal(a: &Json, b: &Json) -> bool {
    match (a.as_f64(), b.as_f64()) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

/// Options whose value differs from the built-in one, one line each.
#[derive(Debug, Default)]
pub struct Differing {
    /// Results will differ.
    pub warnings: Vec<String>,
    /// Results will differ slightly.
    pub notes: Vec<String>,
}

/// The options of a row whose value differs from the built-in one. `harmless` is [`crate::Arch::harmless`].
pub fn differing(architecture: &str, options: &[BuiltIn], harmless: &[&str], hparams: &Hparams) -> Differing {
    let shared_entries = YARN.iter().chain(LATENT).copied().filter(|entry| {
        // `key=value` or `key`, like in a row's list of harmless keys.
        !harmless.iter().any(|known| known.split('=').next() == Some(entry.option))
    });
    let mut differing = Differing::default();
    for entry in options.iter().copied().chain(shared_entries) {
        let value = value(hparams, entry.option).or(entry.may_be_off.then_some(Json::Null));
        let Some(value) = value.filter(|value| !entry.is_same(hparams, value)) else { continue };
        let line = format!(
            "config option `{}` is {}, but llama.cpp computes `{architecture}` with {}: results will differ{} \
                from transformers",
            entry.option,
            short(&value),
            entry.instead,
            if entry.is_slight { " slightly" } else { "" }
        );
        let lines = if entry.is_slight { &mut differing.notes } else { &mut differing.warnings };
        lines.push(line);
    }
    differing
}

/// The value of an option, which may lie in a nested object.
fn value(hparams: &Hparams, option: &str) -> Option<Json> {
    match option.split_once('.') {
        Some(("rope_parameters", key)) => hparams.rope().get(key).cloned(),
        Some((outer, key)) => hparams.get(outer)?.get(key).filter(|value| !value.is_null()).cloned(),
        None => hparams.get(option).cloned(),
    }
}

/// JSON of a length that fits a note.
fn short(value: &Json) -> String {
    const LONGEST: usize = 60;
    let text = value.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

/// Options of YaRN that llama.cpp has built in for every architecture whose row does not list them as harmless.
const YARN: &[BuiltIn] = &[
    // Frequencies are blended between two pairs, whose numbers llama.cpp rounds to integers.
    BuiltIn::unless("rope_parameters.truncate", "true", |hparams, value| {
        *value != Json::Bool(false) || !scales_by_yarn(hparams)
    }),
    BuiltIn::unless("rope_parameters.beta_fast", "32", |hparams, value| {
        value.as_f64() == Some(32.0) || !scales_by_yarn(hparams)
    }),
    BuiltIn::unless("rope_parameters.beta_slow", "1", |hparams, value| {
        value.as_f64() == Some(1.0) || !scales_by_yarn(hparams)
    }),
];

/// Returns true if YaRN changes frequencies. With a factor of 1 every pair keeps its own.
fn scales_by_yarn(hparams: &Hparams) -> bool {
    let rope = hparams.rope();
    rope.kind() == Some("yarn") && rope.f64_or("factor", 1.0).is_ok_and(|factor| factor != 1.0)
}

/// Options of latent and linear attention that llama.cpp has built in for every architecture.
const LATENT: &[BuiltIn] = &[
    // Neighbours are rotated together.
    BuiltIn::unless("rope_interleave", "true", |hparams, value| {
        *value != Json::Bool(false) || !has_latent_attention(hparams)
    }),
    // Classes of transformers create the norms of latent vectors without the config's epsilon.
    BuiltIn::unless(
        "rms_norm_eps",
        "it in norms of latent vectors too, for which transformers has 1e-6",
        |hparams, epsilon| is_small(epsilon) || !has_latent_attention(hparams),
    ),
    BuiltIn::unless(
        "rms_norm_eps",
        "it in norms of linear attention's queries and keys too, for which transformers has 1e-6",
        |hparams, epsilon| is_small(epsilon) || hparams.get("linear_num_key_heads").is_none(),
    ),
];

/// Returns true for an epsilon that hardly differs from 1e-6.
fn is_small(epsilon: &Json) -> bool {
    epsilon.as_f64().is_none_or(|epsilon| epsilon <= 1e-5)
}

fn has_latent_attention(hparams: &Hparams) -> bool {
    hparams.get("kv_lora_rank").is_some()
}

/// Time steps of a state-space model without limits.
pub const HAS_NO_STEP_LIMIT: BuiltIn = BuiltIn::unless("time_step_limit", "no limit", |_, limits| {
    let limit = |at: usize| limits.get(at).and_then(Json::as_f64);
    // Infinity is not a number in JSON.
    limit(0).is_none_or(|least| least <= 0.0) && limit(1).is_none()
});

/// Time steps of a state-space model without a minimum. The class of Nemotron-H in transformers has one, the code for training
/// does not. With the 0.001 of released models, KL divergence from transformers is about 1e-5.
pub const HAS_NO_STEP_MINIMUM: [BuiltIn; 2] = [
    BuiltIn::unless(STEP_MINIMUM, "no minimum", |_, least| least.as_f64().is_none_or(|least| least <= 0.001)),
    BuiltIn::unless(STEP_MINIMUM, "no minimum", |_, least| {
        least.as_f64().is_none_or(|least| least <= 0.0 || least > 0.001)
    })
    .slightly(),
];

const STEP_MINIMUM: &str = "time_step_min";

/// Interleaved M-RoPE. Sections leave pairs over if they are shorter than a third of all pairs; transformers rotates these by
/// time, ggml by a fourth position, which is 0 for text.
pub const ROTATES_ALL_PAIRS: BuiltIn = BuiltIn::unless(
    "rope_parameters.mrope_section",
    "no rotation of the pairs that the sections leave over",
    |hparams, sections| {
        let section = |at: usize| sections.get(at).and_then(Json::as_u64).unwrap_or(0).saturating_mul(3);
        let rotated = hparams.head_dim().and_then(|dims| hparams.rotated(dims, Some(1.0)));
        let pairs = rotated.map_or(0, |rotated| (rotated / 2).min(4096));
        let base = hparams.rope().f64_or("rope_theta", 10_000.0).unwrap_or(10_000.0);
        // Pair i belongs to section i mod 3 and turns by base^(-2i/d) for each position.
        let left_over = (0..pairs).find(|pair| *pair >= section((pair % 3) as usize));
        // Qwen3-VL (24, 20, 20) leaves pairs over that turn by a tenth over its context.
        left_over.is_none_or(|pair| {
            let angle = base.powf(-(pair as f64) / pairs as f64) * context_length(hparams) as f64;
            angle < 0.2
        })
    },
);

/// One base of rotation in every layer.
pub const HAS_ONE_BASE: BuiltIn =
    BuiltIn::unless("rope_parameters", "the base of full attention in every layer", |hparams, _| {
        let base = |rope: Rope<'_>| rope.f64_or("rope_theta", 10_000.0).ok();
        let sliding = hparams.rope_sliding().and_then(base);
        base(hparams.rope()).zip(sliding).is_none_or(|(full, sliding)| full == sliding)
    });

/// Attention without the sliding window that the config states. Only shorter windows than the context make a difference.
pub const HAS_NO_WINDOW: BuiltIn = BuiltIn::unless("sliding_window", "no window", sees_context);

/// As [`HAS_NO_WINDOW`], under the name of other configs.
pub const HAS_NO_WINDOW_SIZE: BuiltIn = BuiltIn::unless("sliding_window_size", "no window", sees_context);

/// Returns true if a window is off or as long as the context.
fn sees_context(hparams: &Hparams, window: &Json) -> bool {
    window.as_u64().is_none_or(|window| window == 0 || window >= context_length(hparams))
}

/// The context length, or the largest number if the config does not state it.
pub fn context_length(hparams: &Hparams) -> u64 {
    hparams.get("max_position_embeddings").and_then(Json::as_u64).unwrap_or(u64::MAX)
}

/// Returns true if a list of flags is 0 for every `period`th layer and 1 for the others.
pub fn is_zero_every(period: u64, flags: &Json) -> bool {
    let flags = flags.as_array().map(Vec::as_slice).unwrap_or_default();
    let mut layers = (1u64..).zip(flags);
    layers.all(|(layer, flag)| (flag.as_u64() == Some(0)) == layer.is_multiple_of(period))
}

/// The note on a context length that no option of the config states.
pub fn no_length(width: u64) -> String {
    format!("missing context length in config.json; using the embedding length, {width}")
}

/// The sliding layers that llama.cpp assumes if a file does not list them.
#[derive(Debug, Clone, Copy)]
pub struct WindowPattern {
    /// One layer of this many attends to everything.
    pub period: u64,
    /// True if that layer is the first of each period, false if it is the last.
    pub full_first: bool,
    /// The sliding layers of a config, one flag per layer.
    pub layers: fn(&Hparams) -> Option<Vec<bool>>,
}

/// `layer_types` with the given period; the last layer of each period attends to everything.
pub const fn every(period: u64) -> Option<WindowPattern> {
    Some(WindowPattern { period, full_first: false, layers: Hparams::sliding_layers })
}

/// As [`every`], but the first layer of each period attends to everything.
pub const fn every_from_first(period: u64) -> Option<WindowPattern> {
    Some(WindowPattern { period, full_first: true, layers: Hparams::sliding_layers })
}

impl WindowPattern {
    /// Returns true if the layer slides in a pattern of this period; 0 means that all do.
    fn slides(&self, layer: usize, period: u64) -> bool {
        match (layer as u64).checked_rem(period) {
            None => true,
            Some(place) if self.full_first => place != 0,
            Some(place) => place + 1 < period,
        }
    }

    /// Returns true if the layers of a config are those that llama.cpp assumes with this period.
    fn fits(&self, hparams: &Hparams, period: u64) -> bool {
        (self.layers)(hparams).is_none_or(|layers| {
            layers.iter().enumerate().all(|(layer, slides)| *slides == self.slides(layer, period))
        })
    }

    /// Lists the sliding layers in the file if llama.cpp would assume others.
    ///
    /// # Errors
    ///
    /// [`ArchError::BadKey`] for lists longer than any model.
    pub fn write(&self, hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
        const PATTERN: &str = "attention.sliding_window_pattern";
        let window = keys.prefixed("attention.sliding_window");
        let has_window = window.is_some_and(|window| *window != Value::U32(0));
        let period = match keys.prefixed(PATTERN) {
            None => self.period,
            Some(Value::U32(period)) => u64::from(*period),
            // The row lists the layers itself.
            Some(_) => return Ok(()),
        };
        if !has_window || self.fits(hparams, period) {
            return Ok(());
        }
        let mut layers = (self.layers)(hparams).unwrap_or_default();
        // Layers that predict more than the next token follow the others and never slide.
        let n_layers = usize::try_from(hparams.n_layers()?).unwrap_or(usize::MAX);
        if n_layers > 10_000 {
            return Err(bad("num_hidden_layers", &n_layers.into(), "at most 10000 layers"));
        }
        layers.resize(n_layers, false);
        let theirs = keys.prefixed(PATTERN).cloned();
        keys.depart(&SLIDING_LAYERS, Value::Array(Array::Bool(layers)), theirs.as_ref());
        Ok(())
    }
}

/// The note on a decoder with a window that no layer uses, which llama.cpp refuses.
pub fn no_layer_slides(keys: &Keys) -> Option<String> {
    let has_window = keys.prefixed("attention.sliding_window").is_some_and(|window| *window != Value::U32(0));
    let any_slides = match keys.prefixed("attention.sliding_window_pattern") {
        Some(Value::Array(Array::Bool(layers))) => layers.contains(&true),
        Some(Value::Array(Array::I32(layers))) => layers.iter().any(|flag| *flag != 0),
        _ => true,
    };
    let is_encoder = keys.prefixed("attention.causal").is_some_and(|causal| *causal == Value::Bool(false));
    (has_window && !any_slides && !is_encoder).then(|| {
        "llama.cpp will not load this file: no layer has the sliding window that config.json states (`layer_types`)".into()
    })
}

/// Checks that a config lists the type of each layer.
///
/// # Errors
///
/// [`ArchError::BadKey`] if `layer_types` has another length than the model has layers.
pub fn check_layer_types(config: &Json) -> Result<(), ArchError> {
    let listed = config.get("layer_types").and_then(Json::as_array).map(Vec::len);
    let n_layers = config.get("num_hidden_layers").and_then(Json::as_u64);
    match (listed, n_layers) {
        (Some(listed), Some(n_layers)) if listed as u64 != n_layers => Err(bad(
            "layer_types",
            &format!("{listed} layers").into(),
            "one type for each layer of `num_hidden_layers`",
        )),
        _ => Ok(()),
    }
}
