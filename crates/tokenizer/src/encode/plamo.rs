//! PLaMo 2 and 3: the segmentation of a text into tokens with the highest sum of scores, searched from the
//! end of the text. Characters without a token become bytes.
//!
//! Scores are integers, in ten thousandths. Of segmentations with equal sums, the one with the longest first
//! token wins. PLaMo 3 first divides a text into segments: tags, runs of one character, what is between them.
//!
//! Source: `llm_tokenizer_plamo2` in `src/llama-vocab.cpp` of llama.cpp build 11549. It walks a table of the suffixes of all tokens; here a trie finds these tokens.

use std::collections::BTreeSet;

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

/// Begins a tag, which ends with `|>`.
const TAG: &str = "<|plamo:";
/// Characters between the two.
const MAX_TAG_CHARS: usize = 64;
/// Separates segments and is left out.
const BOUNDARY: char = '\u{ee00}';

pub(super) struct Plamo {
    tokens: Trie,
    bytes: [u32; 256],
    /// True if texts are divided into segments.
    has_segments: bool,
}

impl Plamo {
    pub(super) fn new(vocab: &Vocab, has_segments: bool) -> Result<Self, Error> {
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
        Ok(Plamo { tokens, bytes, has_segments })
    }

    /// Appends the ids of a text. Without segments, a leading byte order mark is dropped.
    pub(super) fn encode(&self, vocab: &Vocab, text: &[u8], output: &mut Vec<u32>) {
        let text = replaced(text);
        if self.has_segments {
            segments(&text).for_each(|segment| self.encode_segment(vocab, segment, output));
        } else {
            self.encode_segment(vocab, text.strip_prefix('\u{feff}').unwrap_or(&text), output);
        }
    }

    fn encode_segment(&self, vocab: &Vocab, text: &str, output: &mut Vec<u32>) {
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

/// Segments of a text, without empty ones.
fn segments(text: &str) -> impl Iterator<Item = &str> {
    let mut cuts: BTreeSet<usize> = [0, text.len()].into();
    // A tag is one segment.
    let mut from = 0;
    while let Some(at) = text[from..].find(TAG).map(|at| from + at) {
        let body = at + TAG.len();
        let ends = |c: char| c == '|' || c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c);
        let chars = text[body..].chars().take(MAX_TAG_CHARS).take_while(|c| !ends(*c));
        let end = body + chars.map(char::len_utf8).sum::<usize>();
        from = if text[end..].starts_with("|>") {
            cuts.extend([at, end + 2]);
            end + 2
        } else {
            at + 1
        };
    }
    // So is a run of at least four equal characters or two spaces. It does not cross the cuts so far.
    let tags: Vec<usize> = cuts.iter().copied().collect();
    for part in tags.windows(2) {
        let mut at = part[0];
        while let Some(c) = text[at..part[1]].chars().next() {
            let n = text[at..part[1]].chars().take_while(|other| *other == c).count();
            let end = at + n * c.len_utf8();
            if c != '\n' && n >= 4 || c == ' ' && n >= 2 {
                cuts.extend([at, end]);
            }
            at = end;
        }
    }
    let cuts: Vec<usize> = cuts.into_iter().collect();
    let pieces: Vec<&str> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
    pieces.into_iter().flat_map(|piece| piece.split(BOUNDARY)).filter(|piece| !piece.is_empty())
}
