//! Vocabularies of bytes with ranks in tiktoken's format: a token's rank determines the order of joins. GGUF
//! needs merges as pairs, which are derived from the ranks.

use std::collections::HashMap;

use super::base64;
use super::error::VocabError;
use super::hf::malformed;
use crate::byte_alphabet::text_of;

pub(super) struct Ranks {
    /// Token and rank, in file order.
    pub tokens: Vec<(Vec<u8>, u32)>,
}

pub(super) type ByBytes<'a> = HashMap<&'a [u8], u32, ahash::RandomState>;

impl Ranks {
    /// Reads a tiktoken file: on each line a token in base64 and its rank.
    pub(super) fn read(file: &str, bytes: &[u8]) -> Result<Self, VocabError> {
        let mut tokens = Vec::new();
        for (index, line) in bytes.split(|byte| *byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            tokens.push(entry(line).ok_or_else(|| {
                let line = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
                malformed(
                    file,
                    &format!("line {}: expected a base64 token and its rank, found `{line}`", index + 1),
                )
            })?);
        }
        Ranks { tokens }.checked(file)
    }

    /// True if a file looks like a tiktoken file.
    pub(super) fn is_one(bytes: &[u8]) -> bool {
        // A SentencePiece model begins with a tag and a length, unlike base64 text.
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        first.len() < 256 && entry(first.trim_ascii()).is_some()
    }

    /// Checks that tokens and ranks are unique.
    pub(super) fn checked(self, file: &str) -> Result<Self, VocabError> {
        let mut by_rank: HashMap<u32, &[u8], ahash::RandomState> = HashMap::default();
        let mut seen = std::collections::HashSet::<&[u8], ahash::RandomState>::default();
        let shown = |bytes: &[u8]| text_of(bytes);
        for (bytes, rank) in &self.tokens {
            if !seen.insert(bytes) {
                return Err(malformed(file, &format!("duplicate token `{}`", shown(bytes))));
            }
            if let Some(first) = by_rank.insert(*rank, bytes) {
                return Err(VocabError::RepeatedId {
                    id: (*rank).into(),
                    first: shown(first),
                    second: shown(bytes),
                });
            }
        }
        if self.tokens.is_empty() {
            return Err(malformed(file, &"it has no tokens"));
        }
        Ok(self)
    }

    pub(super) fn by_bytes(&self) -> ByBytes<'_> {
        self.tokens.iter().map(|(bytes, rank)| (bytes.as_slice(), *rank)).collect()
    }

    /// For each token, in file order, the two tokens that are merged into it: the remainder after all
    /// lower-ranked merges. Second, the number of tokens that no merge produces.
    ///
    /// Source: `QwenModel.bpe` in `conversion/qwen.py`.
    pub(super) fn merges(&self) -> (Vec<(String, String)>, usize) {
        let by_bytes = self.by_bytes();
        let (mut merges, mut unreached) = (Vec::with_capacity(self.tokens.len()), 0);
        for (bytes, rank) in &self.tokens {
            if bytes.len() == 1 {
                continue;
            }
            // After all joins of lower rank, two parts remain; joining these gives the token.
            match parts(&by_bytes, bytes, *rank).as_slice() {
                [left, right] => merges.push((text_of(left), text_of(right))),
                _ => unreached += 1,
            }
        }
        (merges, unreached)
    }
}

fn entry(line: &[u8]) -> Option<(Vec<u8>, u32)> {
    let at = line.iter().position(|byte| *byte == b' ')?;
    // `IQ== 0`: the byte `!`, joined before all others.
    let bytes = base64::decode(&line[..at])?;
    let rank = std::str::from_utf8(line[at..].trim_ascii()).ok()?.parse().ok()?;
    (!bytes.is_empty()).then_some((bytes, rank))
}

/// Parts of a token after all joins of a rank below `limit`, lowest and leftmost first.
fn parts<'a>(by_bytes: &ByBytes<'_>, token: &'a [u8], limit: u32) -> Vec<&'a [u8]> {
    // Start of each part, and the rank of the part joined with the next.
    let rank_of = |from: usize, to: usize| by_bytes.get(&token[from..to]).copied().unwrap_or(u32::MAX);
    // A token has few bytes, so shrinking vectors are faster than a heap.
    let mut starts: Vec<usize> = (0..=token.len()).collect();
    let mut joined: Vec<u32> = starts.windows(3).map(|w| rank_of(w[0], w[2])).collect();
    while let Some((at, rank)) = joined.iter().copied().enumerate().min_by_key(|(_, rank)| *rank) {
        if rank >= limit {
            break;
        }
        // Join parts `at` and `at + 1`; only the adjacent pairs change their rank.
        starts.remove(at + 1);
        joined.remove(at);
        if at < joined.len() {
            joined[at] = rank_of(starts[at], starts[at + 2]);
        }
        if at > 0 {
            joined[at - 1] = rank_of(starts[at - 1], starts[at + 1]);
        }
    }
    starts.windows(2).map(|w| &token[w[0]..w[1]]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merges_follow_ranks() {
        // a b c ab abc; bc has a higher rank than ab, so abc is ab + c; zz cannot be reached.
        let file = b"YQ== 0\nYg== 1\nYw== 2\nYWI= 3\nYmM= 4\nYWJj 5\nenp6 6\n";
        let ranks = Ranks::read("x", file).unwrap();
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(ranks.merges(), (vec![pair("a", "b"), pair("b", "c"), pair("ab", "c")], 1));
        assert!(Ranks::is_one(file) && !Ranks::is_one(b"\x0a\x0e\x0a\x05<unk>") && !Ranks::is_one(b""));
    }

    #[test]
    fn invalid_file_names_line_or_token() {
        for (bytes, expected) in [
            (&b"YQ== 0\nYg== x\n"[..], "line 2: expected a base64 token and its rank, found `Yg== x`"),
            (b"YQ== 0\nYQ== 1\n", "duplicate token `a`"),
            (b"YQ== 0\nYg== 0\n", "duplicate token id 0: `a` and `b`"),
            (b"\n", "it has no tokens"),
        ] {
            let error = Ranks::read("x.tiktoken", bytes).err().unwrap().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
}
