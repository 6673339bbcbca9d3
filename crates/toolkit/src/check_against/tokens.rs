//! Special tokens and token ids.

use gguf_container::Metadata;
use gguf_tokenizer::{Encoder, Reading, Tokenizer, keys};

use super::record::{Special, Text, Token};
use crate::verify::{Check, Finding};

/// Number of tokens shown at a difference.
const SHOWN: usize = 6;

/// Compares special tokens and the tokens that are added around a text.
pub fn special(metadata: &Metadata, tokenizer: &Encoder, special: &Special) -> Check {
    let mut check = Check::new("special tokens");
    let key = |key: &str| metadata.count(key).ok().flatten().and_then(|id| u32::try_from(id).ok());
    // The first two decide where texts begin and end; the others matter to few programs.
    let roles = [
        ("bos", tokenizer.bos(), &special.bos, true),
        ("eos", tokenizer.eos(), &special.eos, true),
        ("pad", key(keys::PAD_ID), &special.pad, false),
        ("unk", key(keys::UNK_ID), &special.unk, false),
    ];
    let mut n_equal = 0;
    for (role, found, expected, decides) in roles {
        let Some(expected) = expected else { continue };
        if found == Some(expected.id) {
            n_equal += 1;
            continue;
        }
        let named = found.map_or("none".to_owned(), |id| named(tokenizer, id));
        let message = format!("{role}: expected {}, found {named}", shown(expected));
        check.push(match (decides, found) {
            (true, _) => Finding::error("special_token", message),
            (false, Some(_)) => Finding::warning("special_token", message),
            (false, None) => Finding::note("special_token", message),
        });
    }
    let n_tokens = tokenizer.n_tokens();
    for token in [&special.bos, &special.eos].into_iter().flatten() {
        if tokenizer.token_text(token.id).is_some_and(|text| text != token.text.as_bytes()) {
            let message = format!(
                "token {}: expected {}, found {}",
                token.id,
                shown(token),
                named(tokenizer, token.id)
            );
            check.push(Finding::error("special_text", message));
        } else if token.id as usize >= n_tokens {
            check.push(Finding::error(
                "special_text",
                format!("{} is outside the vocabulary of {n_tokens} tokens", shown(token)),
            ));
        }
    }
    added(tokenizer, special, &mut check);
    let ends = tokenizer.ends();
    for token in special.ends.iter().filter(|token| !ends.contains(&token.id)) {
        check.push(Finding::warning(
            "end_token",
            format!("{} ends a generation of the model, but not of the file", shown(token)),
        ));
    }
    check.summary = format!("{n_equal} equal");
    check
}

/// Compares the tokens that are added around a text.
fn added(tokenizer: &Encoder, special: &Special, check: &mut Check) {
    let (Some(before), Some(after)) = (&special.before, &special.after) else { return };
    let encoded = |add| tokenizer.encode("a", add, true);
    let (Ok(plain), Ok(whole)) = (encoded(false), encoded(true)) else {
        check.push(Finding::error("tokenizer", "the tokenizer of the file cannot encode `a`"));
        return;
    };
    let start = (0..=whole.len().saturating_sub(plain.len())).find(|at| whole[*at..].starts_with(&plain));
    let start = start.unwrap_or(0);
    let found = (&whole[..start], &whole[(start + plain.len()).min(whole.len())..]);
    let list = |ids: &[u32]| match ids {
        [] => "nothing".to_owned(),
        ids => ids.iter().map(|id| named(tokenizer, *id)).collect::<Vec<_>>().join(", "),
    };
    for (place, code, expected, found) in
        [("before", "added_before", before, found.0), ("after", "added_after", after, found.1)]
    {
        if expected != found {
            let message = format!("added {place} a text: expected {}, found {}", list(expected), list(found));
            check.push(Finding::error(code, message));
        }
    }
}

/// Compares the ids of each text.
pub fn texts(metadata: &Metadata, tokenizer: &Encoder, texts: &[Text]) -> Check {
    let mut check = Check::new("token ids");
    if texts.is_empty() {
        return check.skipped("the record has no texts");
    }
    // The tokenizer that the keys describe; llama.cpp only approximates some pre-tokenizers.
    let meant = match Tokenizer::from_gguf(metadata).encoder(Reading::Model) {
        Ok(meant) => meant,
        Err(error) => {
            check.push(Finding::error("tokenizer", error));
            return check;
        }
    };
    // llama.cpp puts a space before a text and after each special token; other tokenizers only before the text.
    let mut without_space = metadata.clone();
    without_space.set(keys::ADD_SPACE_PREFIX, false);
    let is_llama = metadata.get(keys::MODEL).is_some_and(|model| model.as_str() == Some("llama"));
    let once = is_llama.then(|| Tokenizer::from_gguf(&without_space).encoder(Reading::Model).ok()).flatten();
    let (mut n_different, mut n_in_llama_cpp, mut n_spaces, mut n_after_special) = (0, 0, 0, 0);
    for (index, Text { text, ids }) in texts.iter().enumerate() {
        let differs = |tokenizer: &Encoder| match tokenizer.encode(text, false, true) {
            Ok(found) if found == *ids => None,
            Ok(found) => Some(difference(tokenizer, ids, &found)),
            Err(error) => Some(error.to_string()),
        };
        let (of_keys, in_llama_cpp) = (differs(&meant), differs(tokenizer));
        // SentencePiece adds a space before every text, transformers 5 only before texts that do not begin with one.
        let rest = text.strip_prefix(' ').filter(|_| of_keys.is_some());
        if rest.is_some_and(|rest| meant.encode(rest, false, true).is_ok_and(|found| found == *ids)) {
            n_spaces += 1;
            continue;
        }
        let is_once = |once: &Encoder| {
            let mut spelled = [text.clone(), format!(" {text}")].into_iter();
            spelled.any(|text| once.encode(text, false, true).is_ok_and(|found| found == *ids))
        };
        if of_keys.is_some() && once.as_ref().is_some_and(is_once) {
            n_after_special += 1;
            continue;
        }
        n_different += usize::from(of_keys.is_some());
        n_in_llama_cpp += usize::from(of_keys.is_none() && in_llama_cpp.is_some());
        let label = format!("text {} ({})", index + 1, quoted(text));
        // One example is enough.
        match (of_keys, in_llama_cpp) {
            (Some(difference), _) if n_different == 1 => {
                check.push(Finding::error("token_ids", format!("{label}: {difference}")));
            }
            (None, Some(difference)) if n_in_llama_cpp == 1 => {
                let message = format!("{label}: only in llama.cpp: {difference}");
                check.push(Finding::warning("token_ids_in_llama_cpp", message));
            }
            _ => {}
        }
    }
    if n_after_special > 0 {
        let message = format!(
            "{n_after_special} texts differ only in llama.cpp, which puts a space after special tokens; no key expresses this"
        );
        check.push(Finding::warning("token_ids_in_llama_cpp", message));
    }
    if n_spaces > 0 {
        let message = format!("{n_spaces} texts that begin with a space have one more space in the file");
        check.push(Finding::note("leading_space", message));
    }
    check.summary =
        format!("{} of {} texts equal", texts.len() - n_different - n_spaces - n_after_special, texts.len());
    check
}

/// The first difference between two lists of ids.
fn difference(tokenizer: &Encoder, expected: &[u32], found: &[u32]) -> String {
    let at = expected.iter().zip(found).take_while(|(a, b)| a == b).count();
    let list = |ids: &[u32]| match ids.get(at..).unwrap_or_default() {
        [] => "the end".to_owned(),
        ids => ids.iter().take(SHOWN).map(|id| named(tokenizer, *id)).collect::<Vec<_>>().join(", "),
    };
    format!("at token {at}, expected {}, found {}", list(expected), list(found))
}

fn named(tokenizer: &Encoder, id: u32) -> String {
    match tokenizer.token_text(id) {
        Some(text) => format!("{id} {:?}", String::from_utf8_lossy(text)),
        None => format!("{id} (outside the vocabulary)"),
    }
}

fn shown(token: &Token) -> String {
    format!("{} {:?}", token.id, token.text)
}

/// The beginning of a text, quoted.
fn quoted(text: &str) -> String {
    let start: String = text.chars().take(24).collect();
    let dots = if start.len() < text.len() { "…" } else { "" };
    format!("{start:?}{dots}")
}
