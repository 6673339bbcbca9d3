//! OLMo 2 and 3.
//!
//! Config keys: those of every text model; `sliding_window` and which layers have it (OLMo 3).
//!
//! Transforms: none.
//!
//! Source: `Olmo2Model` in `conversion/olmo.py`.

use crate::families::olmo::convert::olmo;
use crate::prelude::*;

/// The row.
pub const OLMO2: Arch = Arch {
    name: "olmo2",
    classes: &[Class::new("Olmo2ForCausalLM"), Class::new("Olmo3ForCausalLM")],
    example: "allenai/OLMo-2-1124-7B-Instruct",
    configs: &[OLMO2_CONFIG, OLMO3_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::POST_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    keys,
    ..DECODER
};

/// `Olmo2Config` of transformers 5.23.
const OLMO2_CONFIG: ConfigClass = ConfigClass {
    model_type: "olmo2",
    fields: &[olmo::FIELDS, &[("rms_norm_eps", FLOAT, Float(1e-5))], DECODER_FIELDS],
    fill: &[Fill::KvHeads],
    ..BASE
};

/// `Olmo3Config` of transformers 5.23.
const OLMO3_CONFIG: ConfigClass = ConfigClass {
    model_type: "olmo3",
    default_theta: 500_000.0,
    fields: &[
        &[("sliding_window", INT | NULL, Int(4096)), ("layer_types", NULL | TEXTS, Null)],
        OLMO2_CONFIG.fields[0],
        DECODER_FIELDS,
    ],
    fill: &[Fill::KvHeads],
    adjust: |map| {
        // OLMo 3: three sliding layers, then one that sees everything.
        adjust::layer_pattern(map, 4)?;
        adjust::nested_rope(map, ("rope_theta", 500_000.0), ("", 500_000.0))
    },
    ..BASE
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    // OLMo 2 has no window and no key.
    if hparams.get("sliding_window").is_some() {
        keys.count("attention.sliding_window", hparams, &["sliding_window"])?;
        // The number comes from a file and sizes a list.
        let n_layers = hparams.n_layers()?.min(10_000);
        let pattern = || (1..=n_layers).map(|layer| layer % 4 != 0).collect();
        // `layer_types` where the config has it, else the period of OLMo 3.
        let pattern = hparams.sliding_layers().unwrap_or_else(pattern);
        keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(pattern)));
    }
    Ok(())
}
