//! The reference's own tokenizer tests: texts and their ids in each of its vocabularies.
//!
//! `golden/tokenizer-pairs` contains vocabularies reduced to the tokens that the texts need (see
//! `scripts/golden/tokenizer_pairs.py`). With `GGUF_REFERENCE_VOCABS`, a folder with the full ones (`models/`
//! of llama.cpp), those are tested instead. `scripts/golden/tokenizer_own_pairs.py` makes pairs for other
//! kinds with the reference's library.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use gguf_tokenizer::{Reading, Tokenizer};

/// Number of pairs in the pinned version of the reference.
const N_PAIRS: usize = 15;
/// Models made from `golden/tokenizer`.
const N_OWN_PAIRS: usize = 7;

/// Separator of texts, like in `tests/test-tokenizer-0.cpp`.
const BETWEEN: &str = "\n__ggml_vocab_test__\n";

fn pairs() -> Vec<PathBuf> {
    let folder = match env::var_os("GGUF_REFERENCE_VOCABS") {
        Some(folder) => PathBuf::from(folder),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/tokenizer-pairs"),
    };
    let mut files: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "gguf"))
        .filter(|path| path.with_extension("gguf.inp").is_file())
        .collect();
    files.sort();
    files
}

/// Texts with their ids. The last text may be empty, which splitting at separators leaves out.
fn tests(file: &Path) -> Vec<(String, Vec<u32>)> {
    let texts = fs::read_to_string(file.with_extension("gguf.inp")).unwrap();
    let ids = fs::read_to_string(file.with_extension("gguf.out")).unwrap();
    let ids: Vec<Vec<u32>> =
        ids.lines().map(|line| line.split_whitespace().map(|id| id.parse().unwrap()).collect()).collect();
    let mut texts: Vec<String> = texts.split(BETWEEN).map(str::to_owned).collect();
    if texts.len() == ids.len() + 1 && texts.last().is_some_and(String::is_empty) {
        texts.pop();
    }
    assert_eq!(texts.len(), ids.len(), "{}", file.display());
    texts.into_iter().zip(ids).collect()
}

#[test]
fn token_ids_match_reference() {
    let files = pairs();
    let own = if env::var_os("GGUF_REFERENCE_VOCABS").is_some() { 0 } else { N_OWN_PAIRS };
    assert_eq!(files.len(), N_PAIRS + own);
    let mut wrong = Vec::new();
    for file in &files {
        let header = gguf_container::File::open(file).unwrap();
        let tokenizer = Tokenizer::from_gguf(header.metadata()).encoder(Reading::LlamaCpp).unwrap();
        for (text, expected) in tests(file) {
            let found = tokenizer.encode(&text, false, false).unwrap();
            if found != expected {
                let name = file.file_name().unwrap();
                wrong.push(format!("{name:?} {text:?}\n  found    {found:?}\n  expected {expected:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}
