//! LLaDA, diffusion models: dense, and mixtures of experts.
//!
//! Config keys: for dense models those of every text model under OLMo's names, with some lengths under other
//! names; for both kinds, bidirectional attention and unshifted predictions.
//!
//! Transforms: for dense models those of llama. Experts become one tensor.
//!
//! Source: `LLaDAModel` and `LLaDAMoEModel` in `conversion/llada.py`.

use crate::prelude::*;

pub const LLADA: Arch = Arch {
    name: "llada",
    classes: &[Class::new("LLaDAModelLM")],
    example: "GSAI-ML/LLaDA-8B-Instruct",
    needs: &["d_model", "n_layers", "n_heads", "mlp_hidden_size", "vocab_size"],
    tensors: &[ENDS, LAYERS],
    keys,
    vocab: ROUTE,
    from_file: |file, config| set(config, "mask_token_id", file.token_id("mask")),
    harmless: &["activation_type=silu", "block_type=llama", "layer_norm_type=rms", "rope=true"],
    ..DECODER
};

/// Byte-level BPE with bos, added tokens as the file has them.
const ROUTE: Route = Route::new("llada", |writer| {
    writer.gpt2(&BpeStyle { plain_added: true, ..BpeStyle::GPT2 })?;
    writer.set(token_keys::ADD_BOS, true);
    Ok(())
});

pub const LLADA_MOE: Arch = Arch {
    name: "llada-moe",
    classes: &[Class::new("LLaDAMoEModelLM"), Class::new("LLaDAMoEModel")],
    example: "inclusionAI/LLaDA-MoE-7B-A1B-Instruct",
    needs: &["hidden_size", "num_hidden_layers", "num_attention_heads", "num_experts", "vocab_size"],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::QWEN_EXPERTS],
    keys: |hparams, keys| {
        text_keys(hparams, keys)?;
        keys.count("expert_feed_forward_length", hparams, &["expert_intermediate_size"])?;
        // The mask of the published vocabulary.
        keys.set(token_keys::MASK_ID, Value::U32(156_895));
        keys.set_prefixed("attention.causal", Value::Bool(false));
        keys.set("diffusion.shift_logits", Value::Bool(false));
        Ok(())
    },
    built_in: &[KEEPS_EXPERT_WEIGHTS],
    ..DECODER
};

const ENDS: &[TensorRule] = &[
    TensorRule::copy(&["model.transformer.wte"], "token_embd"),
    TensorRule::copy(&["model.transformer.ln_f"], "output_norm"),
    // Not to be taken for `blocks.N.ff_out`, which is a layer's way down.
    TensorRule::copy(&["model.transformer.ff_out"], "output").need(Need::Optional),
];

const LAYERS: &[TensorRule] = &[
    TensorRule::copy(&["model.transformer.blocks.{bid}.attn_norm"], "blk.{bid}.attn_norm"),
    // Rows of each head from (half, position) to (position, half), like in llama.
    TensorRule::part(&["model.transformer.blocks.{bid}.q_proj"], "blk.{bid}.attn_q", |hparams, _| {
        Ok(RowMap::RopePermute { n_head: heads(hparams)? })
    }),
    TensorRule::part(&["model.transformer.blocks.{bid}.k_proj"], "blk.{bid}.attn_k", |hparams, _| {
        let kv = hparams.find(&["num_key_value_heads", "n_kv_heads"]).and_then(|(_, heads)| heads.as_u64());
        // Without a number of key heads there are as many as query heads.
        Ok(RowMap::RopePermute { n_head: kv.map_or_else(|| heads(hparams), Ok)? })
    }),
    TensorRule::copy(&["model.transformer.blocks.{bid}.v_proj"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["model.transformer.blocks.{bid}.attn_out"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["model.transformer.blocks.{bid}.ff_norm"], "blk.{bid}.ffn_norm"),
    TensorRule::copy(&["model.transformer.blocks.{bid}.ff_proj"], "blk.{bid}.ffn_gate"),
    TensorRule::copy(&["model.transformer.blocks.{bid}.up_proj"], "blk.{bid}.ffn_up"),
    TensorRule::copy(&["model.transformer.blocks.{bid}.ff_out"], "blk.{bid}.ffn_down"),
];

fn heads(hparams: &Hparams) -> Result<u64, ArchError> {
    hparams.need_u64(&["num_attention_heads", "n_heads"])
}

fn keys(hparams: &Hparams, keys: &mut Keys) -> Result<(), ArchError> {
    text_keys(hparams, keys)?;
    pooling::keys(hparams, keys)?;
    keys.vocab_size(hparams)?;
    let rotated = match hparams.get_u64("head_dim")? {
        Some(rotated) => rotated,
        None => {
            let width = hparams.need_u64(&["hidden_size", "d_model"])?;
            // The entire head is rotated: d_model / n_heads.
            let share = width.checked_div(heads(hparams)?);
            share.ok_or_else(|| bad("n_heads", &0.into(), "an integer above 0"))?
        }
    };
    keys.set_derived("rope.dimension_count", "d_model", rotated)?;
    // The defaults of `set_gguf_parameters`.
    for (key, name, default) in [
        ("context_length", "max_sequence_length", 4096),
        ("embedding_length", "d_model", 4096),
        ("feed_forward_length", "mlp_hidden_size", 12288),
    ] {
        keys.set_derived(key, name, hparams.get_u64(name)?.unwrap_or(default))?;
    }
    keys.set_prefixed("attention.causal", Value::Bool(false));
    keys.set("diffusion.shift_logits", Value::Bool(false));
    Ok(())
}
