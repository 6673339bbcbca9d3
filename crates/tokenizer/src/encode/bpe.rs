//! Byte pair encoding: in each word, the adjacent pair with the lowest rank is merged, until no
//! adjacent pair has a rank.
//!
//! Source: `llm_tokenizer_bpe_session` in `src/llama-vocab.cpp` of llama.cpp, as vendored in
//! llama-cpp-python 0.3.36.

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, HashMap},
};

use super::{Reading, error::Error, split::Splitter, text::replaced, vocab::Vocab};
use crate::byte_alphabet::{char_of, text_of};
use crate::pre::PreTokenizer;
use unicode_normalization_alignments::UnicodeNormalization;

/// A text that tokens are merged from, by number. Numbers below the size of the vocabulary are token ids.
type Symbol = u32;

/// Marks the end of the list.
const NONE: u32 = u32::MAX;

/// The character that stands for a space.
const SPACE: char = '\u{2581}';

pub(super) struct Bpe {
    pre: &'static PreTokenizer,
    splitter: Splitter,
    compose: bool,
    /// (left, right) to (rank, merged symbol).
    merges: HashMap<(Symbol, Symbol), (u32, Symbol)>,
    /// Symbols outside the vocabulary: parts and results of merges.
    extra: HashMap<Vec<u8>, Symbol>,
    /// Byte to the symbol of the character that stands for it.
    bytes: [Symbol; 256],
    n_tokens: u32,
    extra_texts: Vec<Vec<u8>>,
}

/// Words of this text that are already encoded.
pub(super) type Cache<'t> = HashMap<&'t str, Box<[u32]>>;

/// A text with a [`SPACE`] at the start of each line.
///
/// Source: `llm_tokenizer_bpe_session::tokenize` in `src/llama-vocab.cpp` of llama.cpp build 11549.
fn with_first_spaces(text: &str) -> String {
    let mut spaced = String::with_capacity(text.len() + SPACE.len_utf8());
    let mut is_first = true;
    for c in text.chars() {
        if is_first && !['\n', SPACE].contains(&c) {
            spaced.push(SPACE);
        }
        is_first = c == '\n';
        spaced.push(c);
    }
    spaced
}

impl Bpe {
    pub(super) fn new(vocab: &Vocab, pre: &'static PreTokenizer, reading: Reading) -> Result<Self, Error> {
        let steps = match reading {
            Reading::LlamaCpp => pre.llama_cpp,
            Reading::Model => pre.steps_of_models(),
        };
        let mut bpe = Bpe {
            pre,
            splitter: Splitter::new(steps)?,
            compose: reading == Reading::Model && pre.composed,
            merges: HashMap::with_capacity(vocab.merges.len()),
            extra: HashMap::new(),
            bytes: [NONE; 256],
            n_tokens: vocab.tokens.len() as u32,
            extra_texts: Vec::new(),
        };
        // Training joined the most frequent pairs first, so a merge's position in the list is its rank. Parts
        // that are not tokens of the vocabulary get symbols too; llama.cpp compares texts and would merge
        // them as well.
        for (rank, (left, right)) in vocab.merges.iter().enumerate() {
            let (left_symbol, right_symbol) = (bpe.intern(vocab, left), bpe.intern(vocab, right));
            let merged = bpe.intern(vocab, &[&left[..], right].concat());
            // `entry` keeps the existing rank: the first of equal merges counts.
            bpe.merges.entry((left_symbol, right_symbol)).or_insert((rank as u32, merged));
        }
        // The alphabet that merges start from: GPT-2 writes each of the 256 bytes as a printable character.
        for byte in 0..=u8::MAX {
            let mut text = [0; 4];
            let text = char_of(byte).encode_utf8(&mut text).as_bytes();
            bpe.bytes[usize::from(byte)] = bpe.intern(vocab, text);
        }
        Ok(bpe)
    }

    fn intern(&mut self, vocab: &Vocab, text: &[u8]) -> Symbol {
        if let Some(id) = vocab.id(text).or_else(|| self.extra.get(text).copied()) {
            return id;
        }
        let symbol = self.n_tokens + self.extra_texts.len() as u32;
        self.extra_texts.push(text.to_vec());
        self.extra.insert(text.to_vec(), symbol);
        symbol
    }

    /// Appends the ids of a text.
    pub(super) fn encode(&self, vocab: &Vocab, text: &[u8], output: &mut Vec<u32>) -> Result<(), Error> {
        let mut text = replaced(text);
        if self.compose {
            text = text.nfc().map(|(c, _)| c).collect::<String>().into();
        }
        if vocab.escape_whitespaces {
            text = text.replace(' ', SPACE.encode_utf8(&mut [0; 4])).into();
        }
        if self.pre.space_first {
            text = with_first_spaces(&text).into();
        }
        // A word's tokens depend only on the word, and texts repeat words: most are merged once.
        let mut cache = Cache::new();
        let mut work = Work::default();
        self.splitter.words(&text, &mut |word| {
            match cache.get(word) {
                Some(ids) => output.extend_from_slice(ids),
                None => {
                    let from = output.len();
                    self.word(vocab, word, &mut work, output);
                    cache.insert(word, output[from..].into());
                }
            }
            Ok(())
        })
    }

    fn word(&self, vocab: &Vocab, word: &str, work: &mut Work, output: &mut Vec<u32>) {
        let whole =
            self.pre.ignore_merges || (self.pre.whole_line_ends && word.bytes().all(|byte| byte == b'\n'));
        if whole {
            let id = if self.pre.raw {
                vocab.id(word.as_bytes())
            } else {
                vocab.id(text_of(word.as_bytes()).as_bytes())
            };
            if let Some(id) = id {
                output.push(id);
                return;
            }
        }
        // One symbol per character of raw text, else one per byte.
        work.symbols.clear();
        if self.pre.raw {
            let mut text = [0; 4];
            work.symbols.extend(word.chars().map(|c| {
                let text = c.encode_utf8(&mut text).as_bytes();
                vocab.id(text).or_else(|| self.extra.get(text).copied()).unwrap_or(NONE)
            }));
        } else {
            work.symbols.extend(word.bytes().map(|byte| self.bytes[usize::from(byte)]));
        }
        // The remaining symbols. The first symbol is never merged into one before it.
        self.merge(work);
        let mut at = 0;
        while at != NONE as usize && at < work.symbols.len() {
            let next = work.next[at] as usize;
            match work.symbols[at] {
                NONE => {
                    // Only in raw text, in which every symbol was a character and keeps its index.
                    if let Some(c) = word.chars().nth(at) {
                        self.spell(vocab, c.encode_utf8(&mut [0; 4]).as_bytes(), output);
                    }
                }
                id if id < self.n_tokens => output.push(id),
                extra => self.spell(vocab, &self.extra_texts[(extra - self.n_tokens) as usize], output),
            }
            at = next;
        }
    }

    /// Encodes a symbol outside the vocabulary as the tokens of its bytes, if they exist.
    fn spell(&self, vocab: &Vocab, text: &[u8], output: &mut Vec<u32>) {
        for byte in text {
            let id = if self.pre.raw {
                vocab.id(format!("<0x{byte:02X}>").as_bytes())
            } else {
                vocab.id(&[*byte])
            };
            output.extend(id);
        }
    }

    /// Merges in place: the remaining symbols are linked by `next`, from the first one.
    fn merge(&self, work: &mut Work) {
        // A doubly linked list over fixed places, and a queue of the pairs that have a rank. A merge changes
        // only two neighborhoods, so a word of n symbols takes O(n log n) instead of n scans.
        let n = work.symbols.len() as u32;
        work.next.clear();
        work.next.extend((0..n).map(|at| if at + 1 < n { at + 1 } else { NONE }));
        work.before.clear();
        work.before.extend((0..n).map(|at| at.wrapping_sub(1)));
        work.queue.clear();
        for right in 1..n {
            self.push(work, right - 1, right);
        }
        while let Some(Reverse(pair)) = work.queue.pop() {
            let (left, right) = (pair.left as usize, pair.right as usize);
            // A pair in the queue is stale if one of its symbols has been merged: then the symbols differ, or
            // the right one is no longer adjacent. Stale pairs are skipped here instead of being removed from
            // the queue.
            if (work.symbols[left], work.symbols[right]) != pair.symbols || work.next[left] != pair.right {
                continue;
            }
            // The left place takes the merged symbol; the right one is unlinked.
            work.symbols[left] = pair.merged;
            work.symbols[right] = NONE;
            let after = work.next[right];
            work.next[left] = after;
            // The result may have a rank with either new neighbor.
            if after != NONE {
                work.before[after as usize] = pair.left;
                self.push(work, pair.left, after);
            }
            if work.before[left] != NONE {
                self.push(work, work.before[left], pair.left);
            }
        }
    }

    fn push(&self, work: &mut Work, left: u32, right: u32) {
        let symbols = (work.symbols[left as usize], work.symbols[right as usize]);
        if symbols.0 == NONE || symbols.1 == NONE {
            return;
        }
        if let Some(&(rank, merged)) = self.merges.get(&symbols) {
            work.queue.push(Reverse(Pair { rank, left, right, symbols, merged }));
        }
    }
}

/// Buffers that are reused from word to word.
#[derive(Default)]
struct Work {
    symbols: Vec<Symbol>,
    next: Vec<u32>,
    before: Vec<u32>,
    queue: BinaryHeap<Reverse<Pair>>,
}

/// An adjacent pair that can be merged; ordered by rank, then from left to right.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Pair {
    rank: u32,
    left: u32,
    right: u32,
    symbols: (Symbol, Symbol),
    merged: Symbol,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_space_and_line_starts_a_word() {
        let text = with_first_spaces("a\u{2581}\u{2581}b\n\n\u{2581}c\nd");
        let mut words = Vec::new();
        let splitter = Splitter::new(crate::pre::by_name("mmbert").unwrap().llama_cpp).unwrap();
        let mut push = |word| {
            words.push(word);
            Ok(())
        };
        splitter.words(&text, &mut push).unwrap();
        let expected = ["\u{2581}a", "\u{2581}", "\u{2581}b", "\n\n", "\u{2581}c", "\n", "\u{2581}d"];
        assert_eq!(words, expected);
    }
}
