//! Audio encoder of GLM-ASR: Whisper's, with rotated heads instead of learned positions, and two matrices.
//!
//! ```text
//! y = W_2 gelu(W_1 [n(x)]_4 + b_1) + b_2     [..]_4: four rows as one
//! ```
//!
//! The first half of a head's elements rotates, in pairs of neighbors. The checkpoint also has learned positions: mtmd adds them and
//! does not rotate; transformers ignores them, and the embeddings `v.boi` and `v.eoi`.
//!
//! Source: `GlmAsrModel` and `GlmAsrProcessor` of transformers 5.23. In transformers' checkpoints, rows of queries and keys are
//! permuted: pairs consist of an element of the first and one of the second quarter of a head.

use gguf_runtime::graphs::{
    Error, Keys, Linear, Rope, RopeKind, Weights,
    audio::{Division, Encoder, EncoderKind, Listening, stacked},
};

use crate::families::whisper::audio::{Adapter, Silence, Whisper, stack_factor, two_matrices};

pub const ENCODERS: &[EncoderKind] = &[EncoderKind { name: "glma", open }];

/// Base of the rotation, which no key states.
const BASE: f32 = 10000.0;

/// Frames of 30 seconds.
const N_FRAMES: usize = 3000;

/// Rotation of the first half of a head.
fn rope(head_width: usize) -> Rope {
    let n_rot = head_width / 2;
    let frequency = |i: usize| libm::powf(BASE, -2.0 * i as f32 / n_rot as f32);
    let frequencies = (0..n_rot / 2).map(frequency).collect();
    Rope { kind: RopeKind::Normal, frequencies, magnitude: 1.0, axes: Vec::new() }
}

fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let encoder = Encoder::open(keys, weights, Some(rope))?;
    if !encoder.layers.head_width.is_multiple_of(4) {
        return Err(keys.wrong("audio.attention.head_count", "heads of a multiple of 4 elements"));
    }
    let factor = stack_factor(keys)?;
    // Whisper's final norm, which the released checkpoint does not have.
    let own = match weights.shape("a.post_ln.weight") {
        Some(_) => Some(encoder.layers.norm(weights, "a.post_ln", encoder.layers.n_embd)?),
        None => None,
    };
    let norm = encoder.layers.norm(weights, "mm.a.norm_pre", encoder.layers.n_embd)?;
    let n_inner = weights.shape("mm.a.mlp.1.weight").map_or(0, |shape| shape.dim(1) as usize);
    let first = Linear::need(weights, "mm.a.mlp.1", encoder.layers.n_embd * factor, n_inner)?;
    let matrices = [first, Linear::need(weights, "mm.a.mlp.2", n_inner, n_out)?];
    for unused in ["v.boi", "v.eoi"] {
        weights.ignore(unused);
    }
    let adapter: Adapter = Box::new(move |mut x, pass| {
        if let Some(own) = &own {
            own.apply(&mut x);
        }
        norm.apply(&mut x);
        two_matrices(&stacked(&x, factor), &matrices, pass)
    });
    let (division, silence) = (Division::Apart, Silence::Cut(factor));
    let whisper = Whisper { encoder, n_frames: N_FRAMES, division, silence, adapter };
    // The processor accepts 655 seconds, which contain 21 complete windows of 30 seconds.
    Ok(whisper.listening(Some(21), ("<|begin_of_audio|>", "<|end_of_audio|>")))
}
