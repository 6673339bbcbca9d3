//! Checks a tokenizer.json before the library `tokenizers` reads it, which panics on some contents and lets
//! texts grow without bounds.

use std::collections::HashSet;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::{Map, Value as Json};
use tokenizers::Tokenizer;

use super::added::AddedVocab;
use super::base64;
use super::hf::{AddedToken, HfModel, HfTokenizer, step_type, steps};
use super::vocab_ids;
use crate::json::list;

/// Largest factor by which the steps of a file may lengthen a text. Published files have up to some hundreds.
const MAX_GROWTH: f64 = 4096.0;
const MAX_STEPS: usize = 256;
/// Time limit of the library for one task.
const MAX_TIME: Duration = Duration::from_secs(8);

/// Opens a tokenizer.json with the library, without padding and truncation.
///
/// # Errors
///
/// Contents that the library refuses, or on which it panics.
pub fn library(bytes: &[u8]) -> Result<Tokenizer, String> {
    let hf = HfTokenizer::from_json::<HfModel>(bytes).map_err(|error| error.to_string())?;
    check_steps(&[&hf.normalizer, &hf.pre_tokenizer, &hf.post_processor, &hf.decoder])?;
    let mut added = AddedVocab::default();
    added.by_id.extend((0..).zip(hf.added_tokens.iter().cloned()));
    check_added(&hf, &added)?;
    if hf.model.kind.as_deref().unwrap_or("BPE") == "BPE" {
        let ids = vocab_ids::ids_of(&hf).map_err(|error| error.to_string())?;
        vocab_ids::check_merges(&hf, &ids).map_err(|error| error.to_string())?;
        let prefix = hf.model.continuing_subword_prefix.as_deref().unwrap_or_default();
        check_prefix(prefix, hf.model.merges.0.iter().map(|(_, second)| second.as_str()))?;
    }
    let mut whole: Map<String, Json> = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    for key in ["padding", "truncation"] {
        whole.insert(key.to_owned(), Json::Null);
    }
    Tokenizer::from_bytes(Json::Object(whole).to_string()).map_err(|error| error.to_string())
}

/// Runs the library on another thread, because expressions of a file may take any time. After the time limit,
/// the thread is abandoned.
pub(super) fn timed<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let (sender, receiver) = channel();
    let send = move || drop(sender.send(work()));
    thread::Builder::new().spawn(send).map_err(|error| error.to_string())?;
    receiver
        .recv_timeout(MAX_TIME)
        .unwrap_or_else(|_| Err(format!("the tokenizer takes longer than {} s", MAX_TIME.as_secs())))
}

/// Checks the steps of a tokenizer for contents on which the library panics, and for growth.
pub(super) fn check_steps(parts: &[&Json]) -> Result<(), String> {
    let (mut templates, mut growth) = (0, 1.0);
    let all: Vec<&Json> = parts.iter().flat_map(|part| steps(part)).collect();
    if all.len() > MAX_STEPS {
        return Err(format!("expected at most {MAX_STEPS} steps, found {}", all.len()));
    }
    for step in all {
        let expression = step.get("pattern").and_then(|pattern| pattern.get("Regex")?.as_str());
        if expression.is_some_and(|expression| expression.contains(r"\K")) {
            // It allows a match to end before it starts.
            return Err(r"`pattern`: `\K` is not supported".into());
        }
        if step.get("length").and_then(Json::as_u64) == Some(0) {
            return Err("`pre_tokenizer`: `length` is 0".into());
        }
        if step.get("stop").is_some_and(|stop| *stop != 0) {
            return Err("`decoder`: a decoder that cuts off the end of tokens is not supported".into());
        }
        growth *= growth_of(step)?;
        if growth > MAX_GROWTH {
            let name = step_type(step);
            return Err(format!(
                "step `{name}` lengthens texts: more than {MAX_GROWTH} times with the steps before it"
            ));
        }
        let pieces = || list(step, "single").iter().chain(list(step, "pair"));
        let mut names = pieces().filter_map(|piece| piece.get("SpecialToken")?.get("id")?.as_str());
        let is_defined =
            |name: &str| step.get("special_tokens").is_some_and(|tokens| tokens.get(name).is_some());
        if let Some(name) = names.find(|name| !is_defined(name)) {
            return Err(format!("`post_processor`: token `{name}` is not in `special_tokens`"));
        }
        let mut texts = list(step, "single").iter().filter_map(|piece| piece.get("Sequence")?.get("id"));
        templates += usize::from(step.get("single").is_some());
        if texts.any(|id| id != "A") || templates > 1 {
            return Err("`post_processor`: expected one template of one text".into());
        }
    }
    Ok(())
}

/// Factor by which a step may lengthen a text.
fn growth_of(step: &Json) -> Result<f64, String> {
    let content = step.get("content").and_then(Json::as_str).unwrap_or_default().len() as f64;
    Ok(match step_type(step) {
        "Replace" => match step.get("pattern").and_then(|pattern| pattern.get("String")?.as_str()) {
            Some(pattern) if !pattern.is_empty() => (content / pattern.len() as f64).max(1.0),
            // It may match the empty text between any two characters.
            _ => 1.0 + content,
        },
        "Prepend" => 1.0 + step.get("prepend").and_then(Json::as_str).unwrap_or_default().len() as f64,
        "ByteLevel" => 2.0,
        "Metaspace" => 3.0,
        // The longest compatible spelling has 18 characters for 1 (U+FDFA).
        "NFKC" | "NFKD" => 11.0,
        "NFC" | "NFD" | "Lowercase" | "BertNormalizer" => 3.0,
        "Precompiled" => {
            let text = step.get("precompiled_charsmap").and_then(Json::as_str).unwrap_or_default();
            let bytes = base64::decode(text.as_bytes()).ok_or("`precompiled_charsmap`: invalid base64")?;
            check_charsmap(&bytes).ok_or("`precompiled_charsmap`: invalid table")?
        }
        _ => 1.0,
    })
}

/// Checks SentencePiece's table of replacements: a trie, and the replacements, which end with zero bytes. Returns the largest
/// growth.
///
/// Source: `DoubleArray::common_prefix_search` and `Precompiled::transform` of spm_precompiled 0.1.4, which do not check it.
fn check_charsmap(bytes: &[u8]) -> Option<f64> {
    let (size, rest) = bytes.split_first_chunk::<4>()?;
    let (trie, texts) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*size)).ok()? / 4 * 4)?;
    let texts = std::str::from_utf8(texts).ok()?;
    let units: Vec<usize> = trie
        .chunks_exact(4)
        .map(|unit| u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]]) as usize)
        .collect();
    let offset = |unit: usize| (unit >> 10) << ((unit & (1 << 9)) >> 6);
    let mut open = vec![offset(*units.first()?)];
    let (mut seen, mut longest) = (HashSet::new(), 1);
    while let Some(node) = open.pop() {
        for byte in 1..=255 {
            let at = node ^ byte;
            let unit = *units.get(at)?;
            if unit & (1 << 31 | 0xff) != byte {
                continue;
            }
            let next = at ^ offset(unit);
            if unit >> 8 & 1 == 1 {
                let start = *units.get(next)? & ((1 << 31) - 1);
                longest = longest.max(texts.get(start..)?.split('\0').next()?.len());
            }
            if seen.insert(next) {
                open.push(next);
            }
        }
    }
    Some(longest as f64)
}

/// Checks that no added token can be inside the whitespace that another one absorbs.
pub(super) fn check_added(hf: &HfTokenizer, added: &AddedVocab) -> Result<(), String> {
    let absorbs = added.by_id.values().any(|token| token.rstrip);
    let is_changed = |token: &AddedToken| token.is_normalized() && !hf.normalizer.is_null();
    let is_blank =
        |token: &&AddedToken| token.lstrip && (token.content.trim().is_empty() || is_changed(token));
    match added.by_id.values().find(is_blank).filter(|_| absorbs) {
        None => Ok(()),
        Some(token) => Err(format!("added token `{}` is whitespace and absorbs whitespace", token.content)),
    }
}

/// Checks that the second token of every merge has the prefix of continuing tokens, which the library cuts
/// off by its length.
pub(super) fn check_prefix<'a>(
    prefix: &str,
    mut seconds: impl Iterator<Item = &'a str>,
) -> Result<(), String> {
    match seconds.find(|second| !second.is_char_boundary(prefix.len())) {
        None => Ok(()),
        Some(second) => {
            Err(format!("`merges`: `{second}` does not begin with `continuing_subword_prefix` (`{prefix}`)"))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn template_with_undefined_token_is_refused() {
        let template = |defined: &str| {
            json!({ "type": "Sequence", "processors": [{
                "type": "TemplateProcessing",
                "single": [{ "SpecialToken": { "id": "<s>", "type_id": 0 } }, { "Sequence": { "id": "A", "type_id": 0 } }],
                "pair": [], "special_tokens": { defined: { "id": defined, "ids": [1], "tokens": [defined] } },
            }] })
        };
        assert_eq!(check_steps(&[&template("<s>")]), Ok(()));
        assert_eq!(check_steps(&[&Json::Null]), Ok(()));
        let refused = check_steps(&[&template("<bos>")]).unwrap_err();
        assert_eq!(refused, "`post_processor`: token `<s>` is not in `special_tokens`");
    }

    /// Each of these panics in version 0.23 of the library, or exhausts memory.
    #[test]
    fn hostile_steps_are_refused() {
        let template =
            |id: &str| json!({ "type": "TemplateProcessing", "single": [{ "Sequence": { "id": id } }] });
        let first = template("A");
        assert_eq!(check_steps(&[&first]), Ok(()));
        let grow = |pattern: Json, content: &str, n: usize| {
            let step = json!({ "type": "Replace", "pattern": pattern, "content": content });
            json!({ "type": "Sequence", "normalizers": vec![step; n] })
        };
        let space = grow(json!({ "String": " " }), "\u{2581}", 2);
        assert_eq!(check_steps(&[&space, &json!({ "type": "NFKC" })]), Ok(()));
        let bytes = json!({ "pretokenizers": vec![json!({ "type": "ByteLevel" }); 20] });
        for step in [
            template("B"),
            json!({ "processors": [first, first] }),
            json!({ "pretokenizers": [{ "type": "FixedLength", "length": 0 }] }),
            json!({ "normalizers": [{ "type": "Precompiled", "precompiled_charsmap": "AAAA" }] }),
            json!({ "type": "Split", "pattern": { "Regex": r"(?=ab\K)" } }),
            grow(json!({ "String": "a" }), "aa", 60),
            grow(json!({ "Regex": "" }), "aa", 20),
            grow(json!({ "String": "aa" }), "a", 1000),
            bytes,
        ] {
            assert!(check_steps(&[&step]).is_err(), "{step}");
        }
    }

    #[test]
    fn invalid_tables_of_replacements_are_refused() {
        // The root has no children: all units have another label.
        let mut table = 1024u32.to_le_bytes().to_vec();
        table.extend([0; 1024]);
        assert_eq!(check_charsmap(&table), Some(1.0));
        table.extend(b"a\0");
        assert_eq!(check_charsmap(&table), Some(1.0));
        let mut units = table.clone();
        // The unit of byte 1 is its own label, and its children are outside the table.
        units[4 + 4..4 + 8].copy_from_slice(&(1u32 | 0x3000 << 10).to_le_bytes());
        for damaged in [&[][..], b"\x01", &table[..500], &units] {
            assert_eq!(check_charsmap(damaged), None);
        }
    }

    #[test]
    fn whitespace_in_whitespace_is_refused() {
        let token = |content: &str| AddedToken { lstrip: true, ..AddedToken::special(content) };
        let mut added = AddedVocab::default();
        added.by_id.extend([(0, token("<a>")), (1, token(" "))]);
        assert_eq!(check_added(&HfTokenizer::default(), &added), Ok(()));
        added.by_id.insert(2, AddedToken { rstrip: true, ..AddedToken::special("<b>") });
        assert!(check_added(&HfTokenizer::default(), &added).is_err());
    }

    #[test]
    fn prefix_that_cuts_a_token_is_refused() {
        let check = |prefix: &str| check_prefix(prefix, ["##b", "\u{e9}"].into_iter());
        assert_eq!(check(""), Ok(()));
        assert_eq!(check("##"), Ok(()));
        // Longer than the token, and inside a character.
        for prefix in ["####", "#"] {
            assert!(check(prefix).unwrap_err().contains("`continuing_subword_prefix`"), "{prefix}");
        }
    }
}
