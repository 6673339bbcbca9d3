//! Order of a crate's modules, read from its sources.
//!
//! Floors list modules from bottom to top. A module may use those on lower floors. The files of one
//! listed module (a folder) may use each other, but not in a cycle.
//!
//! A use is every path that begins with `crate::`, `self::`, `super::` or the name of a child module, in
//! `use` items and elsewhere. A re-export (`pub use`) does not count as a use; a path through it counts as a
//! use of the module it leads to. Tests (`#[cfg(test)] mod`) may use everything.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Violations of a crate's module order, one sentence each; empty if there are none.
///
/// `crate_folder` contains `src`. `floors` are groups of modules (`"vocab"`, `"vocab::pre"`; the most
/// specific name counts, and represents all modules below it), from bottom to top; modules of one floor do
/// not use each other. The crate's root is on top unless it is listed as `"lib"`.
///
/// # Panics
/// If a source file cannot be read.
pub fn module_order(crate_folder: &Path, floors: &[&[&str]]) -> Vec<String> {
    let mut sources = BTreeMap::new();
    collect(&crate_folder.join("src"), &mut Vec::new(), &mut sources);
    faults(&sources, floors)
}

/// Files of a folder and its subfolders, sorted by path.
///
/// # Panics
/// If a folder cannot be listed.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder can be listed");
    let paths = entries.map(|entry| entry.expect("a folder can be listed").path());
    let mut files: Vec<PathBuf> =
        paths.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    files.sort();
    files
}

/// Like [`files`], for Rust files only.
///
/// # Panics
/// If a folder cannot be listed.
pub fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let is_rust = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "rs");
    files(folder).into_iter().filter(is_rust).collect()
}

/// Copies a folder with its subfolders. Files get the usual permissions, not those of the checkout.
///
/// # Panics
/// If a file or folder cannot be read or written.
pub fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be created");
    for entry in fs::read_dir(from).expect("a folder can be listed") {
        let from = entry.expect("a folder can be listed").path();
        let to = to.join(from.file_name().unwrap_or_default());
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::write(to, fs::read(from).expect("a file can be read")).expect("a file can be written");
        }
    }
}

/// Module paths to texts; the root is the empty path.
type Sources = BTreeMap<Vec<String>, String>;

fn collect(folder: &Path, prefix: &mut Vec<String>, sources: &mut Sources) {
    let entries = fs::read_dir(folder).expect("a folder of sources can be listed");
    for path in entries.map(|entry| entry.expect("a folder of sources can be listed").path()) {
        let Some(stem) = path.file_stem().and_then(|stem| stem.to_str()) else { continue };
        let is_root = prefix.is_empty() && matches!(stem, "lib" | "main");
        if path.is_dir() {
            prefix.push(stem.to_owned());
            collect(&path, prefix, sources);
            prefix.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let mut module = prefix.clone();
            if stem != "mod" && !is_root {
                module.push(stem.to_owned());
            }
            sources.insert(module, fs::read_to_string(&path).expect("a source file can be read"));
        }
    }
}

#[derive(Default)]
struct Module {
    paths: BTreeSet<Vec<String>>,
    exports: BTreeMap<String, Vec<String>>,
    /// Paths whose contents are all re-exported.
    globs: Vec<Vec<String>>,
}

fn faults(sources: &Sources, floors: &[&[&str]]) -> Vec<String> {
    let mut tests = BTreeSet::new();
    let tokens: BTreeMap<&Vec<String>, Vec<String>> =
        sources.iter().map(|(path, text)| (path, without_tests(tokens(text), path, &mut tests))).collect();
    let is_test = |path: &[String]| (1..=path.len()).any(|n| tests.contains(&path[..n]));
    let modules: BTreeMap<Vec<String>, Module> = tokens
        .into_iter()
        .filter(|(path, _)| !is_test(path))
        .map(|(path, tokens)| (path.clone(), read(path, &tokens, sources)))
        .collect();

    // Modules used by each module.
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, module) in &modules {
        let used = module.paths.iter().filter_map(|used| follow(used, &modules, 0));
        let used = used.map(|used| name(&used)).filter(|used| *used != name(path));
        uses.insert(name(path), used.collect());
    }

    let mut faults = Vec::new();
    let floor_of: BTreeMap<&str, usize> =
        floors.iter().enumerate().flat_map(|(i, floor)| floor.iter().map(move |name| (*name, i))).collect();
    for listed in floor_of.keys().filter(|listed| !uses.contains_key(**listed)) {
        faults.push(format!("`{listed}` is listed and is no module"));
    }
    // The most specific entry that covers a module, and its floor.
    let place = |module: &str| {
        let covers = floor_of.iter().filter(|(listed, _)| is_within(module, listed));
        match covers.max_by_key(|(listed, _)| listed.len()) {
            Some((listed, floor)) => Some(((*listed).to_owned(), *floor)),
            None if module == "lib" => Some(("lib".to_owned(), floors.len())),
            None => None,
        }
    };
    let mut inside: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (user, used) in &uses {
        let Some((user_entry, user_floor)) = place(user) else {
            faults.push(format!("`{user}` is on no floor"));
            continue;
        };
        for used in used {
            let Some((used_entry, used_floor)) = place(used) else { continue };
            if user_entry == used_entry {
                inside.entry(user.clone()).or_default().insert(used.clone());
            } else if user_floor == used_floor {
                faults.push(format!("`{user}` uses `{used}`, which is on the same floor"));
            } else if user_floor < used_floor {
                faults.push(format!("`{user}` uses `{used}`, which is on a floor above"));
            }
        }
    }
    faults.extend(circles(&inside).into_iter().map(|circle| format!("a circle: {}", circle.join(", "))));
    faults
}

/// Groups of modules that use each other, directly or indirectly.
fn circles(uses: &BTreeMap<String, BTreeSet<String>>) -> Vec<Vec<String>> {
    let reachable = |from: &String| {
        let mut seen = BTreeSet::new();
        let mut open = vec![from.clone()];
        while let Some(module) = open.pop() {
            for used in uses.get(&module).into_iter().flatten() {
                if seen.insert(used.clone()) {
                    open.push(used.clone());
                }
            }
        }
        seen
    };
    let reach: BTreeMap<&String, BTreeSet<String>> =
        uses.keys().map(|from| (from, reachable(from))).collect();
    let mut circles: Vec<Vec<String>> = Vec::new();
    for (module, seen) in &reach {
        let is_known = circles.iter().flatten().any(|known| known == *module);
        if is_known || !seen.contains(*module) {
            continue;
        }
        let back = |other: &&String| reach.get(*other).is_some_and(|seen| seen.contains(*module));
        circles.push(seen.iter().filter(back).cloned().collect());
    }
    circles
}

fn name(path: &[String]) -> String {
    if path.is_empty() { "lib".to_owned() } else { path.join("::") }
}

fn is_within(module: &str, outer: &str) -> bool {
    module.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Module that a path leads to, through re-exports; `None` if it leads out of the crate.
fn follow(path: &[String], modules: &BTreeMap<Vec<String>, Module>, depth: usize) -> Option<Vec<String>> {
    let n = (0..=path.len()).rev().find(|n| modules.contains_key(&path[..*n]))?;
    let module = &modules[&path[..n]];
    let Some(next) = path.get(n) else { return Some(path.to_vec()) };
    // Deeper than any chain of re-exports: they form a cycle.
    if depth > 8 {
        return Some(path[..n].to_vec());
    }
    if let Some(target) = module.exports.get(next) {
        let target: Vec<String> = target.iter().chain(&path[n + 1..]).cloned().collect();
        return follow(&target, modules, depth + 1);
    }
    // Names imported by a glob are only resolved for re-exports of re-exports; others stay with this module.
    for glob in &module.globs {
        if modules.get(glob).is_some_and(|module| module.exports.contains_key(next)) {
            let target: Vec<String> = glob.iter().chain(&path[n..]).cloned().collect();
            return follow(&target, modules, depth + 1);
        }
    }
    Some(path[..n].to_vec())
}

/// Identifiers, `::` and single signs of a text, without comments, strings and lifetimes.
fn tokens(text: &str) -> Vec<String> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skip = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if let Some(n) = raw_string(rest) {
            n
        } else if c == '"' {
            string(rest)
        } else if c == '\'' {
            // A character, or the sign of a lifetime, whose name is harmless.
            let mut chars = rest.char_indices().skip(1);
            let (first, second) = (chars.next(), chars.next());
            match (first, second) {
                (Some((_, '\\')), _) => 2 + rest[2..].find('\'').map_or(0, |at| at + 1),
                (_, Some((at, '\''))) => at + 1,
                _ => 1,
            }
        } else if is_word(c) {
            let n = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            tokens.push(rest[..n].to_owned());
            n
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else {
            if !c.is_whitespace() {
                tokens.push(c.to_string());
            }
            c.len_utf8()
        };
        rest = &rest[skip..];
    }
    tokens
}

/// Length of a raw string at the start of a text.
fn raw_string(text: &str) -> Option<usize> {
    let body = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let n_signs = body.find(|c| c != '#')?;
    body[n_signs..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(n_signs));
    let start = text.len() - body.len() + n_signs + 1;
    Some(text[start..].find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// Length of a string at the start of a text.
fn string(text: &str) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Removes `#[cfg(test)] mod NAME { .. }`, and records the test files of `#[cfg(test)] mod NAME;`.
fn without_tests(tokens: Vec<String>, module: &[String], tests: &mut BTreeSet<Vec<String>>) -> Vec<String> {
    const MARK: [&str; 8] = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
    let mut remaining = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens.len() < at + 10 || tokens[at..at + 8] != MARK {
            remaining.push(tokens[at].clone());
            at += 1;
            continue;
        }
        if tokens[at + 9] == ";" {
            tests.insert(module.iter().chain([&tokens[at + 8]]).cloned().collect());
        }
        at += 9;
        let mut depth = 0;
        loop {
            match tokens.get(at).map(String::as_str) {
                Some("{") => depth += 1,
                Some("}") => depth -= 1,
                None => break,
                _ => {}
            }
            at += 1;
            if depth == 0 {
                break;
            }
        }
    }
    remaining
}

fn read(module: &[String], tokens: &[String], sources: &Sources) -> Module {
    let mut read = Module::default();
    let mut at = 0;
    while at < tokens.len() {
        // `impl Trait + use<'a>` captures and uses no module.
        let captures = tokens.get(at + 1).is_some_and(|next| next == "<");
        let is_use = tokens[at] == "use" && !captures && at.checked_sub(1).is_none_or(|i| tokens[i] != "::");
        if is_use {
            let is_export = at > 0 && matches!(tokens[at - 1].as_str(), "pub" | ")");
            let mut leaves = Vec::new();
            at = tree(tokens, at + 1, &mut Vec::new(), &mut leaves);
            for (path, alias) in leaves {
                let Some(path) = absolute(module, &path, sources) else { continue };
                match alias.as_str() {
                    "*" if is_export => read.globs.push(path),
                    _ if is_export => {
                        read.exports.insert(alias, path);
                    }
                    _ => {
                        read.paths.insert(path);
                    }
                }
            }
            continue;
        }
        let begins = at == 0 || tokens[at - 1] != "::";
        if begins && tokens.get(at + 1).is_some_and(|next| next == "::") {
            let mut path = vec![tokens[at].clone()];
            while tokens.get(at + 1).is_some_and(|next| next == "::")
                && tokens.get(at + 2).is_some_and(|next| next.starts_with(|c: char| c.is_alphabetic()))
            {
                path.push(tokens[at + 2].clone());
                at += 2;
            }
            // `pub(in crate::decoder)` is a visibility, not a use.
            let is_visibility = at >= 2 * path.len() - 1 && tokens[at + 1 - (2 * path.len() - 1) - 1] == "in";
            if let Some(path) = absolute(module, &path, sources).filter(|_| !is_visibility) {
                read.paths.insert(path);
            }
        }
        at += 1;
    }
    read
}

/// Leaves of a `use` tree, each with its name, or `*` for everything; returns the end of the tree.
fn tree(
    tokens: &[String],
    mut at: usize,
    prefix: &mut Vec<String>,
    leaves: &mut Vec<(Vec<String>, String)>,
) -> usize {
    let depth = prefix.len();
    let mut alias = None;
    loop {
        let token = tokens.get(at).map_or(";", String::as_str);
        match token {
            "::" => {}
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| token != "}") {
                    at = tree(tokens, at, prefix, leaves);
                    if tokens.get(at).is_some_and(|token| token == ",") {
                        at += 1;
                    }
                }
                prefix.truncate(depth);
                return at + 1;
            }
            "as" => {
                alias = tokens.get(at + 1).cloned();
                at += 1;
            }
            "," | "}" | ";" => break,
            _ => prefix.push(token.to_owned()),
        }
        at += 1;
    }
    // `a::{self}` is `a`.
    if prefix.len() > 1 && prefix.last().is_some_and(|last| last == "self") {
        prefix.pop();
    }
    let last = prefix.last().cloned().unwrap_or_default();
    let path = if last == "*" { &prefix[..prefix.len() - 1] } else { &prefix[..] };
    leaves.push((path.to_vec(), alias.unwrap_or(last)));
    prefix.truncate(depth);
    at
}

/// A path from the crate's root; `None` for another crate or a type.
fn absolute(module: &[String], path: &[String], sources: &Sources) -> Option<Vec<String>> {
    let mut at = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => (at, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|first| first == "super") {
                at.pop();
                rest = &rest[1..];
            }
        }
        child => {
            at.push(child.to_owned());
            if !sources.contains_key(&at) {
                return None;
            }
            at.pop();
        }
    }
    at.extend(rest.iter().cloned());
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let path = |name: &str| name.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect();
        files.iter().map(|(name, text)| (path(name), (*text).to_owned())).collect()
    }

    /// A crate whose table of rows is on top, with a circle in a folder and a re-export.
    fn example() -> Sources {
        sources(&[
            ("", "mod a; pub use a::{One, two as Two};"),
            (
                "a",
                "pub struct One; // crate::top::x\n const S: &str = \"crate::top\"; fn f<'a>(c: char) { c == '\"'; }",
            ),
            ("b", "mod x; mod y; pub(crate) use x::{X, nothing::*};\n use crate::One;"),
            ("b::x", "use super::y::Y; fn f() { crate::a::two() }"),
            ("b::y", "use super::X; #[cfg(test)] mod tests { use crate::top::T; } #[cfg(test)] mod slow;"),
            ("b::y::slow", "use crate::top::T;"),
            ("top", "use crate::{a::{self, One}, b::X}; pub(in crate::top) struct T;"),
        ])
    }

    #[test]
    fn cycles_are_found_in_code_only() {
        let found = faults(&example(), &[&["a"], &["b"], &["top"]]);
        assert_eq!(found, ["a circle: b::x, b::y"]);
    }

    #[test]
    fn upward_and_sideways_uses_are_faults() {
        let found = faults(&example(), &[&["a", "b", "b::x"], &["b::y"], &["c"]]);
        let expected = [
            "`c` is listed and is no module",
            "`b` uses `a`, which is on the same floor",
            "`b::x` uses `a`, which is on the same floor",
            "`b::x` uses `b::y`, which is on a floor above",
            "`top` is on no floor",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn root_is_on_top_unless_listed() {
        let sources = sources(&[("", "pub const N: usize = 1;"), ("a", "use crate::N;")]);
        assert_eq!(faults(&sources, &[&["a"]]), ["`a` uses `lib`, which is on a floor above"]);
        assert_eq!(faults(&sources, &[&["lib"], &["a"]]), [""; 0]);
    }
}
