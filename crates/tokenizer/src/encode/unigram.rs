//! SentencePiece's unigram model: the segmentation of a text into tokens with the highest sum of scores.
//!
//! Source: `llm_tokenizer_ugm` and its session in `src/llama-vocab.cpp` of llama.cpp, as vendored
//! in llama-cpp-python 0.3.36.

use super::{
    error::Error,
    text::announced_len,
    trie::Trie,
    vocab::{Vocab, attr},
};

/// Additional cost of an unknown character over the least likely token.
const UNKNOWN_PENALTY: f32 = 10.0;

pub(super) struct Unigram {
    tokens: Trie,
    user_defined: Trie,
    charsmap: Charsmap,
    unknown_score: f32,
}

impl Unigram {
    pub(super) fn new(vocab: &Vocab) -> Result<Self, Error> {
        let (mut tokens, mut user_defined) = (Trie::new(), Trie::new());
        let mut min_score = f32::MAX;
        // Control and byte tokens are not matched in text; unused ones are, like in the reference.
        for (id, token) in vocab.tokens.iter().enumerate() {
            if token.attr & attr::NORMAL != 0 {
                min_score = min_score.min(token.score);
            }
            if token.attr & (attr::NORMAL | attr::USER_DEFINED | attr::UNUSED) != 0 {
                tokens.insert(&token.text, id as u32);
            }
            if token.attr & attr::USER_DEFINED != 0 {
                user_defined.insert(&token.text, id as u32);
            }
        }
        let charsmap = Charsmap::new(&vocab.charsmap)?;
        Ok(Unigram { tokens, user_defined, charsmap, unknown_score: min_score - UNKNOWN_PENALTY })
    }

    /// Appends the ids of a text.
    pub(super) fn encode(&self, vocab: &Vocab, text: &[u8], output: &mut Vec<u32>) -> Result<(), Error> {
        let text = self.normalized(vocab, text)?;
        if text.is_empty() {
            return Ok(());
        }
        let unknown = vocab.unknown.ok_or(Error::NoByteToken { byte: text[0] })?;
        // For each end: the last token of the best segmentation up to it, the token's start, and the sum of
        // scores.
        let mut best = vec![(unknown, 0, f64::MIN); text.len() + 1];
        // Viterbi's algorithm over the bytes, from left to right: best(end) = max over tokens t that end
        // there of best(end - len t) + score(t) A score is the logarithm of a token's probability, so the sum
        // is that of the segmentation.
        best[0].2 = 0.0;
        let mut start = 0;
        while start < text.len() {
            let char_len = announced_len(text[start]).min(text.len() - start);
            let here = best[start].2;
            let mut is_known = false;
            // Scores are added in f64 like in the reference: in f32, sums over a long text could tie.
            for (len, id) in self.tokens.prefixes(&text[start..]) {
                is_known |= len == char_len;
                let token = &vocab.tokens[id as usize];
                let user_defined = token.attr & attr::USER_DEFINED != 0;
                // User-defined tokens are free, so a segmentation with one beats any other.
                let score = here + if user_defined { 0.0 } else { f64::from(token.score) };
                if score > best[start + len].2 {
                    best[start + len] = (id, start, score);
                }
            }
            // Only if no token is exactly this character: otherwise the unknown token is never needed.
            if !is_known {
                let score = here + f64::from(self.unknown_score);
                if score > best[start + char_len].2 {
                    best[start + char_len] = (unknown, start, score);
                }
            }
            start += char_len;
        }
        let from = output.len();
        // Back along the choices from the end of the text, then reversed.
        let mut end = text.len();
        let mut was_unknown = false;
        loop {
            let (id, start, _) = best[end];
            // Consecutive unknown characters are one token.
            if !(was_unknown && id == unknown) {
                output.push(id);
            }
            was_unknown = id == unknown;
            if start == 0 {
                break;
            }
            end = start;
        }
        output[from..].reverse();
        Ok(())
    }

    /// Replaces characters by the map, and treats spaces as the keys require.
    fn normalized(&self, vocab: &Vocab, text: &[u8]) -> Result<Vec<u8>, Error> {
        let space: &[u8] = if vocab.escape_whitespaces { "\u{2581}".as_bytes() } else { b" " };
        let mut output = Vec::with_capacity(text.len() * 3);
        let (mut has_prefix, mut in_word) = (false, false);
        let mut at = 0;
        while at < text.len() {
            let (replacement, len) = self.replace(&text[at..])?;
            for &byte in replacement {
                // A word starts at the first byte after a space. It gets one leading space: always if runs of
                // spaces are collapsed, otherwise only at the very beginning, if the keys require one.
                if byte != b' ' {
                    if !in_word {
                        in_word = true;
                        if (vocab.add_space_prefix && !has_prefix) || vocab.remove_extra_whitespaces {
                            output.extend_from_slice(space);
                            has_prefix = true;
                        }
                    }
                    output.push(byte);
                } else {
                    in_word = false;
                    if !vocab.remove_extra_whitespaces {
                        output.extend_from_slice(space);
                    }
                }
            }
            at += len;
        }
        Ok(output)
    }

    /// Replacement of a prefix of the text, and the length of the prefix.
    fn replace<'t>(&'t self, text: &'t [u8]) -> Result<(&'t [u8], usize), Error> {
        // User-defined tokens are not normalized. Like the reference, this tests the depth reached in the
        // trie instead of complete tokens.
        let own = self.user_defined.reach(text);
        if own > 0 {
            return Ok((&text[..own], own));
        }
        if let Some((replacement, len)) = self.charsmap.longest(text)? {
            return Ok((replacement, len));
        }
        let len = announced_len(text[0]);
        match text.get(..len) {
            Some(c) if std::str::from_utf8(c).is_ok() => Ok((c, len)),
            // Not UTF-8: a replacement character for one byte.
            _ => Ok(("\u{fffd}".as_bytes(), 1)),
        }
    }
}

/// SentencePiece's compiled character map: a double array over the replaced texts, and the replacements, each
/// terminated by a zero.
struct Charsmap {
    /// Bits 10-30 base, bit 9 its scale, bit 8 set if the node has a value, bits 0-7 the label.
    nodes: Vec<u32>,
    replacements: Vec<u8>,
}

const OUT_OF_RANGE: Error = Error::BadCharsmap { problem: "it points beyond its end" };

impl Charsmap {
    fn new(bytes: &[u8]) -> Result<Self, Error> {
        if bytes.is_empty() {
            return Ok(Charsmap { nodes: Vec::new(), replacements: Vec::new() });
        }
        let (len, rest) = bytes.split_first_chunk::<4>().ok_or(OUT_OF_RANGE)?;
        let len = u32::from_le_bytes(*len) as usize;
        let (nodes, replacements) = rest.split_at_checked(len).ok_or(OUT_OF_RANGE)?;
        if replacements.is_empty() {
            return Err(OUT_OF_RANGE);
        }
        let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let nodes = nodes.chunks_exact(4).map(word).collect();
        Ok(Charsmap { nodes, replacements: replacements.to_vec() })
    }

    /// Replacement for the longest matching prefix of the text, and its length.
    fn longest(&self, text: &[u8]) -> Result<Option<(&[u8], usize)>, Error> {
        if self.nodes.is_empty() {
            return Ok(None);
        }
        let node = |index: u32| self.nodes.get(index as usize).copied().ok_or(OUT_OF_RANGE);
        // The offset is 22 bits wide and is shifted by 8 more if bit 9 is set (Darts-clone's
        // `unit.offset()`).
        let base = |node: u32| (node >> 10) << ((node & (1 << 9)) >> 6);
        let mut index = base(node(0)?);
        let mut found = None;
        for (at, &byte) in text.iter().enumerate() {
            if byte == 0 {
                break;
            }
            // In a double array, the child of node n for byte b is at `base(n) xor b` and has b as its label
            // if it exists. Bit 31 marks a value, which is not a child.
            index ^= u32::from(byte);
            let here = node(index)?;
            if here & (1 << 31 | 0xff) != u32::from(byte) {
                break;
            }
            index ^= base(here);
            // The node has a replacement: its value node is the child for byte 0. The last match found is the
            // longest.
            if here >> 8 & 1 == 1 {
                found = Some((node(index)? & !(1 << 31), at + 1));
            }
        }
        let Some((offset, len)) = found else { return Ok(None) };
        let replacement = self.replacements.get(offset as usize..).ok_or(OUT_OF_RANGE)?;
        let end = replacement.iter().position(|byte| *byte == 0).ok_or(OUT_OF_RANGE)?;
        Ok(Some((&replacement[..end], len)))
    }
}
