//! CodeShell.
//!
//! Config keys: those of GPT-2, `num_query_groups` for key heads; rotary base and scaling are
//! written whatever the config says.
//!
//! Transforms: Q, K and V stay one matrix.
//!
//! Source: `CodeShellModel` in `conversion/codeshell.py`.

use crate::families::starcoder::convert::starcoder;
use crate::prelude::*;

pub const CODESHELL: Arch = Arch {
    name: "codeshell",
    classes: &[Class::new("CodeShellForCausalLM")],
    example: "WisdomShell/CodeShell-7B",
    needs: &["n_embd", "n_layer", "n_head", "num_query_groups", "vocab_size"],
    tensors: &[starcoder::ENDS, starcoder::LAYERS],
    keys,
    harmless: &["activation_function=gelu_pytorch_tanh", "position_embedding_type=rope"],
    ..DECODER
};

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    starcoder::gpt_keys(hparams, keys, hparams.need_u64(&["num_query_groups"])?)?;
    // Constants of `CodeShellModel`: the config says nothing of its rotation.
    keys.set_prefixed("rope.freq_base", Value::F32(10_000.0));
    keys.set_prefixed("rope.scaling.type", "linear".into());
    keys.set_prefixed("rope.scaling.factor", Value::F32(1.0));
    Ok(())
}
