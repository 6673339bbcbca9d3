//! WordPiece: splits text into words, and each word greedily into the longest tokens.
//!
//! Source: `llm_tokenizer_wpm_session` in `src/llama-vocab.cpp` of llama.cpp, as vendored in llama-cpp-python
//! 0.3.36; for [`Reading::Model`], `BertNormalizer` and `WordPiece` of the Hugging Face library, as
//! documented there.

use unicode_normalization_alignments::UnicodeNormalization;

use super::{
    Reading,
    error::Error,
    text::{
        marks, old_nonspacing_marks, old_others, old_punctuation, other_category, punctuation, replaced,
        simple_lower, unassigned,
    },
    vocab::Vocab,
};

/// Longer words are unknown in Hugging Face's WordPiece.
const MAX_WORD_CHARS: usize = 100;

/// Appends the ids of a text.
pub(super) fn encode(
    vocab: &Vocab,
    reading: Reading,
    text: &[u8],
    output: &mut Vec<u32>,
) -> Result<(), Error> {
    let text = replaced(text);
    let words = match reading {
        Reading::LlamaCpp => llama_cpp_words(vocab, &text),
        Reading::Model => model_words(vocab, &text),
    };
    for word in words {
        let from = output.len();
        let too_long = reading == Reading::Model && word.chars().count() > MAX_WORD_CHARS;
        // In these vocabularies the first piece of a word begins with U+2581.
        let word = ["\u{2581}", &word].concat();
        // Greedy, from left to right: the longest token that the rest of the word starts with. There is no
        // backtracking, so a word whose end has no token is unknown.
        let mut rest = if too_long { b"" } else { word.as_bytes() };
        while !rest.is_empty() {
            // One more than the longest token, like in the reference; no token has that length.
            let longest = rest.len().min(vocab.max_len + 1);
            let found = (1..=longest).rev().find_map(|len| Some((len, vocab.id(&rest[..len])?)));
            let Some((len, id)) = found else {
                output.truncate(from);
                break;
            };
            output.push(id);
            rest = &rest[len..];
        }
        if output.len() == from {
            // The mark takes 3 bytes in UTF-8; the word's first byte follows.
            output.push(vocab.unknown.ok_or(Error::NoByteToken { byte: word.as_bytes()[3] })?);
        }
    }
    Ok(())
}

/// Collects words: single characters that form words, and runs of others.
#[derive(Default)]
struct Words {
    done: Vec<String>,
    word: String,
}

impl Words {
    fn end(&mut self) {
        if !self.word.is_empty() {
            self.done.push(std::mem::take(&mut self.word));
        }
    }

    fn alone(&mut self, c: char) {
        self.end();
        self.done.push(c.to_string());
    }

    fn finish(mut self) -> Vec<String> {
        self.end();
        self.done
    }
}

/// The reference only uses the first character of a decomposition, and single-character lower case.
fn llama_cpp_words(vocab: &Vocab, text: &str) -> Vec<String> {
    let mut words = Words::default();
    for c in text.chars() {
        // A letter with an accent decomposes into the letter and a mark.
        let c = if vocab.strip_accents { first_decomposed(c) } else { c };
        if c.is_whitespace() {
            words.end();
            continue;
        }
        // Unassigned characters are in `\p{C}`, but the reference's table of control characters lacks them.
        let is_control = other_category().has(c) && !unassigned().has(c);
        if c == '\0' || c == '\u{fffd}' || is_control || (vocab.strip_accents && marks().has(c)) {
            continue;
        }
        let lower = if vocab.lowercase { simple_lower(c) } else { c };
        let ascii_symbol = matches!(c, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
        if punctuation().has(c) || ascii_symbol || is_chinese(c) {
            words.alone(lower);
        } else {
            words.word.push(lower);
        }
    }
    words.finish()
}

/// Clean, Chinese characters separated, decomposed without marks, lower case; then split at whitespace and
/// around punctuation.
fn model_words(vocab: &Vocab, text: &str) -> Vec<String> {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' | '\n' | '\r' => clean.push(' '),
            '\0' | '\u{fffd}' => {}
            c if old_others().has(c) => {}
            c if c.is_whitespace() => clean.push(' '),
            c if is_chinese(c) => clean.extend([' ', c, ' ']),
            c => clean.push(c),
        }
    }
    // The order of BertNormalizer: clean, Chinese, accents, lower case. Lower case first would change
    // decompositions.
    if vocab.strip_accents {
        clean = clean.nfd().map(|(c, _)| c).filter(|c| !old_nonspacing_marks().has(*c)).collect();
    }
    if vocab.lowercase {
        clean = clean.chars().flat_map(char::to_lowercase).collect();
    }
    let mut words = Words::default();
    for c in clean.chars() {
        if c.is_whitespace() {
            words.end();
        } else if c.is_ascii_punctuation() || old_punctuation().has(c) {
            words.alone(c);
        } else {
            words.word.push(c);
        }
    }
    words.finish()
}

fn first_decomposed(c: char) -> char {
    std::iter::once(c).nfd().next().map_or(c, |(c, _)| c)
}

/// True for ideographs, each of which is a word. The range that starts at 2B920 is that of the Hugging Face
/// library.
fn is_chinese(c: char) -> bool {
    matches!(u32::from(c),
        0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2b73f | 0x2b740..=0x2b81f
        | 0x2b920..=0x2ceaf | 0xf900..=0xfaff | 0x2f800..=0x2fa1f)
}
