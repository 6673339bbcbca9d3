//! InternLM 3, which is written as llama.
//!
//! Config keys: those of llama.
//!
//! Transforms: those of llama.
//!
//! Source: `InternLM3Model` in `conversion/internlm.py`.

use crate::families::llama::convert::llama;
use crate::prelude::*;

pub const INTERNLM3: Arch = Arch {
    name: "internlm3",
    written: Some("llama"),
    classes: &[Class::new("InternLM3ForCausalLM")],
    example: "internlm/internlm3-8b-instruct",
    configs: &[ConfigClass::new("internlm3")],
    // Rows i and i + d / 2 of each head of Q and K become 2 i and 2 i + 1, as llama.cpp rotates neighbours.
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION_PERMUTED, rules::GATED_MLP],
    keys: llama::keys,
    vocab: ROUTE,
    ..DECODER
};

/// tokenizer.model, with its own end of turn.
///
/// Source: `InternLM3Model.set_vocab` in `conversion/internlm.py`.
const ROUTE: Route = Route::new("internlm3", |writer| {
    writer.spm(SpmStyle::Plain)?;
    let config = writer.tokenizer_config()?;
    // The reference writes this key after the arrays and before the ids. A tokenizer.json by itself may
    // already have set it.
    let space = config.get("add_prefix_space").filter(|_| !writer.has(token_keys::ADD_SPACE_PREFIX));
    if let Some(value) = space {
        writer.set_after(token_keys::TOKEN_TYPE, token_keys::ADD_SPACE_PREFIX, is_truthy(value));
    }
    // A chat model's turn ends with a token that its config does not call eos.
    let turn_end = config.get("added_tokens_decoder").and_then(Json::as_object).and_then(|listed| {
        let special = |token: &Json| token.get("special").is_some_and(is_truthy);
        let is_im_end = |token: &Json| token.get("content").and_then(Json::as_str) == Some("<|im_end|>");
        listed.iter().find(|(_, token)| is_im_end(token) && special(token))?.0.parse::<u32>().ok()
    });
    if let (Some(id), true) = (turn_end, writer.has(token_keys::EOS_ID)) {
        writer.set(token_keys::EOS_ID, id);
    }
    Ok(())
});
