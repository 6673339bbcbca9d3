//! The examples run: a checkpoint becomes a file, the file one of another type, and both predict a text.

use std::{fs, path::Path};

#[path = "../../examples/convert.rs"]
#[expect(dead_code, reason = "the example's own `main` is for people")]
mod convert_example;
#[path = "../../examples/perplexity.rs"]
#[expect(dead_code, reason = "the example's own `main` is for people")]
mod perplexity_example;
#[path = "../../examples/quantize.rs"]
#[expect(dead_code, reason = "the example's own `main` is for people")]
mod quantize_example;

#[test]
fn examples_convert_quantize_and_measure() {
    let sandbox = tempfile::tempdir().expect("a folder");
    let path = |name: &str| sandbox.path().join(name).to_string_lossy().into_owned();
    let checkpoint = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/arch/llama");
    let (f32, q8_0, text) = (path("f32.gguf"), path("q8_0.gguf"), path("text"));
    fs::write(&text, "The quick brown fox jumps over the lazy dog. ".repeat(20)).expect("space");

    let args = [checkpoint.to_string_lossy().into_owned(), f32.clone(), "f32".to_owned()];
    assert_eq!(convert_example::run(&args).expect("converted"), [Path::new(&f32)]);
    let args = [f32.clone(), q8_0.clone(), "q8_0".to_owned()];
    assert_eq!(quantize_example::run(&args).expect("quantized"), [Path::new(&q8_0)]);

    let measure = |file: &String| {
        let args = [file.clone(), text.clone(), "64".to_owned()];
        perplexity_example::run(&args).expect("measured")
    };
    let (exact, rounded) = (measure(&f32), measure(&q8_0));
    assert!(exact > 1.0 && (rounded / exact - 1.0).abs() < 0.05, "{exact} {rounded}");
}
