//! Pre-tokenizers: how byte-level BPE splits text, by the names in `tokenizer.ggml.pre`.
//!
//! One table serves conversion, export and encoding. Every row has the steps that llama.cpp takes. If those only
//! approximate what the models' own tokenizer.json does, because its engine has no sub-categories and no Unicode case
//! folding, the row has the models' own steps as well: they are what the model was trained with, and what a conversion is
//! checked against. `expressions.txt` has llama.cpp's own spelling of its expressions.
//!
//! Source: `llm_tokenizer_bpe` and `llama_vocab::impl::load` in `src/llama-vocab.cpp` and the splits in `src/unicode.cpp`
//! of llama.cpp, as vendored in llama-cpp-python 0.3.36.

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

/// The row of a name.
pub(crate) fn by_name(name: &str) -> Option<&'static PreTokenizer> {
    ROWS.iter().find(|row| row.names.contains(&name))
}

/// Names that converters write for WordPiece, where llama.cpp reads none (`get_vocab_base_pre` in `conversion/base.py`).
const OF_WORD_PIECE: [&str; 3] = ["bert-bge", "bert-bge-large", "jina-v2-en"];

/// True if converters write this name.
pub(crate) fn is_known(name: &str) -> bool {
    by_name(name).is_some() || OF_WORD_PIECE.contains(&name)
}

/// llama.cpp's spelling of its expressions.
#[derive(Debug, Deserialize)]
pub(crate) struct Spelling {
    /// Names that mean the same; not empty.
    pub names: Vec<String>,
    /// The expressions by which llama.cpp splits, in order.
    pub splits: Vec<String>,
}

impl Spelling {
    /// The row of its names.
    pub(crate) fn row(&self) -> Option<&'static PreTokenizer> {
        by_name(self.names.first()?)
    }
}

/// llama.cpp's table: all of its names, with the expressions that each stands for.
pub(crate) fn spellings() -> &'static [Spelling] {
    static TABLE: OnceLock<Vec<Spelling>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let lines = include_str!("expressions.txt").lines().filter(|line| !line.starts_with('#'));
        // A test reads every line.
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

    /// The list of names is read from the reference's source, and so is the list of expressions.
    #[test]
    fn every_pre_tokenizer_name_has_one_row() {
        let listed: HashSet<&str> = names().collect();
        assert_eq!(listed.len(), 91);
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
