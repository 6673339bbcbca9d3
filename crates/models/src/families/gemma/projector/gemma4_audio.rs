//! Audio encoder of Gemma 4: the table of a conformer, used with [`crate::families::gemma::projector::gemma4`].

use gguf_layout::projector::prelude::*;
use gguf_layout::tensors::rules::SQUEEZE_CHANNEL;

/// Convolutions before the layers, and the tensors after them. Everything that the reference takes for a
/// convolution by its name stays F32.
pub const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["audio_tower.subsample_conv_projection.layer0.conv"], "a.conv1d.0")
        .float(FloatType::F32)
        .need(HAS),
    TensorRule::copy(&["audio_tower.subsample_conv_projection.layer0.norm"], "a.conv1d.0.norm").need(HAS),
    TensorRule::copy(&["audio_tower.subsample_conv_projection.layer1.conv"], "a.conv1d.1")
        .float(FloatType::F32)
        .need(HAS),
    TensorRule::copy(&["audio_tower.subsample_conv_projection.layer1.norm"], "a.conv1d.1.norm").need(HAS),
    // A linear layer by its name, whose start still makes it a convolution to the reference.
    TensorRule::copy(&["audio_tower.subsample_conv_projection.input_proj_linear"], "a.input_projection")
        .float(FloatType::F32)
        .need(HAS),
    TensorRule::copy(&["audio_tower.output_proj"], "a.pre_encode.out").need(HAS),
    TensorRule::copy(&["embed_audio.embedding_projection"], "mm.a.input_projection").need(HAS),
];

/// Norms, positions and other non-matrices.
pub const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["audio_tower.layers.{bid}.norm_pre_attn"], "a.blk.{bid}.attn_pre_norm"),
    TensorRule::copy(&["audio_tower.layers.{bid}.norm_post_attn"], "a.blk.{bid}.attn_post_norm"),
    TensorRule::copy(&["audio_tower.layers.{bid}.norm_out"], "a.blk.{bid}.ln2"),
    TensorRule::copy(&["audio_tower.layers.{bid}.self_attn.relative_k_proj"], "a.blk.{bid}.attn_k_rel"),
    TensorRule::copy(&["audio_tower.layers.{bid}.self_attn.per_dim_scale"], "a.blk.{bid}.per_dim_scale")
        .bare(".weight")
        // s = ln(1 + e^w).
        .element(ElementMap::Softplus),
    TensorRule::copy(&["audio_tower.layers.{bid}.feed_forward1.pre_layer_norm"], "a.blk.{bid}.ffn_norm"),
    TensorRule::copy(
        &["audio_tower.layers.{bid}.feed_forward1.post_layer_norm"],
        "a.blk.{bid}.ffn_post_norm",
    ),
    // A layer has two feed-forward parts; names of the second end in `_1`.
    TensorRule::copy(&["audio_tower.layers.{bid}.feed_forward2.pre_layer_norm"], "a.blk.{bid}.ffn_norm_1"),
    TensorRule::copy(
        &["audio_tower.layers.{bid}.feed_forward2.post_layer_norm"],
        "a.blk.{bid}.ffn_post_norm_1",
    ),
    TensorRule::copy(&["audio_tower.layers.{bid}.lconv1d.pre_layer_norm"], "a.blk.{bid}.conv_norm"),
    TensorRule::copy(&["audio_tower.layers.{bid}.lconv1d.conv_norm"], "a.blk.{bid}.norm_conv"),
    TensorRule::copy(&["audio_tower.layers.{bid}.lconv1d.depthwise_conv1d"], "a.blk.{bid}.conv_dw")
        .shape(SQUEEZE_CHANNEL)
        .float(FloatType::F32),
];

/// Matrices, and the bounds of those that are clipped.
pub const MATRICES: &[TensorRule] = clipped![
    ("audio_tower.layers.{bid}.self_attn.q_proj", "a.blk.{bid}.attn_q"),
    ("audio_tower.layers.{bid}.self_attn.k_proj", "a.blk.{bid}.attn_k"),
    ("audio_tower.layers.{bid}.self_attn.v_proj", "a.blk.{bid}.attn_v"),
    ("audio_tower.layers.{bid}.self_attn.post", "a.blk.{bid}.attn_out"),
    ("audio_tower.layers.{bid}.feed_forward1.ffw_layer_1", "a.blk.{bid}.ffn_up"),
    ("audio_tower.layers.{bid}.feed_forward1.ffw_layer_2", "a.blk.{bid}.ffn_down"),
    ("audio_tower.layers.{bid}.feed_forward2.ffw_layer_1", "a.blk.{bid}.ffn_up_1"),
    ("audio_tower.layers.{bid}.feed_forward2.ffw_layer_2", "a.blk.{bid}.ffn_down_1"),
    ("audio_tower.layers.{bid}.lconv1d.linear_start", "a.blk.{bid}.conv_pw1"),
    ("audio_tower.layers.{bid}.lconv1d.linear_end", "a.blk.{bid}.conv_pw2"),
];

/// Large models have no such tower.
const HAS: Need = Need::If(|hparams, _| hparams.is_true(HAS_AUDIO));

/// Key next to the tower's config that states whether there is an audio encoder.
pub const HAS_AUDIO: &str = "has_audio_tower";
