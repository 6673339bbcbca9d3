//! OLMo 2 and 3.
//!
//! Config keys: those of every text model; `sliding_window` and which layers have it (OLMo 3).
//!
//! Source: `Olmo2Model` in `conversion/olmo.py`.

use crate::prelude::*;

pub const OLMO2: Arch = Arch {
    name: "olmo2",
    classes: &[Class::new("Olmo2ForCausalLM"), Class::new("Olmo3ForCausalLM")],
    example: "allenai/OLMo-2-1124-7B-Instruct",
    configs: &[ConfigClass::new("olmo2"), OLMO3_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::POST_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    keys,
    built_in: &[HAS_ONE_BASE],
    yarn: YarnScales::RotationOfFullLayers,
    ..DECODER
};

/// `Olmo3Config`.
const OLMO3_CONFIG: ConfigClass = ConfigClass::new("olmo3").adjusted(|map| {
    // OLMo 3: three sliding layers, then one that uses full attention.
    adjust::layer_pattern(map, 4)?;
    adjust::nested_rope(map, ("rope_theta", 500_000.0), ("", 500_000.0))
});

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // OLMo 2 has no window and no key.
    if hparams.get("sliding_window").is_some() {
        keys.count("attention.sliding_window", hparams, &["sliding_window"])?;
        // The number comes from a file and sizes a list.
        let n_layers = hparams.n_layers()?.min(10_000);
        let pattern = || (1..=n_layers).map(|layer| layer % 4 != 0).collect();
        // `layer_types` if the config has it, else the period of OLMo 3.
        let pattern = hparams.sliding_layers().unwrap_or_else(pattern);
        keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(pattern)));
    }
    Ok(())
}
