//! Jina embeddings 2, for English and German and for code: BERT without positions, with a gate.
//!
//! Config keys: those of BERT.
//!
//! Transforms: gate and up stay one matrix.
//!
//! Source: `JinaBertV2Model` in `conversion/bert.py`.

use crate::families::bert::convert::bert;
use crate::prelude::*;

/// The row. The config class is that of BERT, by its `model_type`.
pub const JINA_BERT_V2: Arch = Arch {
    name: "jina-bert-v2",
    classes: &[Class::new("JinaBertModel"), Class::new("JinaBertForMaskedLM")],
    example: "jinaai/jina-embeddings-v2-base-en",
    configs: &[],
    tensors: &[bert::EMBEDDINGS, ATTENTION, FEED_FORWARD, bert::CLASSIFIER],
    vocab: ROUTE,
    harmless: &["feed_forward_type=geglu", "position_embedding_type=alibi"],
    ..bert::BERT
};

/// WordPiece or byte-level BPE or words, as `tokenizer_class` says.
const ROUTE: Route = Route {
    class: |kind| (kind == "gpt2").then_some("RobertaTokenizer"),
    ..Route::new("jina_bert", |writer| match writer.tokenizer_class().as_str() {
        "BertTokenizer" => writer.wordpiece(),
        "RobertaTokenizer" => {
            let hf = writer.tokenizer_json()?;
            // A tokenizer of words, which the reference writes as a separate model
            // (`_set_vocab_whitespace`); its hash is that of another one, so the name is not looked up.
            let mut style = BpeStyle::GPT2;
            if hf.pre_tokenizer() == Some("Whitespace") {
                (style.model, style.pre) = ("whitespace", Some("whitespace"));
            }
            writer.gpt2_of(Some(hf), &style)?;
            writer.set(token_keys::TOKEN_TYPE_COUNT, 2u32);
            Ok(())
        }
        class => Err(VocabError::NotSupported {
            subject: format!("`tokenizer_config.json`: tokenizer class `{class}` for this architecture"),
        }),
    })
};

const ATTENTION: &[TensorRule] = &[
    TensorRule::copy(&["encoder.layer.{bid}.attention.self.query"], "blk.{bid}.attn_q"),
    TensorRule::copy(&["encoder.layer.{bid}.attention.self.key"], "blk.{bid}.attn_k"),
    TensorRule::copy(&["encoder.layer.{bid}.attention.self.value"], "blk.{bid}.attn_v"),
    TensorRule::copy(&["encoder.layer.{bid}.attention.self.layer_norm_q"], "blk.{bid}.attn_q_norm")
        .need(Need::Optional),
    TensorRule::copy(&["encoder.layer.{bid}.attention.self.layer_norm_k"], "blk.{bid}.attn_k_norm")
        .need(Need::Optional),
    TensorRule::copy(&["encoder.layer.{bid}.attention.output.dense"], "blk.{bid}.attn_output"),
    TensorRule::copy(&["encoder.layer.{bid}.attention.output.LayerNorm"], "blk.{bid}.attn_output_norm"),
    // Some releases normalize once more after attention.
    TensorRule::copy(&["encoder.layer.{bid}.layer_norm_1"], "blk.{bid}.attn_norm_2").need(Need::Optional),
];

const FEED_FORWARD: &[TensorRule] = &[
    TensorRule::copy(
        &[
            // Gate and up in one matrix, under two names, or apart (`_v` up, `_w` gate), by release.
            "encoder.layer.{bid}.mlp.gated_layers",
            "encoder.layer.{bid}.mlp.up_gated_layer",
            "encoder.layer.{bid}.mlp.gated_layers_v",
        ],
        "blk.{bid}.ffn_up",
    ),
    TensorRule::copy(&["encoder.layer.{bid}.mlp.gated_layers_w"], "blk.{bid}.ffn_gate").need(Need::Optional),
    TensorRule::copy(
        &["encoder.layer.{bid}.mlp.wo", "encoder.layer.{bid}.mlp.down_layer"],
        "blk.{bid}.ffn_down",
    ),
    TensorRule::copy(
        &["encoder.layer.{bid}.mlp.layernorm", "encoder.layer.{bid}.layer_norm_2"],
        "blk.{bid}.layer_output_norm",
    ),
];
