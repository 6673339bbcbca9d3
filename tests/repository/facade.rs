//! The toolkit is the only crate that programs, examples and the Python package use.

use std::{fs, path::Path};

/// Folders of code that knows the toolkit alone.
const USERS: [&str; 3] = ["src", "examples", "python/src"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Names of the libraries below the toolkit, without those for tests.
fn inner_libraries() -> Vec<String> {
    let folders = fs::read_dir(root().join("crates")).unwrap();
    let names = folders.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let inner = names.filter(|name| !["toolkit", "testkit", "fuzzing"].contains(&name.as_str()));
    inner.map(|name| format!("gguf_{name}")).collect()
}

/// The rest of each line of code after the name of a library.
fn uses<'a>(text: &'a str, library: &'a str) -> impl Iterator<Item = &'a str> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let rests =
        code.flat_map(move |line| line.match_indices(library).map(|(at, name)| &line[at + name.len()..]));
    rests.filter(|rest| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_'))
}

#[test]
fn programs_use_no_inner_crate() {
    let libraries = inner_libraries();
    assert!(libraries.contains(&"gguf_container".to_owned()), "{libraries:?}");
    let mut files = Vec::new();
    for folder in USERS {
        let found = gguf_testkit::rust_files(&root().join(folder));
        assert!(!found.is_empty(), "no files in {folder}");
        files.extend(found);
    }
    let mut faults = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let used = libraries.iter().filter(|library| uses(&text, library).next().is_some());
        faults.extend(used.map(|library| format!("{} uses {library}", path.display())));
    }
    assert!(faults.is_empty(), "use gguf_toolkit instead:\n{}", faults.join("\n"));
}

#[test]
fn toolkit_exports_no_whole_crate() {
    let text = fs::read_to_string(root().join("crates/toolkit/src/lib.rs")).unwrap();
    let libraries = inner_libraries();
    let mut n_uses = 0;
    for library in &libraries {
        for rest in uses(&text, library) {
            n_uses += 1;
            let is_named = rest.starts_with("::") && !rest.starts_with("::*") && !rest.contains("::*;");
            assert!(is_named, "{library}{rest}: export items by name");
        }
    }
    assert!(n_uses > 0, "no exports found");
}
