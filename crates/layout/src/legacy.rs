//! LLaMA models of llama.cpp from before GGUF (ggml, ggmf, ggjt): a header of seven numbers and a vocabulary
//! instead of a config and tokenizer files.
//!
//! Names are Meta's, and rows of queries and keys are already in GGUF's order, so nothing moves. Values that
//! the header lacks follow from shapes (feed-forward length, key heads) or must be given (epsilon, context
//! length, RoPE base), one by one or as the config of the model.
//!
//! Source: `convert_llama_ggml_to_gguf.py` (llama-cpp-python 0.3.36) for keys and vocabulary; its tensors
//! have wrong shapes.

use std::collections::HashMap;

use gguf_container::{Array, Metadata, Strings};

use crate::error::shape_of;
use crate::{ArchError, Data, Dropped, ElementMap, FloatType, Layout, OutTensor, RowMap, SourceTensor};
use gguf_tokenizer::keys as token_keys;

/// The epsilon that the reference takes where none is given: between that of LLaMA 1 (1e-6) and of LLaMA 2 (1e-5).
pub const DEFAULT_EPSILON: f32 = 5e-6;
/// The context length that the reference takes where none is given: that of LLaMA 1.
pub const DEFAULT_CONTEXT: u32 = 2048;

/// A model as such a file describes it.
#[derive(Debug, Clone)]
pub struct LegacyHeader<'a> {
    /// Container and version as the reference spells them: `GGJTv3`.
    pub container: String,
    /// The file's name.
    pub file_name: String,
    /// The file type, without a version.
    pub file_type: u32,
    /// Tokens that the header says.
    pub n_vocab: u32,
    /// Embedding length.
    pub n_embd: u32,
    /// Heads.
    pub n_head: u32,
    /// Layers.
    pub n_layer: u32,
    /// The text of each token.
    pub tokens: &'a Strings,
    /// The score of each token.
    pub scores: &'a [f32],
    /// Every tensor: name and shape, in the order of the file.
    pub tensors: Vec<SourceTensor>,
}

/// Values that such a file lacks.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LegacyOptions {
    /// `general.name`; the file's name without it.
    pub model_name: Option<String>,
    /// Epsilon of the norms.
    pub epsilon: Option<f32>,
    /// Context length.
    pub context_length: Option<u32>,
    /// Base of the rotary frequencies; without it no key says one, which means 10000.
    pub rope_base: Option<f32>,
}

/// Lays out a model. With the layout of its config (resolved without tensors), keys and vocabulary are those.
///
/// # Errors
/// [`ArchError::BadHeader`] where config and file are of different models; [`ArchError::TensorShape`],
/// [`ArchError::MissingTensors`], [`ArchError::UnusedTensors`].
pub fn resolve_legacy(
    header: &LegacyHeader<'_>,
    options: &LegacyOptions,
    config: Option<&Layout>,
) -> Result<Layout, ArchError> {
    let Tensors { tensors, dropped, n_ff, n_head_kv } = tensors(header)?;
    let mut notes = Vec::new();
    let metadata = match config {
        Some(config) => {
            check_config(header, &config.metadata, n_ff, n_head_kv)?;
            notes.extend(config.notes.iter().cloned());
            let mut metadata = config.metadata.clone();
            set_given(&mut metadata, options);
            metadata
        }
        None => keys(header, options, n_ff, n_head_kv, &mut notes)?,
    };
    Ok(Layout { architecture: "llama", metadata, tensors, dropped, notes, ..Layout::default() })
}

/// Options that win over a config.
fn set_given(metadata: &mut Metadata, options: &LegacyOptions) {
    if let Some(name) = &options.model_name {
        metadata.set("general.name", name.as_str());
    }
    if let Some(context) = options.context_length {
        metadata.set("llama.context_length", context);
    }
    if let Some(epsilon) = options.epsilon {
        metadata.set("llama.attention.layer_norm_rms_epsilon", epsilon);
    }
    if let Some(base) = options.rope_base {
        metadata.set("llama.rope.freq_base", base);
    }
}

/// Keys and vocabulary, in the order of the reference.
fn keys(
    header: &LegacyHeader<'_>,
    options: &LegacyOptions,
    n_ff: u64,
    n_head_kv: u64,
    notes: &mut Vec<String>,
) -> Result<Metadata, ArchError> {
    let name = options.model_name.as_deref().unwrap_or(&header.file_name);
    let LegacyHeader { container, n_embd, n_head, n_layer, .. } = header;
    let type_name = FILE_TYPES.get(header.file_type as usize).copied().unwrap_or("?");
    let number = |field: &'static str, value: u64| {
        u32::try_from(value).map_err(|_| bad(field, value, "less than 2^32".to_owned()))
    };
    let mut metadata = Metadata::new();
    metadata.set("general.architecture", "llama");
    metadata.set("general.name", name);
    metadata
        .set("general.description", format!("converted from legacy {container} {type_name} format").as_str());
    metadata.set("general.file_type", header.file_type);
    metadata.set("llama.context_length", options.context_length.unwrap_or(DEFAULT_CONTEXT));
    metadata.set("llama.embedding_length", *n_embd);
    metadata.set("llama.block_count", *n_layer);
    metadata.set("llama.feed_forward_length", number("feed-forward length", n_ff)?);
    metadata.set("llama.rope.dimension_count", n_embd / n_head);
    metadata.set("llama.attention.head_count", *n_head);
    metadata.set("llama.attention.head_count_kv", number("heads of keys", n_head_kv)?);
    metadata.set("llama.attention.layer_norm_rms_epsilon", options.epsilon.unwrap_or(DEFAULT_EPSILON));
    if let Some(base) = options.rope_base {
        metadata.set("llama.rope.freq_base", base);
    }
    let has_scores = header.scores.iter().any(|score| *score != 0.0);
    vocabulary(header, &mut metadata)?;
    let mut assumed = Vec::new();
    if options.epsilon.is_none() {
        assumed.push(format!("epsilon {DEFAULT_EPSILON:e} (LLaMA 1 has 1e-6, LLaMA 2 1e-5)"));
    }
    if options.context_length.is_none() {
        assumed.push(format!("context length {DEFAULT_CONTEXT} (LLaMA 2 has 4096)"));
    }
    if !assumed.is_empty() {
        notes.push(format!("the file does not specify all hyperparameters; using {}", assumed.join(", ")));
    }
    if !has_scores {
        notes.push(
            "the vocabulary has no scores, so text will be tokenized differently than in training".into(),
        );
    }
    Ok(metadata)
}

/// The vocabulary as a SentencePiece one; token types follow from the ids.
///
/// Source: `GGMLToGGUF.add_vocab`.
fn vocabulary(header: &LegacyHeader<'_>, metadata: &mut Metadata) -> Result<(), ArchError> {
    const NORMAL: i32 = 1;
    const UNKNOWN: i32 = 2;
    const CONTROL: i32 = 3;
    const BYTE: i32 = 6;
    let n_tokens = header.tokens.len();
    if n_tokens < 3 {
        return Err(bad("the number of tokens", n_tokens as u64, "at least 3".to_owned()));
    }
    let mut tokens = Strings::with_capacity(n_tokens);
    let mut kinds = Vec::with_capacity(n_tokens);
    for (id, text) in header.tokens.iter().enumerate() {
        let kind = match (id, text) {
            (0, _) => {
                tokens.push(b"<unk>");
                UNKNOWN
            }
            (1, _) => {
                tokens.push(b"<s>");
                CONTROL
            }
            (2, _) => {
                tokens.push(b"</s>");
                CONTROL
            }
            (_, []) => {
                tokens.push(b"");
                CONTROL
            }
            (3..=258, [byte]) => {
                tokens.push(format!("<0x{byte:02X}>").as_bytes());
                BYTE
            }
            _ => {
                // SentencePiece writes a space as U+2581.
                let parts: Vec<&[u8]> = text.split(|byte| *byte == b' ').collect();
                tokens.push(&parts.join("\u{2581}".as_bytes()));
                NORMAL
            }
        };
        kinds.push(kind);
    }
    metadata.set(token_keys::MODEL, "llama");
    metadata.set(token_keys::PRE, "default");
    metadata.set(token_keys::TOKENS, Array::String(tokens));
    metadata.set(token_keys::SCORES, Array::F32(header.scores.to_vec()));
    metadata.set(token_keys::TOKEN_TYPE, Array::I32(kinds));
    metadata.set(token_keys::UNK_ID, 0u32);
    metadata.set(token_keys::BOS_ID, 1u32);
    metadata.set(token_keys::EOS_ID, 2u32);
    Ok(())
}

/// Names of file types as the reference spells them, by number.
const FILE_TYPES: [&str; 19] = [
    "ALL_F32",
    "MOSTLY_F16",
    "MOSTLY_Q4_0",
    "MOSTLY_Q4_1",
    "MOSTLY_Q4_1_SOME_F16",
    "MOSTLY_Q4_2",
    "MOSTLY_Q4_3",
    "MOSTLY_Q8_0",
    "MOSTLY_Q5_0",
    "MOSTLY_Q5_1",
    "MOSTLY_Q2_K",
    "MOSTLY_Q3_K_S",
    "MOSTLY_Q3_K_M",
    "MOSTLY_Q3_K_L",
    "MOSTLY_Q4_K_S",
    "MOSTLY_Q4_K_M",
    "MOSTLY_Q5_K_S",
    "MOSTLY_Q5_K_M",
    "MOSTLY_Q6_K",
];

/// Checks that a config is that of the model in the file.
fn check_config(
    header: &LegacyHeader<'_>,
    config: &Metadata,
    n_ff: u64,
    n_head_kv: u64,
) -> Result<(), ArchError> {
    let n_tokens =
        config.get(token_keys::TOKENS).and_then(gguf_container::Value::as_array).map_or(0, Array::len) as u64;
    if n_tokens != u64::from(header.n_vocab) {
        return Err(bad(
            "the number of tokens",
            header.n_vocab.into(),
            format!("{n_tokens}, as in the config"),
        ));
    }
    let numbers = [
        ("llama.embedding_length", u64::from(header.n_embd)),
        ("llama.block_count", header.n_layer.into()),
        ("llama.attention.head_count", header.n_head.into()),
        ("llama.attention.head_count_kv", n_head_kv),
        ("llama.feed_forward_length", n_ff),
    ];
    for (key, found) in numbers {
        match config.get(key).and_then(gguf_container::Value::as_u64) {
            Some(expected) if expected != found => {
                return Err(bad(key, found, format!("{expected}, as in the config")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn bad(field: &'static str, found: u64, expected: String) -> ArchError {
    ArchError::BadHeader { field, found, expected }
}

struct Tensors {
    tensors: Vec<OutTensor>,
    dropped: Vec<Dropped>,
    n_ff: u64,
    n_head_kv: u64,
}

/// Maps tensors to their output names and checks every shape.
fn tensors(header: &LegacyHeader<'_>) -> Result<Tensors, ArchError> {
    let sources: HashMap<&str, &SourceTensor> =
        header.tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    let rows_of = |name: &str| sources.get(name).map_or(0, |tensor| tensor.shape.n_rows());
    let [n_embd, n_head, n_vocab] = [header.n_embd, header.n_head, header.n_vocab].map(u64::from);
    // A file of another program may say anything; no name is made for a layer that cannot be there.
    let n_layer = u64::from(header.n_layer).min(header.tensors.len() as u64 + 1);
    let n_ff = rows_of("layers.0.feed_forward.w1.weight");
    let n_kv = rows_of("layers.0.attention.wk.weight");
    let mut names = vec![
        ("tok_embeddings.weight".to_owned(), "token_embd.weight".to_owned(), vec![n_embd, n_vocab]),
        ("norm.weight".to_owned(), "output_norm.weight".to_owned(), vec![n_embd]),
        ("output.weight".to_owned(), "output.weight".to_owned(), vec![n_embd, n_vocab]),
    ];
    // (n_out, n_in) @ x: rows are outputs, and a shape begins with the row length.
    let layer_tensors = [
        ("attention.wq", "attn_q", vec![n_embd, n_embd]),
        ("attention.wk", "attn_k", vec![n_embd, n_kv]),
        ("attention.wv", "attn_v", vec![n_embd, n_kv]),
        ("attention.wo", "attn_output", vec![n_embd, n_embd]),
        ("attention_norm", "attn_norm", vec![n_embd]),
        ("feed_forward.w1", "ffn_gate", vec![n_embd, n_ff]),
        ("feed_forward.w2", "ffn_down", vec![n_ff, n_embd]),
        ("feed_forward.w3", "ffn_up", vec![n_embd, n_ff]),
        ("ffn_norm", "ffn_norm", vec![n_embd]),
    ];
    for layer in 0..n_layer {
        names.extend(layer_tensors.iter().map(|(meta, gguf, dims)| {
            (format!("layers.{layer}.{meta}.weight"), format!("blk.{layer}.{gguf}.weight"), dims.clone())
        }));
    }
    let missing: Vec<String> = names
        .iter()
        .filter(|(name, ..)| !sources.contains_key(name.as_str()))
        .map(|(name, ..)| name.clone())
        .collect();
    if !missing.is_empty() {
        return Err(ArchError::MissingTensors { names: missing });
    }
    // A head of keys has as many dimensions as one of queries, and serves an integer number of those.
    let head_dim = n_embd / n_head;
    let n_head_kv = n_kv / head_dim;
    if n_head_kv == 0 || !n_kv.is_multiple_of(head_dim) || !n_head.is_multiple_of(n_head_kv) {
        let expected = format!("{head_dim} times a divisor of {n_head}");
        return Err(bad("the number of rows of `layers.0.attention.wk.weight`", n_kv, expected));
    }
    let places: HashMap<&str, (&str, &[u64])> =
        names.iter().map(|(name, gguf, dims)| (name.as_str(), (gguf.as_str(), &dims[..]))).collect();
    let (mut tensors, mut dropped, mut unused) = (Vec::new(), Vec::new(), Vec::new());
    for source in &header.tensors {
        let Some((name, dims)) = places.get(source.name.as_str()) else {
            if source.name.ends_with("rope.freqs") {
                let reason = "rotary frequencies are computed";
                dropped.push(Dropped { name: source.name.clone(), reason });
            } else {
                unused.push(source.name.clone());
            }
            continue;
        };
        if source.shape.dims() != *dims {
            let (name, found) = (source.name.clone(), source.shape);
            return Err(ArchError::TensorShape { name, found, expected: format!("{dims:?}") });
        }
        tensors.push(out_tensor(name, source)?);
    }
    if !unused.is_empty() {
        return Err(ArchError::UnusedTensors { names: unused, dense: None });
    }
    Ok(Tensors { tensors, dropped, n_ff, n_head_kv })
}

fn out_tensor(name: &str, source: &SourceTensor) -> Result<OutTensor, ArchError> {
    let shape = shape_of(name, source.shape.dims())?;
    let (sources, rows, element) = (vec![source.name.clone()], RowMap::Concat, ElementMap::Identity);
    let data = Data::Rows { sources, rows, element };
    let float = if shape.n_dims() <= 1 { FloatType::F32 } else { FloatType::OfFile };
    Ok(OutTensor { name: name.to_owned(), shape, data, float, stored_dtype: None })
}
