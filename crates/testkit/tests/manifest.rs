//! Compares `golden/MANIFEST` with the folder and with the scripts.
#![expect(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

use std::{collections::BTreeSet, fs, path::Path};

use serde_json::{Map, Value as Json};

/// Parses `[[golden]]` tables, using a subset of TOML: keys with basic strings, strings between three
/// quotation marks, and arrays of basic strings on any number of lines.
fn entries(text: &str) -> Vec<Map<String, Json>> {
    let mut entries: Vec<Map<String, Json>> = Vec::new();
    let mut is_entry = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if line.starts_with('[') {
            is_entry = line == "[[golden]]";
            if is_entry {
                entries.push(Map::new());
            }
            continue;
        }
        let (key, first) = line.split_once(" = ").unwrap_or_else(|| panic!("no key and value: {line}"));
        let mut value = first.to_owned();
        let value = if let Some(text) = first.strip_prefix("\"\"\"") {
            value = text.to_owned();
            while !value.ends_with("\"\"\"") {
                value = value + " " + lines.next().expect("the end of a text");
            }
            Json::from(value.trim_end_matches("\"\"\""))
        } else {
            while value.starts_with('[') && !value.ends_with(']') {
                value += lines.next().expect("the end of an array").trim();
            }
            // JSON does not allow a trailing comma.
            serde_json::from_str(&value.replace(",]", "]")).unwrap_or_else(|error| panic!("{value}: {error}"))
        };
        if is_entry {
            let is_new = entries.last_mut().unwrap().insert(key.to_owned(), value).is_none();
            assert!(is_new, "{key} twice");
        }
    }
    entries
}

/// True if a path matches a glob: `*` matches part of a name, `**` part of a path, `{a,b}` either.
fn matches(glob: &[u8], path: &[u8]) -> bool {
    match glob {
        [] => path.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=path.len()).any(|at| matches(rest, &path[at..])),
        [b'*', rest @ ..] => {
            let name = path.iter().position(|byte| *byte == b'/').unwrap_or(path.len());
            (0..=name).any(|at| matches(rest, &path[at..]))
        }
        [b'{', rest @ ..] => {
            let end = rest.iter().position(|byte| *byte == b'}').expect("the end of a choice");
            let mut choices = rest[..end].split(|byte| *byte == b',');
            choices.any(|choice| path.starts_with(choice) && matches(&rest[end + 1..], &path[choice.len()..]))
        }
        [byte, rest @ ..] => path.first() == Some(byte) && matches(rest, &path[1..]),
    }
}

fn list(folder: &Path, prefix: &str, files: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = format!("{prefix}{}", entry.file_name().to_str().unwrap());
        if entry.file_type().unwrap().is_dir() {
            list(&entry.path(), &format!("{name}/"), files)
        } else {
            files.push(name)
        }
    }
}

fn texts<'a>(entry: &'a Map<String, Json>, key: &str) -> Vec<&'a str> {
    let items = entry.get(key).and_then(Json::as_array).unwrap_or_else(|| panic!("no {key} in {entry:?}"));
    items.iter().map(|item| item.as_str().unwrap()).collect()
}

#[test]
fn globs_match_as_documented() {
    for (glob, path, expected) in [
        ("arch/**", "arch/llama/config.json", true),
        ("arch/*", "arch/llama/config.json", false),
        ("arch/{llama,gemma}/*", "arch/gemma/config.json", true),
        ("arch/{llama,gemma}/*", "arch/gemma2/config.json", false),
        ("cli/*.txt", "cli/edges.txt", true),
        ("cli/*.txt", "cli/edges.gguf", false),
    ] {
        assert_eq!(matches(glob.as_bytes(), path.as_bytes()), expected, "{glob} {path}");
    }
}

#[test]
fn goldens_have_one_entry_and_a_maker() {
    let root = gguf_testkit::golden_path("");
    let entries = entries(&fs::read_to_string(root.join("MANIFEST")).unwrap());
    let mut files = Vec::new();
    list(&root, "", &mut files);
    let mut n_entries = vec![0; files.len()];
    for entry in &entries {
        let (excluding, including): (Vec<&str>, Vec<&str>) =
            texts(entry, "files").into_iter().partition(|glob| glob.starts_with('!'));
        let is_match =
            |glob: &&str, file: &String| matches(glob.trim_start_matches('!').as_bytes(), file.as_bytes());
        for glob in including.iter().chain(&excluding) {
            assert!(files.iter().any(|file| is_match(glob, file)), "{glob} matches nothing");
        }
        for (file, n) in files.iter().zip(&mut n_entries) {
            let is_in = including.iter().any(|glob| is_match(glob, file));
            *n += usize::from(is_in && !excluding.iter().any(|glob| is_match(glob, file)));
        }
    }
    let wrong: Vec<_> = files.iter().zip(&n_entries).filter(|(_, n)| **n != 1).collect();
    assert!(wrong.is_empty(), "files and in how many entries of golden/MANIFEST they are: {wrong:#?}");

    let scripts = root.join("../scripts/golden");
    let driver = fs::read_to_string(scripts.join("make")).unwrap();
    let in_table: BTreeSet<&str> = driver
        .lines()
        .filter_map(|line| line.strip_prefix("    (\"").and_then(|rest| rest.split_once('"')))
        .map(|(name, _)| name)
        .collect();
    let mut makers = BTreeSet::new();
    for entry in &entries {
        let text = |key: &str| {
            entry.get(key).and_then(Json::as_str).unwrap_or_else(|| panic!("no {key} in {entry:?}"))
        };
        let (maker, date) = (text("maker"), text("date"));
        assert!(!text("note").is_empty());
        let _ = (texts(entry, "needs"), texts(entry, "versions"));
        assert!(date.len() == 10 && date.is_ascii(), "{date}");
        if maker == "hand" {
            continue;
        }
        makers.insert(maker);
        let is_there = ["py", "sh"].iter().any(|end| scripts.join(format!("{maker}.{end}")).is_file());
        assert!(is_there && in_table.contains(maker), "scripts/golden/make has no {maker}");
    }
    // Two write sources of the crates, not goldens.
    let others: Vec<_> = in_table.difference(&makers).copied().collect();
    assert_eq!(others, ["iq_grids", "pre_expressions"], "makers that no entry names");
}
