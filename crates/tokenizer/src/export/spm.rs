//! A SentencePiece vocabulary as tokenizer.json and as tokenizer.model.
//!
//! tokenizer.json has no scores. Merges in the order of their results' scores replace them, like in
//! transformers' own conversion (`generate_merges` in `convert_slow_tokenizer.py`, transformers 5.23).
//! tokenizer.model is a message of `sentencepiece_model.proto` (sentencepiece 0.2), from which the converter
//! reads scores and kinds.
//!
//! A normalizer, not a pre-tokenizer, prepends the space, so that it also appears after special tokens, like
//! in llama.cpp.

use serde_json::{Map, Value as Json, json};

use super::tokens::Tokens;
use crate::huggingface::Normalization;
use crate::token_type::TokenType;

const SPACE: &str = "\u{2581}";

/// tokenizer.json, with merges by the scores of their results.
pub(super) fn tokenizer_json(tokens: &Tokens, scores: &[f32]) -> Json {
    with_merges(tokens, merges(tokens, scores))
}

/// tokenizer.json, with the file's merges.
pub(super) fn with_merges(tokens: &Tokens, merges: Vec<Json>) -> Json {
    let vocab: Map<String, Json> =
        tokens.texts.iter().enumerate().map(|(id, text)| (text.clone(), id.into())).collect();
    let prefix = tokens.space_prefix.unwrap_or(true);
    let replace =
        |from: &str, to: &str| json!({"type": "Replace", "pattern": {"String": from}, "content": to});
    let mut normalizers = vec![replace(" ", SPACE)];
    let mut decoders = vec![replace(SPACE, " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
    if prefix {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": SPACE}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": tokens.added(),
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "post_processor": tokens.template(),
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": unknown(tokens).map(|id| tokens.texts[id].clone()),
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": true,
            "byte_fallback": true,
            "ignore_merges": false,
            "vocab": vocab,
            "merges": merges,
        },
    })
}

/// The unknown token: by type, or else by name.
fn unknown(tokens: &Tokens) -> Option<usize> {
    tokens.kinds.iter().position(|kind| *kind == TokenType::Unknown).or(tokens.unknown)
}

/// Every way to make a token from two others, by precedence.
fn merges(tokens: &Tokens, scores: &[f32]) -> Vec<Json> {
    // Every split of a token's text into two tokens is a merge.
    let mut merges = Vec::new();
    for (id, text) in tokens.texts.iter().enumerate() {
        if tokens.ids.get(text) != Some(&id) {
            continue;
        }
        let mut own: Vec<(usize, usize)> = text
            .char_indices()
            .skip(1)
            .filter_map(|(at, _)| Some((*tokens.ids.get(&text[..at])?, *tokens.ids.get(&text[at..])?)))
            .collect();
        own.sort_unstable();
        merges.extend(own.into_iter().map(|(left, right)| (id, left, right)));
    }
    let n_chars: Vec<usize> = tokens.texts.iter().map(|text| text.chars().count()).collect();
    let mut normal =
        (0..scores.len()).filter(|id| tokens.kinds[*id] == TokenType::Normal).map(|id| scores[id]);
    let first = normal.next();
    if normal.all(|score| Some(score) == first) {
        // Without tokenizer.model the reference's converter gives all tokens an equal score. Then the order
        // follows the ids, because training numbers tokens in that order; but runs of spaces, which llama and
        // mistral have among the first ids, have the worst scores.
        let is_space: Vec<bool> =
            tokens.texts.iter().map(|text| text.trim_matches('\u{2581}').is_empty()).collect();
        merges.sort_by_key(|(id, left, right)| (is_space[*id], *id, n_chars[*left], n_chars[*right]));
    } else {
        // Descending, and stable.
        merges.sort_by(|a, b| {
            let by_score = scores[b.0].total_cmp(&scores[a.0]);
            by_score.then(n_chars[b.1].cmp(&n_chars[a.1])).then(n_chars[b.2].cmp(&n_chars[a.2]))
        });
    }
    merges.into_iter().map(|(_, left, right)| json!([tokens.texts[left], tokens.texts[right]])).collect()
}

/// tokenizer.model.
///
/// # Errors
/// The reason that SentencePiece would not load such a model.
pub(super) fn model(
    tokens: &Tokens,
    scores: &[f32],
    unigram: Option<&Normalization>,
) -> Result<Vec<u8>, String> {
    let unknown = unknown(tokens).ok_or("missing unknown token")?;
    if let Some(id) = tokens.texts.iter().position(String::is_empty) {
        return Err(format!("token {id} is empty"));
    }
    if let Some(id) = (0..tokens.texts.len()).find(|id| tokens.ids.get(&tokens.texts[*id]) != Some(id)) {
        return Err(format!("duplicate text of token {id}"));
    }
    if tokens.kinds.iter().filter(|kind| **kind == TokenType::Unknown).count() > 1 {
        return Err("several unknown tokens".to_owned());
    }
    let has_bytes = (0..=u8::MAX).all(|byte| {
        tokens.ids.get(&format!("<0x{byte:02X}>")).is_some_and(|id| tokens.kinds[*id] == TokenType::Byte)
    });
    if !has_bytes && tokens.kinds.contains(&TokenType::Byte) {
        return Err("some bytes have a token and others have none".to_owned());
    }
    // `ModelProto`: 1 a piece (repeated) of 1 text, 2 score, 3 type; 2 the trainer's settings, 3 the normalizer's.
    let mut message = Message::default();
    // A unigram model has no fillers: a conversion inserts them again after its pieces.
    let is_left_out = |id: usize| unigram.is_some() && tokens.is_filler(id);
    for (id, text) in tokens.texts.iter().enumerate().filter(|(id, _)| !is_left_out(*id)) {
        let kind = if id == unknown { TokenType::Unknown } else { tokens.kinds[id] };
        let mut piece = Message::default();
        piece.bytes(1, text.as_bytes());
        piece.float(2, scores[id]);
        piece.number(3, i64::from(kind.id()));
        message.bytes(1, &piece.0);
    }
    message.bytes(2, &trainer(tokens, unknown, has_bytes, unigram.is_some()).0);
    // `NormalizerSpec`: 1 name, 2 precompiled_charsmap, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
    // 5 escape_whitespaces.
    let mut normalizer = Message::default();
    let charsmap = unigram.map_or(&[][..], |normalization| &normalization.charsmap);
    normalizer.bytes(1, if charsmap.is_empty() { b"identity" } else { b"nmt_nfkc" });
    normalizer.bytes(2, charsmap);
    normalizer.number(3, i64::from(tokens.space_prefix.unwrap_or(true)));
    normalizer
        .number(4, i64::from(unigram.is_some_and(|normalization| normalization.remove_extra_whitespaces)));
    normalizer.number(5, 1);
    message.bytes(3, &normalizer.0);
    Ok(message.0)
}

/// `TrainerSpec`: the algorithm, and special ids; -1 for missing ones.
fn trainer(tokens: &Tokens, unknown: usize, has_bytes: bool, unigram: bool) -> Message {
    const UNIGRAM: i64 = 1;
    const BPE: i64 = 2;
    // 3 model_type, 4 vocab_size, 35 byte_fallback, 40 to 43 the ids of unk, bos, eos, pad, 45 to 47 their texts.
    let mut trainer = Message::default();
    trainer.number(3, if unigram { UNIGRAM } else { BPE });
    trainer.number(4, tokens.texts.len() as i64);
    trainer.number(35, i64::from(has_bytes));
    let piece =
        |id: Option<usize>| (id.map_or(-1, |id| id as i64), id.map_or("", |id| tokens.texts[id].as_str()));
    let controls =
        |text: &str| tokens.ids.get(text).copied().filter(|id| tokens.kinds[*id] == TokenType::Control);
    let (bos, eos) = (piece(controls("<s>")), piece(controls("</s>")));
    let unknown = piece(Some(unknown));
    for (field, value) in [(40, unknown.0), (41, bos.0), (42, eos.0), (43, -1)] {
        trainer.number(field, value);
    }
    for (field, text) in [(45, unknown.1), (46, bos.1), (47, eos.1)] {
        if !text.is_empty() {
            trainer.bytes(field, text.as_bytes());
        }
    }
    trainer
}

/// A SentencePiece model must have an unknown piece. If the file's token has the type control, the list of
/// added tokens restores it.
pub(super) fn keep_unknown_type(tokens: &Tokens, config: &mut Map<String, Json>) {
    let Some(id) = unknown(tokens).filter(|id| tokens.kinds[*id] == TokenType::Control) else { return };
    let token = json!({
        "content": tokens.texts[id],
        "lstrip": false,
        "normalized": false,
        "rstrip": false,
        "single_word": false,
        "special": true,
    });
    config.insert("added_tokens_decoder".to_owned(), json!({ id.to_string(): token }));
}

/// A protobuf message being written. A field is a varint of `number << 3 | wire type`, then its value: wire
/// type 0 a varint, 5 four bytes, 2 a length and that number of bytes (text, or a nested message).
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Seven bits per byte, lowest first; the highest bit is set if more follow.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(&mut self, field: u64, value: i64) {
        self.varint(field << 3);
        self.varint(value as u64);
    }

    fn float(&mut self, field: u64, value: f32) {
        self.varint(field << 3 | 5);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}
