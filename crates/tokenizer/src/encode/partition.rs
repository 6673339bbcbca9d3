//! Special tokens in a text, found before anything else is done to it.
//!
//! Source: `tokenizer_st_partition` in `src/llama-vocab.cpp` of llama.cpp, as vendored in
//! llama-cpp-python 0.3.36: the longest special token is looked for in the whole text first,
//! then the next in what is left.

use aho_corasick::{AhoCorasick, MatchKind};

use super::{
    Reading,
    vocab::{Vocab, attr},
};

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fragment<'t> {
    /// To be encoded.
    Text(&'t [u8]),
    /// A special token.
    Token(u32),
}

/// The special tokens of a vocabulary.
pub(super) struct Specials {
    /// The longest first.
    tokens: Vec<u32>,
    /// Finds all of them in one pass, so that tokens that do not occur are skipped.
    search: Option<AhoCorasick>,
}

impl Specials {
    pub(super) fn new(vocab: &Vocab, reading: Reading) -> Self {
        let special = attr::CONTROL | attr::USER_DEFINED | attr::UNKNOWN;
        let mut tokens: Vec<u32> = (0..vocab.tokens.len() as u32)
            .filter(|id| vocab.tokens[*id as usize].attr & special != 0)
            .collect();
        // The longest first, so that no token is found inside of a longer one. The sort is stable: of equal lengths the
        // lower id comes first, as in the reference.
        tokens.sort_by_key(|id| std::cmp::Reverse(vocab.tokens[*id as usize].text.len()));
        let texts = tokens.iter().map(|id| &vocab.tokens[*id as usize].text);
        let kind = match reading {
            Reading::LlamaCpp => MatchKind::Standard,
            Reading::Model => MatchKind::LeftmostLongest,
        };
        // Building the automaton fails only for a gigantic vocabulary; then all
        // tokens are searched one by one.
        let search = AhoCorasick::builder().match_kind(kind).build(texts).ok();
        Specials { tokens, search }
    }

    /// The fragments of a text. Control tokens are searched only when this is asked for.
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
        // A vocabulary may have a thousand special tokens, of which a text holds two or three: one pass of the automaton
        // says which, and only those are searched for.
        let mut present = vec![true; self.tokens.len()];
        if let Some(search) = &self.search {
            if search.match_kind() == MatchKind::LeftmostLongest && self.tokens.iter().all(|id| is_split(*id))
            {
                return self.leftmost(text, search);
            }
            if search.match_kind() == MatchKind::Standard {
                present.fill(false);
                // Overlapping matches: a token inside a longer one counts as present, since it may also occur alone elsewhere.
                for found in search.find_overlapping_iter(text) {
                    present[found.pattern().as_usize()] = true;
                }
            }
        }
        // Each token splits the texts that remain after the longer ones. Fragments that are tokens stay as they are.
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

    /// As the Hugging Face library looks for added tokens: from left to right, the longest of
    /// those that start at one place.
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
        // Whitespace before such a token belongs to it and is encoded as nothing.
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
        // The first byte is searched for alone, which the compiler turns into vector instructions.
        at += text[at..=last_start].iter().position(|byte| *byte == first)?;
        if text[at..].starts_with(token) {
            return Some(at);
        }
        at += 1;
    }
    None
}
