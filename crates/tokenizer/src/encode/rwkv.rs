//! RWKV's tokenizer: the longest token at each place. Tokens are bytes, written with escapes.
//!
//! Source: `llm_tokenizer_rwkv` and `llama_unescape_rwkv_token` in `src/llama-vocab.cpp` of
//! llama.cpp, as vendored in llama-cpp-python 0.3.36.

use super::{error::Error, trie::Trie, vocab::Vocab};

/// The bytes of a token: `\t`, `\n`, `\r`, `\x` with two digits, and `\` before anything else.
pub(super) fn unescaped(text: &[u8]) -> Vec<u8> {
    let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).unwrap_or(0) as u8;
    let mut bytes = text.iter().copied();
    let mut output = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            output.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b't') => output.push(b'\t'),
            Some(b'n') => output.push(b'\n'),
            Some(b'r') => output.push(b'\r'),
            Some(b'x') => {
                // Always two digits; a missing or invalid one counts as 0, like in the reference.
                let high = digit(bytes.next());
                output.push(high << 4 | digit(bytes.next()));
            }
            Some(other) => output.push(other),
            None => {}
        }
    }
    output
}

pub(super) fn trie(vocab: &Vocab) -> Trie {
    let mut trie = Trie::new();
    // Tokens need not be UTF-8: the file escapes their bytes.
    for (id, token) in vocab.tokens.iter().enumerate() {
        trie.insert(&unescaped(&token.text), id as u32);
    }
    trie
}

/// Appends the ids of a text. A byte with which no token starts is an unknown token; If tokens start with it
/// but the text ends too early, the reference emits token 0 endlessly; here it is an unknown token as well.
pub(super) fn encode(vocab: &Vocab, trie: &Trie, text: &[u8], output: &mut Vec<u32>) -> Result<(), Error> {
    let mut at = 0;
    while at < text.len() {
        // Prefixes come shortest first, so the last is the longest: greedy, without lookahead.
        match trie.prefixes(&text[at..]).last() {
            Some((len, id)) => {
                output.push(id);
                at += len;
            }
            None => {
                output.push(vocab.unknown.ok_or(Error::NoByteToken { byte: text[at] })?);
                at += 1;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_become_bytes() {
        assert_eq!(unescaped(br"a\tb\n\r\x0a\xFF\\\'"), b"a\tb\n\r\x0a\xff\\'");
        assert_eq!(unescaped(b"\\"), b"");
    }
}
