//! Special tokens in a text, found before any other processing.
//!
//! Source: `tokenizer_st_partition` in `src/llama-vocab.cpp` of llama.cpp, as vendored in llama-cpp-python
//! 0.3.36: the longest special token is searched first, then the next in the remaining text.

use aho_corasick::{AhoCorasick, MatchKind};

use super::{
    Reading,
    vocab::{Vocab, attr},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    Text(&'t [u8]),
    Token(u32),
}

/// The special tokens of a vocabulary.
pub(super) struct Specials {
    /// Longest first.
    tokens: Vec<u32>,
    /// Finds all tokens in one pass, so that absent ones are skipped.
    search: Option<AhoCorasick>,
}

impl Specials {
    pub(super) fn new(vocab: &Vocab, reading: Reading) -> Self {
        let special = attr::CONTROL | attr::USER_DEFINED | attr::UNKNOWN;
        let mut tokens: Vec<u32> = (0..vocab.tokens.len() as u32)
            .filter(|id| vocab.tokens[*id as usize].attr & special != 0)
            .collect();
        // Longest first, so that no token is found inside a longer one. The sort is stable: of equal lengths
        // the lower id comes first, like in the reference.
        tokens.sort_by_key(|id| std::cmp::Reverse(vocab.tokens[*id as usize].text.len()));
        let texts = tokens.iter().map(|id| &vocab.tokens[*id as usize].text);
        let kind = match reading {
            Reading::LlamaCpp => MatchKind::Standard,
            Reading::Model => MatchKind::LeftmostLongest,
        };
        // Building the automaton fails only for a gigantic vocabulary; then all tokens are searched one by
        // one.
        let search = AhoCorasick::builder().match_kind(kind).build(texts).ok();
        Specials { tokens, search }
    }

    /// Splits a text into fragments. Control tokens are only searched if `parse_special` is set.
    pub(super) fn partition<'t>(
        &self,
        vocab: &Vocab,
        text: &'t [u8],
        parse_special: bool,
    ) -> Vec<Fragment<'t>> {
        let mut fragments = Vec::new();
        if !text.is_empty() {
            fragments.push(Fragment::Text(text));
        }
        let is_split =
            |id: u32| parse_special || vocab.tokens[id as usize].attr & (attr::CONTROL | attr::UNKNOWN) == 0;
        // A vocabulary may have a thousand special tokens, of which a text contains two or three: one pass of
        // the automaton finds which, and only those are searched.
        let mut present = vec![true; self.tokens.len()];
        if let Some(search) = &self.search {
            if search.match_kind() == MatchKind::LeftmostLongest && self.tokens.iter().all(|id| is_split(*id))
            {
                return self.leftmost(text, search);
            }
            if search.match_kind() == MatchKind::Standard {
                present.fill(false);
                // Overlapping matches: a token inside a longer one may also occur separately elsewhere.
                for found in search.find_overlapping_iter(text) {
                    present[found.pattern().as_usize()] = true;
                }
            }
        }
        // Each token splits the texts that remain after the longer ones. Fragments that are tokens are not
        // changed.
        for (&id, _) in self.tokens.iter().zip(present).filter(|(id, present)| *present && is_split(**id)) {
            let token = &vocab.tokens[id as usize];
            fragments = fragments
                .into_iter()
                .flat_map(|fragment| match fragment {
                    Fragment::Text(text) => around(text, id, &token.text, token.attr),
                    token => vec![token],
                })
                .collect();
        }
        fragments
    }

    /// Finds added tokens like the Hugging Face library: from left to right, the longest at each position.
    fn leftmost<'t>(&self, text: &'t [u8], search: &AhoCorasick) -> Vec<Fragment<'t>> {
        let mut fragments = Vec::new();
        let mut done = 0;
        for found in search.find_iter(text) {
            if found.start() > done {
                fragments.push(Fragment::Text(&text[done..found.start()]));
            }
            fragments.push(Fragment::Token(self.tokens[found.pattern().as_usize()]));
            done = found.end();
        }
        if done < text.len() {
            fragments.push(Fragment::Text(&text[done..]));
        }
        fragments
    }
}

/// Cuts a text at every occurrence of one token.
fn around<'t>(mut text: &'t [u8], id: u32, token: &[u8], attr: u8) -> Vec<Fragment<'t>> {
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let mut fragments = Vec::new();
    while let Some(at) = find(text, token) {
        let mut left = &text[..at];
        // Whitespace before such a token belongs to it and is dropped.
        if attr & attr::LSTRIP != 0 {
            left = &left[..left.iter().rposition(|byte| !is_space(byte)).map_or(0, |last| last + 1)];
        }
        if !left.is_empty() {
            fragments.push(Fragment::Text(left));
        }
        fragments.push(Fragment::Token(id));
        text = &text[at + token.len()..];
        if attr & attr::RSTRIP != 0 {
            text = &text[text.iter().position(|byte| !is_space(byte)).unwrap_or(text.len())..];
        }
    }
    if !text.is_empty() {
        fragments.push(Fragment::Text(text));
    }
    fragments
}

fn find(text: &[u8], token: &[u8]) -> Option<usize> {
    if text.len() < token.len() {
        return None;
    }
    let first = *token.first()?;
    let last_start = text.len() - token.len();
    let mut at = 0;
    while at <= last_start {
        // A separate search for the first byte is vectorized by the compiler.
        at += text[at..=last_start].iter().position(|byte| *byte == first)?;
        if text[at..].starts_with(token) {
            return Some(at);
        }
        at += 1;
    }
    None
}
