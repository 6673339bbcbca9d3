//! Tower of images of Gemma 4.
//!
//! Config keys: those of every tower.
//!
//! Transforms: the matrix of patches, whose columns are (height, width, channel), becomes a kernel of (channel, height,
//! width). Bounds of clipped matrices are vectors of one number.
//!
//! Source: `Gemma4VisionAudioModel` in `conversion/gemma.py`.

use super::prelude::*;

/// The row.
pub const GEMMA4: Projector = Projector {
    name: "gemma4",
    classes: &["Gemma4ForConditionalGeneration"],
    example: "google/gemma-4-31B-it",
    vision: Some(Tower { classes: &[CONFIG], ..VISION }),
    tensors: &[EMBEDDINGS, NORMS, MATRICES, PROJECTION],
    owns: |_, name| {
        let name = name.strip_prefix("model.").unwrap_or(name);
        ["vision_tower.", "embed_vision.", "audio_tower.", "embed_audio."]
            .iter()
            .any(|start| name.starts_with(start))
    },
    rename,
    prepare,
    keys,
    ..BASE
};

/// A matrix, and the bounds of what goes in and comes out where it is clipped.
macro_rules! matrices {
    ($(($hf:literal, $gguf:literal)),* $(,)?) => {
        &[$(
            TensorRule::copy(&[concat!("layers.{bid}.", $hf)], concat!("v.blk.{bid}.", $gguf)),
            bound(&[concat!("layers.{bid}.", $hf, ".input_max")], concat!("v.blk.{bid}.", $gguf), ".input_max"),
            bound(&[concat!("layers.{bid}.", $hf, ".input_min")], concat!("v.blk.{bid}.", $gguf), ".input_min"),
            bound(&[concat!("layers.{bid}.", $hf, ".output_max")], concat!("v.blk.{bid}.", $gguf), ".output_max"),
            bound(&[concat!("layers.{bid}.", $hf, ".output_min")], concat!("v.blk.{bid}.", $gguf), ".output_min"),
        )*]
    };
}

const MATRICES: &[TensorRule] = matrices![
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_out"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

const fn bound(hf: &'static [&'static str], gguf: &'static str, ending: &'static str) -> TensorRule {
    TensorRule::copy(hf, gguf).bare(ending).shape(SCALAR).need(Need::Optional)
}

/// A number without dimensions as a vector.
const SCALAR: Reshape = Reshape { forward: |_, _| Ok(vec![1]), inverse: |_| Vec::new() };

const EMBEDDINGS: &[TensorRule] = &[
    TensorRule::part(&["vision_tower.patch_embedder.input_proj.weight"], "v.patch_embd", |_, shape| {
        Ok(parts::channels_first(patch_of(shape.dim(0))))
    })
    .bare(".weight")
    .shape(Reshape {
        forward: |_, dims| parts::kernel(dims, patch_of(dims.first().copied().unwrap_or(0))),
        inverse: parts::unkernel,
    }),
    TensorRule::copy(&["vision_tower.patch_embedder.position_embedding_table"], "v.position_embd")
        .bare(".weight")
        .float(FloatType::F32),
    TensorRule::copy(&["vision_tower.std_bias"], "v.std_bias").bare("").need(Need::Optional),
    TensorRule::copy(&["vision_tower.std_scale"], "v.std_scale").bare("").need(Need::Optional),
];

/// Height and width of a patch of so many numbers of three channels.
fn patch_of(row_elems: u64) -> u64 {
    (row_elems / 3).isqrt()
}

const NORMS: &[TensorRule] = &[
    TensorRule::copy(&["layers.{bid}.input_layernorm"], "v.blk.{bid}.ln1"),
    TensorRule::copy(&["layers.{bid}.post_attention_layernorm"], "v.blk.{bid}.attn_post_norm"),
    TensorRule::copy(&["layers.{bid}.pre_feedforward_layernorm"], "v.blk.{bid}.ln2"),
    TensorRule::copy(&["layers.{bid}.post_feedforward_layernorm"], "v.blk.{bid}.ffn_post_norm"),
    TensorRule::copy(&["layers.{bid}.self_attn.q_norm"], "v.blk.{bid}.attn_q_norm"),
    TensorRule::copy(&["layers.{bid}.self_attn.k_norm"], "v.blk.{bid}.attn_k_norm"),
    TensorRule::copy(&["layers.{bid}.layer_scalar"], "v.blk.{bid}.out_scale")
        .bare(".weight")
        .need(Need::Optional),
];

const PROJECTION: &[TensorRule] =
    &[TensorRule::copy(&["embed_vision.embedding_projection"], "mm.input_projection")];

fn rename(_: &Hparams, name: &str) -> Option<String> {
    let name = name.strip_prefix("model.").unwrap_or(name);
    let name = name.strip_prefix("vision_tower.encoder.").unwrap_or(name);
    Some(name.replace(".linear.weight", ".weight"))
}

fn prepare(towers: &mut Towers) -> Result<(), ArchError> {
    if let Some(audio) = towers.whole.get("audio_config") {
        return Err(bad("audio_config", audio, "null: Gemma 4's tower of sound is not supported yet"));
    }
    // Images may have any size; the reference writes this one.
    towers.vision_mut()?.set("image_size", 224.into());
    Ok(())
}

fn keys(towers: &Towers, keys: &mut Keys) -> Result<(), ArchError> {
    tower_keys(towers, keys)?;
    keys.set_prefixed("vision.projector_type", "gemma4v".into());
    parts::epsilon(keys, "layer_norm_eps", towers.vision()?, 1e-6)
}

/// `Gemma4VisionConfig` of transformers 5.23.
const CONFIG: ConfigClass = ConfigClass {
    model_type: "gemma4_vision",
    fields: &[&[
        ("hidden_size", INT, Int(768)),
        ("intermediate_size", INT, Int(3072)),
        ("num_hidden_layers", INT, Int(16)),
        ("num_attention_heads", INT, Int(12)),
        ("num_key_value_heads", INT, Int(12)),
        ("head_dim", INT, Int(64)),
        ("rms_norm_eps", FLOAT, Float(1e-6)),
        ("patch_size", INT, Int(16)),
        ("use_clipped_linears", BOOL, Bool(false)),
    ]],
    has_rope: false,
    ..CLASS
};
