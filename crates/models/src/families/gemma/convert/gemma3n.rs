//! Gemma 3n, the text part.
//!
//! Config keys: those of Gemma 3; embeddings for each layer; alternating updates; layers that reuse keys and values; by
//! layer how much of an activation is set to zero, and which slide.
//!
//! Transforms: norms are stored as they are. Projections of the alternating updates become one tensor. Embeddings that have
//! fewer rows than there are tokens get rows of zeros, for tokens that stand for images and sounds.
//!
//! Source: `Gemma3NModel` in `conversion/gemma.py`.

use crate::families::gemma::convert::gemma3;
use crate::prelude::*;
use gguf_layout::quantile::{normal_quantile, normal_share};

pub const GEMMA3N: Arch = Arch {
    name: "gemma3n",
    classes: &[Class::new("Gemma3nForCausalLM"), Class::new("Gemma3nForConditionalGeneration")],
    example: "google/gemma-3n-E2B-it",
    configs: &[GEMMA3N_TEXT_CONFIG, GEMMA3N_CONFIG],
    needs: &["hidden_size", "num_hidden_layers"],
    tensors: &[ENDS, NORMS, ATTENTION, rules::GATED_MLP, PER_LAYER, ALTERNATING, LAUREL],
    keys,
    vocab: gemma3::ROUTE,
    built_in: &[
        BuiltIn::is("final_logit_softcapping", &["30"]).or_off(),
        BuiltIn::is("altup_active_idx", &["0"]),
        BuiltIn::is("altup_correct_scale", &["true"]),
        BuiltIn::unless(
            "num_kv_shared_layers",
            "keys and values of the first 20 layers",
            |hparams, shared| {
                let own = hparams
                    .n_layers()
                    .ok()
                    .zip(shared.as_u64())
                    .map(|(layers, shared)| layers.saturating_sub(shared));
                own.is_none_or(|own| own == OWN_KEYS)
            },
        ),
        BuiltIn::unless("activation_sparsity_pattern", "0.95 in the first 10 layers", |_, shares| {
            let shares = shares.as_array().map(Vec::as_slice).unwrap_or_default();
            shares
                .iter()
                .enumerate()
                .all(|(layer, share)| share.as_f64() == Some(if layer < SPARSE_LAYERS { 0.95 } else { 0.0 }))
        }),
    ],
    from_file,
    ..DECODER
};

/// Layers with their own keys and values in llama.cpp (`n_layer_kv_from_start`).
const OWN_KEYS: u64 = 20;
/// Layers in which llama.cpp sets small activations to zero (`n_layer_sparsity`).
const SPARSE_LAYERS: usize = 10;

const ENDS: &[TensorRule] = &[
    TensorRule::part(&["model.embed_tokens"], "token_embd", a_row_each),
    TensorRule::part(&["model.embed_tokens_per_layer"], "per_layer_token_embd", a_row_each),
    TensorRule::copy(&["model.norm"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

/// A row for each token; zeros for those that the embedding lacks.
fn a_row_each(hparams: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    let tokens = hparams.get_u64("vocab_size")?.unwrap_or(262_400);
    let rows = shape.n_rows();
    Ok(if rows < tokens { RowMap::Pad { rows, to: tokens } } else { RowMap::Concat })
}

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.pre_feedforward_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_feedforward_layernorm"], "blk.{bid}.post_ffw_norm"),
];

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_norm"], "blk.{bid}.attn_q_norm"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
    // The last layers reuse keys and values of earlier ones; the Hub's files contain unused ones all the same.
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k").need(HAS_KEYS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_norm"], "blk.{bid}.attn_k_norm").need(HAS_KEYS),
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(HAS_KEYS),
];

const HAS_KEYS: Need = Need::If(|hparams, bid| {
    let shared = hparams.get_u64("num_kv_shared_layers").ok().flatten().unwrap_or(0);
    // The first n_layers - num_kv_shared_layers layers have their own keys and values.
    bid < hparams.n_layers().unwrap_or(0).saturating_sub(shared)
});

/// A separate embedding for every layer.
const PER_LAYER: &[TensorRule] = &[
    TensorRule::copy(&["model.per_layer_model_projection"], "per_layer_model_proj"),
    TensorRule::copy(&["model.per_layer_projection_norm"], "per_layer_proj_norm"),
    TensorRule::copy(&["model.layers.{bid}.per_layer_input_gate"], "blk.{bid}.inp_gate"),
    TensorRule::copy(&["model.layers.{bid}.per_layer_projection"], "blk.{bid}.proj"),
    TensorRule::copy(&["model.layers.{bid}.post_per_layer_input_norm"], "blk.{bid}.post_norm"),
];

/// Alternating updates: four states, of which a layer computes one and predicts the others.
const ALTERNATING: &[TensorRule] = &[
    // States 1 to 3 have a matrix each; the three become one tensor.
    TensorRule::copy(&["model.altup_projections.{xid}"], "altup_proj").rows(RowRule::Fuse(n_projections)),
    TensorRule::copy(&["model.altup_unembed_projections.{xid}"], "altup_unembd_proj")
        .rows(RowRule::Fuse(n_projections)),
    TensorRule::copy(&["model.layers.{bid}.altup.correction_coefs"], "blk.{bid}.altup_correct_coef"),
    // A parameter without `.weight` in the checkpoint, which the file's name gets.
    TensorRule::copy(&["model.layers.{bid}.altup.correct_output_scale"], "blk.{bid}.altup_correct_scale")
        .bare(".weight"),
    TensorRule::copy(&["model.layers.{bid}.altup.prediction_coefs"], "blk.{bid}.altup_predict_coef"),
    TensorRule::copy(&["model.layers.{bid}.altup.modality_router"], "blk.{bid}.altup_router"),
    TensorRule::copy(&["model.layers.{bid}.altup.router_norm"], "blk.{bid}.altup_router_norm"),
];

/// One projection for every state but the first.
fn n_projections(hparams: &Hparams) -> usize {
    let n_states = hparams.get_u64("altup_num_inputs").ok().flatten().unwrap_or(4);
    usize::try_from(n_states.saturating_sub(1).clamp(1, 64)).unwrap_or(1)
}

/// A residual path through a narrow matrix.
const LAUREL: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.laurel.linear_left"], "blk.{bid}.laurel_l"),
    TensorRule::copy(&["model.layers.{bid}.laurel.linear_right"], "blk.{bid}.laurel_r"),
    TensorRule::copy(&["model.layers.{bid}.laurel.post_laurel_norm"], "blk.{bid}.laurel_post_norm"),
];

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let n_states = hparams.need_u64(&["altup_num_inputs"])?;
    if n_states != 4 {
        return Err(bad("altup_num_inputs", &n_states.into(), "4"));
    }
    gemma3::keys(hparams, keys)?;
    keys.needed("altup.active_idx", hparams, &["altup_active_idx"])?;
    keys.needed("altup.num_inputs", hparams, &["altup_num_inputs"])?;
    keys.needed("embedding_length_per_layer_input", hparams, &["hidden_size_per_layer_input"])?;
    keys.needed("attention.shared_kv_layers", hparams, &["num_kv_shared_layers"])?;
    // Activations below mean + z sigma are set to zero, z being the quantile of the share that is.
    const SHARES: &str = "activation_sparsity_pattern";
    let shares = hparams.get(SHARES).and_then(Json::as_array).ok_or_else(|| missing(SHARES))?;
    let quantile = |share: &Json| {
        let share = share.as_f64().filter(|share| (0.0..1.0).contains(share));
        share
            .map(normal_quantile)
            .ok_or_else(|| bad(SHARES, &Json::Array(shares.clone()), "shares below one"))
    };
    let quantiles = shares.iter().map(quantile).collect::<Result<Vec<_>, _>>()?;
    keys.set_prefixed("activation_sparsity_scale", Value::Array(Array::F32(quantiles)));
    let sliding = hparams.sliding_layers().ok_or_else(|| missing("layer_types"))?;
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(sliding)));
    Ok(())
}

fn from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    // The key has quantiles of the shares that the config states.
    let shares = file.numbers("activation_sparsity_scale").unwrap_or_default();
    let shares: Json = shares.iter().map(|quantile| normal_share(*quantile)).collect();
    config.insert("activation_sparsity_pattern".into(), shares);
    let per_layer = file.shape("per_layer_token_embd.weight").map(|shape| shape.n_rows());
    set(config, "vocab_size_per_layer_input", per_layer);
    set(config, "laurel_rank", file.shape("blk.0.laurel_l.weight").map(|shape| shape.n_rows()));
    set(config, "hidden_size_per_layer_input", file.count("embedding_length_per_layer_input"));
    set(config, "num_kv_shared_layers", file.count("attention.shared_kv_layers"));
}

/// `Gemma3nTextConfig`.
const GEMMA3N_TEXT_CONFIG: ConfigClass = ConfigClass::new("gemma3n_text").adjusted(|map| {
    // Lists have an item for each layer of a number that comes out of a file.
    let n_layers = adjust::count(map, "num_hidden_layers").filter(|n_layers| *n_layers <= 10_000);
    let n_layers = n_layers.ok_or("no number of layers below 10000")?;
    // Every fifth layer uses full attention.
    adjust::layer_types(map, |layer| !(layer + 1).is_multiple_of(5))?;
    // One length stands for that of every layer.
    if let Some(length) = map.get("intermediate_size").filter(|length| length.is_u64()).cloned() {
        map.insert("intermediate_size".into(), vec![length; n_layers as usize].into());
    }
    if map.get("activation_sparsity_pattern").is_none_or(Json::is_null) {
        // By default the first ten layers set 95 % of their activations to zero, the others none.
        let sparse = if n_layers > 10 { 10 } else { 0 };
        let shares = (0..n_layers).map(|layer| if layer < sparse { 0.95 } else { 0.0 }).collect();
        map.insert("activation_sparsity_pattern".into(), shares);
    }
    adjust::nested_rope(map, ("rope_theta", 1_000_000.0), ("rope_local_base_freq", 10_000.0))
});

/// `Gemma3nConfig`: text, images and sound.
const GEMMA3N_CONFIG: ConfigClass =
    ConfigClass::new("gemma3n").adjusted(|map| adjust::text_config(map, &GEMMA3N_TEXT_CONFIG));
