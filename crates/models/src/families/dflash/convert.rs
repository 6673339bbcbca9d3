//! DFlash and DSpark: draft models for blocks of tokens, from several vendors.
//!
//! Config keys: those of Qwen 3; the block length, the target layers whose states the draft sees, sliding
//! windows, factors of embedding and scores; for DSpark, where sampling begins, and whether it judges itself.
//!
//! Transforms: names get the prefix `model.`. `d2t` holds, for each token of the draft, the offset of the
//! target's token; the file contains the target's ids. `t2d` is left out, and so is an output that is the
//! target's.
//!
//! Source: `DFlashModel` and `DSparkModel` in `conversion/qwen.py`, `MuseGlimmerAssistantModel` in
//! `conversion/muse_glimmer.py`; the output that Gemma 4 needs and the factor of Gemma's embeddings in those of llama.cpp build
//! 11549, which is newer than the pinned one.

use crate::families::eagle3::convert as eagle3;
use crate::families::qwen::convert::{qwen2, qwen3};
use crate::prelude::*;

/// The row of DFlash.
pub const DFLASH: Arch = Arch {
    name: "dflash",
    classes: &[Class::new("DFlashDraftModel"), Class::new("DFlash2DraftModel")],
    example: "z-lab/Qwen3.5-9B-DFlash",
    configs: &[],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[
        ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::GATED_MLP,
        SINKS,
        CONVOLUTIONS,
    ],
    rename,
    drops: |hparams, name| {
        let is_embedding = ["model.embed_tokens.weight", "embed_tokens.weight"].contains(&name);
        let lacks_own = hparams.get("has_embed_tokens") == Some(&Json::Bool(false));
        (is_embedding && lacks_own).then_some("the embedding is the target's")
    },
    prepare: |hparams, _| match hparams.get("rope_is_neox_style") {
        Some(Json::Bool(false)) => {
            Err(bad("rope_is_neox_style", &false.into(), "true: rotated pairs that lie apart"))
        }
        _ => Ok(hparams),
    },
    keys,
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    draft: Some(Draft { route_of_target: true, mask: |hparams| inner(hparams, "mask_token_id")?.as_u64() }),
    export: Export::NotExportable("a draft model is part of another model"),
    ..qwen3::QWEN3
};

/// The row of DSpark.
pub const DSPARK: Arch = Arch {
    name: "dspark",
    written: Some("dflash"),
    classes: &[
        Class::new("Qwen3DSparkModel"),
        Class::new("DSparkDraftModel"),
        Class::new("DSparkSpeculator"),
        Class::new("Lfm2DSparkDraftModel"),
        Class::new("LingDSparkModel"),
    ],
    example: "satgeze/Qwen3.6-27B-DSpark",
    needs: &[],
    tensors: &[
        ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION,
        rules::QK_NORMS,
        rules::GATED_MLP,
        SINKS,
        CONVOLUTIONS,
        MARKOV,
        &[IDS],
    ],
    rename: |hparams, name| if name == "d2t" { None } else { rename(hparams, name) },
    drops: |hparams, name| match name {
        "t2d" => Some("the tokens that draft and target share follow from `d2t`"),
        // With the target's entire vocabulary the target's own output serves the draft.
        "lm_head.weight" | "model.lm_head.weight" if !has_own_vocabulary(hparams) => {
            Some("the output is the target's")
        }
        _ => (DFLASH.drops)(hparams, name),
    },
    prepare: prepare_spark,
    keys: |hparams, keys| {
        self::keys(hparams, keys)?;
        keys.flag("sample_from_anchor", hparams, "sample_from_anchor");
        keys.flag("has_confidence_head", hparams, "has_confidence_head");
        Ok(())
    },
    ..DFLASH
};

/// The row of Muse Glimmer's drafts.
pub const MUSE_GLIMMER_ASSISTANT: Arch = Arch {
    name: "muse-glimmer-assistant",
    written: Some("dflash"),
    classes: &[Class::new("MuseGlimmerAssistantModel")],
    example: "meta-models/Muse-Glimmer-30B-assistant",
    configs: &[MUSE_GLIMMER_ASSISTANT_CONFIG],
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads"],
    tensors: &[ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    drops: |_, _| None,
    prepare: |hparams, _| Ok(hparams),
    keys: |hparams, keys| {
        text_keys(hparams, keys)?;
        keys.needed("block_size", hparams, &["block_size"])?;
        target_layers(hparams.get("target_layer_ids"), keys)?;
        if let (Some(window), Some(layers)) = (hparams.get_u64("sliding_window")?, hparams.sliding_layers()) {
            keys.set_derived("attention.sliding_window", "sliding_window", window)?;
            keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(layers)));
        }
        Ok(())
    },
    draft: Some(Draft { route_of_target: true, mask: |hparams| hparams.get("mask_token_id")?.as_u64() }),
    ..DFLASH
};

/// The row of DSpark for Gemma 4.
pub const GEMMA4_DSPARK: Arch = Arch {
    name: "gemma4-dspark",
    written: Some("dflash"),
    classes: &[Class::new("Gemma4DSparkModel")],
    example: "deepseek-ai/dspark_gemma4_12b_block7",
    raw_config: true,
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "global_head_dim"],
    tensors: &[ENDS, GEMMA4_LAYERS, rules::QK_NORMS, rules::GATED_MLP, MARKOV],
    rename: |hparams, name| {
        let end = if name.ends_with(".layer_scalar") { ".weight" } else { "" };
        let whole = rename(hparams, name).unwrap_or_else(|| name.to_owned()) + end;
        Some(whole.replace("model.confidence_proj.", "model.confidence_head.proj."))
    },
    prepare: prepare_gemma4,
    keys: gemma4_keys,
    computed: |hparams| {
        if hparams.rope().kind() != Some("proportional") {
            return Ok(Vec::new());
        }
        let head = hparams.need_u64(&["global_head_dim"])?.min(1 << 16);
        // rotated = global_head_dim * partial_rotary_factor numbers of a head turn, in half as many pairs.
        let rotated = head as f64 * hparams.rope().f64_or("partial_rotary_factor", 0.25)?;
        if !(rotated > 0.0 && rotated <= head as f64 && rotated % 2.0 == 0.0) {
            return Err(bad(
                "rope_parameters.partial_rotary_factor",
                &rotated.into(),
                "an even part of a head",
            ));
        }
        // A divisor of 1e30 rotates no pair.
        let pairs = (0..head / 2).map(|pair| if (pair as f64) < rotated / 2.0 { 1.0 } else { 1e30 });
        Ok(vec![("rope_freqs.weight", pairs.collect())])
    },
    draft: Some(Draft { route_of_target: true, mask: |hparams| either(hparams, "mask_token_id")?.as_u64() }),
    ..DFLASH
};

const GEMMA4_LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.input_layernorm"], "blk.{bid}.attn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm"),
    TensorRule::copy(&["model.layers.{bid}.pre_feedforward_layernorm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.layers.{bid}.post_feedforward_layernorm"], "blk.{bid}.post_ffw_norm"),
    TensorRule::copy(&["model.layers.{bid}.layer_scalar"], "blk.{bid}.layer_output_scale"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.q_proj"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["model.layers.{bid}.self_attn.k_proj"], "blk.{bid}.attn_k"),
    // Keys are values too.
    TensorRule::copy(&["model.layers.{bid}.self_attn.v_proj"], "blk.{bid}.attn_v").need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.self_attn.o_proj"], "blk.{bid}.attn_output"),
];

/// Refuses what llama.cpp has no way for.
fn prepare_gemma4(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let types = hparams.get("layer_types").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let n_layers = hparams.n_layers()?;
    if types.len() as u64 != n_layers || types.iter().any(|kind| kind != "full_attention") {
        return Err(bad("layer_types", &types.to_vec().into(), "full_attention for each layer"));
    }
    // Keys serve as values, which is why `v_proj` may be absent above.
    if !hparams.is_true("attention_k_eq_v") {
        let found = hparams.get("attention_k_eq_v").cloned().unwrap_or_default();
        return Err(bad("attention_k_eq_v", &found, "true"));
    }
    if has_own_vocabulary(&hparams) {
        let found = hparams.get("draft_vocab_size").cloned().unwrap_or_default();
        return Err(bad("draft_vocab_size", &found, "that of the whole vocabulary"));
    }
    let expected: [(&str, Json, &'static str); 4] = [
        ("hidden_activation", "gelu_pytorch_tanh".into(), "gelu_pytorch_tanh"),
        ("attention_bias", false.into(), "false"),
        ("enable_moe_block", false.into(), "false"),
        ("markov_head_type", "vanilla".into(), "vanilla"),
    ];
    for (key, value, name) in expected {
        if let Some(found) = either(&hparams, key).filter(|found| **found != value) {
            return Err(bad(key, found, name));
        }
    }
    if let Some(kind) =
        hparams.rope().get("rope_type").filter(|kind| *kind != "default" && *kind != "proportional")
    {
        return Err(bad("rope_parameters.rope_type", kind, "default or proportional"));
    }
    // llama.cpp does not take the embedding as the output of a draft.
    let is_output =
        |tensor: &SourceTensor| ["lm_head.weight", "model.lm_head.weight"].contains(&&*tensor.name);
    if !tensors.is_empty() && !tensors.iter().any(is_output) {
        return Err(ArchError::MissingTensors { names: vec!["lm_head.weight".into()] });
    }
    let judges = tensors.iter().any(|tensor| {
        tensor.name.contains("confidence_head.proj") || tensor.name.contains("confidence_proj.")
    });
    Ok(hparams.with("has_confidence_head", judges.into()))
}

fn gemma4_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    self::keys(hparams, keys)?;
    let head = hparams.need_u64(&["global_head_dim"])?;
    keys.needed("attention.head_count_kv", hparams, &["num_global_key_value_heads"])?;
    for key in ["attention.key_length", "attention.value_length", "rope.dimension_count"] {
        keys.set_derived(key, "global_head_dim", head)?;
    }
    // x = embedding * sqrt(hidden_size)
    let width = hparams.need_u64(&["hidden_size"])? as f64;
    keys.set_prefixed("embedding_scale", Value::F32(width.sqrt() as f32));
    // Scores are q k^T times 1, not times 1 / sqrt(head).
    keys.set_prefixed("attention.scale", Value::F32(1.0));
    keys.set_prefixed("hidden_activation", "gelu_pytorch_tanh".into());
    // Absent means true here; for other targets `prepare_spark` tells it from the config's spelling.
    let anchored = hparams.get("sample_from_anchor") != Some(&Json::Bool(false));
    keys.set_prefixed("sample_from_anchor", Value::Bool(anchored));
    if either(hparams, "target_layer_ids").is_none() {
        return Err(missing("target_layer_ids"));
    }
    keys.flag("has_confidence_head", hparams, "has_confidence_head");
    Ok(())
}

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.embed_tokens"], "token_embd").need(Need::Optional),
    TensorRule::copy(&["model.norm"], "output_norm"),
    TensorRule::copy(&["model.lm_head"], "output").need(Need::Optional),
    // States of some layers of the target, made one.
    TensorRule::copy(&["model.fc", "model.encoder.fc"], "fc"),
    TensorRule::copy(&["model.hidden_norm", "model.encoder.output_norm_enc"], "enc.output_norm"),
    TensorRule::copy(&["model.candidate_selector.predecessor_codebook"], "selector_predecessor")
        .bare(".weight")
        .need(Need::Optional),
    TensorRule::copy(&["model.candidate_selector.successor_codebook"], "selector_successor")
        .bare(".weight")
        .need(Need::Optional),
    TensorRule::copy(&["model.candidate_selector.hidden_projection"], "selector_hidden").need(Need::Optional),
];

const SINKS: &[TensorRule] = &[TensorRule::copy(
    &["model.layers.{bid}.self_attn.sinks", "model.layers.{bid}.self_attn.attention_sink_bias"],
    "blk.{bid}.attn_sinks",
)
.need(Need::Optional)];

/// Short convolutions whose kernels depend on what they go over.
const CONVOLUTIONS: &[TensorRule] = &[
    TensorRule::copy(&["model.layers.{bid}.attention_conv.base_kernel"], "blk.{bid}.attn_conv_base")
        .bare("")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.attention_conv.kernel_projection"], "blk.{bid}.attn_conv_proj")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.mlp_conv.base_kernel"], "blk.{bid}.ffn_conv_base")
        .bare("")
        .need(Need::Optional),
    TensorRule::copy(&["model.layers.{bid}.mlp_conv.kernel_projection"], "blk.{bid}.ffn_conv_proj")
        .need(Need::Optional),
];

/// Prediction of the next token from one token, and the draft's confidence.
const MARKOV: &[TensorRule] = &[
    TensorRule::copy(&["model.markov_head.markov_w1"], "markov_w1"),
    TensorRule::copy(&["model.markov_head.markov_w2"], "markov_w2"),
    TensorRule::copy(&["model.confidence_head.proj"], "conf_proj").need(Need::Optional),
];

/// Ids of the target's tokens, whose number the draft knows.
const IDS: TensorRule = eagle3::ids(|hparams| hparams.need_u64(&["vocab_size"]));

/// Names get the usual start, and sinks an ending.
fn rename(_: &Hparams, name: &str) -> Option<String> {
    let start = if name.starts_with("model.") { "" } else { "model." };
    let end = if name.contains("sink") && !name.ends_with(".weight") { ".weight" } else { "" };
    (!start.is_empty() || !end.is_empty()).then(|| format!("{start}{name}{end}"))
}

/// A value of `dflash_config`.
fn inner<'a>(hparams: &'a Hparams, key: &str) -> Option<&'a Json> {
    hparams.get("dflash_config")?.get(key).filter(|value| !value.is_null())
}

/// A value of `dflash_config`, or of the config itself.
fn either<'a>(hparams: &'a Hparams, key: &str) -> Option<&'a Json> {
    inner(hparams, key).or_else(|| hparams.get(key))
}

/// Layers of the target whose input the draft sees: the one after that whose output a config counts.
pub fn target_layers(ids: Option<&Json>, keys: &mut Keys) -> Result<(), ArchError> {
    let ids = ids.and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    if ids.is_empty() {
        return Ok(());
    }
    // The output of layer i is the input of layer i + 1.
    let next = |id: &Json| Ok(to_i32("target_layer_ids", id)?.saturating_add(1));
    let layers = ids.iter().map(next).collect::<Result<Vec<i32>, ArchError>>()?;
    keys.set_prefixed("target_layers", Value::Array(Array::I32(layers)));
    Ok(())
}

/// Keys of Qwen 3 plus those of a draft.
pub fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    qwen2::keys(hparams, keys)?;
    if hparams.rope().get("partial_rotary_factor").is_some() {
        keys.set_derived("rope.dimension_count", "head_dim", hparams.rotated(hparams.head_dim()?, None)?)?;
    }
    let number = |keys: &mut Keys, key: &str, value: Option<&Json>| -> Result<(), ArchError> {
        if let Some(value) = value {
            keys.set_prefixed(key, Value::F32(to_f32(key, value)?));
        }
        Ok(())
    };
    number(keys, "attention.value_scale", inner(hparams, "attention_value_scale"))?;
    let block = either(hparams, "block_size").map_or(Ok(16), |size| to_u32("block_size", size))?;
    keys.set_prefixed("block_size", Value::U32(block));
    // Convolutions and selector come together: the first of the keys makes all four required.
    if inner(hparams, "conv_kernel_size").is_some() {
        for key in ["conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"] {
            let value = inner(hparams, key).ok_or_else(|| missing(&format!("dflash_config.{key}")))?;
            keys.set_prefixed(key, Value::U32(to_u32(key, value)?));
        }
    }
    number(keys, "logit_scale", either(hparams, "output_multiplier"))?;
    // A bound of 0 stands for no limit.
    let bound = either(hparams, "final_logit_softcapping");
    number(
        keys,
        "final_logit_softcapping",
        bound.filter(|bound| bound.as_f64().is_some_and(|bound| bound > 0.0)),
    )?;
    // Gemma multiplies the embeddings, which are the target's, by the root of their length.
    let classes = hparams.target("architectures").and_then(|classes| classes.get(0)).and_then(Json::as_str);
    let of_gemma = classes.filter(|class| class.starts_with("Gemma")).and(hparams.target("hidden_size"));
    let root = of_gemma.and_then(Json::as_f64).map(|width| width.sqrt().into());
    number(keys, "embedding_scale", either(hparams, "input_embedding_scale").or(root.as_ref()))?;
    target_layers(either(hparams, "target_layer_ids"), keys)?;
    window_keys(hparams, keys)?;
    if let Some(causal) = hparams.get("is_causal").or_else(|| inner(hparams, "causal")) {
        keys.set_prefixed("attention.causal", Value::Bool(*causal == true));
    }
    // The target counts positions in sections; the draft has only time.
    let rope = ["rope_parameters", "rope_scaling"].into_iter().find_map(|key| hparams.target(key));
    if rope.is_some_and(|rope| rope.get("mrope_section").is_some()) {
        // All head_dim / 2 pairs count time; the other three sections are empty.
        let half = to_i32("head_dim", &(hparams.head_dim()? / 2).into())?;
        keys.set_prefixed("rope.dimension_sections", Value::Array(Array::I32(vec![half, 0, 0, 0])));
    }
    Ok(())
}

/// The window, and which layers have it.
fn window_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let all = inner(hparams, "use_swa").is_some_and(|all| *all == true);
    let window = inner(hparams, "swa_window_size").or_else(|| hparams.get("sliding_window"));
    let Some(window) = window.filter(|_| all || hparams.is_true("use_sliding_window")) else { return Ok(()) };
    let n_layers = hparams.n_layers()?.min(10_000);
    let layers = match (all, hparams.sliding_layers()) {
        (true, _) => vec![true; n_layers as usize],
        (false, Some(layers)) => layers,
        (false, None) => {
            // The first `max_window_layers` layers use full attention.
            let from = hparams.get_u64("max_window_layers")?.unwrap_or(n_layers);
            (0..n_layers).map(|layer| layer >= from).collect()
        }
    };
    keys.set_prefixed("attention.sliding_window", Value::U32(to_u32("sliding_window", window)?));
    keys.set_prefixed("attention.sliding_window_pattern", Value::Array(Array::Bool(layers)));
    Ok(())
}

/// Brings the spellings of two programs to that of DFlash.
fn prepare_spark(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let other = ["transformer_layer_config", "aux_hidden_state_layer_ids"]
        .iter()
        .any(|key| hparams.get(key).is_some());
    let mut hparams = hparams.with_inner("transformer_layer_config")?;
    if hparams.get("sample_from_anchor").is_none() {
        hparams = hparams.with("sample_from_anchor", (!other).into());
    }
    let mask = hparams.get("mask_token_id").cloned().unwrap_or_default();
    let aux = hparams.get("aux_hidden_state_layer_ids").and_then(Json::as_array);
    // `aux_hidden_state_layer_ids` is further by one: i - 1 here, to which `target_layers` adds 1 again.
    let config = match aux {
        Some(ids) => {
            let ids: Json =
                ids.iter().map(|id| id.as_i64().map_or(Json::Null, |id| (id - 1).into())).collect();
            json!({"mask_token_id": mask, "target_layer_ids": ids})
        }
        None => json!({
            "mask_token_id": mask, "target_layer_ids": hparams.get("target_layer_ids").cloned().unwrap_or_default()
        }),
    };
    if hparams.get("dflash_config").is_none() {
        hparams = hparams.with("dflash_config", config);
    }
    if let Some(kind) = hparams.get("markov_head_type").filter(|kind| *kind != "vanilla") {
        return Err(bad("markov_head_type", kind, "vanilla"));
    }
    let n_tokens = hparams.need_u64(&["vocab_size"])?;
    if let Some(own) = hparams.get_u64("draft_vocab_size")?.filter(|own| *own > n_tokens) {
        return Err(bad("draft_vocab_size", &own.into(), "at most `vocab_size`"));
    }
    let judges = tensors.iter().any(|tensor| tensor.name.contains("confidence_head.proj"));
    // Without `d2t` nothing says which tokens of the target the draft's ids stand for.
    if has_own_vocabulary(&hparams)
        && !tensors.is_empty()
        && !tensors.iter().any(|tensor| tensor.name == "d2t")
    {
        return Err(ArchError::MissingTensors { names: vec!["d2t".into()] });
    }
    Ok(hparams.with("has_confidence_head", judges.into()))
}

/// True if the draft knows only a part of the target's tokens.
fn has_own_vocabulary(hparams: &Hparams) -> bool {
    let count = |key| hparams.get_u64(key).ok().flatten().filter(|count| *count > 0);
    count("draft_vocab_size").is_some_and(|own| Some(own) != count("vocab_size"))
}

/// `MuseGlimmerAssistantConfig`.
const MUSE_GLIMMER_ASSISTANT_CONFIG: ConfigClass =
    ConfigClass::new("muse_glimmer_assistant").adjusted(|map| {
        adjust::layer_types(map, |_| true)?;
        if map.get("target_layer_ids").is_none_or(Json::is_null) {
            map.insert("target_layer_ids".into(), json!([1, 13, 25, 37, 49]));
        }
        Ok(())
    });
