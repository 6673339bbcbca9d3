//! Llama 1 to 3, Mistral 7B, Mixtral, and everything else with their class names.
//!
//! Config keys: those of every text model ([`crate::text_keys`]), `vocab_size`, `head_dim`.
//! `sliding_window` is not written: llama.cpp's llama has none, and the reference leaves it out.
//!
//! Transforms: rows of Q and K (weights and biases) are permuted, because Hugging Face stores
//! the two halves of each rotated pair apart and ggml wants them side by side. Experts become
//! one tensor. Rotary scaling of type `llama3` becomes the computed tensor `rope_freqs`.
//!
//! Source: `LlamaModel` in `conversion/llama.py` of llama.cpp, as vendored in
//! llama-cpp-python 0.3.36.

use gguf::Value;

use crate::ArchError;
use crate::config::Hparams;
use crate::keys::{Keys, to_u32};
use crate::registry::{Arch, Class, Computed};
use crate::tensors::rules;
use crate::text_keys::text_keys;
use crate::vocab::Route;

/// The row.
pub const LLAMA: Arch = Arch {
    name: "llama",
    classes: &[
        Class::new("LlamaForCausalLM"),
        Class::new("MistralForCausalLM"),
        Class::new("MixtralForCausalLM"),
        Class::new("LLaMAForCausalLM"),
        Class { name: "LlamaModel", prefix: "model." },
    ],
    example: "unsloth/Llama-3.2-1B-Instruct",
    needs: &["hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "vocab_size"],
    tensors: &[
        rules::DECODER_ENDS,
        rules::PRE_NORMS,
        rules::ATTENTION_PERMUTED,
        rules::GATED_MLP,
        rules::MIXTRAL_EXPERTS,
    ],
    embedding: "token_embd.weight",
    keys,
    computed,
    vocab: Route::Llama,
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    hparams.need_u64(&["vocab_size"])?;
    keys.count("vocab_size", hparams, &["vocab_size"])?;
    let dim = rotary_dim(hparams)?;
    keys.own("rope.dimension_count", Value::U32(to_u32("head_dim", &dim.into())?));
    Ok(())
}

/// Dimensions that are rotated: `head_dim`, or a head's share of `hidden_size`.
fn rotary_dim(hparams: &Hparams) -> Result<u64, ArchError> {
    if let Some(dim) = hparams.get_u64("head_dim")? {
        return Ok(dim);
    }
    let (hidden, heads) = (hparams.need_u64(&["hidden_size"])?, hparams.need_u64(&["num_attention_heads"])?);
    hidden
        .checked_div(heads)
        .ok_or_else(|| crate::config::bad("num_attention_heads", &0.into(), "a count above 0"))
}

/// Dimensions of a head beyond which a config is broken; known models have 256 at most.
const MAX_ROTARY_DIM: u64 = 1 << 16;

fn computed(hparams: &Hparams) -> Result<Vec<Computed>, ArchError> {
    let rope = hparams.rope();
    if !rope.kind().is_some_and(|kind| kind.eq_ignore_ascii_case("llama3")) {
        return Ok(Vec::new());
    }
    let scaling = Llama3 {
        theta: rope.f64_or("rope_theta", 10_000.0)?,
        factor: rope.f64_or("factor", 8.0)?,
        low_freq_factor: rope.f64_or("low_freq_factor", 1.0)?,
        high_freq_factor: rope.f64_or("high_freq_factor", 4.0)?,
        old_length: rope.f64_or("original_max_position_embeddings", 8192.0)?,
    };
    let dim = rotary_dim(hparams)?;
    if dim > MAX_ROTARY_DIM {
        return Err(crate::config::bad("head_dim", &dim.into(), "at most 65536"));
    }
    Ok(vec![("rope_freqs.weight", scaling.factors(dim))])
}

/// Rotary scaling of Llama 3.1: low frequencies are slowed down by `factor`, high ones are left
/// alone, and those between are blended.
struct Llama3 {
    theta: f64,
    factor: f64,
    low_freq_factor: f64,
    high_freq_factor: f64,
    old_length: f64,
}

impl Llama3 {
    /// One divisor for each rotated pair, shape `[dim / 2]`.
    ///
    /// The arithmetic follows torch: a number with a tensor of single precision is rounded to
    /// single precision first, and number / tensor is the tensor's reciprocal times the number.
    /// The power is the one step that torch leaves to a vector library, which is off by one
    /// unit in the last place for 1 input in 220; we round it correctly. On the scalings of
    /// published models (dim 64, 80, 128; theta 500000; length 8192) no divisor differs.
    ///
    /// Source: `LlamaModel.generate_extra_tensors` in `conversion/llama.py`.
    fn factors(&self, dim: u64) -> Vec<f32> {
        let theta = self.theta as f32;
        let (low, factor, length) = (self.low_freq_factor as f32, self.factor as f32, self.old_length as f32);
        let longest = (self.old_length / self.low_freq_factor) as f32;
        let shortest = (self.old_length / self.high_freq_factor) as f32;
        let span = (self.high_freq_factor - self.low_freq_factor) as f32;
        (0..dim)
            .step_by(2)
            .map(|at| {
                let exponent = at as f32 / dim as f32;
                let power = f64::from(theta).powf(exponent.into()) as f32;
                let frequency = 1.0 / power;
                let wavelength = (1.0 / frequency) * std::f64::consts::TAU as f32;
                if wavelength < shortest {
                    1.0
                } else if wavelength > longest {
                    factor
                } else {
                    let smooth = ((1.0 / wavelength) * length - low) / span;
                    1.0 / ((1.0 - smooth) / factor + smooth)
                }
            })
            .collect()
    }
}
