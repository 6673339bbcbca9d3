//! Nemotron-H, Nemotron Nano 2 and Nemotron 3: each layer is a state space, attention, a feed-forward part or
//! a mixture of experts.
//!
//! Config keys: those of Granite 4 with head lengths; the feed-forward length by layer; experts and their
//! latent size. The kinds of layers are given by a pattern of letters, by a list, or by a list of objects
//! (Puzzle).
//!
//! Transforms: those of Mamba 2; rows of queries and keys are permuted, although the model does not use RoPE.
//! Experts become one tensor. The MTP module, two layers in the checkpoint, is one in the file.
//!
//! Source: `NemotronHModel` and `NemotronHPuzzleModel` in `conversion/nemotron.py`. The reference treats
//! every file that transformers 5's class reads as a mixture, because that class has defaults for experts;
//! here the layers decide.

use crate::families::glm::convert::glm4moe;
use crate::families::granite::convert::{granitehybrid, granitemoe};
use crate::prelude::*;

/// The row of dense models.
pub const NEMOTRON_H: Arch = Arch {
    name: "nemotron_h",
    classes: &[Class::new("NemotronHForCausalLM")],
    example: "nvidia/Nemotron-H-8B-Base-8K",
    configs: &[ConfigClass::new("nemotron_h")],
    needs: &["hidden_size", "num_attention_heads", "vocab_size", "mamba_num_heads", "mamba_head_dim"],
    tensors: &[ENDS, LAYERS, STATE, ATTENTION, FORWARD],
    keys: |hparams, keys| {
        // Expert keys that transformers writes into files without experts.
        let dense = OF_EXPERTS.iter().fold(hparams.clone(), |hparams, key| hparams.without(key));
        hybrid_keys(&dense, keys)?;
        let width = hparams.need_u64(&["intermediate_size", "n_inner", "hidden_dim"])?;
        lengths(hparams, keys, "feed_forward_length", Kind::Forward, |_| Ok(width))
    },
    rename: |_, name| backbone(name),
    prepare: count_layers,
    vocab: Route::new("nemotron_h", |writer| writer.rounded(Some(8), 8, false)),
    harmless: &[
        "hidden_act=silu",
        "mamba_hidden_act=silu",
        "mtp_layers_block_type",
        "norm_topk_prob",
        "rescale_prenorm_residual",
        "routed_scaling_factor",
        // The class of transformers does not read it.
        "time_step_limit",
    ],
    built_in: &HAS_NO_STEP_MINIMUM,
    ..DECODER
};

/// The row of mixtures.
pub const NEMOTRON_H_MOE: Arch = Arch {
    name: "nemotron_h_moe",
    fits: Some(|input| is_mixture(&input.config)),
    example: "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
    tensors: &[ENDS, LAYERS, STATE, ATTENTION, FORWARD, EXPERTS, PREDICTION],
    keys: |hparams, keys| {
        hybrid_keys(hparams, keys)?;
        let width = hparams.need_u64(&["moe_intermediate_size"])?;
        lengths(hparams, keys, "feed_forward_length", Kind::Mixture, |_| Ok(width))?;
        keys.needed("expert_used_count", hparams, &["num_experts_per_tok"])?;
        keys.needed("expert_feed_forward_length", hparams, &["moe_intermediate_size"])?;
        expert_keys(hparams, keys)?;
        keys.count("moe_latent_size", hparams, &["moe_latent_size"])?;
        keys.count("nextn_predict_layers", hparams, &[PREDICTED])
    },
    rename: |hparams, name| predicted(hparams, name).or_else(|| backbone(name)),
    export_name: |hparams, _, name| {
        let last = hparams.get(PREDICTED).and(hparams.n_layers().ok())?.checked_sub(1)?;
        let suffix = name.strip_prefix(&format!("backbone.layers.{last}."))?;
        let special = SPECIAL.iter().find(|(_, of_file)| suffix.strip_suffix(".weight") == Some(of_file));
        Some(match special {
            Some((from_checkpoint, _)) => format!("mtp.layers.{from_checkpoint}.weight"),
            // Attention is the first of its two layers, the mixture the second.
            None if is_attention_part(suffix) => format!("mtp.layers.0.{suffix}"),
            None => format!("mtp.layers.1.{suffix}"),
        })
    },
    ..NEMOTRON_H
};

/// The row of mixtures that differ from layer to layer.
pub const NEMOTRON_H_PUZZLE: Arch = Arch {
    name: "nemotron_h_puzzle",
    written: Some("nemotron_h_moe"),
    classes: &[Class::new("NemotronHPuzzleForCausalLM")],
    fits: None,
    example: "nvidia/NVIDIA-Nemotron-Labs-3-Puzzle-75B-A9B-BF16",
    configs: &[],
    keys: puzzle_keys,
    rename: |_, name| backbone(name),
    export_name: |_, _, _| None,
    prepare: |hparams, tensors| count_layers(hparams.without(PREDICTED), tensors),
    drops: |_, name| name.starts_with("mtp.").then_some("MTP layers of this variant have a different layout"),
    from_file: puzzle_from_file,
    ..NEMOTRON_H_MOE
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["backbone.embeddings"], "token_embd"),
    TensorRule::copy(&["backbone.norm_f"], "output_norm"),
    TensorRule::copy(&["lm_head"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[TensorRule::copy(&["backbone.layers.{bid}.norm"], "blk.{bid}.attn_norm")];

const STATE: &[TensorRule] = &[
    // w = -exp(A_log), (heads) as (heads, 1): the state decays by exp(w dt), and llama.cpp reads w itself.
    TensorRule::copy(&["backbone.layers.{bid}.mixer.A_log"], "blk.{bid}.ssm_a")
        .bare("")
        .shape(rules::COLUMN)
        .element(ElementMap::MinusExp)
        .need(STATES),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.D"], "blk.{bid}.ssm_d")
        .bare("")
        .shape(rules::COLUMN)
        .need(STATES),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.dt_bias"], "blk.{bid}.ssm_dt").bare(".bias").need(STATES),
    // (channels, 1, kernel) becomes (channels, kernel): each channel has its own kernel.
    TensorRule::copy(&["backbone.layers.{bid}.mixer.conv1d"], "blk.{bid}.ssm_conv1d")
        .shape(rules::SQUEEZE_CHANNEL)
        .need(STATES),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.in_proj"], "blk.{bid}.ssm_in").need(STATES),
    // (inner) becomes (groups, inner / groups): llama.cpp normalizes by group.
    TensorRule::copy(&["backbone.layers.{bid}.mixer.norm"], "blk.{bid}.ssm_norm")
        .shape(granitehybrid::BY_GROUP)
        .need(STATES),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.out_proj"], "blk.{bid}.ssm_out").need(STATES),
];

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["backbone.layers.{bid}.mixer.q_proj"], "blk.{bid}.attn_q")
        .rows(RowRule::PermuteQ)
        .need(ATTENDS),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.k_proj"], "blk.{bid}.attn_k")
        .rows(RowRule::PermuteK)
        .need(ATTENDS),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.v_proj"], "blk.{bid}.attn_v").need(ATTENDS),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.o_proj"], "blk.{bid}.attn_output").need(ATTENDS),
];

const FORWARD: &[TensorRule] = &[
    // Two matrices and no gate: y = W_down act(W_up x), where act is relu(x)^2 by default (`relu2`).
    TensorRule::copy(&["backbone.layers.{bid}.mixer.up_proj"], "blk.{bid}.ffn_up").need(FORWARDS),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.down_proj"], "blk.{bid}.ffn_down").need(FORWARDS),
];

/// Experts of two matrices. Their input may be compressed and their output expanded.
const EXPERTS: &[TensorRule] = &[
    TensorRule::copy(&["backbone.layers.{bid}.mixer.gate"], "blk.{bid}.ffn_gate_inp")
        .need(Need::If(|hparams, bid| kind(hparams, bid) == Kind::Mixture)),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.gate.e_score_correction"], "blk.{bid}.exp_probs_b")
        .need(Need::Optional),
    // (f, in) of each expert become (experts, f, in); there is no gate here either.
    TensorRule::stack(&["backbone.layers.{bid}.mixer.experts.{xid}.down_proj"], "blk.{bid}.ffn_down_exps")
        .need(MIXES),
    TensorRule::stack(&["backbone.layers.{bid}.mixer.experts.{xid}.up_proj"], "blk.{bid}.ffn_up_exps")
        .need(MIXES),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.shared_experts.up_proj"], "blk.{bid}.ffn_up_shexp")
        .need(MIXES),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.shared_experts.down_proj"], "blk.{bid}.ffn_down_shexp")
        .need(MIXES),
    // z = W_1 x with (latent, hidden) before the experts, W_2 z with (hidden, latent) after them.
    TensorRule::copy(&["backbone.layers.{bid}.mixer.fc1_latent_proj"], "blk.{bid}.ffn_latent_down")
        .need(COMPRESSES),
    TensorRule::copy(&["backbone.layers.{bid}.mixer.fc2_latent_proj"], "blk.{bid}.ffn_latent_up")
        .need(COMPRESSES),
];

/// Tensors of the MTP module, in addition to attention and a mixture.
const PREDICTION: &[TensorRule] = &[
    // The reference looks for tensors that stay in f32 by the layer of the checkpoint, and does not find this one.
    TensorRule::copy(&["backbone.layers.{bid}.predicted_gate"], "blk.{bid}.ffn_gate_inp")
        .float(FloatType::OfFile)
        .need(IS_PREDICTION),
    TensorRule::copy(&["backbone.layers.{bid}.enorm"], "blk.{bid}.nextn.enorm").need(IS_PREDICTION),
    TensorRule::copy(&["backbone.layers.{bid}.hnorm"], "blk.{bid}.nextn.hnorm").need(IS_PREDICTION),
    TensorRule::copy(&["backbone.layers.{bid}.eh_proj"], "blk.{bid}.nextn.eh_proj").need(IS_PREDICTION),
    TensorRule::copy(&["backbone.layers.{bid}.post_attention_layernorm"], "blk.{bid}.post_attention_norm")
        .need(IS_PREDICTION),
    TensorRule::copy(&["backbone.layers.{bid}.shared_head.norm"], "blk.{bid}.nextn.shared_head_norm")
        .need(IS_PREDICTION),
];

/// Tensors of the two layers of the prediction that have other names in the file's one.
const SPECIAL: &[(&str, &str)] = &[
    ("0.enorm", "enorm"),
    ("0.hnorm", "hnorm"),
    ("0.eh_proj", "eh_proj"),
    ("1.mixer.gate", "predicted_gate"),
    // Both layers of the checkpoint have a `norm`; in the file's layer the second one follows attention.
    ("1.norm", "post_attention_layernorm"),
    ("1.final_layernorm", "shared_head.norm"),
];

const STATES: Need = Need::If(|hparams, bid| kind(hparams, bid) == Kind::State);
const ATTENDS: Need =
    Need::If(|hparams, bid| matches!(kind(hparams, bid), Kind::Attention | Kind::Prediction));
const FORWARDS: Need = Need::If(|hparams, bid| kind(hparams, bid) == Kind::Forward);
const MIXES: Need = Need::If(|hparams, bid| matches!(kind(hparams, bid), Kind::Mixture | Kind::Prediction));
const COMPRESSES: Need = Need::If(|hparams, bid| {
    let compresses = hparams.get_u64("moe_latent_size").ok().flatten().is_some_and(|size| size > 0);
    compresses && matches!(kind(hparams, bid), Kind::Mixture | Kind::Prediction)
});
const IS_PREDICTION: Need = Need::If(|hparams, bid| kind(hparams, bid) == Kind::Prediction);

/// The number of layers that predict more than the next token, if the checkpoint has them.
const PREDICTED: &str = "num_nextn_predict_layers";

/// Config keys of experts that every text model has keys for.
const OF_EXPERTS: &[&str] =
    &["n_routed_experts", "num_local_experts", "num_experts", "num_experts_per_tok", "n_group", "topk_group"];

/// Kind of a layer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    State,
    Attention,
    Forward,
    Mixture,
    /// Attention and a mixture.
    Prediction,
    Unknown,
}

impl Kind {
    /// Kind for a letter in a pattern, or for a name in a list of older files or of transformers 5.
    fn named(name: &str) -> Kind {
        match name {
            "M" | "mamba" | "linear_attention" => Kind::State,
            "*" | "attention" | "full_attention" => Kind::Attention,
            "-" | "mlp" => Kind::Forward,
            "E" | "moe" => Kind::Mixture,
            _ => Kind::Unknown,
        }
    }
}

/// Location of the kinds of layers in a config.
enum Listed<'a> {
    Blocks(&'a [Json]),
    Letters(&'a str),
    Names(&'a [Json]),
}

impl<'a> Listed<'a> {
    fn of(get: impl Fn(&str) -> Option<&'a Json>) -> Listed<'a> {
        let list = |key: &str| get(key).and_then(Json::as_array).map(Vec::as_slice);
        match (list("block_configs"), get("hybrid_override_pattern")) {
            (Some(blocks), _) => Listed::Blocks(blocks),
            (None, Some(Json::String(letters))) => Listed::Letters(letters),
            _ => Listed::Names(list("layers_block_type").or_else(|| list("layer_types")).unwrap_or_default()),
        }
    }

    fn len(&self) -> usize {
        match self {
            Listed::Blocks(list) | Listed::Names(list) => list.len(),
            Listed::Letters(letters) => letters.len(),
        }
    }

    fn kind(&self, bid: usize) -> Option<Kind> {
        let name = match self {
            Listed::Blocks(list) => list.get(bid)?.get("block_type")?.as_str()?,
            Listed::Names(list) => list.get(bid)?.as_str()?,
            Listed::Letters(letters) => letters.get(bid..bid.checked_add(1)?)?,
        };
        Some(Kind::named(name))
    }
}

fn kind(hparams: &Hparams, bid: u64) -> Kind {
    let listed = Listed::of(|key| hparams.get(key));
    // The MTP module is not in the list: it is the one layer after it.
    let after = hparams.get(PREDICTED).is_some() && bid == listed.len() as u64;
    let kind = usize::try_from(bid).ok().and_then(|bid| listed.kind(bid));
    kind.unwrap_or(if after { Kind::Prediction } else { Kind::Unknown })
}

/// True if any layer is a mixture.
fn is_mixture(config: &Json) -> bool {
    let listed = Listed::of(|key| text_key(config, key));
    match listed.len() {
        // Without a list nothing says what layers are; a number of experts used must do.
        0 => text_key(config, "num_experts_per_tok").is_some(),
        n => (0..n).any(|bid| listed.kind(bid) == Some(Kind::Mixture)),
    }
}

/// The number of layers is that of the list of their kinds; a prediction that the checkpoint has counts as one more.
fn count_layers(hparams: Hparams, tensors: &[SourceTensor]) -> Result<Hparams, ArchError> {
    let n_layers = Listed::of(|key| hparams.get(key)).len();
    if n_layers == 0 {
        return Err(missing("layers_block_type"));
    }
    let predicted = hparams.get_u64(PREDICTED)?.unwrap_or(0);
    let has_mtp = tensors.iter().any(|tensor| tensor.name.starts_with("mtp.layers."));
    // In an exported file the names are those of the table.
    let last = format!("backbone.layers.{n_layers}.");
    let has_mtp = has_mtp || tensors.iter().any(|tensor| tensor.name.starts_with(&last));
    if predicted == 0 || !has_mtp {
        let hparams = glm4moe::without_predicted(hparams, PREDICTED, predicted);
        return Ok(hparams.with("num_hidden_layers", n_layers.into()));
    }
    if predicted != 1 {
        return Err(bad(PREDICTED, &predicted.into(), "1: more layers of prediction are not known"));
    }
    Ok(hparams.with("num_hidden_layers", (n_layers + 1).into()))
}

/// The name in the table if a release says `model.` for `backbone.`.
fn backbone(name: &str) -> Option<String> {
    name.strip_prefix("model.").map(|rest| format!("backbone.{rest}"))
}

/// The name in the table of a tensor of the prediction.
fn predicted(hparams: &Hparams, name: &str) -> Option<String> {
    let rest = name.strip_prefix("mtp.layers.")?;
    let last = hparams.n_layers().ok()?.checked_sub(1)?;
    let special =
        SPECIAL.iter().find(|(from_checkpoint, _)| rest.strip_suffix(".weight") == Some(from_checkpoint));
    match special {
        Some((_, of_file)) => Some(format!("backbone.layers.{last}.{of_file}.weight")),
        None => {
            let suffix = rest.strip_prefix("0.").or_else(|| rest.strip_prefix("1."))?;
            Some(format!("backbone.layers.{last}.{suffix}"))
        }
    }
}

/// True if an MTP tensor belongs to the module's first layer.
fn is_attention_part(suffix: &str) -> bool {
    let prefixes = ["norm.", "mixer.q_proj.", "mixer.k_proj.", "mixer.v_proj.", "mixer.o_proj."];
    prefixes.iter().any(|start| suffix.starts_with(start))
}

/// Keys that all variants have: those of Granite 4, whose list of kinds has other names.
fn hybrid_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    granitemoe::keys(&hparams.without("attention_head_dim"), keys)?;
    // inner = heads * length of a head; Granite 4 finds it as `mamba_expand` * `hidden_size` instead.
    let inner = hparams
        .need_u64(&["num_heads", "mamba_num_heads"])?
        .saturating_mul(hparams.need_u64(&["mamba_head_dim"])?);
    let n_layers = hparams.n_layers()?.min(10_000);
    // Granite 4's keys ask only which layers attend; to them a prediction is such a layer.
    let attends = |bid| matches!(kind(hparams, bid), Kind::Attention | Kind::Prediction);
    let kinds: Json = (0..n_layers).map(|bid| if attends(bid) { "attention" } else { "" }).collect();
    granitehybrid::state_keys(&hparams.with("layer_types", kinds), keys, inner)?;
    granitehybrid::without_rotation(keys)?;
    let head_dim = match hparams.get_u64("head_dim")? {
        Some(head_dim) => head_dim,
        None => hparams.need_u64(&["attention_head_dim"])?,
    };
    keys.derived_from("attention.key_length", &["head_dim"]);
    keys.set_derived("attention.key_length", "head_dim", head_dim)?;
    keys.set_derived("attention.value_length", "head_dim", head_dim)
}

/// A length for each layer: that of its kind, or 0.
fn lengths(
    hparams: &Hparams,
    keys: &mut Keys,
    key: &str,
    of: Kind,
    length: impl Fn(u64) -> Result<u64, ArchError>,
) -> Result<(), ArchError> {
    let has = |bid| {
        let kind = kind(hparams, bid);
        kind == of || of == Kind::Mixture && kind == Kind::Prediction
    };
    let n_layers = hparams.n_layers()?.min(10_000);
    let lengths = (0..n_layers).map(|bid| to_i32(key, &if has(bid) { length(bid)? } else { 0 }.into()));
    let lengths = lengths.collect::<Result<_, _>>()?;
    keys.set_prefixed(key, Value::Array(Array::I32(lengths)));
    Ok(())
}

fn expert_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    let shared = "expert_shared_feed_forward_length";
    keys.needed(shared, hparams, &["moe_shared_expert_intermediate_size"])?;
    keys.needed("expert_count", hparams, &["n_routed_experts"])?;
    keys.needed("expert_shared_count", hparams, &["n_shared_experts"])?;
    keys.flag("expert_weights_norm", hparams, "norm_topk_prob");
    keys.needed_number("expert_weights_scale", hparams, &["routed_scaling_factor"])?;
    keys.needed("expert_group_count", hparams, &["n_group"])
}

fn puzzle_keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    hybrid_keys(hparams, keys)?;
    let layer_value = |name: &'static str| {
        move |bid: u64| {
            // Each block states its own sizes; one without experts states no size, which is 0.
            let blocks = hparams.get("block_configs").and_then(Json::as_array);
            let block = blocks.zip(usize::try_from(bid).ok()).and_then(|(blocks, bid)| blocks.get(bid));
            Ok(block.and_then(|block| block.get(name)).and_then(Json::as_u64).unwrap_or(0))
        }
    };
    lengths(hparams, keys, "feed_forward_length", Kind::Mixture, layer_value("moe_intermediate_size"))?;
    lengths(
        hparams,
        keys,
        "expert_feed_forward_length",
        Kind::Mixture,
        layer_value("moe_intermediate_size"),
    )?;
    lengths(hparams, keys, "expert_used_count", Kind::Mixture, layer_value("num_experts_per_tok"))?;
    expert_keys(hparams, keys)?;
    keys.needed("moe_latent_size", hparams, &["moe_latent_size"])
}

/// A block for each layer of a puzzle, and the sizes of its state spaces.
fn puzzle_from_file(file: &FileKeys<'_>, config: &mut Map<String, Json>) {
    let lengths = file.counts("feed_forward_length").unwrap_or_default();
    let used = file.counts("expert_used_count").unwrap_or_default();
    let block = |layer: usize| {
        if file.layer_has(layer, "attn_q.weight") {
            return json!({"block_type": "attention"});
        }
        match (lengths.get(layer), used.get(layer)) {
            (Some(length), Some(used)) if *length > 0 => {
                json!({"block_type": "moe", "moe_intermediate_size": length, "num_experts_per_tok": used})
            }
            _ => json!({"block_type": "mamba"}),
        }
    };
    config.insert("block_configs".into(), (0..file.n_layers()).map(block).collect());
    let inner = file.count("ssm.inner_size").zip(file.count("ssm.time_step_rank"));
    set(config, "mamba_head_dim", inner.and_then(|(inner, heads)| inner.checked_div(heads)));
    let heads = file.counts("attention.head_count_kv").and_then(|heads| heads.into_iter().max());
    set(config, "num_key_value_heads", heads);
    for (name, key) in [
        ("mamba_num_heads", "ssm.time_step_rank"),
        ("n_groups", "ssm.group_count"),
        ("ssm_state_size", "ssm.state_size"),
        ("conv_kernel", "ssm.conv_kernel"),
        ("n_routed_experts", "expert_count"),
        ("n_shared_experts", "expert_shared_count"),
        ("moe_shared_expert_intermediate_size", "expert_shared_feed_forward_length"),
        ("n_group", "expert_group_count"),
        ("topk_group", "expert_group_used_count"),
        ("moe_latent_size", "moe_latent_size"),
    ] {
        set(config, name, file.count(key));
    }
    for key in ["intermediate_size", "moe_intermediate_size", "num_experts_per_tok", "num_local_experts"] {
        config.remove(key);
    }
}
