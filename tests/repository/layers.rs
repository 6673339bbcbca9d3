//! The list of `ARCHITECTURE.md`, who may use whom, against the manifests.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

type Uses = BTreeMap<String, BTreeSet<String>>;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// `types <- quant, container` means that quant and container may use types.
fn allowed() -> Uses {
    let text = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let mut uses = Uses::new();
    for line in text.lines() {
        let Some((used, users)) = line.split_once(" <- ") else { continue };
        for user in users.split(", ").filter(|user| !user.starts_with('(')) {
            for used in used.split(", ") {
                uses.entry(user.to_owned()).or_default().insert(used.to_owned());
            }
        }
    }
    uses
}

/// The workspace's own crates that a manifest names, by table.
fn named(manifest: &str, crates: &BTreeSet<String>) -> BTreeMap<String, BTreeSet<String>> {
    let mut table = String::new();
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            table = name.trim_end_matches(']').to_owned();
        }
        let package: String = line.chars().take_while(|c| c.is_alphanumeric() || "_-".contains(*c)).collect();
        if let Some(name) = package.strip_prefix("gguf-").filter(|name| crates.contains(*name)) {
            named.entry(table.clone()).or_default().insert(name.to_owned());
        }
    }
    named
}

#[test]
fn crates_use_only_those_below() {
    let mut crates = BTreeSet::new();
    let mut manifests = BTreeMap::new();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        manifests.insert(name.clone(), fs::read_to_string(entry.path().join("Cargo.toml")).unwrap());
        crates.insert(name);
    }
    manifests.insert("src".to_owned(), fs::read_to_string(root().join("Cargo.toml")).unwrap());
    let allowed = allowed();
    assert!(!allowed.is_empty(), "no list in ARCHITECTURE.md");
    for (user, manifest) in &manifests {
        let may = allowed.get(user).cloned().unwrap_or_default();
        let tables = named(manifest, &crates);
        for (table, used) in &tables {
            // The tables of the workspace and of profiles only say where crates are and how they are built; tests may
            // look anywhere.
            let is_of_build = table.starts_with("workspace") || table.starts_with("profile");
            if is_of_build || table.ends_with("dev-dependencies") {
                continue;
            }
            assert!(table.ends_with("dependencies"), "{user}: crates named in [{table}]");
            let too_many: Vec<_> = used.difference(&may).collect();
            assert!(too_many.is_empty(), "{user} uses {too_many:?}, which ARCHITECTURE.md does not allow");
            assert!(!used.contains("testkit") || user == "fuzzing", "{user} uses testkit outside of tests");
        }
        // An unused permission makes the picture wrong.
        let used = tables.get("dependencies").cloned().unwrap_or_default();
        let unused: Vec<_> = may.difference(&used).collect();
        assert!(unused.is_empty(), "ARCHITECTURE.md says that {user} uses {unused:?}");
    }
}

#[test]
fn every_crate_bans_its_calls() {
    let lints = ["print_stdout", "print_stderr", "exit", "disallowed_methods", "disallowed_types"];
    // Neither opens a file nor reads the environment.
    let without_files = ["types", "quant", "products", "tokenizer", "layout", "models", "imatrix", "runtime"];
    let mut checked = 0;
    let folders = fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path());
    for folder in folders.chain([root().to_owned()]) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        // Both are for tests only.
        if ["testkit", "fuzzing"].contains(&name) {
            continue;
        }
        let list = fs::read_to_string(folder.join("clippy.toml")).unwrap_or_default();
        assert!(list.contains("\"std::process::exit\"") && list.contains("\"std::io::stderr\""), "{name}");
        if without_files.contains(&name) {
            for banned in ["std::fs::File::open", "std::fs::read", "std::fs::write", "std::env::var"] {
                assert!(list.contains(&format!("\"{banned}\"")), "{name} does not ban {banned}");
            }
        }
        let library = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
        for lint in lints {
            assert!(library.contains(&format!("clippy::{lint}")), "{name} does not deny clippy::{lint}");
        }
        checked += 1;
    }
    // All but the two for tests.
    assert_eq!(checked, fs::read_dir(root().join("crates")).unwrap().count() - 2 + 1);
}
