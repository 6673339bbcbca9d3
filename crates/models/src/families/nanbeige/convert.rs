//! Nanbeige 4.2: a llama whose layers run several times.
//!
//! Config keys: those of llama, how often the layers run, and whether the last norm is left out between.
//!
//! Transforms: those of llama.
//!
//! Source: `NanbeigeModel` in `conversion/nanbeige.py`.

use crate::families::llama::convert::llama;
use crate::families::llama::convert::vocab;
use crate::prelude::*;

pub const NANBEIGE: Arch = Arch {
    name: "nanbeige",
    classes: &[Class::new("NanbeigeForCausalLM")],
    example: "Nanbeige/Nanbeige4.2-3B",
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    keys: |hparams, keys| {
        llama::keys(hparams, keys)?;
        // Once is a plain llama.
        keys.set_derived("num_loops", "num_loops", hparams.get_u64("num_loops")?.unwrap_or(1).max(1))?;
        keys.flag("skip_loop_final_norm", hparams, "skip_loop_final_norm");
        Ok(())
    },
    computed: llama::computed,
    vocab: vocab::ROUTE,
    ..DECODER
};
