//! Audio encoder of MERaLiON 2: Whisper's, and a gated adapter.
//!
//! ```text
//! h = silu(W_0 [m(n(x))]_15 + b_0)                          [..]_15: 15 rows as one; n and m norms
//! y = W_3 (silu(W_1 h + b_1) * (W_2 h + b_2)) + b_3
//! ```
//!
//! Each window of 30 seconds has samples of mean 0 and variance 1, and 100 embeddings, silence included.
//!
//! Source: `processing_meralion2.py` of the checkpoints, and `vllm_plugin_meralion2` by the same authors. mtmd (llama-cpp-python
//! 0.3.36) does not change samples, and its second norm is over the 15 rows together.

use gguf_runtime::graphs::{
    Activation, Error, Keys, Linear, Weights,
    audio::{Division, EncoderKind, Listening, stacked},
};

use crate::families::whisper::audio::{Adapter, Silence, Whisper, encoder, stack_factor};

pub const ENCODERS: &[EncoderKind] = &[EncoderKind { name: "meralion", open }];

fn open(keys: &Keys<'_>, weights: &mut Weights<'_>, n_out: usize) -> Result<Listening, Error> {
    let (encoder, n_frames, norm) = encoder(keys, weights)?;
    let factor = stack_factor(keys)?;
    let n_stacked = encoder.layers.n_embd * factor;
    let second = encoder.layers.norm(weights, "mm.a.norm_pre", encoder.layers.n_embd)?;
    let n_inner = weights.shape("mm.a.mlp.0.weight").map_or(0, |shape| shape.dim(1) as usize);
    let compress = Linear::need(weights, "mm.a.mlp.0", n_stacked, n_inner)?;
    let gate = Linear::need(weights, "mm.a.mlp.1", n_inner, n_inner)?;
    let up = Linear::need(weights, "mm.a.mlp.2", n_inner, n_inner)?;
    let down = Linear::need(weights, "mm.a.mlp.3", n_inner, n_out)?;
    let adapter: Adapter = Box::new(move |mut x, pass| {
        norm.apply(&mut x);
        second.apply(&mut x);
        let mut h = compress.run(&stacked(&x, factor), pass);
        Activation::Silu.apply(&mut h);
        let [mut gate, up] = Linear::run_all([&gate, &up], &h, pass);
        Activation::Silu.apply_gated(&mut gate, &up);
        down.run(&gate, pass)
    });
    let (division, silence) = (Division::Standardized, Silence::Heard);
    let whisper = Whisper { encoder, n_frames, division, silence, adapter };
    // Five minutes.
    Ok(whisper.listening(Some(10), ("", "")))
}
