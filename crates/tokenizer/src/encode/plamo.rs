//! PLaMo 2 and 3: the segmentation of a text into tokens with the highest sum of scores, searched from the
//! end of the text. Characters without a token become bytes.
//!
//! Scores are integers, in ten thousandths. Of segmentations with equal sums, the one with the longest first
//! token wins.
//!
//! Source: `llm_tokenizer_plamo2` in `src/llama-vocab.cpp` of llama.cpp, as vendored in llama-cpp-python
//! 0.3.36. It walks a table of the suffixes of all tokens; here a trie finds these tokens.

use super::{
    error::Error,
    text::replaced,
    trie::Trie,
    vocab::{Vocab, attr},
};

/// The cost of a character without a token.
const UNKNOWN_COST: i64 = 10_000_000;
/// Tokens that cost this much or more are never used.
const NO_TOKEN_COST: i64 = 20_000_000;

pub(super) struct Plamo {
    tokens: Trie,
    bytes: [u32; 256],
}

impl Plamo {
    pub(super) fn new(vocab: &Vocab) -> Result<Self, Error> {
        // Byte tokens encode characters without a token and are never matched as text.
        let mut tokens = Trie::new();
        for (id, token) in vocab.tokens.iter().enumerate() {
            if token.attr & attr::BYTE == 0 {
                tokens.insert(&token.text, id as u32);
            }
        }
        let mut bytes = [0; 256];
        for (byte, id) in (0..=u8::MAX).zip(&mut bytes) {
            let own = vocab.id(format!("<0x{byte:02X}>").as_bytes());
            let is_byte = |id: &u32| vocab.tokens[*id as usize].attr & attr::BYTE != 0;
            *id = own.filter(is_byte).ok_or(Error::NoByteToken { byte })?;
        }
        Ok(Plamo { tokens, bytes })
    }

    /// Appends the ids of a text. A leading byte order mark is dropped.
    pub(super) fn encode(&self, vocab: &Vocab, text: &[u8], output: &mut Vec<u32>) {
        let text = replaced(text);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        // At each position: the cost from there to the end, and the first token.
        let mut best = vec![(i64::MAX, 0, None); text.len() + 1];
        best[text.len()].0 = 0;
        let mut prefixes = Vec::new();
        // Dynamic programming from the end:
        //   cost(at) = min over tokens that begin at `at` of cost(token) + cost(at + len)
        // with the cost of a token -10000 times its score, and UNKNOWN_COST for a character without one.
        for (at, c) in text.char_indices().rev() {
            prefixes.clear();
            prefixes.extend(self.tokens.prefixes(&text.as_bytes()[at..]));
            // Tokens do not end inside a character.
            prefixes.retain(|(len, _)| text.is_char_boundary(at + len));
            let unknown = best[at + c.len_utf8()].0.saturating_add(UNKNOWN_COST);
            let mut here = (i64::MAX, c.len_utf8(), None);
            // From the longest to the shortest, replaced only by cheaper ones: of equal sums the longest
            // wins.
            for &(len, id) in prefixes.iter().rev() {
                // Rounded, so that equal sums compare equal.
                let cost = -(f64::from(vocab.tokens[id as usize].score) * 1e4).round() as i64;
                let all = best[at + len].0.saturating_add(cost);
                if cost < NO_TOKEN_COST && all < here.0 {
                    here = (all, len, Some(id));
                }
            }
            // Bytes are used only if they are cheaper than every token that begins here.
            best[at] = if unknown < here.0 { (unknown, c.len_utf8(), None) } else { here };
        }
        // Forward along the choices: the search ran backwards, so they need no reversal.
        let mut at = 0;
        while at < text.len() {
            let (_, len, id) = best[at];
            match id {
                Some(id) => output.push(id),
                None => {
                    output.extend(text.as_bytes()[at..at + len].iter().map(|byte| self.bytes[*byte as usize]))
                }
            }
            at += len;
        }
    }
}
