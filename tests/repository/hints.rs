//! Errors of libraries name no option and no program, because any program can call them.

use std::{fs, path::Path};

/// The crates whose errors give advice, and which must not name an option of the command line.
const CRATES: &[&str] =
    &["layout", "models", "tokenizer", "conversion", "runtime", "container", "imatrix", "checkpoint"];

#[test]
fn libraries_name_no_option_or_program() {
    let mut wrong = Vec::new();
    for name in CRATES {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates").join(name).join("src");
        for path in gguf_testkit::files(&folder) {
            let text = fs::read_to_string(&path).expect("a source file");
            for (number, line) in (1..).zip(text.lines()) {
                // Comments may name options; only strings reach a user.
                let Some((_, text)) = line.split_once('"').filter(|_| !line.trim_start().starts_with("//"))
                else {
                    continue;
                };
                let options = text.match_indices("--").filter(|(at, _)| {
                    let before = text[..*at].chars().next_back().unwrap_or(' ');
                    let after = text[at + 2..].chars().next().unwrap_or(' ');
                    matches!(before, ' ' | '`') && after.is_ascii_lowercase()
                });
                let programs = ["`gguf-convert", "`gguf-quantize", "`gguf-eval", "`gguf-inspect"];
                if options.count() > 0 || programs.iter().any(|program| text.contains(program)) {
                    wrong.push(format!("{}:{number}: {}", path.display(), line.trim()));
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "advice that names options belongs into crates/toolkit/src/hints.rs:\n{}",
        wrong.join("\n")
    );
}
