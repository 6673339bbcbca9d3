//! Solar Open: GLM 4.5's mixture of experts with its own tokenizer.
//!
//! Config keys: those of GLM 4.5.
//!
//! Transforms: those of GLM 4.5.
//!
//! Source: `SolarOpenModel` in `conversion/glm.py`.

use crate::families::glm::convert::glm4moe::GLM4MOE;
use crate::prelude::*;

/// The row.
pub const SOLAR_OPEN: Arch = Arch {
    name: "solar-open",
    written: Some("glm4moe"),
    classes: &[Class::new("SolarOpenForCausalLM")],
    example: "upstage/Solar-Open-100B",
    configs: &[SOLAR_OPEN_CONFIG],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    // Unlike in GLM 4.5, no layers of prediction are looked for.
    prepare: |hparams, _| Ok(hparams),
    vocab: ROUTE,
    ..GLM4MOE
};

const ROUTE: Route = Route {
    // Files of GLM 4.5, which has no such token, have the same keys.
    fits: |_, metadata| {
        let tokens = metadata.texts(token_keys::TOKENS).ok().flatten();
        tokens.is_some_and(|tokens| tokens.iter().any(|token| token == b"<|startoftext|>"))
    },
    ..Route::new("solar_open", |writer| {
        writer.gpt2(&BpeStyle {
            by_text: &[
                ("eos", "<|endoftext|>"),
                ("eot", "<|endoftext|>"),
                ("unk", "<unk>"),
                ("bos", "<|startoftext|>"),
            ],
            ..BpeStyle::GPT2
        })
    })
};

/// `SolarOpenConfig` of transformers 5.23.
const SOLAR_OPEN_CONFIG: ConfigClass = ConfigClass {
    model_type: "solar_open",
    default_theta: 1_000_000.0,
    fields: &[
        &[
            ("vocab_size", INT, Int(196_608)),
            ("num_hidden_layers", INT, Int(48)),
            ("num_attention_heads", INT, Int(64)),
            ("num_key_value_heads", INT, Int(8)),
            ("max_position_embeddings", INT, Int(131_072)),
            ("rms_norm_eps", FLOAT, Float(1e-5)),
            ("attention_bias", BOOL, Bool(false)),
            ("attention_dropout", INT | FLOAT, Float(0.0)),
            ("moe_intermediate_size", INT, Int(1280)),
            ("num_experts_per_tok", INT, Int(8)),
            ("output_router_logits", BOOL, Bool(false)),
            ("n_shared_experts", INT, Int(1)),
            ("n_routed_experts", INT, Int(128)),
            ("routed_scaling_factor", FLOAT, Float(1.0)),
            ("n_group", INT, Int(1)),
            ("topk_group", INT, Int(1)),
            ("norm_topk_prob", BOOL, Bool(true)),
            ("bos_token_id", INT | NULL, Null),
            ("eos_token_id", INT | NULL | INTS, Null),
            ("head_dim", INT, Int(128)),
        ],
        DECODER_FIELDS,
    ],
    renamed: &[("num_local_experts", "n_routed_experts")],
    ..BASE
};
