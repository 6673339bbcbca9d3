//! Tokens of byte-level BPE as bytes, for formats that store bytes.

use serde_json::Value as Json;

use super::error::VocabError;
use super::hf::malformed;
use crate::TokenizerFiles;
use crate::byte_alphabet::bytes_of;

/// Tokens of the base vocabulary of byte-level BPE as bytes, in id order, from vocab.json or else
/// tokenizer.json. Added tokens outside that vocabulary are left out.
///
/// # Errors
/// [`VocabError::NoTokenizer`]; [`VocabError::Malformed`] for a vocabulary of another kind;
/// [`VocabError::RepeatedId`]; [`VocabError::MissingId`] if the ids have gaps.
pub fn own_tokens(input: &TokenizerFiles<'_>) -> Result<Vec<Vec<u8>>, VocabError> {
    let (file, vocab) = own_vocab(input)?;
    let wrong = |problem: String| VocabError::Malformed { file: file.to_owned(), problem };
    let vocab =
        vocab.as_object().ok_or_else(|| wrong("expected a vocabulary of byte-level BPE".to_owned()))?;
    let mut tokens: Vec<Option<&str>> = vec![None; vocab.len()];
    for (text, id) in vocab {
        let id = id.as_u64().ok_or_else(|| wrong(format!("token `{text}`: expected an id, found {id}")))?;
        match usize::try_from(id).ok().and_then(|at| tokens.get_mut(at)) {
            Some(Some(first)) => {
                let (first, second) = ((*first).to_owned(), text.clone());
                return Err(VocabError::RepeatedId { id, first, second });
            }
            Some(free) => *free = Some(text),
            // An id beyond the number of tokens leaves a gap before it.
            None => {}
        }
    }
    let bytes = |(id, text): (usize, &Option<&str>)| {
        let missing = || VocabError::MissingId { file, id: id as u64, tokens: vocab.len() as u64 };
        let text = text.ok_or_else(missing)?;
        bytes_of(text)
            .ok_or_else(|| wrong(format!("token `{text}` is not in the alphabet of byte-level BPE")))
    };
    tokens.iter().enumerate().map(bytes).collect()
}

/// The vocabulary as JSON, with its file name.
fn own_vocab(input: &TokenizerFiles<'_>) -> Result<(&'static str, Json), VocabError> {
    let parse = |file: &'static str| {
        let bytes = input.file(file)?;
        Some(serde_json::from_slice::<Json>(bytes).map_err(|error| malformed(file, &error)))
    };
    if let Some(vocab) = parse("vocab.json") {
        return Ok(("vocab.json", vocab?));
    }
    let Some(whole) = parse("tokenizer.json") else {
        return Err(VocabError::NoTokenizer { expected: "vocab.json, tokenizer.json" });
    };
    let mut whole = whole?;
    let vocab = whole.get_mut("model").and_then(|model| model.get_mut("vocab")).map(Json::take);
    Ok(("tokenizer.json", vocab.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(name: &str, text: &str) -> Result<Vec<Vec<u8>>, VocabError> {
        let files = [(name.to_owned(), text.as_bytes())];
        own_tokens(&TokenizerFiles { config: &Json::Null, generation_config: None, files: &files })
    }

    #[test]
    fn tokens_are_bytes_in_the_order_of_ids() {
        let expected = vec![b"a".to_vec(), b" \n".to_vec(), Vec::new(), vec![0xe4]];
        let vocab = r#"{"ĠĊ": 1, "a": 0, "": 2, "ä": 3}"#;
        assert_eq!(tokens("vocab.json", vocab).unwrap(), expected);
        assert_eq!(
            tokens("tokenizer.json", &format!(r#"{{"model": {{"vocab": {vocab}}}}}"#)).unwrap(),
            expected
        );
    }

    #[test]
    fn invalid_vocabularies_are_named() {
        let error = |name, text| tokens(name, text).unwrap_err().to_string();
        for (text, expected) in [
            (r#"{"a": 0, "b": 2}"#, "`vocab.json`: missing token with id 1 (2 tokens are listed)"),
            (r#"{"a": 0, "b": 0}"#, "duplicate token id 0: `a` and `b`"),
            (r#"{"a": -1}"#, "`vocab.json`: token `a`: expected an id, found -1"),
            (r#"{"a": 18446744073709551615}"#, "`vocab.json`: missing token with id 0 (1 tokens are listed)"),
            (r#"{"漢": 0}"#, "`vocab.json`: token `漢` is not in the alphabet of byte-level BPE"),
            ("[]", "`vocab.json`: expected a vocabulary of byte-level BPE"),
        ] {
            assert_eq!(error("vocab.json", text), expected);
        }
        assert_eq!(
            error("tokenizer.json", "{}"),
            "`tokenizer.json`: expected a vocabulary of byte-level BPE"
        );
        assert_eq!(error("x", "{}"), "no tokenizer found; looked for vocab.json, tokenizer.json");
    }
}
