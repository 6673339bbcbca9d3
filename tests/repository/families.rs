//! The list of families in `crates/models`, which is written from their folders.

use std::{env, fmt::Write, fs, path::Path};

#[test]
fn list_of_families_has_every_folder() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/models/src/families");
    let is_folder = |entry: &fs::DirEntry| entry.file_type().unwrap().is_dir();
    let entries = fs::read_dir(&folder).unwrap().map(Result::unwrap).filter(is_folder);
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    let has_rows = |name: &&String| {
        fs::read_to_string(folder.join(name).join("mod.rs")).unwrap().contains("FAMILY: Family")
    };
    let mut text = String::from(
        "//! Model families, one folder for each. `BLESS=1 cargo test --test all repository::families` writes this file.\n\n",
    );
    for name in &names {
        writeln!(text, "pub mod {name};").unwrap();
    }
    text += "\nuse crate::family::Family;\n\n/// Every family with architectures or projectors.\n";
    text += "pub const FOLDERS: &[Family] = &[\n";
    for name in names.iter().filter(has_rows) {
        writeln!(text, "    {name}::FAMILY,").unwrap();
    }
    text += "];\n";
    gguf_testkit::check_written(&folder.join("mod.rs"), &text);
}

/// `scripts/new-family` leaves these for facts that only the reference can tell.
#[test]
fn folders_of_families_have_no_todo() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/models/src/families");
    let mut unfinished = gguf_testkit::files(&folder);
    unfinished.retain(|path| fs::read_to_string(path).unwrap().contains("TODO"));
    assert!(unfinished.is_empty(), "{unfinished:?}");
}
