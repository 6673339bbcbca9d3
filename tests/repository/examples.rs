//! The example of the page "A tool in Rust" runs, stops when it is cancelled, and prints errors with their hints.

use std::{fs, path::Path, sync::atomic::Ordering::Relaxed};

#[path = "../../examples/tool.rs"]
#[expect(dead_code, reason = "the example's own `main` is for people")]
mod tool;

#[test]
fn example_converts_checks_measures_and_generates() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let path = |name: &str| sandbox.path().join(name).to_string_lossy().into_owned();
    let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/arch/llama");
    let text = "The quick brown fox jumps over the lazy dog, reads some files and writes others. ";
    fs::write(path("text"), text.repeat(80)).expect("space");
    let args = |out: &str| {
        fs::create_dir_all(sandbox.path().join(out)).expect("a folder");
        [checkpoint.to_string_lossy().into_owned(), path(out), path("text")]
    };

    let console = tool::Console::default();
    console.stop.store(true, Relaxed);
    let error = tool::run(&args("stopped"), &console).err().expect("cancelled");
    assert!(error.is_interrupted(), "{error}");

    let made = tool::run(&args("out"), &tool::Console::default()).expect("made");
    assert_eq!(made.file, Path::new(&path("out/model-q4_k_m.gguf")));
    assert!(made.divergence > 0.0 && made.divergence < 0.1, "{}", made.divergence);
    assert!(!made.text.is_empty());

    // The files exist.
    let error = tool::run(&args("out"), &()).err().expect("refused");
    let hints: String = error.hints().iter().map(|hint| format!("\nhint: {hint}")).collect();
    assert!(!hints.is_empty());
    assert_eq!(format!("{error:?}"), format!("{error}{hints}"));
}
