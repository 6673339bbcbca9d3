//! Pre-tokenizers: how byte-level BPE splits text, by the names in `tokenizer.ggml.pre`.
//!
//! One table serves conversion, export and encoding. Every row has llama.cpp's steps. If those only
//! approximate the models' own tokenizer.json, because llama.cpp's engine has no subcategories and no Unicode
//! case folding, the row has the models' own steps as well: the model was trained with them, and conversions
//! are checked against them. `expressions.txt` has llama.cpp's own spelling of its expressions.
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp` and the splits in `src/unicode.cpp`
//! of llama.cpp build 11549.

#[macro_use]
pub(crate) mod expressions;
mod names;
mod row;
mod table;

use std::sync::OnceLock;

use serde::Deserialize;

pub use names::names;
pub(crate) use names::nearest;
pub(crate) use row::{PreTokenizer, Step};
use table::ROWS;

pub(crate) fn by_name(name: &str) -> Option<&'static PreTokenizer> {
    ROWS.iter().find(|row| row.names.contains(&name))
}

/// Names that converters write for WordPiece, for which llama.cpp does not read the key (`get_vocab_base_pre`
/// in `conversion/base.py`).
const OF_WORD_PIECE: [&str; 3] = ["bert-bge", "bert-bge-large", "jina-v2-en"];

/// True if converters write this name.
pub(crate) fn is_known(name: &str) -> bool {
    by_name(name).is_some() || OF_WORD_PIECE.contains(&name)
}

#[derive(Debug, Deserialize)]
pub(crate) struct Spelling {
    /// Equivalent names; not empty.
    pub names: Vec<String>,
    /// llama.cpp's expressions, in order.
    pub splits: Vec<String>,
}

impl Spelling {
    pub(crate) fn row(&self) -> Option<&'static PreTokenizer> {
        by_name(self.names.first()?)
    }
}

/// llama.cpp's table: all names, with their expressions.
pub(crate) fn spellings() -> &'static [Spelling] {
    static TABLE: OnceLock<Vec<Spelling>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lines = include_str!("expressions.txt").lines().filter(|line| !line.starts_with('#'));
        // A test parses every line.
        lines.filter_map(|line| serde_json::from_str(line).ok()).collect()
    })
}

/// The expressions of a name in llama.cpp's spelling.
pub(crate) fn spelling(name: &str) -> Option<&'static [String]> {
    let row = spellings().iter().find(|row| row.names.iter().any(|other| other == name));
    row.map(|row| row.splits.as_slice())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::Value as Json;

    use super::*;

    /// Names and expressions are parsed from the reference's source.
    #[test]
    fn every_pre_tokenizer_name_has_one_row() {
        let listed: HashSet<&str> = names().collect();
        assert_eq!(listed.len(), 93);
        let rows: Vec<&str> = ROWS.iter().flat_map(|row| row.names.iter().copied()).collect();
        assert_eq!(rows.len(), listed.len());
        assert_eq!(rows.into_iter().collect::<HashSet<_>>(), listed);
        let spelled: Vec<&str> = spellings().iter().flat_map(|row| &row.names).map(String::as_str).collect();
        assert_eq!(spelled.len(), listed.len());
        assert_eq!(spelled.into_iter().collect::<HashSet<_>>(), listed);
        assert!(ROWS.iter().all(|row| row.shipped.iter().all(|name| row.names.contains(name))));
    }

    #[test]
    fn flags_match_those_read_from_the_reference() {
        let lines = include_str!("expressions.txt").lines().filter(|line| !line.starts_with('#'));
        for line in lines {
            let json: Json = serde_json::from_str(line).unwrap();
            for name in json["names"].as_array().unwrap() {
                let row = by_name(name.as_str().unwrap()).unwrap();
                assert_eq!(json["ignore_merges"], row.ignore_merges, "{name}");
                assert_eq!(json["byte_level"], !row.raw, "{name}");
            }
        }
    }
}
