//! SentencePiece's byte pair encoding: merges the adjacent pair whose result is the token with the highest
//! score, until no pair gives a token.
//!
//! Source: `llm_tokenizer_spm_session` in `src/llama-vocab.cpp` of llama.cpp, as vendored in
//! llama-cpp-python 0.3.36. Its table that leads from merged texts to their parts is never used, because only pairs
//! that give a token are merged.

use std::{cmp::Ordering, collections::BinaryHeap};

use super::{
    Reading,
    error::Error,
    text::announced_len,
    vocab::{Vocab, attr},
};

/// Marks the end of the list: no neighbour.
const NONE: u32 = u32::MAX;

struct Piece {
    start: u32,
    /// 0 if it was merged into the previous piece.
    len: u32,
    before: u32,
    next: u32,
}

/// An adjacent pair that together is a token.
struct Pair {
    score: f32,
    left: u32,
    right: u32,
    len: u32,
}

impl Ord for Pair {
    /// The greatest is merged first: the highest score, then the leftmost.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_score = self.score.partial_cmp(&other.score).unwrap_or(Ordering::Equal);
        by_score.then_with(|| other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pair {}

/// Appends the ids of a text whose spaces are escaped. A model never makes control tokens by merging (ChatGLM
/// 3 has `eop`, a part of `people`); llama.cpp only compares texts.
pub(super) fn encode(
    vocab: &Vocab,
    reading: Reading,
    text: &[u8],
    output: &mut Vec<u32>,
) -> Result<(), Error> {
    let id_of = |text: &[u8]| {
        let is_text =
            |id: &u32| reading == Reading::LlamaCpp || vocab.tokens[*id as usize].attr & attr::CONTROL == 0;
        vocab.id(text).filter(is_text)
    };
    // Initially every character is a piece. A lead byte of a truncated character takes the rest of the text.
    let mut pieces = Vec::with_capacity(text.len());
    let mut start = 0;
    while start < text.len() {
        let len = announced_len(text[start]).min(text.len() - start);
        let before = (pieces.len() as u32).wrapping_sub(1);
        let next = if start + len == text.len() { NONE } else { pieces.len() as u32 + 1 };
        pieces.push(Piece { start: start as u32, len: len as u32, before, next });
        start += len;
    }
    let mut queue = BinaryHeap::with_capacity(pieces.len());
    // A pair counts if both texts together are a token; the parts themselves need not be tokens.
    let push = |queue: &mut BinaryHeap<Pair>, pieces: &[Piece], left: u32, right: u32| {
        if left == NONE || right == NONE {
            return;
        }
        let start = pieces[left as usize].start as usize;
        let len = pieces[left as usize].len + pieces[right as usize].len;
        if let Some(id) = id_of(&text[start..start + len as usize]) {
            queue.push(Pair { score: vocab.tokens[id as usize].score, left, right, len });
        }
    };
    for right in 1..pieces.len() as u32 {
        push(&mut queue, &pieces, right - 1, right);
    }
    while let Some(pair) = queue.pop() {
        let (left, right) = (pair.left as usize, pair.right as usize);
        let (left_len, right_len) = (pieces[left].len, pieces[right].len);
        // Stale: one part was merged into another piece (length 0) or has grown, so the lengths differ from
        // those of the scored pair. Pieces never shrink, so equal sums mean equal texts.
        if left_len == 0 || right_len == 0 || left_len + right_len != pair.len {
            continue;
        }
        // The pieces are slices of one text, so that a merge only lengthens the left one.
        pieces[left].len = pair.len;
        pieces[right].len = 0;
        let after = pieces[right].next;
        pieces[left].next = after;
        if after != NONE {
            pieces[after as usize].before = pair.left;
        }
        // New pairs on both sides, with the score of their results.
        push(&mut queue, &pieces, pieces[left].before, pair.left);
        push(&mut queue, &pieces, pair.left, after);
    }
    for piece in pieces.iter().filter(|piece| piece.len > 0) {
        let text = &text[piece.start as usize..(piece.start + piece.len) as usize];
        match id_of(text) {
            Some(id) => output.push(id),
            None => {
                // A piece that was never merged and is not a token, such as a rare character: its bytes one
                // by one.
                for byte in text {
                    let id = vocab.byte_id(*byte).or(vocab.unknown);
                    output.push(id.ok_or(Error::NoByteToken { byte: *byte })?);
                }
            }
        }
    }
    Ok(())
}
