//! Qwen 3.
//!
//! Config keys: those of every text model; pooling, for embedding models. A sliding window is not written.
//!
//! Transforms: two rows of the output matrix of a reranker, which answers with two tokens, become its
//! classifier.
//!
//! Source: `Qwen3Model` in `conversion/qwen.py`.

use crate::families::qwen::convert::qwen2;
use crate::prelude::*;

pub const QWEN3: Arch = Arch {
    name: "qwen3",
    classes: &[
        Class::new("Qwen3ForCausalLM"),
        Class::inner("Qwen3Model", "model."),
        Class::wrapper("StepVLForConditionalGeneration"),
        Class::new("QianfanOCRForConditionalGeneration"),
    ],
    example: "Qwen/Qwen3-8B",
    configs: &[QWEN3_CONFIG],
    tensors: &[rules::DECODER_ENDS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    // `Qwen3Model` is a `Qwen2Model` in the reference; embedding models have pooling, others nothing
    // more.
    keys: qwen2::keys,
    // transformers 5.24 saves the layers of Qianfan-OCR like those of the tower.
    rename: |_, name| name.contains("model.encoder.").then(|| name.replace("model.encoder.", "model.")),
    vocab: Route::SENTENCE_PIECE_OR_GPT2,
    ..DECODER
};

pub const QWEN3_RERANKER: Arch = Arch {
    name: "qwen3-reranker",
    written: Some("qwen3"),
    classes: &[Class::new("Qwen3ForCausalLM")],
    fits: Some(is_reranker),
    example: "Qwen/Qwen3-Reranker-0.6B",
    configs: &[],
    tensors: &[ANSWERS, rules::PRE_NORMS, rules::ATTENTION, rules::QK_NORMS, rules::GATED_MLP],
    keys: |hparams, keys| {
        qwen2::keys(hparams, keys)?;
        answer_keys(keys);
        Ok(())
    },
    rename: tied,
    answers: Some(["yes", "no"]),
    export: Export::NotExportable("the output of a reranker has only two rows of the checkpoint's matrix"),
    ..QWEN3
};

/// Embedding, final norm, and the rows of the output that are the answers. The output may be the embedding.
pub const ANSWERS: &[TensorRule] = &[
    TensorRule::part(&["tied.embed_tokens"], "cls.output", answers),
    TensorRule::copy(&["tied.embed_tokens", "model.embed_tokens"], "token_embd"),
    TensorRule::copy(&["model.norm"], "output_norm"),
    TensorRule::part(&["lm_head"], "cls.output", answers),
    TensorRule::copy(&["tied.lm_head"], "output").need(Need::Optional),
];

fn answers(hparams: &Hparams, shape: &Shape) -> Result<RowMap, ArchError> {
    let rows = hparams.derived.answers.unwrap_or_default();
    Ok(RowMap::Pick { rows, of: shape.n_rows() })
}

/// Names of the embedding and the output of a model whose output is the embedding.
pub fn tied(hparams: &Hparams, name: &str) -> Option<String> {
    let is_one = ["model.embed_tokens.weight", "lm_head.weight"].contains(&name);
    let last = name.rsplit('.').nth(1).filter(|_| is_one && hparams.is_true("tie_word_embeddings"))?;
    Some(format!("tied.{last}.weight"))
}

/// Prompt template of a reranker, and the labels of its two answers.
pub fn answer_keys(keys: &mut Keys) {
    // `PoolingType.RANK` in `gguf-py/gguf/constants.py`.
    keys.set_prefixed("pooling_type", Value::U32(4));
    let labels = vec!["yes".to_owned(), "no".to_owned()];
    keys.set_prefixed("classifier.output_labels", Value::Array(Array::String(labels.into())));
    keys.set("tokenizer.chat_template.rerank", TEMPLATE.into());
    keys.set(token_keys::CHAT_TEMPLATES, Value::Array(Array::String(vec!["rerank".to_owned()].into())));
}

/// `Qwen3Model.set_gguf_parameters` in `conversion/qwen.py`.
const TEMPLATE: &str = "<|im_start|>system\nJudge whether the Document meets the requirements based on the \
    Query and the Instruct provided. Note that the answer can only be \"yes\" or \
    \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages \
    that answer the query\n<Query>: {query}\n<Document>: \
    {document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

/// A reranker has the class, config and tensors of a model that generates; its name, a title of its README or the head of
/// that says what it is.
///
/// Source: `Qwen3Model._is_qwen3_reranker` in `conversion/qwen.py`, which does not read the head.
pub fn is_reranker(input: &Input<'_>) -> bool {
    let text = |json: Option<&Json>, key: &str| {
        json.and_then(|json| json.get(key)).and_then(Json::as_str).unwrap_or_default().to_lowercase()
    };
    let names = [input.folder_name.to_lowercase(), text(Some(&input.config), "_name_or_path")];
    let named =
        names.iter().any(|name| name.contains("qwen3-reranker") || name.contains("qwen3-vl-reranker"));
    let readme = input.files.iter().find(|(name, _)| name == "README.md").map(|(_, bytes)| *bytes);
    let titled = readme.is_some_and(|readme| {
        let readme = String::from_utf8_lossy(readme).to_lowercase();
        ["# qwen3-reranker", "# qwen3-vl-reranker"].iter().any(|title| readme.contains(title))
    });
    named || titled || text(input.card.as_ref(), "pipeline_tag") == "text-ranking"
}

/// `Qwen3Config`.
const QWEN3_CONFIG: ConfigClass = ConfigClass::new("qwen3").adjusted(qwen2::QWEN2_CONFIG.adjust);
