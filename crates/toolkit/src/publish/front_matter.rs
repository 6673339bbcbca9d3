//! Front matter of the card: keys that the program writes, and the publisher's own, which are kept.

use std::{fs, path::Path};

use serde_json::Value;

use super::names::CARD;
use crate::{error::Error, text_file};

/// The line before and after the front matter.
const FENCE: &str = "---";
/// Keys whose lists of several sources are united.
const LISTS: [&str; 3] = ["tags", "datasets", "language"];

/// Front matter of a card without its fences, and the rest of the card.
pub fn split(card: &str) -> (&str, &str) {
    let first = card.split_inclusive('\n').next().filter(|line| line.trim_end() == FENCE);
    let Some(start) = first.map(str::len) else { return ("", card) };
    let mut at = start;
    for line in card[start..].split_inclusive('\n') {
        if line.trim_end() == FENCE {
            return (&card[start..at], &card[at + line.len()..]);
        }
        at += line.len();
    }
    ("", card)
}

/// A card of both parts.
pub fn joined(head: &str, body: &str) -> String {
    format!("{FENCE}\n{head}{FENCE}\n{body}")
}

/// Lines of a top-level key, with the comments before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Key {
    name: String,
    lines: String,
}

impl Key {
    /// The items of a list of texts, or a single text.
    fn items(&self) -> Option<Vec<String>> {
        let parsed = gguf_checkpoint::front_matter(joined(&self.lines, "").as_bytes()).ok()??;
        match parsed.get(&self.name)? {
            Value::Array(items) => items.iter().map(|item| item.as_str().map(str::to_owned)).collect(),
            value => Some(vec![value.as_str()?.to_owned()]),
        }
    }

    /// This key with the items that only `other` has, if both are lists. Otherwise, `other` replaces it. The lines of a list
    /// with all items are kept.
    fn united(&self, other: &Key) -> Key {
        let (Some(mut items), Some(others)) = (self.items(), other.items()) else { return other.clone() };
        if !LISTS.contains(&self.name.as_str()) || items.iter().all(|item| others.contains(item)) {
            return other.clone();
        }
        let n = items.len();
        let added: Vec<String> = others.into_iter().filter(|item| !items.contains(item)).collect();
        items.extend(added);
        if items.len() == n {
            return self.clone();
        }
        let comments = other.lines.lines().take_while(|line| line.starts_with('#'));
        let head = comments.map(str::to_owned).chain([format!("{}:", self.name)]);
        let items = items.iter().map(|item| format!("- {}", Value::from(item.as_str())));
        let lines = head.chain(items).map(|line| line + "\n").collect();
        Key { name: self.name.clone(), lines }
    }
}

fn keys(head: &str) -> Vec<Key> {
    let mut keys: Vec<Key> = Vec::new();
    for line in head.lines() {
        let name = name(line);
        let begins = name.is_some() || line.starts_with('#');
        if keys.last().is_none_or(|last| begins && !last.name.is_empty()) {
            keys.push(Key::default());
        }
        let Some(last) = keys.last_mut() else { continue };
        last.lines += &format!("{}\n", line.trim_end());
        last.name.extend(name);
    }
    keys
}

/// The key that begins in a line.
fn name(line: &str) -> Option<&str> {
    let (name, _) = line.split_once(':')?;
    let is_inside = line.starts_with(|c: char| c.is_whitespace() || "-#]}".contains(c));
    (!is_inside).then(|| name.trim().trim_matches(['"', '\'']))
}

/// Keys of the publisher.
#[derive(Debug, Clone, Default)]
pub struct OwnKeys(Vec<Key>);

impl OwnKeys {
    /// The keys of the file `given`. Without a file, those of `earlier`, a run that was interrupted.
    ///
    /// # Errors
    /// A file that cannot be read; invalid YAML.
    pub fn of(given: Option<&Path>, earlier: &str) -> Result<OwnKeys, Error> {
        let Some(path) = given else { return Ok(OwnKeys(keys(earlier))) };
        let text = text_file::options(path)?;
        let head = match split(&text) {
            ("", _) => text.strip_prefix("---\n").unwrap_or(&text),
            (head, _) => head,
        };
        check(path, head)?;
        Ok(OwnKeys(keys(head)))
    }

    /// These keys, then those of the card in `out` that the last run, with these results, did not write. Tags, data sets and
    /// languages of both are united.
    ///
    /// # Errors
    /// Invalid YAML.
    pub fn with_card(mut self, out: &Path, results: Option<&Value>) -> Result<OwnKeys, Error> {
        let path = out.join(CARD);
        let Ok(card) = fs::read_to_string(&path) else { return Ok(self) };
        let (former, _) = split(&card);
        check(&path, former)?;
        let last = match results {
            // Earlier versions kept no keys.
            Some(results) => keys(results["front_matter"].as_str().unwrap_or(former)),
            None => Vec::new(),
        };
        for kept in keys(former).into_iter().filter(|key| !last.contains(key)) {
            match self.0.iter_mut().find(|key| key.name == kept.name) {
                Some(given) => *given = kept.united(given),
                None => self.0.push(kept),
            }
        }
        Ok(self)
    }

    /// The keys as YAML; `None` without keys.
    pub fn text(&self) -> Option<String> {
        (!self.is_empty()).then(|| self.0.iter().map(|key| key.lines.as_str()).collect())
    }

    /// True if the publisher states no key.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, name: &str) -> Option<&Key> {
        self.0.iter().find(|key| key.name == name)
    }

    /// True if the publisher states this key.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The front matter `generated`, in which these keys replace or extend those of the same names.
    pub fn merged(&self, generated: &str) -> String {
        let generated = keys(generated);
        let added = self.0.iter().filter(|own| generated.iter().all(|key| key.name != own.name));
        let own = |key: &Key| self.find(&key.name).map_or_else(|| key.clone(), |own| key.united(own));
        let keys = generated.iter().map(own).chain(added.cloned());
        keys.map(|key| key.lines).collect()
    }
}

/// Refuses front matter that the Hub cannot read.
fn check(path: &Path, head: &str) -> Result<(), Error> {
    let card = joined(head, "");
    let parsed = gguf_checkpoint::front_matter(card.as_bytes()).map(drop);
    parsed.map_err(|problem| {
        Error::at(path, format_args!("invalid front matter: {problem}"))
            .hint(["correct the YAML; front matter is a list of `key: value`"])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn front_matter_is_split_and_joined() {
        for (card, head, body) in [
            ("---\na: 1\n---\n# A\n---\n", "a: 1\n", "# A\n---\n"),
            ("---\n---\n", "", ""),
            ("# A\n", "", "# A\n"),
            ("---\na: 1\n", "", "---\na: 1\n"),
        ] {
            assert_eq!(split(card), (head, body));
        }
        assert_eq!(split(&joined("a: 1\n", "# A\n")), ("a: 1\n", "# A\n"));
        assert_eq!(split("---\r\na: 1\r\n---\r\n# A\r\n"), ("a: 1\r\n", "# A\r\n"));
    }

    #[test]
    fn keys_of_publisher_are_kept() {
        let place = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = place.path().join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let last = "license: \"mit\"\nquantized_by: \"me\"\ntags:\n- \"gguf\"\n";
        let results = serde_json::json!({ "front_matter": last });
        let merged = |given: Option<&Path>, results: Option<&Value>| {
            OwnKeys::of(given, "")
                .and_then(|own| own.with_card(place.path(), results))
                .map(|own| own.merged("license: \"isc\"\ntags:\n- \"gguf\"\n"))
        };
        let generated = "license: \"isc\"\ntags:\n- \"gguf\"\n";
        write(CARD, &joined(last, "# A\n"));
        assert_eq!(merged(None, Some(&results)).unwrap(), generated, "the program's keys are written anew");
        // A list that was extended, and a new key with a comment and a block of text.
        let text = "# From the data team.\nprompt: |\n  a: b\n\n  c\n";
        write(CARD, &joined(&format!("{last}- chat\n{text}"), "# A\n"));
        let expected = format!("{generated}- chat\n{text}");
        assert_eq!(merged(None, Some(&results)).unwrap(), expected);
        // A given file comes first. A card of another program is the publisher's.
        let file = write("more.yaml", "license: other\ndatasets: [a/b]\n");
        let kept = format!("license: other\ntags:\n- \"gguf\"\n- chat\ndatasets: [a/b]\n{text}");
        assert_eq!(merged(Some(&file), Some(&results)).unwrap(), kept);
        assert!(merged(None, None).unwrap().starts_with("license: \"mit\"\ntags:"));
        // Lists are united with those of the card and of the program.
        let file = write("tags.yaml", "# Ours.\ntags: [news]\n");
        let united = "# Ours.\ntags:\n- \"gguf\"\n- \"chat\"\n- \"news\"\n";
        assert_eq!(merged(Some(&file), Some(&results)).unwrap(), format!("license: \"isc\"\n{united}{text}"));
        let file = write("bad.yaml", "tags: [\n");
        let error = merged(Some(&file), None).unwrap_err().to_string();
        assert!(error.contains("bad.yaml: invalid front matter"), "{error}");
    }
}
